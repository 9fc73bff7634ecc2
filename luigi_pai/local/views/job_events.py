"""The events of jobs."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from luigi_pai.local.store.database import now_ms
from luigi_pai.local.views.job_states import job_state

if TYPE_CHECKING:
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job

__all__ = ["JobEvents"]

_CHANGES = {
    "running": "is running",
    "succeeded": "has succeeded",
    "stopped": "was stopped",
    "failed": "has failed",
    "retried": "is tried again",
}
"""The changes of state that a job may want notifications of; 1.8 sends mails, here they are events."""


class JobEvents:
    """The events of jobs, and the notifications of them."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def record(
        self, job: Job, reason: str, message: str, *, warning: bool = False, container_id: str | None = None
    ) -> None:
        """Record an event and the notification that it brings; not where the release has no events.

        The reason is one word, the message a sentence; the container is that of the task that it is about.
        """
        if not job.release.launcher.has_events:
            return
        self._write(job, reason, message, warning=warning, container_id=container_id)
        changes = {
            "AttemptBegan": "retried" if job.retries else "running",
            "JobEnded": job_state(job).lower(),
        }
        change = changes.get(reason, "")
        if change in _CHANGES and _wants(job, change):
            self._write(job, "JobStatusChangeNotification", f"job {job.full_name} {_CHANGES[change]}")

    def _write(
        self, job: Job, reason: str, message: str, *, warning: bool = False, container_id: str | None = None
    ) -> None:
        kind = "Warning" if warning else "Normal"
        row = {"job_id": job.id, "container_id": container_id, "type": kind, "reason": reason}
        self._store.insert("events", **row, message=message, at=now_ms())

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


def _wants(job: Job, change: str) -> bool:
    extras = job.config.get("extras") if isinstance(job.config, dict) else None
    wanted = extras.get("jobStatusChangeNotification") if isinstance(extras, dict) else None
    return isinstance(wanted, dict) and wanted.get(change) is True
