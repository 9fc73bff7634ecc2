"""Why a job waits: what its virtual cluster has free, what the job asks for, and what the cluster says."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from luigi_pai.api.status import JobState
from luigi_pai.errors import PaiApiError
from luigi_pai.spec.demand import Demand, shortage

if TYPE_CHECKING:
    from luigi_pai.api.book.book import Book
    from luigi_pai.api.status import JobStatus

__all__ = ["WaitingReasons"]

logger = logging.getLogger(__name__)

_FIRST_AFTER, _AGAIN_AFTER = 1.0, 60.0
_LONGEST_TEXT = 300


class WaitingReasons:
    """Why jobs of a cluster wait, asked for no more often than it changes.

    Args:
        book: of the cluster.
    """

    def __init__(self, book: Book) -> None:
        self._book = book
        self._demands: dict[str, Demand] = {}
        self._asked: dict[str, float] = {}
        self._last: dict[str, str | None] = {}
        self._waits_since: dict[str, float] = {}

    def idle(self, status: JobStatus) -> float:
        """Return in how many seconds ``of`` will look again; infinity where the job does not wait."""
        if status.state is not JobState.WAITING:
            return math.inf
        now = self._book.api.clock.monotonic()
        since = self._waits_since.setdefault(status.name, now)
        due = self._asked[status.name] + _AGAIN_AFTER if status.name in self._asked else since + _FIRST_AFTER
        return max(0.0, due - now)

    def of(self, status: JobStatus) -> str | None:
        """Return why a job waits, as far as the release tells; None where it does not wait or no one knows.

        A job that starts within a second is not asked about. What cannot be asked is no error:
        the job's own status counts, not this.
        """
        name = status.name
        if status.state is not JobState.WAITING:
            for memory in (self._asked, self._last, self._waits_since):
                memory.pop(name, None)
            return None
        if self.idle(status) <= 0:
            self._asked[name] = self._book.api.clock.monotonic()
            try:
                self._last[name] = self.now(status)
            except PaiApiError as error:
                logger.debug("Why %s waits is not known: %s", name, error)
        return self._last.get(name)

    def now(self, status: JobStatus) -> str | None:
        """Ask the server why a job waits.

        Raises:
            PaiApiError: it cannot be asked.
        """
        dialect = self._book.api.dialect  # not through the API, which learns from answers what it speaks
        name = dialect.job_name(status.name)
        if status.name not in self._demands:
            self._demands[status.name] = Demand.of_config(dialect.config(name))
        demand = self._demands[status.name]
        own = shortage(demand, self._book.virtual_clusters(), status.virtual_cluster)
        said = _last_warning(dialect.events(name)) if dialect.can.events else status.diagnostics
        said = " ".join((said or "").split()).removeprefix("waiting: ")[:_LONGEST_TEXT]
        if own is None or said.startswith("virtual cluster "):  # the cluster's own numbers
            return said or None
        return f"{own}; the cluster says: {said}" if said else own


def _last_warning(events: list[dict[str, Any]]) -> str | None:
    """Return what Kubernetes warned of last."""
    warnings = [
        event for event in events if event.get("type") == "Warning" and isinstance(event.get("message"), str)
    ]
    if not warnings:
        return None
    last = max(warnings, key=lambda event: str(event.get("lastTimestamp") or ""))
    return str(last["message"])
