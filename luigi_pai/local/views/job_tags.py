"""The tags of v2 jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.store.jobs import in_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job

__all__ = ["JobTags"]


class JobTags:
    """The tags of jobs.

    Args:
        store: the server's store.
    """

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
