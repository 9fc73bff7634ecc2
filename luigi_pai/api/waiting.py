"""WaitingReasons: finds out why a job is waiting, from resources and the cluster's messages."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.api.status import JobState
from luigi_pai.errors import PaiApiError
from luigi_pai.jobspec.demand import Demand, shortage
from luigi_pai.redaction import printable

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.status import JobStatus
    from luigi_pai.jobspec.job import PaiJob
    from luigi_pai.jobspec.protocol import JobProtocol

logger = logging.getLogger(__name__)

_FIRST_AFTER, _AGAIN_AFTER = 1.0, 60.0
_LONGEST_TEXT = 300


@dataclass(slots=True)
class _Waiting:
    """A queued job: when to look up its reason next (monotonic clock), and its last reason."""

    due: float
    reason: str | None = None


class WaitingReasons:
    """Why a cluster's jobs are waiting, looked up at most once a minute for each job.

    Forked processes share the responses about virtual clusters. For jobs with the same demand, they also
    share the cluster's explanation. All processes together make at most four requests per minute for reasons.

    Args:
        book: The cluster's book.
        job: A function that returns the job, if there is only one. If None, each job's config is requested.
    """

    def __init__(self, book: Book, job: Callable[[], PaiJob | JobProtocol] | None = None) -> None:
        self._book = book
        self._job = job
        self._demands: dict[str, Demand] = {}
        self._waiting: dict[str, _Waiting] = {}

    def idle(self, status: JobStatus) -> float:
        """Return the seconds until ``reason`` makes its next lookup; infinity if the job is not waiting."""
        if status.state is not JobState.WAITING:
            return math.inf
        now = self._book.api.clock.monotonic()
        return max(0.0, self._waiting.setdefault(status.name, _Waiting(now + _FIRST_AFTER)).due - now)

    def reason(self, status: JobStatus) -> str | None:
        """Return why a job is waiting; None if it is not waiting, or if no reason is known.

        The first request is made one second after the first call, so a job that starts sooner causes none. If
        a request fails, no error is raised, because the caller can continue without a reason.
        """
        name = status.name
        if status.state is not JobState.WAITING:
            self._waiting.pop(name, None)
            return None
        is_due, waiting = self.idle(status) <= 0, self._waiting[name]
        if is_due:
            waiting.due = self._book.api.clock.monotonic() + _AGAIN_AFTER
            try:
                waiting.reason = self._reason(status, self._book.explanations.may_ask) or waiting.reason
            except PaiApiError as error:
                logger.debug("Why %s waits is not known: %s", name, error)
        return waiting.reason

    def current_reason(self, status: JobStatus) -> str | None:
        """Return why a job is waiting, without limiting requests; None if no reason is known.

        Raises:
            PaiApiError: A request failed.
        """
        return self._reason(status, lambda: True)

    def _reason(self, status: JobStatus, may_ask: Callable[[], bool]) -> str | None:
        demand = self._demand_of(status, may_ask)
        if demand is None:
            return None
        clusters = self._book.virtual_clusters(_AGAIN_AFTER, may_ask)
        computed = None if clusters is None else shortage(demand, clusters, status.virtual_cluster)
        explained = self._explanation(status, demand, may_ask)
        # a message about the virtual cluster has the same numbers as `computed`
        if computed is None or explained.startswith("virtual cluster "):
            return explained or None
        return f"{computed}; the cluster says: {explained}" if explained else computed

    def _demand_of(self, status: JobStatus, may_ask: Callable[[], bool]) -> Demand | None:
        if status.name not in self._demands:
            if self._job is not None:
                config = self._job().to_dict()
            elif may_ask():
                dialect = self._book.api.dialect  # not RestApi.config, which may also request the version
                config = dialect.config(dialect.job_name(status.name))
            else:
                return None
            self._demands[status.name] = Demand.of_config(config)
        return self._demands[status.name]

    def _explanation(self, status: JobStatus, demand: Demand, may_ask: Callable[[], bool]) -> str:
        """Return why this job, or one with the same demand, is waiting; '' if the cluster gives no reason."""
        dialect, reason = self._book.api.dialect, status.diagnostics
        if dialect.version == "v2":
            key = f"{status.virtual_cluster} {demand.at_once}"
            try:
                reason = self._book.explanations.explain(
                    key,
                    _AGAIN_AFTER,
                    may_ask,
                    lambda: _last_warning(dialect.events(dialect.job_name(status.name))),
                )
            except PaiApiError as error:
                logger.debug("Events of %s: %s", status.name, error)
                reason = None
        return " ".join(printable(reason or "").split()).removeprefix("waiting: ")[:_LONGEST_TEXT]


def _last_warning(events: list[dict[str, Any]]) -> str | None:
    """Return the message of Kubernetes' last warning; None if there is none."""
    warnings = [
        event for event in events if event.get("type") == "Warning" and isinstance(event.get("message"), str)
    ]
    if not warnings:
        return None
    last = max(warnings, key=lambda event: str(event.get("lastTimestamp") or ""))
    return str(last["message"])
