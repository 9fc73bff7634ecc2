"""The states of many jobs, watched in steps that do not sleep: schedule, deadlines, lost jobs."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import random
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.api.status import JobState
from luigi_pai.errors import ClusterUnreachable, JobNotFound, PaiApiError, RateLimited

if TYPE_CHECKING:
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus

__all__ = ["Deadline", "Outcome", "Polling", "Update", "Watcher", "next_wait"]

_QUEUED = (JobState.WAITING, JobState.RETRY_PENDING)
_JITTER = 0.1
_LONGEST_QUEUED = 10.0
_LOST_AFTER = 60.0


@dataclass(frozen=True)
class Polling:
    """The settings of ``[OpenPai]`` that concern waiting, in seconds.

    Attributes:
        shortest, longest: bounds of the wait between two lookups (``poll_min``, ``poll_max``).
        patience: how long transient errors are retried (``poll_patience``).
    """

    shortest: float = 0.1
    longest: float = 30.0
    patience: float = 1800.0


class Deadline(str, Enum):
    """What a job may take too long for; the values are the names of the settings."""

    QUEUE = "queue_timeout"
    RUN = "run_timeout"


class Outcome(Enum):
    """What an Update says.

    Attributes:
        CHANGED: there is something new of a job that goes on.
        ENDED: the job has ended.
        LOST: the server no longer knows it, for a minute now.
    """

    CHANGED = "changed"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True)
class Update:
    """Something new of a watched job.

    Attributes:
        name: of the job.
        status: its status now; the last known where it is lost.
        outcome: what became of it.
        missed: the deadline for which it is being, or was, stopped.
    """

    name: str
    status: JobStatus
    outcome: Outcome
    missed: Deadline | None = None


def next_wait(age: float, polling: Polling, *, queued: bool) -> float:
    """Return how many seconds to wait before the next lookup of a job.

    A quarter of its time in the queue, at most 10 s; an eighth of its run time once it
    runs; between ``polling.shortest`` and ``polling.longest``, give or take a tenth. With
    the defaults, 0.1 s and 30 s:

    ========  =====  ====  ====  =====  =====  ======  ======
    queued    0.4 s  1 s   4 s   10 s   20 s   40 s    1 h
    wait      0.1 s  0.25  1.0   2.5    5.0    10 s    10 s
    running   0.8 s  4 s   8 s   20 s   1 min  2 min   4 min and more
    wait      0.1 s  0.5   1.0   2.5    7.5    15 s    30 s
    ========  =====  ====  ====  =====  =====  ======  ======

    What that costs, of 1,000 simulated jobs (1 s to 10 h, log-uniform), all queued for up to
    2 h; ``python benchmarks/polling.py`` compares more schedules:

    ==============================  =========  ==========  ========  ===========
    schedule                        mean late  of the run  requests  1 h, no queue
    ==============================  =========  ==========  ========  ===========
    luigi.contrib.pai: every 5 s    2.6 s      24 %        1450      724
    a tenth of the whole age        14.8 s     149 %       285       168
    this one                        8.4 s      27 %        541       176
    the square root of the run      8.2 s      29 %        525       161
    ==============================  =========  ==========  ========  ===========

    The square root asks less, but a job of seconds is noticed late by most of its length
    (20 % on average under a minute; this one 6 %).

    Args:
        age: seconds since it was seen to run; since it was submitted while it waits.
        polling: the bounds.
        queued: it waits.
    """
    longest = max(polling.shortest, min(polling.longest, _LONGEST_QUEUED)) if queued else polling.longest
    wait = min(max(age / (4 if queued else 8), polling.shortest), longest)
    return min(wait * random.uniform(1 - _JITTER, 1 + _JITTER), longest)  # noqa: S311  spreads load, guards nothing


@dataclass
class _Watched:
    """A job in the watcher's hands. Moments are of the monotonic clock, in seconds."""

    status: JobStatus
    retry: Retry
    queue_timeout: float
    run_timeout: float
    queued_since: float
    turn: int = -1  # the one entry in the schedule that counts
    running_since: float | None = None
    unknown_since: float | None = None
    missed: Deadline | None = None


