"""Watcher: polling of any number of jobs, with schedule, deadlines and lost jobs."""

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
    """The polling settings of ``[OpenPai]``, in seconds.

    Attributes:
        shortest, longest: bounds of the wait between two lookups (``poll_min``, ``poll_max``).
        patience: how long transient errors are retried (``poll_patience``).
    """

    shortest: float = 0.1
    longest: float = 30.0
    patience: float = 1800.0


class Deadline(str, Enum):
    """The deadlines of a job; the values are the names of the settings."""

    QUEUE = "queue_timeout"
    RUN = "run_timeout"


class Outcome(Enum):
    """The kinds of updates.

    Attributes:
        CHANGED: the status has changed, the job continues.
        ENDED: the job has ended.
        LOST: the server has not known the job for a minute.
    """

    CHANGED = "changed"
    ENDED = "ended"
    LOST = "lost"


@dataclass(frozen=True)
class Update:
    """An update of a watched job.

    Attributes:
        name: of the job.
        status: its current status; the last known one if it is lost.
        outcome: the kind of update.
        missed: the deadline for which the job is being, or was, stopped.
    """

    name: str
    status: JobStatus
    outcome: Outcome
    missed: Deadline | None = None


def next_wait(age: float, polling: Polling, *, queued: bool) -> float:
    """Return the seconds to wait before the next lookup of a job.

    The wait is a quarter of the time in the queue, at most 10 s, and an eighth of the run time once the
    job runs. It is between ``polling.shortest`` and ``polling.longest``, plus or minus 10 %. With the
    defaults, 0.1 s and 30 s:

    ========  =====  ====  ====  =====  =====  ======  ======
    queued    0.4 s  1 s   4 s   10 s   20 s   40 s    1 h
    wait      0.1 s  0.25  1.0   2.5    5.0    10 s    10 s
    running   0.8 s  4 s   8 s   20 s   1 min  2 min   4 min and more
    wait      0.1 s  0.5   1.0   2.5    7.5    15 s    30 s
    ========  =====  ====  ====  =====  =====  ======  ======

    Its cost, for 1,000 simulated jobs (1 s to 10 h, log-uniform) that are queued for up to 2 h;
    ``python benchmarks/polling.py`` compares more schedules:

    ==============================  =========  ==========  ========  ===========
    schedule                        mean late  of the run  requests  1 h, no queue
    ==============================  =========  ==========  ========  ===========
    luigi.contrib.pai: every 5 s    2.6 s      24 %        1450      724
    a tenth of the whole age        14.8 s     149 %       285       168
    this one                        8.4 s      27 %        541       176
    the square root of the run      8.2 s      29 %        525       161
    ==============================  =========  ==========  ========  ===========

    The square root needs fewer requests, but detects the end of short jobs late (jobs under a minute by
    20 % of their run time on average; this schedule by 6 %).

    Args:
        age: seconds since the job was first seen running, or since its submission while it is queued.
        polling: the bounds.
        queued: whether it is queued.
    """
    longest = max(polling.shortest, min(polling.longest, _LONGEST_QUEUED)) if queued else polling.longest
    wait = min(max(age / (4 if queued else 8), polling.shortest), longest)
    return min(wait * random.uniform(1 - _JITTER, 1 + _JITTER), longest)  # noqa: S311  spreads load, guards nothing


@dataclass
class _Watched:
    """The state of a watched job. Times are seconds of the monotonic clock."""

    status: JobStatus
    retry: Retry
    queue_timeout: float
    run_timeout: float
    queued_since: float
    turn: int = -1  # its valid entry in the schedule
    running_since: float | None = None
    unknown_since: float | None = None
    missed: Deadline | None = None


class Watcher:
    """Polls any number of jobs of one cluster. ``step()`` looks up the jobs that are due and never sleeps.

    Args:
        cluster: of the jobs.
        polling: schedule and retries; default: those of the cluster.
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
            status: its last known status.
            new: it was submitted just now; else its age is taken from its time stamps.
            queue_timeout: seconds in the queue after which it is stopped; None for no limit.
            run_timeout: seconds of running after which it is stopped; None for no limit.
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

    @property
    def polling(self) -> Polling:
        """The polling settings in effect."""
        return self._polling

    @polling.setter
    def polling(self, polling: Polling) -> None:
        self._polling = polling
        for name, job in self._jobs.items():
            self._schedule(name, job)

    def remove(self, name: str) -> None:
        """Stop watching a job; the job itself continues."""
        self._jobs.pop(name, None)

    def idle(self) -> float:
        """Return the seconds until ``step()`` has something to do; infinity if no job is watched."""
        while self._due and not self._is_valid(self._due[0]):
            heapq.heappop(self._due)
        if not self._due:
            return math.inf
        return max(0.0, max(self._due[0][0], self._paused_until) - self._clock.monotonic())

    def step(self) -> list[Update]:
        """Look up the jobs that are due and return their updates.

        Raises:
            PaiApiError: transient errors lasted longer than ``polling.patience``, or a request was refused.
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
                if updates:  # do not lose them: the next step repeats the request
                    self._due_at(now, name)
                    break
                if isinstance(error, (ClusterUnreachable, RateLimited)):  # it concerns all jobs
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
        """Record that the server does not know a job; right after the submission that is possible."""
        now = self._clock.monotonic()
        job.unknown_since = now if job.unknown_since is None else job.unknown_since
        if now - job.unknown_since < _LOST_AFTER:
            self._schedule(name, job)
            return None
        del self._jobs[name]
        return Update(name, job.status, Outcome.LOST, job.missed)

    def _stop_if_late(self, name: str, job: _Watched) -> None:
        """Stop a job whose deadline has passed; after an error the next step tries again."""
        if job.missed is not None or self._clock.monotonic() < self._deadline_of(job):
            return
        with contextlib.suppress(JobNotFound):  # the next lookup finds out
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

    def _is_valid(self, due: tuple[float, int, str]) -> bool:
        """Return whether an entry of the schedule is the latest of its job; the job may have been removed."""
        _, turn, name = due
        return name in self._jobs and self._jobs[name].turn == turn

    def _pause(self, seconds: float) -> None:
        self._paused_until = self._clock.monotonic() + seconds

    def _age(self, since_ms: int | None) -> float:
        """Return the seconds since a time stamp of the server; 0 without one, or if it is in the future."""
        return max(0.0, self._clock.time() - since_ms / 1000) if since_ms else 0.0
