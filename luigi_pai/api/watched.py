"""WatchedJob, Schedule and Update: what a watcher knows of a job, which job is due next, what has changed."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from luigi_pai.api.deadlines import Deadline
from luigi_pai.api.polling import next_wait
from luigi_pai.api.retries import Retry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.api.clock import Clock
    from luigi_pai.api.deadlines import Timer
    from luigi_pai.api.polling import Polling
    from luigi_pai.api.status import JobStatus
    from luigi_pai.errors import PaiApiError

_PATIENCE = 5.0  # seconds that a due job waits for a list; longer if the time between its lookups is longer
_ABSENT, _LONGEST_ABSENT = 30.0, 600.0  # seconds of single lookups after a list lacked a job: first, longest


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
        turn: number of its valid entry in the schedule; -1 if it is not watched any more.
    """

    name: str
    status: JobStatus
    timer: Timer
    with_tasks: bool
    single_until: float = -math.inf
    looked_up: float = -math.inf
    unknown_since: float | None = None
    turn: int = -1
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


class Schedule:
    """The moments at which jobs are due. Each job has one moment, the last one that was set."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, WatchedJob]] = []  # turns differ, so jobs are not compared
        self._turns = itertools.count()

    def set(self, moment: float, job: WatchedJob) -> None:
        """Set the moment at which a job is due."""
        job.turn = next(self._turns)
        heapq.heappush(self._heap, (moment, job.turn, job))

    def remove(self, job: WatchedJob) -> None:
        """Remove a job."""
        job.turn = -1

    def first(self) -> tuple[float, WatchedJob] | None:
        """Return the job that is due first, with its moment; None if there is no job."""
        while self._heap and self._heap[0][1] != self._heap[0][2].turn:
            heapq.heappop(self._heap)
        return (self._heap[0][0], self._heap[0][2]) if self._heap else None

    def pop_until(self, moment: float) -> list[WatchedJob]:
        """Remove the moments up to the given one; return their jobs."""
        jobs = []
        while (first := self.first()) is not None and first[0] <= moment:
            self.remove(first[1])
            jobs.append(first[1])
        return jobs

    def due_until(self, moment: float) -> Iterator[WatchedJob]:
        """Yield the jobs that are due until a moment, in no order."""
        return (job for at, turn, job in self._heap if at <= moment and turn == job.turn)
