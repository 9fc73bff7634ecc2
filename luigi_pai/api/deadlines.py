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
        queue_timeout, run_timeout: seconds; infinity for no limit.
        queued: whether it waits in the queue.
        since: when it was submitted, or went back to the queue; once it runs, when it began to run, or was
            first seen running.
        missed: the deadline that has passed.
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
        """Return the timer of a job; see ``Watcher.add``."""
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
        """When the job is to be stopped; infinity for never, or if it is being stopped."""
        if self.missed is not None:
            return math.inf
        return self.since + (self.queue_timeout if self.queued else self.run_timeout)

    def observe(self, status: JobStatus, now: float) -> None:
        """Take a new status of the job."""
        queued = status.state in _QUEUED
        if queued != self.queued and status.state is not JobState.UNKNOWN:  # it runs, or is started again
            self.queued, self.since = queued, now


def _age(since_ms: int | None, clock: Clock) -> float:
    """Return the seconds since a time stamp of the server; 0 without one, or if it is in the future."""
    return max(0.0, clock.time() - since_ms / 1000) if since_ms else 0.0
