"""What the local server knows, in one SQLite file: jobs, their attempts, their tasks; others keep more in it.

Every change is committed before the caller goes on, so that an answer never
promises what a crash of the server could take back; a job that is taken is on
disk, too, and outlives a crash of the machine. One connection, used by the event loop's
thread only.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from luigi_pai.local.store.records import Attempt, Job, NewJob, Task
from luigi_pai.local.store.schema import durably, open_database, transaction

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

__all__ = ["NameTaken", "Store", "in_parts", "now_ms"]


_BUSY_TIMEOUT = 5000  # ms
_AT_ONCE = 500  # parameters of one statement
_WHOLE_JOB = "SELECT jobs.*, config_json, spec_json FROM jobs JOIN job_texts ON job_id = jobs.id"
_NEWEST_FIRST = "ORDER BY created DESC, id DESC"
_SLIM_JOB = "SELECT *, '' AS config_json, '' AS spec_json FROM jobs"


class NameTaken(Exception):
    """A job of this name is there already."""


def now_ms() -> int:
    """Return the time in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def in_parts(ids: Sequence[int]) -> Iterator[tuple[str, Sequence[int]]]:
    """Yield ids in parts that a statement can take, each with the marks that stand for it in ``IN ()``."""
    for start in range(0, len(ids), _AT_ONCE):
        part = ids[start : start + _AT_ONCE]
        yield ", ".join("?" * len(part)), part


