"""Watcher: polling of any number of jobs, with schedule, deadlines and lost jobs."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import random
import statistics
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from luigi_pai.api.polling import next_wait
from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.api.status import JobState, listed_status
from luigi_pai.errors import ClusterUnreachable, JobNotFound, PaiApiError, RateLimited

if TYPE_CHECKING:
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.polling import Polling
    from luigi_pai.api.status import JobStatus

__all__ = ["Deadline", "Outcome", "Update", "Watcher"]

_QUEUED = (JobState.WAITING, JobState.RETRY_PENDING)
_JITTER, _LOST_AFTER, _LONGEST_STEP = 0.1, 60.0, 0.5
_FEW = 2  # jobs that are looked up alone when they are due together
_ABSENT, _LONGEST_ABSENT = 30.0, 600.0  # for which a job that lists lack is looked up alone
_PATIENCE = 30  # of its own waits, for which a job waits for a list that others wait for, too
_SLOW, _SOON, _ALONE_SHARE, _ALONE_EVERY = 0.5, 5.0, 0.1, 0.25  # of jobs that wait for no list, see Watcher
_PACE_SHARE = 0.2  # of the median wait of all jobs, between two lists at least


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
        REFUSED: its lookup failed for good; only of a watcher with ``isolated``.
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
        status: its current status; the last known one if it is lost or refused. By a list, it lacks tasks
            and diagnostics; that of a job that has failed or was stopped never is.
        outcome: the kind of update.
        missed: the deadline for which the job is being, or was, stopped.
        error: why its lookup failed for good.
    """

    name: str
    status: JobStatus
    outcome: Outcome
    missed: Deadline | None = None
    error: PaiApiError | None = None


@dataclass(slots=True)
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
    with_tasks: bool = False
    absent: int = 0  # lists that lacked it, in sequence
    alone_until: float = -math.inf  # until then, no list is made for it


