"""Lists of jobs as JSON: each job's row is written once and kept until the job changes."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from luigi_pai.local.store.jobs import in_parts
from luigi_pai.local.views.job_tags import JobTags
from luigi_pai.local.views.job_views import views_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.store.jobs import Store

__all__ = ["JobRows"]

_MOST_KEPT = 50_000  # rows, of some 600 bytes


class JobRows:
    """The rows of jobs in lists, by the jobs' ids.

    A list of 10,000 jobs is some milliseconds of SQL and of joining texts: most jobs in it
    have ended and never change again.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._tags = JobTags(store)
        self._rows: dict[int, str] = {}
        store.watch_jobs(self._forget)

    def _forget(self, job_id: int) -> None:
        self._rows.pop(job_id, None)

    def as_json(self, ids: Sequence[int]) -> str:
        """Return a JSON array of the rows of jobs, each in the form of its own API."""
        self._write([job_id for job_id in ids if job_id not in self._rows])
        rows = self._rows
        text = f"[{','.join([rows[job_id] for job_id in ids])}]"
        if len(rows) > _MOST_KEPT:
            rows.clear()
        return text

    def _write(self, ids: Sequence[int]) -> None:
        for marks, part in in_parts(ids):
            jobs = self._store.select_jobs(f"WHERE id IN ({marks})", part)
            tags = self._tags.of(jobs)
            for job in jobs:
                row = views_of(job).row(job, tags.get(job.id, ()))
                self._rows[job.id] = json.dumps(row, separators=(",", ":"))