class Watcher:
    """Watches any number of jobs of one cluster. ``step()`` looks up those that are due, and never sleeps.

    Args:
        cluster: where the jobs are.
        polling: the schedule and how long transient errors are retried; the cluster's where not given.
    """

    def __init__(self, cluster: Cluster, polling: Polling | None = None) -> None:
        self._cluster = cluster
        self._clock = cluster.clock
        self._polling = polling or cluster.polling
        self._jobs: dict[str, _Watched] = {}
        self._due: list[tuple[float, int, str]] = []
        self._serial = itertools.count()
        self._paused_until = -math.inf
        self._outage = Retry(self._polling.patience, self._clock)

    def __len__(self) -> int:
        return len(self._jobs)

    def add(
        self,
        status: JobStatus,
        *,
        new: bool = False,
        queue_timeout: float | None = None,
        run_timeout: float | None = None,
    ) -> None:
        """Watch a job.

        Args:
            status: what is known of it.
            new: it was submitted just now; else its age is that of its time stamps.
            queue_timeout: seconds that it may wait before it is stopped; None for any time.
            run_timeout: seconds that it may run before it is stopped; None for any time.
        """
        now = self._clock.monotonic()
        job = _Watched(
            status,
            Retry(self._polling.patience, self._clock, f"job {status.name}"),
            math.inf if queue_timeout is None else queue_timeout,
            math.inf if run_timeout is None else run_timeout,
            queued_since=now if new else now - self._age(status.created_ms),
        )
        if status.state not in (*_QUEUED, JobState.UNKNOWN):
            job.running_since = now if new else now - self._age(status.launched_ms or status.created_ms)
        self._jobs[status.name] = job
        self._schedule(status.name, job)

    def remove(self, name: str) -> None:
        """Stop watching a job; the job itself goes on."""
        self._jobs.pop(name, None)

    def idle(self) -> float:
        """Return for how many seconds ``step()`` has nothing to do; infinity where nothing is watched."""
        while self._due and not self._counts(self._due[0]):
            heapq.heappop(self._due)
        if not self._due:
            return math.inf
        return max(0.0, max(self._due[0][0], self._paused_until) - self._clock.monotonic())

    def step(self) -> list[Update]:
        """Look up the jobs that are due now and return what is new of them.

        Raises:
            PaiApiError: the server was not to be reached for longer than ``polling.patience``, or refuses.
        """
        updates: list[Update] = []
        while self.idle() <= 0:
            wait = self._cluster.polling_wait()
            if wait > 0:
                self._pause(wait * random.uniform(1, 1 + _JITTER))  # noqa: S311  as above
                break
            _, _, name = heapq.heappop(self._due)
            job = self._jobs[name]
            try:
                update = self._look_up(name, job)
            except PaiApiError as error:
                now = self._clock.monotonic()
                if updates:  # they must not be lost: the next step meets the error again
                    self._due_at(now, name)
                    break
                if isinstance(error, (ClusterUnreachable, RateLimited)):  # so it is for every job
                    self._due_at(now, name)
                    self._pause(self._outage.wait_after(error))
                    break
                if not isinstance(error, TRANSIENT):
                    raise
                self._due_at(now + job.retry.wait_after(error), name)
            else:
                job.retry.succeeded()
                self._outage.succeeded()
                updates += [update] if update is not None else []
        return updates

    def _look_up(self, name: str, job: _Watched) -> Update | None:
        try:
            status = self._cluster.status(name)
        except JobNotFound:
            return self._unknown(name, job)
        job.unknown_since = None
        if status.finished:
            del self._jobs[name]
            return Update(name, status, Outcome.ENDED, job.missed)
        now = self._clock.monotonic()
        if status.state in _QUEUED:
            if job.running_since is not None:  # the cluster starts it again
                job.queued_since, job.running_since = now, None
        elif job.running_since is None and status.state is not JobState.UNKNOWN:
            job.running_since = now
        self._stop_if_late(name, job)
        changed, job.status = status != job.status, status
        self._schedule(name, job)
        return Update(name, status, Outcome.CHANGED, job.missed) if changed else None

    def _unknown(self, name: str, job: _Watched) -> Update | None:
        """Deal with a job that the server does not show; right after its submission that may be so."""
        now = self._clock.monotonic()
        job.unknown_since = now if job.unknown_since is None else job.unknown_since
        if now - job.unknown_since < _LOST_AFTER:
            self._schedule(name, job)
            return None
        del self._jobs[name]
        return Update(name, job.status, Outcome.LOST, job.missed)

    def _stop_if_late(self, name: str, job: _Watched) -> None:
        """Stop a job that was looked up after its deadline; an error leaves that to the next step."""
        if job.missed is not None or self._clock.monotonic() < self._deadline_of(job):
            return
        with contextlib.suppress(JobNotFound):  # the next lookup says so, too
            self._cluster.stop(name)
        job.missed = Deadline.QUEUE if job.running_since is None else Deadline.RUN

    def _deadline_of(self, job: _Watched) -> float:
        if job.running_since is None:
            return job.queued_since + job.queue_timeout
        return job.running_since + job.run_timeout

    def _schedule(self, name: str, job: _Watched) -> None:
        now = self._clock.monotonic()
        queued = job.running_since is None
        since = job.queued_since if job.running_since is None else job.running_since
        moment = now + next_wait(max(0.0, now - since), self._polling, queued=queued)
        if job.missed is None:
            moment = max(now, min(moment, self._deadline_of(job)))
        self._due_at(moment, name)

    def _due_at(self, moment: float, name: str) -> None:
        turn = self._jobs[name].turn = next(self._serial)
        heapq.heappush(self._due, (moment, turn, name))

    def _counts(self, due: tuple[float, int, str]) -> bool:
        """Return whether an entry of the schedule is its job's latest; the job may have been removed."""
        _, turn, name = due
        return name in self._jobs and self._jobs[name].turn == turn

    def _pause(self, seconds: float) -> None:
        self._paused_until = self._clock.monotonic() + seconds

    def _age(self, since_ms: int | None) -> float:
        """Return the seconds since a moment that a server named; 0 where clocks disagree or none is known."""
        return max(0.0, self._clock.time() - since_ms / 1000) if since_ms else 0.0
