"""Jobs, their attempts and their tasks, as database rows."""

from __future__ import annotations

import json
import sqlite3
from typing import TYPE_CHECKING, Any

from luigi_pai.local.config.settings import DEFAULT_API
from luigi_pai.local.releases import RELEASES
from luigi_pai.local.store.database import Database, now_ms
from luigi_pai.local.store.records import WAITING, Attempt, Job, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

_WHOLE_JOB = "SELECT jobs.*, config_json, spec_json FROM jobs JOIN job_texts ON job_id = jobs.id"
_NEWEST_FIRST = "ORDER BY created DESC, id DESC"
_CHANGING = (  # the columns that save_job() writes
    "state sub_state execution_type retries counted_retries launched completed"
    " exit_code exit_type diagnostics deleted"
)
_ENDING = "completed exit_code trigger_role trigger_index trigger_message"  # end_attempt() writes these
_RUNNING = "gpus pid pid_started exit_code launched completed exit_info"  # save_task() writes these
_NEW_TASK = ("container_id", "attempt_id", "role", "folder", "gpus", "launched", "number", "counted_retries")
_SLIM_JOB = "SELECT *, '' AS config_json, '' AS spec_json FROM jobs"


class NameTaken(Exception):
    """A job with this name already exists."""


class Store(Database):
    """A data folder's database.

    Args:
        path: the SQLite file.
        api: the API whose jobs the file contains: ``v1``, ``v2`` or ``ltp``.

    Attributes:
        release: the release that runs the jobs.
        cluster_timestamp: when the file was created, in ms since 1970 UTC. YARN's application ids contain it.
        job_changed: called with a job's id when its entry in the API's job lists changes.
    """

    def __init__(self, path: Path, api: str = DEFAULT_API) -> None:
        self.release = RELEASES[api]
        super().__init__(path, api)
        self.job_changed: Callable[[int], object] = lambda _job_id: None
        timestamp = self.rows("SELECT value FROM about WHERE key = 'cluster_timestamp'")[0]["value"]
        self.cluster_timestamp = int(timestamp)

    # jobs

    def add_job(
        self,
        name: str,
        username: str,
        virtual_cluster: str,
        config: Any,
        spec: dict[str, Any],
        secrets: Any = None,
    ) -> Job:
        """Save a new job in the state WAITING.

        Args:
            name: the job's name.
            username: the job's user.
            virtual_cluster: the virtual cluster where the job runs.
            config: the job config that the API returns.
            spec: the job as the launcher reads it.
            secrets: the values of a v2 job's ``$secrets``; they are deleted when the job ends.

        Raises:
            NameTaken: a job (on v2, one of this user's jobs) already has the name.
        """
        try:
            with self.durably(), self.changing():
                roles = spec["taskRoles"]
                job_id = self.insert(
                    "jobs",
                    name=name,
                    username=username,
                    virtual_cluster=virtual_cluster,
                    sub_state=WAITING,
                    created=now_ms(),
                    total_gpus=sum(role["gpuNumber"] * role["taskNumber"] for role in roles),
                    total_tasks=sum(role["taskNumber"] for role in roles),
                    total_roles=len(roles),
                )
                contents = {"config_json": json.dumps(config), "spec_json": json.dumps(spec)}
                self.insert("job_texts", job_id=job_id, **contents)
                if secrets is not None:
                    self.insert("secrets", job_id=job_id, value=json.dumps(secrets))
        except sqlite3.IntegrityError:
            raise NameTaken(name) from None
        return self.whole_jobs("id = ?", job_id)[0]

    def whole_jobs(self, where: str, *values: Any) -> list[Job]:
        """Return the jobs that meet a condition, with their configs and specs."""
        return [self._job(row) for row in self.rows(f"{_WHOLE_JOB} WHERE {where}", values)]

    def _job(self, row: sqlite3.Row) -> Job:
        values = dict(row)
        values["deleted"] = bool(row["deleted"])
        del values["state"]  # only SQL queries use this column; `Job.state` is computed
        return Job(**values, release=self.release)

    def job(self, name: str, username: str | None = None) -> Job | None:
        """Return the job with this name, or None. A v2 job is identified by its user and name."""
        named = [name] if username is None else [name, username]
        where = " AND ".join(("NOT deleted", "name = ?", "username = ?")[: len(named) + 1])
        found = self.whole_jobs(where, *named)
        return next(iter(found), None)

    def job_ids(self, username: str | None = None) -> list[int]:
        """Return the ids of all jobs or, with ``username``, of that user's jobs, newest first."""
        where = "WHERE ifnull(?, username) = username AND NOT deleted"
        return self.select_ids(f"{where} {_NEWEST_FIRST}", [username])

    def select_jobs(self, clauses: str, values: Iterable[Any]) -> list[Job]:
        """Return the jobs matching a SELECT's clauses, without their configs and specs."""
        return [self._job(row) for row in self.rows(f"{_SLIM_JOB} {clauses}", values)]

    def select_ids(self, clauses: str, values: Iterable[Any]) -> list[int]:
        """Return the ids of the jobs matching a SELECT's clauses."""
        sql = f"SELECT id FROM jobs {clauses}"  # noqa: S608 - the clauses are constants of this package
        return [row[0] for row in self.rows(sql, values)]

    def secrets(self, job: Job) -> dict[str, Any]:
        """Return an unfinished job's secrets."""
        rows = self.rows("SELECT value FROM secrets WHERE job_id = ?", (job.id,))
        secrets: dict[str, Any] = json.loads(rows[0]["value"]) if rows else {}
        return secrets

    def delete_secrets(self, job: Job) -> None:
        """Remove an ended job's secrets."""
        deleted = self.execute("DELETE FROM secrets WHERE job_id = ?", (job.id,))
        self._secrets_in_log = self._secrets_in_log or deleted.rowcount > 0

    def unfinished_jobs(self) -> list[Job]:
        """Return the jobs that have not ended or are marked as deleted, in the order of submission."""
        return self.whole_jobs("sub_state <> 'FRAMEWORK_COMPLETED' OR deleted ORDER BY id")

    def save_job(self, job: Job) -> None:
        """Save those of a job's columns that may change."""
        self._update("jobs", "id", job, _CHANGING)
        self.job_changed(job.id)

    def purge_job(self, job: Job) -> None:
        """Delete the rows for a job, its attempts and its tasks."""
        self.execute("DELETE FROM jobs WHERE id = ?", (job.id,))
        self.job_changed(job.id)

    # tags and events

    def tags(self, jobs: Iterable[Job]) -> dict[int, list[str]]:
        """Return the tags of jobs, by job id; jobs without tags are left out."""
        found: dict[int, list[str]] = {}
        sql = "SELECT * FROM tags WHERE job_id IN (SELECT value FROM json_each(?)) ORDER BY rowid"
        for row in self.rows(sql, [json.dumps([job.id for job in jobs])]):
            found.setdefault(row["job_id"], []).append(row["name"])
        return found

    def add_tag(self, job: Job, tag: str) -> None:
        """Add a tag to a job, unless the job already has it."""
        self.execute("INSERT OR IGNORE INTO tags VALUES (?, ?)", (job.id, tag))
        self.job_changed(job.id)

    def remove_tag(self, job: Job, tag: str) -> bool:
        """Remove a tag from a job; return False if the job does not have it."""
        removed = self.execute("DELETE FROM tags WHERE job_id = ? AND name = ?", (job.id, tag))
        self.job_changed(job.id)
        return removed.rowcount > 0

    def record_event(
        self, job: Job, reason: str, message: str, *, warning: bool = False, container_id: str | None = None
    ) -> None:
        """Record an event. If the job's release has no events, do nothing.

        ``reason`` is one word, ``message`` a sentence. A task's event has the task's ``container_id``.
        """
        if job.release.has_events:
            kind = "Warning" if warning else "Normal"
            row = {"job_id": job.id, "container_id": container_id, "type": kind, "reason": reason}
            self.insert("events", **row, message=message, at=now_ms())

    def events(self, job: Job) -> list[sqlite3.Row]:
        """Return a job's events, latest first, each with its task's role and index, if any."""
        return self.rows(
            "SELECT events.*, role, task_index FROM events LEFT JOIN tasks USING (container_id)"
            " WHERE events.job_id = ? ORDER BY events.id DESC",
            (job.id,),
        )

    # attempts and tasks

    def add_attempt(self, job: Job) -> Attempt:
        """Save a job's next attempt, launched now."""
        last = self.last_attempt(job)
        number = 1 if last is None else last.number + 1
        launched = now_ms()
        attempt_id = self.insert("attempts", job_id=job.id, number=number, launched=launched)
        return Attempt(attempt_id, job.id, number, launched)

    def last_attempt(self, job: Job) -> Attempt | None:
        """Return a job's newest attempt; None before the first."""
        return next(iter(self._attempts("job_id = ? ORDER BY id DESC LIMIT 1", job.id)), None)

    def attempt(self, job: Job, number: int) -> Attempt | None:
        """Return a job's attempt by its number, from 1; None if there is no such attempt."""
        return next(iter(self._attempts("job_id = ? AND number = ?", job.id, number)), None)

    def _attempts(self, where: str, *values: int) -> list[Attempt]:
        rows = self.rows(f"SELECT * FROM attempts WHERE {where}", values)  # noqa: S608 - constants
        return [Attempt(**{**dict(row), "interrupted": bool(row["interrupted"])}) for row in rows]

    def end_attempt(self, attempt: Attempt) -> None:
        """Record that an attempt ended now, with its exit code and trigger."""
        attempt.completed = now_ms()
        self._update("attempts", "id", attempt, _ENDING)

    def interrupt_attempt(self, attempt: Attempt) -> None:
        """Record that an attempt is being ended because the server is shutting down."""
        attempt.interrupted = True
        self.execute("UPDATE attempts SET interrupted = 1 WHERE id = ?", (attempt.id,))

    def add_task(self, task: Task) -> None:
        """Save a task whose process is about to start."""
        values = {column: getattr(task, column) for column in _NEW_TASK}
        self.insert("tasks", **values, task_index=task.index, ports=json.dumps(task.ports))

    def save_task(self, task: Task) -> None:
        """Save a task's GPUs, process, times and exit code."""
        self._update("tasks", "container_id", task, _RUNNING)

    def tasks(self, attempt: Attempt) -> list[Task]:
        """Return a job attempt's tasks, each at its latest try, in the order of roles and indexes."""
        latest = (
            "JOIN (SELECT MIN(rowid) AS first, MAX(rowid) AS latest FROM tasks"
            " WHERE attempt_id = ? GROUP BY role, task_index) ON tasks.rowid = latest ORDER BY first"
        )
        return self._tasks(latest, attempt.id)

    def tries(self, task: Task) -> list[Task]:
        """Return all of a task's attempts, latest first."""
        where = "WHERE attempt_id = ? AND role = ? AND task_index = ? ORDER BY number DESC"
        return self._tasks(where, task.attempt_id, task.role, task.index)

    def task(self, container_id: str) -> Task | None:
        """Return a container's task, or None."""
        return next(iter(self._tasks("WHERE container_id = ?", container_id)), None)

    def _tasks(self, clauses: str, *values: int | str) -> list[Task]:
        rows = self.rows(f"SELECT tasks.* FROM tasks {clauses}", values)  # noqa: S608 - constants
        return [_task(row) for row in rows]


def _task(row: sqlite3.Row) -> Task:
    values = dict(row)
    values["index"] = values.pop("task_index")
    values["ports"] = json.loads(row["ports"])
    return Task(**values)
