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
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from luigi_pai.local.records import Attempt, Job, NewJob, Task, User
from luigi_pai.local.schema import open_database, transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["NameTaken", "Store", "now_ms"]


_LARGE = ("config_json", "spec_json")
_WITHOUT_LARGE = ", ".join(f"'' AS {part.name}" if part.name in _LARGE else part.name for part in fields(Job))


class NameTaken(Exception):
    """A job of this name is there already."""


def now_ms() -> int:
    """Return the time in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


class Store:
    """The SQLite file.

    Raises:
        ConfigError: the file is damaged, is no SQLite file, or is a newer release's.
    """

    def __init__(self, path: Path) -> None:
        self._db = open_database(path)
        ended = "SELECT id FROM jobs WHERE sub_state = 'FRAMEWORK_COMPLETED'"
        self._db.execute(f"DELETE FROM secrets WHERE job_id IN ({ended})")  # noqa: S608 - a constant
        self._forgotten = True
        self._empty_log()
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
        with transaction(self._db):
            yield
        self._empty_log()

    def _empty_log(self) -> None:
        """Empty SQLite's write-ahead log if deleted secrets may still stand in it."""
        if self._forgotten and not self._db.in_transaction:
            busy = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0]
            self._forgotten = bool(busy)  # another program reads the file: the next change tries again

    def rows(self, sql: str, values: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """Run a statement of a module that keeps more here, and return its rows."""
        return self._db.execute(sql, tuple(values)).fetchall()

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

    def add_job(self, new: NewJob) -> Job:
        """Write a new job, waiting to be started.

        Raises:
            NameTaken: the name is in use.
        """
        try:
            with self.changing():
                cursor = self._db.execute(
                    "INSERT INTO jobs (name, username, virtual_cluster, config_json, spec_json, sub_state,"
                    " created, generation, total_gpus, total_tasks, total_roles)"
                    " VALUES (?, ?, ?, ?, ?, 'FRAMEWORK_WAITING', ?, ?, ?, ?, ?)",
                    (
                        new.name,
                        new.username,
                        new.virtual_cluster,
                        json.dumps(new.config),
                        json.dumps(new.spec),
                        now_ms(),
                        new.generation,
                        sum(role["gpuNumber"] * role["taskNumber"] for role in new.spec["taskRoles"]),
                        sum(role["taskNumber"] for role in new.spec["taskRoles"]),
                        len(new.spec["taskRoles"]),
                    ),
                )
                if new.secrets is not None:
                    self._db.execute(
                        "INSERT INTO secrets VALUES (?, ?)", (cursor.lastrowid, json.dumps(new.secrets))
                    )
        except sqlite3.IntegrityError:
            raise NameTaken(new.name) from None
        return _job(self._db.execute("SELECT * FROM jobs WHERE id = ?", (cursor.lastrowid,)).fetchone())

    def job(self, name: str) -> Job | None:
        """Return the v1 job of this name, or None."""
        row = self._db.execute(
            "SELECT * FROM jobs WHERE name = ? AND generation = 1 AND NOT deleted", (name,)
        ).fetchone()
        return None if row is None else _job(row)

    def job_of(self, username: str, name: str) -> Job | None:
        """Return the v2 job of this user and name, or None."""
        row = self._db.execute(
            "SELECT * FROM jobs WHERE username = ? AND name = ? AND generation = 2", (username, name)
        ).fetchone()
        return None if row is None else _job(row)

    def jobs(self, username: str | None = None, generation: int | None = 1) -> list[Job]:
        """Return all jobs of one generation or of both, or those of one user, newest first.

        Without their configs and specs, which may be large.
        """
        where = "NOT deleted"
        values: list[Any] = []
        if username:
            where, values = f"{where} AND username = ?", [username]
        if generation:
            where, values = f"{where} AND generation = ?", [*values, generation]
        return self.select_jobs(f"WHERE {where} ORDER BY created DESC, id DESC", values)

    def select_jobs(self, clauses: str, values: Iterable[Any]) -> list[Job]:
        """Return the jobs that the clauses of a SELECT pick, without their configs and specs."""
        sql = f"SELECT {_WITHOUT_LARGE} FROM jobs {clauses}"  # noqa: S608 - the clauses are constants of this package
        return [_job(row) for row in self.rows(sql, values)]

    def secrets(self, job: Job) -> dict[str, Any]:
        """Return the secrets of a job that has not ended."""
        rows = self.rows("SELECT value FROM secrets WHERE job_id = ?", (job.id,))
        secrets: dict[str, Any] = json.loads(rows[0]["value"]) if rows else {}
        return secrets

    def forget_secrets(self, job: Job) -> None:
        """Remove the secrets of a job that has ended, from the disk too."""
        gone = self._db.execute("DELETE FROM secrets WHERE job_id = ?", (job.id,))
        self._forgotten = self._forgotten or gone.rowcount > 0
        self._empty_log()

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
            " launched = ?, completed = ?, exit_code = ?, exit_type = ?, diagnostics = ?, deleted = ?"
            " WHERE id = ?",
            (
                job.sub_state,
                job.execution_type,
                job.retries,
                job.counted_retries,
                job.launched,
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
        return next(iter(self._attempts("job_id = ? ORDER BY id DESC LIMIT 1", job.id)), None)

    def attempts(self, job: Job) -> list[Attempt]:
        """Return every attempt of a job, the first one first."""
        return self._attempts("job_id = ? ORDER BY id", job.id)

    def _attempts(self, where: str, *values: int) -> list[Attempt]:
        rows = self.rows(f"SELECT * FROM attempts WHERE {where}", values)  # noqa: S608 - constants
        return [Attempt(**{**dict(row), "interrupted": bool(row["interrupted"])}) for row in rows]

    def end_attempt(self, attempt: Attempt) -> None:
        """Write that an attempt is over, now, and how."""
        attempt.completed = now_ms()
        self._db.execute(
            "UPDATE attempts SET completed = ?, exit_code = ?, trigger_role = ?, trigger_index = ?,"
            " trigger_message = ? WHERE id = ?",
            (
                attempt.completed,
                attempt.exit_code,
                attempt.trigger_role,
                attempt.trigger_index,
                attempt.trigger_message,
                attempt.id,
            ),
        )

    def interrupt_attempt(self, attempt: Attempt) -> None:
        """Write that an attempt is being ended because the server is."""
        attempt.interrupted = True
        self._db.execute("UPDATE attempts SET interrupted = 1 WHERE id = ?", (attempt.id,))

    def add_task(self, task: Task) -> None:
        """Write a task whose process is about to be started."""
        self._db.execute(
            "INSERT INTO tasks"
            " (container_id, attempt_id, role, task_index, folder, ports, gpus, number, counted_retries)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                task.container_id,
                task.attempt_id,
                task.role,
                task.index,
                task.folder,
                json.dumps(task.ports),
                task.gpus,
                task.number,
                task.counted_retries,
            ),
        )

    def save_task(self, task: Task) -> None:
        """Write a task's process, times and exit code."""
        self._db.execute(
            "UPDATE tasks SET pid = ?, pid_started = ?, exit_code = ?, launched = ?, completed = ?,"
            " exit_info = ? WHERE container_id = ?",
            (
                task.pid,
                task.pid_started,
                task.exit_code,
                task.launched,
                task.completed,
                task.exit_info,
                task.container_id,
            ),
        )

    def tasks(self, attempt: Attempt) -> list[Task]:
        """Return the tasks of an attempt, each at its latest try, in the order of roles and indexes."""
        latest: dict[tuple[str, int], Task] = {}
        for row in self.rows("SELECT * FROM tasks WHERE attempt_id = ? ORDER BY rowid", (attempt.id,)):
            latest[row["role"], row["task_index"]] = _task(row)
        return list(latest.values())

    def tries(self, task: Task) -> list[Task]:
        """Return every try of a task, the latest first."""
        rows = self.rows(
            "SELECT * FROM tasks WHERE attempt_id = ? AND role = ? AND task_index = ? ORDER BY number DESC",
            (task.attempt_id, task.role, task.index),
        )
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
