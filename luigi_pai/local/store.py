"""What the local server knows, in one SQLite file: users, jobs, their attempts, their tasks.

Every change is committed before the caller goes on, so that an answer never
promises what a crash could take back. One connection, used by the event loop's
thread only.
"""

from __future__ import annotations

import json
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import ConfigError
from luigi_pai.local.records import Attempt, Job, Task, User

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["NameTaken", "Store", "now_ms"]

_SCHEMA = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS users (
    name TEXT PRIMARY KEY, password TEXT NOT NULL, admin INTEGER NOT NULL, virtual_clusters TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    username TEXT NOT NULL,
    virtual_cluster TEXT NOT NULL,
    config_json TEXT NOT NULL,
    spec_json TEXT NOT NULL,
    sub_state TEXT NOT NULL,
    execution_type TEXT NOT NULL DEFAULT 'START',
    retries INTEGER NOT NULL DEFAULT 0,
    counted_retries INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    completed INTEGER,
    exit_code INTEGER,
    exit_type TEXT,
    diagnostics TEXT,
    deleted INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX IF NOT EXISTS jobs_by_name ON jobs (name) WHERE NOT deleted;
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (sub_state);
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    launched INTEGER NOT NULL,
    completed INTEGER,
    interrupted INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS attempts_by_job ON attempts (job_id);
CREATE TABLE IF NOT EXISTS tasks (
    container_id TEXT PRIMARY KEY,
    attempt_id INTEGER NOT NULL REFERENCES attempts (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    task_index INTEGER NOT NULL,
    folder TEXT NOT NULL,
    ports TEXT NOT NULL,
    gpus INTEGER NOT NULL,
    pid INTEGER,
    pid_started TEXT,
    exit_code INTEGER
);
CREATE INDEX IF NOT EXISTS tasks_by_attempt ON tasks (attempt_id);
"""


class NameTaken(Exception):
    """A job of this name is there already."""


def now_ms() -> int:
    """Return the time in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


class Store:
    """The SQLite file.

    Raises:
        ConfigError: the file is damaged, or is no SQLite file.
    """

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)
        self._db = sqlite3.connect(path, isolation_level=None)
        self._db.row_factory = sqlite3.Row
        try:
            self._db.execute("PRAGMA journal_mode = WAL")
            self._db.execute("PRAGMA synchronous = FULL")
            self._db.execute("PRAGMA foreign_keys = ON")
            self._db.executescript(_SCHEMA)
        except sqlite3.DatabaseError as error:
            self._db.close()
            raise ConfigError(f"cannot use {path}: {error}") from None
        self.cluster_timestamp = int(self._about("cluster_timestamp", str(now_ms())))

    def close(self) -> None:
        """Close the file; the store is of no use afterwards."""
        self._db.close()

    def _about(self, key: str, value: str) -> str:
        """Return what is kept under the key, keeping ``value`` if there is nothing yet."""
        self._db.execute("INSERT OR IGNORE INTO about VALUES (?, ?)", (key, value))
        row = self._db.execute("SELECT value FROM about WHERE key = ?", (key,)).fetchone()
        return str(row["value"])

    @contextmanager
    def changing(self) -> Iterator[None]:
        """Make every change inside take effect together, or none of them."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    # users

    def user(self, name: str) -> User | None:
        """Return the user, or None."""
        row = self._db.execute("SELECT * FROM users WHERE name = ?", (name,)).fetchone()
        return None if row is None else _user(row)

    def users(self) -> list[User]:
        """Return every user, by name."""
        return [_user(row) for row in self._db.execute("SELECT * FROM users ORDER BY name")]

    def save_user(self, user: User) -> None:
        """Add the user, or replace the one of this name."""
        self._db.execute(
            "INSERT OR REPLACE INTO users VALUES (?, ?, ?, ?)",
            (user.name, user.password, int(user.admin), user.virtual_clusters),
        )

    def remove_user(self, name: str) -> None:
        """Forget the user; their jobs stay."""
        self._db.execute("DELETE FROM users WHERE name = ?", (name,))

    # jobs

    def add_job(
        self, name: str, username: str, virtual_cluster: str, config: dict[str, Any], spec: dict[str, Any]
    ) -> Job:
        """Write a new job, waiting to be started.

        Raises:
            NameTaken: the name is in use.
        """
        try:
            cursor = self._db.execute(
                "INSERT INTO jobs"
                " (name, username, virtual_cluster, config_json, spec_json, sub_state, created)"
                " VALUES (?, ?, ?, ?, ?, 'FRAMEWORK_WAITING', ?)",
                (name, username, virtual_cluster, json.dumps(config), json.dumps(spec), now_ms()),
            )
        except sqlite3.IntegrityError:
            raise NameTaken(name) from None
        row = self._db.execute("SELECT * FROM jobs WHERE id = ?", (cursor.lastrowid,)).fetchone()
        return _job(row)

    def job(self, name: str) -> Job | None:
        """Return the job of this name, or None."""
        row = self._db.execute("SELECT * FROM jobs WHERE name = ? AND NOT deleted", (name,)).fetchone()
        return None if row is None else _job(row)

    def jobs(self, username: str | None = None) -> list[Job]:
        """Return all jobs, or those of one user, newest first."""
        where, values = ("AND username = ?", (username,)) if username else ("", ())
        rows = self._db.execute(
            f"SELECT * FROM jobs WHERE NOT deleted {where} ORDER BY created DESC, id DESC",  # noqa: S608 - constants
            values,
        )
        return [_job(row) for row in rows]

    def unfinished_jobs(self) -> list[Job]:
        """Return the jobs that have not ended, and deleted ones, in the order they came."""
        rows = self._db.execute(
            "SELECT * FROM jobs WHERE sub_state <> 'FRAMEWORK_COMPLETED' OR deleted ORDER BY id"
        )
        return [_job(row) for row in rows]

    def save_job(self, job: Job) -> None:
        """Write what may change about a job."""
        self._db.execute(
            "UPDATE jobs SET sub_state = ?, execution_type = ?, retries = ?, counted_retries = ?,"
            " completed = ?, exit_code = ?, exit_type = ?, diagnostics = ?, deleted = ? WHERE id = ?",
            (
                job.sub_state,
                job.execution_type,
                job.retries,
                job.counted_retries,
                job.completed,
                job.exit_code,
                job.exit_type,
                job.diagnostics,
                int(job.deleted),
                job.id,
            ),
        )

    def purge_job(self, job: Job) -> None:
        """Forget a job with its attempts and tasks."""
        self._db.execute("DELETE FROM jobs WHERE id = ?", (job.id,))

    # attempts and tasks

    def add_attempt(self, job: Job) -> Attempt:
        """Write the next attempt of a job, launched now."""
        number = 1 + int(
            self._db.execute("SELECT COUNT(*) FROM attempts WHERE job_id = ?", (job.id,)).fetchone()[0]
        )
        launched = now_ms()
        cursor = self._db.execute(
            "INSERT INTO attempts (job_id, number, launched) VALUES (?, ?, ?)", (job.id, number, launched)
        )
        if cursor.lastrowid is None:
            raise sqlite3.DatabaseError("SQLite gave an attempt no number")
        return Attempt(cursor.lastrowid, job.id, number, launched)

    def last_attempt(self, job: Job) -> Attempt | None:
        """Return the newest attempt of a job, or None before the first."""
        row = self._db.execute(
            "SELECT * FROM attempts WHERE job_id = ? ORDER BY id DESC LIMIT 1", (job.id,)
        ).fetchone()
        return None if row is None else Attempt(**{**dict(row), "interrupted": bool(row["interrupted"])})

    def end_attempt(self, attempt: Attempt) -> None:
        """Write that an attempt is over, now."""
        attempt.completed = now_ms()
        self._db.execute("UPDATE attempts SET completed = ? WHERE id = ?", (attempt.completed, attempt.id))

    def interrupt_attempt(self, attempt: Attempt) -> None:
        """Write that an attempt is being ended because the server is."""
        attempt.interrupted = True
        self._db.execute("UPDATE attempts SET interrupted = 1 WHERE id = ?", (attempt.id,))

    def add_task(self, task: Task) -> None:
        """Write a task whose process is about to be started."""
        self._db.execute(
            "INSERT INTO tasks VALUES (?, ?, ?, ?, ?, ?, ?, NULL, NULL, NULL)",
            (
                task.container_id,
                task.attempt_id,
                task.role,
                task.index,
                task.folder,
                json.dumps(task.ports),
                task.gpus,
            ),
        )

    def save_task(self, task: Task) -> None:
        """Write a task's process and exit code."""
        self._db.execute(
            "UPDATE tasks SET pid = ?, pid_started = ?, exit_code = ? WHERE container_id = ?",
            (task.pid, task.pid_started, task.exit_code, task.container_id),
        )

    def tasks(self, attempt: Attempt) -> list[Task]:
        """Return the tasks of an attempt, in the order of roles and indexes."""
        rows = self._db.execute("SELECT * FROM tasks WHERE attempt_id = ? ORDER BY rowid", (attempt.id,))
        return [_task(row) for row in rows]

    def task(self, container_id: str) -> Task | None:
        """Return the task of a container, or None."""
        row = self._db.execute("SELECT * FROM tasks WHERE container_id = ?", (container_id,)).fetchone()
        return None if row is None else _task(row)


def _user(row: sqlite3.Row) -> User:
    return User(row["name"], row["password"], bool(row["admin"]), row["virtual_clusters"])


def _job(row: sqlite3.Row) -> Job:
    values = dict(row)
    values["deleted"] = bool(row["deleted"])
    return Job(**values)


def _task(row: sqlite3.Row) -> Task:
    values = dict(row)
    values["index"] = values.pop("task_index")
    values["ports"] = json.loads(row["ports"])
    return Task(**values)
