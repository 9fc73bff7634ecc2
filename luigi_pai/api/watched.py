"""WatchedJob: the state and deadlines of a job that a watcher polls; Update: a change to the job."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from luigi_pai.api.polling import next_wait
from luigi_pai.api.retries import Retry
from luigi_pai.api.status import JobState

if TYPE_CHECKING:
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.polling import Polling
    from luigi_pai.api.status import JobStatus
    from luigi_pai.errors import PaiApiError

_PATIENCE = 5.0  # how long (s) a due job waits for a list; longer if the time between its lookups is longer
_ABSENT, _LONGEST_ABSENT = 30.0, 600.0  # seconds of single lookups after a list without it: first, longest


class Deadline(str, Enum):
    """The deadlines of a job; the values are the names of the settings."""

    QUEUE = "queue_timeout"
    RUN = "run_timeout"


_COUNTING: dict[JobState, Deadline | None] = {
    JobState.WAITING: Deadline.QUEUE,
    JobState.RETRY_PENDING: Deadline.QUEUE,
    JobState.COMPLETING: None,  # its work is done, and a stop could turn its success into a failure
}


@dataclass(slots=True)
class Timer:
    """How long a job has been waiting or running, in seconds of the monotonic clock.

    Attributes:
        queue_timeout, run_timeout: Seconds; infinity if there is no limit.
        counting: The deadline that applies in the job's state; None if there is none.
        since: While the job is queued, the time of its submission or of its return to the queue. While it
            runs, the time of the lookup that first showed it running. If the job was already running when the
            timer was created, the start time from the server.
        is_start_open: Whether the job was running before the timer was created, and a lookup may show when
            it started.
        missed: The missed deadline for which the job is being stopped; None if it missed none.
    """

    queue_timeout: float
    run_timeout: float
    counting: Deadline | None
    since: float
    is_start_open: bool = False
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
        """Return a job's timer; see ``Watcher.add`` for the arguments."""
        unknown = status.state is JobState.UNKNOWN
        counting = Deadline.QUEUE if unknown else _COUNTING.get(status.state, Deadline.RUN)
        start_ms = _queued_ms(status) if counting is Deadline.QUEUE else _launched_ms(status)
        return cls(
            math.inf if queue_timeout is None else queue_timeout,
            math.inf if run_timeout is None else run_timeout,
            counting,
            clock.monotonic() - (0.0 if new else _age(start_ms, clock)),
            is_start_open=not new and counting is not Deadline.QUEUE and start_ms is None,
        )

    @property
    def end(self) -> float:
        """When to stop the job; infinity if it has no limit or is already being stopped."""
        if self.missed is not None or self.counting is None:
            return math.inf
        return self.since + (self.queue_timeout if self.counting is Deadline.QUEUE else self.run_timeout)

    def observe(self, status: JobStatus, clock: Clock) -> None:
        """Record a new status of the job, and restart the timer if the job has started or is queued again."""
        if status.state is JobState.UNKNOWN:
            return
        before, self.counting = self.counting, _COUNTING.get(status.state, Deadline.RUN)
        start_ms = _launched_ms(status) if self.is_start_open else None
        if before is self.counting is Deadline.RUN and start_ms is not None:
            self.since, self.is_start_open = clock.monotonic() - _age(start_ms, clock), False
        elif self.counting not in (before, None):  # started, or queued again
            self.since, self.is_start_open = clock.monotonic(), False


class Outcome(Enum):
    """The kinds of updates.

    Attributes:
        CHANGED: The status has changed, and the job continues.
        ENDED: The job has ended.
        LOST: The server has not known the job for a minute.
        REFUSED: The job's lookup failed permanently. Only an ``isolated`` watcher returns this.
    """

    CHANGED = "changed"
    ENDED = "ended"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Update:
    """An update about a watched job.

    Attributes:
        name: The job's name.
        status: Its current status; for LOST and REFUSED, its last known status. Lists do not contain tasks
            and diagnostics, so these are from an earlier lookup. Failed or stopped jobs are always looked up.
        outcome: The kind of update.
        missed: The missed deadline for which the watcher stopped the job; None if it missed none.
        error: The lookup's error if the outcome is REFUSED.
    """

    name: str
    status: JobStatus
    outcome: Outcome
    missed: Deadline | None = None
    error: PaiApiError | None = None


@dataclass(slots=True)
class WatchedJob:
    """A watched job's state. Times are seconds of the monotonic clock.

    Attributes:
        name: The job's name.
        status: Its last status.
        timer: Its deadlines.
        with_tasks: Whether each status must include the tasks' states.
        single_until: When to stop looking it up by name instead of in lists.
        looked_up: When it was last looked up by name.
        unknown_since: When the server was first found not to know it; None if it knows the job.
        retry: The retries of its lookup after a failure; None if the last lookup succeeded.
        due: When to look it up next; infinity during its lookup.
        turn: The number of the last change of ``due``. It orders jobs that are due at the same time.
    """

    name: str
    status: JobStatus
    timer: Timer
    with_tasks: bool
    single_until: float = -math.inf
    looked_up: float = -math.inf
    unknown_since: float | None = None
    due: float = math.inf
    turn: int = 0
    retry: Retry | None = None
    _absent: int = 0  # consecutive lists without it

    def next_wait(self, now: float, polling: Polling) -> float:
        """Return the seconds until its next lookup."""
        timer = self.timer
        return next_wait(max(0.0, now - timer.since), polling, queued=timer.counting is Deadline.QUEUE)

    def list_patience(self, now: float, polling: Polling) -> float:
        """Return how long the job may wait for a list, in seconds."""
        return max(_PATIENCE, self.next_wait(now, polling))

    def record_absence(self, now: float) -> None:
        """Record that a list did not contain the job, so that it is looked up by name for a while."""
        self.single_until = now + min(_ABSENT * 2**self._absent, _LONGEST_ABSENT)
        self._absent += 1

    def record_presence(self) -> None:
        """Record that a list contained the job."""
        self._absent, self.single_until = 0, -math.inf

    def wait_after(self, error: PaiApiError, polling: Polling, clock: Clock) -> float:
        """Return the seconds to wait after a failed lookup, or raise the error; see ``Retry``."""
        if self.retry is None:
            self.retry = Retry(polling.patience, clock, f"job {self.name}")
        return self.retry.wait_after(error)


def _queued_ms(status: JobStatus) -> int | None:
    """Return when a queued job entered the queue, in ms since 1970; None if it ran and is queued again."""
    has_run = status.retries or status.launched_ms or status.state is JobState.RETRY_PENDING
    return None if has_run else status.created_ms


def _launched_ms(status: JobStatus) -> int | None:
    """Return when a job started, in ms since 1970; None if it is not known.

    A list's rows do not contain tasks, so they do not show when a job was last restarted.
    """
    return None if status.retries and not status.tasks else status.launched_ms


def _age(since_ms: int | None, clock: Clock) -> float:
    """Return the seconds since a server's time stamp; 0 if it is missing or in the future."""
    return max(0.0, clock.time() - since_ms / 1000) if since_ms else 0.0
