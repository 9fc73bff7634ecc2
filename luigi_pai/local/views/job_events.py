"""The events of jobs."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from luigi_pai.local.store.database import now_ms

if TYPE_CHECKING:
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job

__all__ = ["JobEvents"]


class JobEvents:
    """The events of jobs."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def record(
        self, job: Job, reason: str, message: str, *, warning: bool = False, container_id: str | None = None
    ) -> None:
        """Record an event, unless the release has none.

        The reason is one word, the message a sentence; the container is that of the task that it is about.
        """
        if job.release.launcher.has_events:
            kind = "Warning" if warning else "Normal"
            row = {"job_id": job.id, "container_id": container_id, "type": kind, "reason": reason}
            self._store.insert("events", **row, message=message, at=now_ms())

    def of(self, job: Job, kind: str | None = None) -> list[dict[str, Any]]:
        """Return the events of a job, the latest first, as the API shows them, without its name.

        Only those of a kind, ``Normal`` or ``Warning``, if one is named.
        """
        rows = self._store.rows(
            "SELECT events.*, role, task_index FROM events LEFT JOIN tasks USING (container_id)"
            " WHERE events.job_id = ? ORDER BY events.id DESC",
            (job.id,),
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
