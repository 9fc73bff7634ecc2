"""The events of jobs."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from luigi_pai.local.store.database import now_ms

if TYPE_CHECKING:
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job
    from luigi_pai.local.views.notifications import Notifier

__all__ = ["JobEvents"]


class JobEvents:
    """The events of jobs, and the notifications that a notifier makes of them."""

    def __init__(self, store: Store, notifier: Notifier | None = None) -> None:
        self._store = store
        self._notifier = notifier

    def record(
        self, job: Job, reason: str, message: str, *, warning: bool = False, container_id: str | None = None
    ) -> None:
        """Record an event and the notification that it brings; not where the release has no events."""
        if not job.release.launcher.has_events:
            return
        self._write(job, reason, message, warning=warning, container_id=container_id)
        notification = None if self._notifier is None else self._notifier.notification(job, reason)
        if notification is not None:
            self._write(
                job, "JobStatusChangeNotification", notification.text, warning=False, container_id=None
            )
            if notification.call is not None:
                self._store.when_committed(notification.call)

    def _write(self, job: Job, reason: str, message: str, *, warning: bool, container_id: str | None) -> None:
        self._store.rows(
            "INSERT INTO events (job_id, container_id, type, reason, message, at) VALUES (?, ?, ?, ?, ?, ?)",
            (job.id, container_id, "Warning" if warning else "Normal", reason, message, now_ms()),
        )

    def of(self, job: Job, kind: str | None = None, most: int = -1) -> list[dict[str, Any]]:
        """Return at most ``most`` events of a job, the latest first, as the API shows them, without its name.

        Only those of a kind, ``Normal`` or ``Warning``, if one is named.
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
