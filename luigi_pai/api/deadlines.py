"""Deadlines of watched jobs: how long each may wait, and run."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from luigi_pai.api.status import JobState

if TYPE_CHECKING:
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.status import JobStatus

_QUEUED = (JobState.WAITING, JobState.RETRY_PENDING)


class Deadline(str, Enum):
    """The deadlines of a job; the values are the names of the settings."""

    QUEUE = "queue_timeout"
    RUN = "run_timeout"


@dataclass(slots=True)
class Timer:
    """How long a job has waited or run, in seconds of the monotonic clock.

    Attributes:
        queue_timeout, run_timeout: seconds; infinity if there is no limit.
        queued: whether it waits in the queue.
        since: while the job is queued, the time of its submission or of its return to the queue. While it
            runs, the time of the lookup that first showed it running. If the job already ran when the timer
            was made, ``since`` is the start time from the server.
        missed: the missed deadline, because of which the job is being stopped; None if it missed none.
    """

    queue_timeout: float
    run_timeout: float
    queued: bool
    since: float
    missed: Deadline | None = None

    @classmethod
    def start(
        cls,
        status: JobStatus,
        clock: Clock,
        *,
        new: bool,
        queue_timeout: float | None = None,
        run_timeout: float | None = None,
    ) -> Timer:
        """Return the timer of a job; see ``Watcher.add`` for the arguments."""
        queued = status.state in (*_QUEUED, JobState.UNKNOWN)
        age = 0.0 if new else _age(status.created_ms if queued else status.launched_ms, clock)
        return cls(
            math.inf if queue_timeout is None else queue_timeout,
            math.inf if run_timeout is None else run_timeout,
            queued,
            clock.monotonic() - age,
        )

    @property
    def end(self) -> float:
        """The time when the job is to be stopped; infinity if it has no limit or is already being stopped."""
        if self.missed is not None:
            return math.inf
        return self.since + (self.queue_timeout if self.queued else self.run_timeout)

    def observe(self, status: JobStatus, now: float) -> None:
        """Record a new status of the job, and restart the timer if the job has started or is queued again."""
        queued = status.state in _QUEUED
        if queued != self.queued and status.state is not JobState.UNKNOWN:  # started, or queued again
            self.queued, self.since = queued, now


def _age(since_ms: int | None, clock: Clock) -> float:
    """Return the seconds since a time stamp of the server; 0 if it is missing or in the future."""
    return max(0.0, clock.time() - since_ms / 1000) if since_ms else 0.0