class Store:
    """The SQLite file.

    Raises:
        ConfigError: the file is damaged, is no SQLite file, or is a newer release's.
    """

    def __init__(self, path: Path) -> None:
        self._db = open_database(path)
        ended = "SELECT id FROM jobs WHERE sub_state = 'FRAMEWORK_COMPLETED'"
        self._db.execute(f"DELETE FROM secrets WHERE job_id IN ({ended})")  # noqa: S608 - a constant
        self._watchers: list[Callable[[int], None]] = []
        self._written: list[Callable[[], None]] = []
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
    def changing(self, *records: Job | Attempt | Task) -> Iterator[None]:
        """Make every change inside take effect together, or none of them; may be nested.

        Args:
            *records: what has its values back if none does.
        """
        kept = [(record, vars(record).copy()) for record in records]
        try:
            with self._transaction():
                yield
        except BaseException:
            for record, was in kept:
                vars(record).update(was)
            raise

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._db.in_transaction:
            yield
            return
        try:
            with transaction(self._db):
                yield
            written = self._written
        finally:
            self._written = []
        for then in written:
            then()
        self._empty_log()

    def when_written(self, then: Callable[[], None]) -> None:
        """Have a function called once the changes that are being made are written; never if they fail."""
        if self._db.in_transaction:
            self._written.append(then)
        else:
            then()

    def _empty_log(self) -> None:
        """Empty SQLite's write-ahead log if deleted secrets may still stand in it."""
        if self._forgotten and not self._db.in_transaction:
            # where another program reads the file, or the disk is full, the next change tries again
            self._db.execute("PRAGMA busy_timeout = 0")
            try:
                with contextlib.suppress(sqlite3.OperationalError):
                    self._forgotten = bool(self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
            finally:
                self._db.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")

    def rows(self, sql: str, values: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """Run a statement of a module that keeps more here, and return its rows."""
        return self._db.execute(sql, tuple(values)).fetchall()

    def watch_jobs(self, watcher: Callable[[int], None]) -> None:
        """Have a function called with the id of each job that lists show otherwise from now on."""
        self._watchers.append(watcher)

    def job_changed(self, job_id: int) -> None:
        """Say that lists show a job otherwise from now on."""
        for watcher in self._watchers:
            watcher(job_id)

    # jobs

    def add_job(self, new: NewJob) -> Job:
        """Write a new job, waiting to be started.

        Raises:
            NameTaken: the name is in use.
        """
        try:
            with self._durably(), self.changing():
                cursor = self._db.execute(
                    "INSERT INTO jobs (name, username, virtual_cluster, sub_state,"
                    " created, generation, total_gpus, total_tasks, total_roles)"
                    " VALUES (?, ?, ?, 'FRAMEWORK_WAITING', ?, ?, ?, ?, ?)",
                    (
                        new.name,
                        new.username,
                        new.virtual_cluster,
                        now_ms(),
                        new.generation,
                        sum(role["gpuNumber"] * role["taskNumber"] for role in new.spec["taskRoles"]),
                        sum(role["taskNumber"] for role in new.spec["taskRoles"]),
                        len(new.spec["taskRoles"]),
                    ),
                )
                self._db.execute(
                    "INSERT INTO job_texts VALUES (?, ?, ?)",
                    (cursor.lastrowid, json.dumps(new.config), json.dumps(new.spec)),
                )
                if new.secrets is not None:
                    self._db.execute(
                        "INSERT INTO secrets VALUES (?, ?)", (cursor.lastrowid, json.dumps(new.secrets))
                    )
        except sqlite3.IntegrityError:
            raise NameTaken(new.name) from None
        return self._whole_jobs("id = ?", cursor.lastrowid)[0]

    @contextmanager
    def _durably(self) -> Iterator[None]:
        """Have what is committed inside outlive a failure of the machine, unless it is part of more."""
        if self._db.in_transaction:
            yield
            return
        with durably(self._db):
            yield

    def _whole_jobs(self, where: str, *values: Any) -> list[Job]:
        return [_job(row) for row in self.rows(f"{_WHOLE_JOB} WHERE {where}", values)]

    def job(self, name: str) -> Job | None:
        """Return the v1 job of this name, or None."""
        return next(iter(self._whole_jobs("name = ? AND generation = 1 AND NOT deleted", name)), None)

    def job_of(self, username: str, name: str) -> Job | None:
        """Return the v2 job of this user and name, or None."""
        where = "username = ? AND name = ? AND generation = 2"
        return next(iter(self._whole_jobs(where, username, name)), None)

    def jobs(self, generation: int = 1) -> list[Job]:
        """Return all jobs of a generation, newest first; without configs and specs, which may be large."""
        return self.select_jobs(f"WHERE NOT deleted AND generation = ? {_NEWEST_FIRST}", [generation])

    def job_ids(self, username: str | None = None) -> list[int]:
        """Return the ids of all v1 jobs, or of those of one user, newest first."""
        where, values = ("AND username = ?", [username]) if username else ("", [])
        return self.select_ids(f"WHERE NOT deleted AND generation = 1 {where} {_NEWEST_FIRST}", values)

    def select_jobs(self, clauses: str, values: Iterable[Any]) -> list[Job]:
        """Return the jobs that the clauses of a SELECT pick, without their configs and specs."""
        return [_job(row) for row in self.rows(f"{_SLIM_JOB} {clauses}", values)]

    def select_ids(self, clauses: str, values: Iterable[Any]) -> list[int]:
        """Return the ids of the jobs that the clauses of a SELECT pick."""
        sql = f"SELECT id FROM jobs {clauses}"  # noqa: S608 - the clauses are constants of this package
        return [row[0] for row in self._db.execute(sql, tuple(values))]

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
        return self._whole_jobs("sub_state <> 'FRAMEWORK_COMPLETED' OR deleted ORDER BY id")

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
        self.job_changed(job.id)

    def purge_job(self, job: Job) -> None:
        """Forget a job with its attempts and tasks."""
        self._db.execute("DELETE FROM jobs WHERE id = ?", (job.id,))
        self.job_changed(job.id)

    # attempts and tasks

    def add_attempt(self, job: Job) -> Attempt:
        """Write the next attempt of a job, launched now."""
        last = self.last_attempt(job)
        number = 1 if last is None else last.number + 1
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

    def attempt(self, job: Job, number: int) -> Attempt | None:
        """Return the attempt of a job that has a number, 1 for the first; None if there is none."""
        return next(iter(self._attempts("job_id = ? AND number = ?", job.id, number)), None)

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
            " (container_id, attempt_id, role, task_index, folder, ports, gpus, launched, number,"
            " counted_retries) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (
                task.container_id,
                task.attempt_id,
                task.role,
                task.index,
                task.folder,
                json.dumps(task.ports),
                task.gpus,
                task.launched,
                task.number,
                task.counted_retries,
            ),
        )

    def save_task(self, task: Task) -> None:
        """Write a task's GPUs, process, times and exit code."""
        self._db.execute(
            "UPDATE tasks SET gpus = ?, pid = ?, pid_started = ?, exit_code = ?, launched = ?, completed = ?,"
            " exit_info = ? WHERE container_id = ?",
            (
                task.gpus,
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
        rows = self.rows(
            "SELECT tasks.* FROM tasks JOIN (SELECT MIN(rowid) AS first, MAX(rowid) AS latest FROM tasks"
            " WHERE attempt_id = ? GROUP BY role, task_index) ON tasks.rowid = latest ORDER BY first",
            (attempt.id,),
        )
        return [_task(row) for row in rows]

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


def _job(row: sqlite3.Row) -> Job:
    values = dict(row)
    values["deleted"] = bool(row["deleted"])
    return Job(**values)


def _task(row: sqlite3.Row) -> Task:
    values = dict(row)
    values["index"] = values.pop("task_index")
    values["ports"] = json.loads(row["ports"])
    return Task(**values)
