"""WatchedJob: the state of a job that a watcher polls, with its deadlines; Update: what has changed."""

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

_PATIENCE = 5.0  # seconds that a due job waits for a list; longer if the time between its lookups is longer
_ABSENT, _LONGEST_ABSENT = 30.0, 600.0  # seconds of single lookups after a list lacked a job: first, longest


class Deadline(str, Enum):
    """The deadlines of a job; the values are the names of the settings."""

    QUEUE = "queue_timeout"
    RUN = "run_timeout"


_COUNTING: dict[JobState, Deadline | None] = {
    JobState.WAITING: Deadline.QUEUE,
    JobState.RETRY_PENDING: Deadline.QUEUE,
    JobState.COMPLETING: None,  # its work is done, and a stop could take its success away
}


@dataclass(slots=True)
class Timer:
    """How long a job has waited or run, in seconds of the monotonic clock.

    Attributes:
        queue_timeout, run_timeout: seconds; infinity if there is no limit.
        counting: the deadline that counts in the job's state; None if none does.
        since: while the job is queued, the time of its submission or of its return to the queue. While it
            runs, the time of the lookup that first showed it running. If the job already ran when the timer
            was made, ``since`` is the start time from the server.
        is_start_open: whether the job ran before the timer was made, and a lookup may tell since when.
        missed: the missed deadline, because of which the job is being stopped; None if it missed none.
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
        """Return the timer of a job; see ``Watcher.add`` for the arguments."""
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
        """The time when the job is to be stopped; infinity if it has no limit or is already being stopped."""
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
        CHANGED: the status has changed, and the job continues.
        ENDED: the job has ended.
        LOST: the server has not known the job for a minute.
        REFUSED: the lookup of the job failed for good. Only an ``isolated`` watcher returns this.
    """

    CHANGED = "changed"
    ENDED = "ended"
    LOST = "lost"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Update:
    """An update of a watched job.

    Attributes:
        name: of the job.
        status: its current status, or for LOST and REFUSED its last known status. Lists have no tasks and
            diagnostics: they are from an earlier lookup. A failed or stopped job is always looked up.
        outcome: the kind of update.
        missed: the deadline that the job missed, for which the watcher stopped it; None if there is none.
        error: the error of the lookup, if the outcome is REFUSED.
    """

    name: str
    status: JobStatus
    outcome: Outcome
    missed: Deadline | None = None
    error: PaiApiError | None = None


@dataclass(slots=True)
class WatchedJob:
    """The state of a watched job. Times are seconds of the monotonic clock.

    Attributes:
        name: of the job.
        status: the last one.
        timer: its deadlines.
        with_tasks: whether each status must have the states of the tasks.
        single_until: until then, it is looked up alone.
        looked_up: when it was last looked up alone.
        unknown_since: since when the server does not know it; None if the server knows it.
        retry: of its lookups, since one has failed; None if the last one has succeeded.
        due: when it is to be looked up next; infinity during its lookup.
        turn: number of the last change of ``due``; it decides which of two jobs due at one time is first.
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
    _absent: int = 0  # lists that lacked it, in sequence

    def next_wait(self, now: float, polling: Polling) -> float:
        """Return the seconds until its next lookup."""
        timer = self.timer
        return next_wait(max(0.0, now - timer.since), polling, queued=timer.counting is Deadline.QUEUE)

    def list_patience(self, now: float, polling: Polling) -> float:
        """Return for how many seconds it waits for a list."""
        return max(_PATIENCE, self.next_wait(now, polling))

    def record_absence(self, now: float) -> None:
        """Record that a list lacked the job, so that it is looked up alone for a while."""
        self.single_until = now + min(_ABSENT * 2**self._absent, _LONGEST_ABSENT)
        self._absent += 1

    def record_presence(self) -> None:
        """Record that a list had the job."""
        self._absent, self.single_until = 0, -math.inf

    def wait_after(self, error: PaiApiError, polling: Polling, clock: Clock) -> float:
        """Return the seconds to wait after a failed lookup, or raise the error; see ``Retry``."""
        if self.retry is None:
            self.retry = Retry(polling.patience, clock, f"job {self.name}")
        return self.retry.wait_after(error)


def _queued_ms(status: JobStatus) -> int | None:
    """Return when a queued job entered the queue, in ms since 1970; None if it has run, and waits again."""
    has_run = status.retries or status.launched_ms or status.state is JobState.RETRY_PENDING
    return None if has_run else status.created_ms


def _launched_ms(status: JobStatus) -> int | None:
    """Return when a job began to run, in ms since 1970; None if it is not known.

    A row of a list, which has no tasks, does not tell the last start of a job that was started again.
    """
    return None if status.retries and not status.tasks else status.launched_ms


def _age(since_ms: int | None, clock: Clock) -> float:
    """Return the seconds since a time stamp of the server; 0 if it is missing or in the future."""
    return max(0.0, clock.time() - since_ms / 1000) if since_ms else 0.0