class Watcher:
    """Polls any number of jobs of one cluster. ``step()`` looks up jobs that are due, and does not sleep.

    Up to two jobs are looked up alone when they are due. If a third one is due before the first would be due
    again, one list of the user's jobs updates all of them. Lists are made

    - no earlier than a fifth of the median wait of all jobs (see ``next_wait``) after the last one,
    - for at most half of the server's limit of lists: every 2 s, if that is 60 a minute,
    - for at most a tenth of the time: a list that takes 0.5 s is made every 5 s.

    Jobs wait for the list until then, except for one whose deadline has passed, and for young ones if lists
    are slow: these are looked up alone, four a second, for at most a tenth of the time. So is one that the
    list lacks when it is due, and one that has failed or was stopped at once, for its exit code, diagnostics
    and tasks. If the list fails, all jobs that are due are looked up alone.

    Args:
        cluster: of the jobs.
        polling: schedule and retries; default: those of the cluster.
        isolated: the lookup of one job that fails for good is an update, ``REFUSED``, and the job is no
            longer watched; ``step()`` raises only what concerns all jobs.
    """

    def __init__(self, cluster: Cluster, polling: Polling | None = None, *, isolated: bool = False) -> None:
        self._cluster = cluster
        self._isolated = isolated
        self._clock = cluster.clock
        self._polling = polling or cluster.polling
        self._jobs: dict[str, _Watched] = {}
        self._due: list[tuple[float, int, str]] = []
        self._serial = itertools.count()
        self._paused_until = self._no_list_before = self._not_alone_before = -math.inf
        self._list_took = math.inf
        self._outage = Retry(self._polling.patience, self._clock)

    def __len__(self) -> int:
        return len(self._jobs)

    def __contains__(self, name: object) -> bool:
        return name in self._jobs

    def add(
        self,
        status: JobStatus,
        *,
        new: bool = False,
        queue_timeout: float | None = None,
        run_timeout: float | None = None,
        with_tasks: bool = False,
    ) -> None:
        """Watch a job.

        Args:
            status: its last known status.
            new: it was submitted just now; else its age is taken from its time stamps.
            queue_timeout: seconds in the queue after which it is stopped; None for no limit.
            run_timeout: seconds of running after which it is stopped; None for no limit.
            with_tasks: each status shall have the current states of its tasks, which no list has.
        """
        now = self._clock.monotonic()
        job = _Watched(
            status,
            Retry(self._polling.patience, self._clock, f"job {status.name}"),
            math.inf if queue_timeout is None else queue_timeout,
            math.inf if run_timeout is None else run_timeout,
            queued_since=now if new else now - self._age(status.created_ms),
            with_tasks=with_tasks,
            alone_until=math.inf if with_tasks else -math.inf,
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
        moment = max(self._due[0][0], self._paused_until) if self._due else math.inf
        return max(0.0, moment - self._clock.monotonic())

    def step(self) -> list[Update]:
        """Look up the jobs that are due, as far as half a second allows, and return their updates.

        Raises:
            PaiApiError: transient errors lasted longer than ``polling.patience``, or a request was refused.
        """
        updates: list[Update] = []
        end = self._clock.monotonic() + _LONGEST_STEP
        while self.idle() <= 0 and self._clock.monotonic() < end:
            wait = self._cluster.polling_wait()
            if wait > 0:
                self._pause(wait * random.uniform(1, 1 + _JITTER))  # noqa: S311  as above
                break
            if self._is_list_worth_it() and self._list(updates):
                continue
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
                updates += self._failed(name, job, error)
            else:
                job.retry.succeeded()
                self._outage.succeeded()
                updates += [update] if update is not None else []
        return updates

    def _failed(self, name: str, job: _Watched, error: PaiApiError) -> list[Update]:
        """Schedule a job again whose lookup failed, or give it up."""
        try:
            if not isinstance(error, TRANSIENT):
                raise error
            self._due_at(self._clock.monotonic() + job.retry.wait_after(error), name)
        except PaiApiError as final:
            if not self._isolated:
                raise
            del self._jobs[name]
            return [Update(name, job.status, Outcome.REFUSED, job.missed, final)]
        return []

    def _is_list_worth_it(self) -> bool:
        """Return whether more than a few jobs are due before the next one would be due again."""
        if len(self._jobs) <= _FEW:
            return False
        first = self._jobs[self._due[0][2]]
        now = self._clock.monotonic()
        if now < first.alone_until or (first.missed is None and now >= self._deadline_of(first)):
            return False
        wait = self._next_wait(first)
        return self._is_more_than_few_due(now + max(wait, min(self._no_list_before - now, _PATIENCE * wait)))

    def _is_more_than_few_due(self, before: float) -> bool:
        now = self._clock.monotonic()
        count, entries = 0, [0]
        while entries:  # from the top of the heap, as far as it is due
            entry = entries.pop()
            if entry >= len(self._due) or self._due[entry][0] > before:
                continue
            if self._is_valid(self._due[entry]) and now >= self._jobs[self._due[entry][2]].alone_until:
                count += 1
                if count > _FEW:
                    return True
            entries += (2 * entry + 1, 2 * entry + 2)
        return False

    def _list(self, updates: list[Update]) -> bool:
        """Update all jobs from one list, or let those that are due wait for it; False if lists fail."""
        wait, now = self._cluster.list_wait(), self._clock.monotonic()
        if wait is None or (now >= self._not_alone_before and self._is_impatient(self._due[0][2], wait)):
            return False
        if max(wait, self._no_list_before - now) > 0:
            self._no_list_before = max(now + wait, self._no_list_before)
            self._postpone(self._no_list_before, wait)
            return True
        listed = self._cluster.listed(self._jobs)
        self._list_took = self._clock.monotonic() - now
        if listed is not None:
            self._take(listed, now, updates)
        return listed is not None

    def _take(self, listed: dict[str, JobStatus], now: float, updates: list[Update]) -> None:
        """Update all jobs from a list, and schedule the next one."""
        self._outage.succeeded()
        waits: list[float] = []
        for name, job in [each for each in self._jobs.items() if not each[1].with_tasks]:
            if (row := listed.get(name)) is None:
                job.alone_until = now + min(_ABSENT * 2**job.absent, _LONGEST_ABSENT)
                job.absent += 1
                continue
            job.absent, job.alone_until = 0, -math.inf
            update, alone = None, row.finished and not row.succeeded
            try:
                if not alone:
                    update = self._observe(name, job, listed_status(job.status, row))
            except PaiApiError:  # of its stop, which the lookup repeats
                alone = True
            if alone:
                job.alone_until = math.inf
                self._due_at(now, name)
            waits += [] if row.finished else [self._next_wait(job)]
            updates += [update] if update is not None else []
        self._no_list_before = now + (_PACE_SHARE * statistics.median(waits) if waits else 0.0)

    def _is_impatient(self, name: str, wait: float) -> bool:
        """Return whether a job is looked up alone, rather than to wait that long for a list that is slow."""
        return self._list_took > _SLOW and wait > max(_SOON, self._next_wait(self._jobs[name]))

    def _postpone(self, moment: float, wait: float) -> None:
        """Let the jobs that are due wait for the next list, or for a lookup alone."""
        now = self._clock.monotonic()
        due = []
        while self._due and self._due[0][0] <= now:
            due.append(heapq.heappop(self._due))
        for _, _, name in filter(self._is_valid, due):
            job = self._jobs[name]
            until = min(moment, self._not_alone_before) if self._is_impatient(name, wait) else moment
            until = now if now < job.alone_until else until
            if job.missed is None:
                until = max(now, min(until, self._deadline_of(job)))
            self._due_at(until, name)

    def _look_up(self, name: str, job: _Watched) -> Update | None:
        began = self._clock.monotonic()
        try:
            status = self._cluster.status(name)
        except JobNotFound:
            return self._unknown(name, job)
        finally:
            took = self._clock.monotonic() - began
            self._not_alone_before = began + took + max(_ALONE_EVERY, took / _ALONE_SHARE)
        return self._observe(name, job, status)

    def _observe(self, name: str, job: _Watched, status: JobStatus) -> Update | None:
        """Record a status, stop the job if its deadline has passed, and schedule it again."""
        job.unknown_since = None
        if job.alone_until == math.inf and not job.with_tasks:
            job.alone_until = -math.inf
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
        moment = now + self._next_wait(job)
        if job.missed is None:
            moment = max(now, min(moment, self._deadline_of(job)))
        self._due_at(moment, name)

    def _next_wait(self, job: _Watched) -> float:
        queued = job.running_since is None
        since = job.queued_since if job.running_since is None else job.running_since
        return next_wait(max(0.0, self._clock.monotonic() - since), self._polling, queued=queued)

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
