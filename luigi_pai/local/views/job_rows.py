"""Lists of jobs as JSON, each row kept until its job changes, and the tags of v2 jobs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from luigi_pai.local.store.jobs import in_parts
from luigi_pai.local.views.v1 import job_row as v1_row
from luigi_pai.local.views.v2.jobs import job_row as v2_row

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job

__all__ = ["MOST_KEPT", "JobRows", "JobTags"]

_ROWS: dict[str, Callable[[Job, Sequence[str]], dict[str, Any]]] = {"v1": v1_row, "v2": v2_row}
MOST_KEPT = 50_000  # rows, of some 600 bytes


class JobTags:
    """The tags of jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def of(self, jobs: Iterable[Job]) -> dict[int, list[str]]:
        """Return the tags of jobs by the jobs' ids; a job without tags is not among them."""
        found: dict[int, list[str]] = {}
        for marks, part in in_parts([job.id for job in jobs]):
            sql = f"SELECT * FROM tags WHERE job_id IN ({marks}) ORDER BY rowid"  # noqa: S608 - marks
            for row in self._store.rows(sql, part):
                found.setdefault(row["job_id"], []).append(row["name"])
        return found

    def add(self, job: Job, tag: str) -> None:
        """Add a tag to a job, unless it has it."""
        self._store.rows("INSERT OR IGNORE INTO tags VALUES (?, ?)", (job.id, tag))
        self._store.job_changed(job.id)

    def remove(self, job: Job, tag: str) -> bool:
        """Remove a tag from a job; False if the job does not have it."""
        where = "WHERE job_id = ? AND name = ?"
        known = bool(self._store.rows(f"SELECT 1 FROM tags {where}", (job.id, tag)))  # noqa: S608 - constants
        self._store.rows(f"DELETE FROM tags {where}", (job.id, tag))  # noqa: S608 - constants
        self._store.job_changed(job.id)
        return known


class JobRows:
    """The rows of jobs in lists, by the jobs' ids.

    A list of 10,000 jobs is some milliseconds of SQL and of joining texts: most jobs in it
    have ended and never change again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tags = JobTags(store)
        self._row = _ROWS[store.release.api]
        self._rows: dict[int, str] = {}
        store.watch_jobs(self._forget)

    def _forget(self, job_id: int) -> None:
        self._rows.pop(job_id, None)

    def as_json(self, ids: Sequence[int]) -> str:
        """Return a JSON array of the rows of jobs, each as the API shows it."""
        self._write([job_id for job_id in ids if job_id not in self._rows])
        rows = self._rows
        text = f"[{','.join([rows[job_id] for job_id in ids])}]"
        if len(rows) > MOST_KEPT:
            rows.clear()
        return text

    def _write(self, ids: Sequence[int]) -> None:
        for marks, part in in_parts(ids):
            jobs = self._store.select_jobs(f"WHERE id IN ({marks})", part)
            tags = self._tags.of(jobs)
            for job in jobs:
                row = self._row(job, tags.get(job.id, ()))
                self._rows[job.id] = json.dumps(row, separators=(",", ":"))
