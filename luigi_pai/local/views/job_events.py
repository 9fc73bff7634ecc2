"""What is kept beside a v2 job: its tags, and what happened to it."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from luigi_pai.local.store.database import now_ms
from luigi_pai.local.store.jobs import in_parts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job
    from luigi_pai.local.views.notifications import Notifier

__all__ = ["JobNotes"]


class JobNotes:
    """Tags and events of jobs.

    Args:
        store: where they are kept.
        notifier: what makes notifications of events.
    """

    def __init__(self, store: Store, notifier: Notifier | None = None) -> None:
        self._store = store
        self._notifier = notifier

    def tags(self, jobs: Iterable[Job]) -> dict[int, list[str]]:
        """Return the tags of jobs by the jobs' ids; nothing for those that have none."""
        found: dict[int, list[str]] = {}
        for marks, part in in_parts([job.id for job in jobs]):
            sql = f"SELECT * FROM tags WHERE job_id IN ({marks}) ORDER BY rowid"  # noqa: S608 - marks
            for row in self._store.rows(sql, part):
                found.setdefault(row["job_id"], []).append(row["name"])
        return found

    def add_tag(self, job: Job, tag: str) -> None:
        """Give a job a tag, unless it has it."""
        self._store.rows("INSERT OR IGNORE INTO tags VALUES (?, ?)", (job.id, tag))
        self._store.job_changed(job.id)

    def remove_tag(self, job: Job, tag: str) -> bool:
        """Take a tag from a job; False if it does not have it."""
        where = "WHERE job_id = ? AND name = ?"
        known = bool(self._store.rows(f"SELECT 1 FROM tags {where}", (job.id, tag)))  # noqa: S608 - constants
        self._store.rows(f"DELETE FROM tags {where}", (job.id, tag))  # noqa: S608 - constants
        self._store.job_changed(job.id)
        return known

    def record(
        self, job: Job, reason: str, message: str, *, warning: bool = False, container_id: str | None = None
    ) -> None:
        """Record an event and the notification that it brings; not where the release has no events."""
        if not job.release.launcher.has_events:
            return
        self._write(job, reason, message, warning=warning, container_id=container_id)
        told = None if self._notifier is None else self._notifier.happened(job, reason)
        if told is not None:
            self._write(job, "JobStatusChangeNotification", told.text, warning=False, container_id=None)
            if told.call is not None:
                self._store.when_committed(told.call)

    def _write(self, job: Job, reason: str, message: str, *, warning: bool, container_id: str | None) -> None:
        self._store.rows(
            "INSERT INTO events (job_id, container_id, type, reason, message, at) VALUES (?, ?, ?, ?, ?, ?)",
            (job.id, container_id, "Warning" if warning else "Normal", reason, message, now_ms()),
        )

    def events(self, job: Job, kind: str | None = None, most: int = -1) -> list[dict[str, Any]]:
        """Return what happened to a job, the latest first, as the API shows it but for the job's name.

        Args:
            job: the job.
            kind: ``Normal`` or ``Warning``, of those that are looked at; both where not given.
            most: how many are looked at; all of them where negative.
        """
        rows = self._store.rows(
            "SELECT events.*, role, task_index FROM events LEFT JOIN tasks USING (container_id)"
            " WHERE events.job_id = ? ORDER BY events.id DESC LIMIT ?",
            (job.id, most),
        )
        return [
            {
                "uid": str(row["id"]),
                "podUid": row["container_id"],
                "taskroleName": row["role"],
                "taskName": None if row["role"] is None else f"{row['role']}-{row['task_index']}",
                "taskIndex": row["task_index"],
                "type": row["type"],
                "reason": row["reason"],
                "message": row["message"],
                "firstTimestamp": _iso(row["at"]),
                "lastTimestamp": _iso(row["at"]),
                "count": 1,
                "sourceComponent": "luigi-pai-local",
                "sourceHost": "localhost",
            }
            for row in rows
            if kind in (None, row["type"])
        ]


def _iso(milliseconds: int) -> str:
    moment = datetime.fromtimestamp(milliseconds / 1000, timezone.utc)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
