"""Watcher: polls any number of jobs on a schedule, stops them at their deadlines, and detects lost jobs."""

from __future__ import annotations

import contextlib
import itertools
import math
import random
from typing import TYPE_CHECKING

from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.api.status import JobState, listed_status
from luigi_pai.api.watched import Outcome, Timer, Update, WatchedJob
from luigi_pai.errors import ClusterUnreachable, JobNotFound, PaiApiError, RateLimited, TokenLost

if TYPE_CHECKING:
    from luigi_pai.api.book.book import Book
    from luigi_pai.api.status import JobStatus

_LOST_AFTER = 60.0  # seconds
_LONGEST_STEP = 0.5
_JITTER = 0.1
_FEW = 2  # up to this number, jobs are looked up one by one
_SINGLE_EVERY = 0.25  # seconds between two lookups of jobs that do not wait for a list
_TASKS_EVERY = 30.0  # seconds between two lookups of a job for its tasks, while lists show its state


class Watcher:
    """Polls any number of jobs on one cluster. ``step()`` looks up jobs that are due, and does not sleep.

    A step counts the jobs that become due before the first due job is due again. If there are at most two,
    due jobs are looked up one at a time. If there are more, one list of the user's jobs updates all jobs. A
    due job waits for the list if ``Lists`` allows a list within 5 s, or within the time between two lookups
    of the job, whichever is longer. Otherwise, the job is looked up by name; at most four such lookups are
    made per second. If a list does not contain a job, the job is looked up by name for 30 s. Each additional
    list without it doubles this time, up to 10 minutes. A job listed as failed or stopped is looked up
    immediately, for its exit code, diagnostics and tasks. If more than two forks wait for queued jobs, a
    shared list shows them which of these jobs are still queued.

    If a lookup fails, only that job's lookup is retried. If the server is at fault, all jobs pause until a
    retry succeeds. The server is considered at fault if there was no response, if a rate limit is reached, if
    a new token is rejected, or if the last list and the lookups of two jobs have failed since the last
    success.

    Args:
        book: The jobs' book.
        isolated: Whether a permanently failed lookup yields a ``REFUSED`` update and stops watching the job.
            If so, ``step()`` raises only errors that concern all jobs.
    """

    def __init__(self, book: Book, *, isolated: bool = False) -> None:
        self._api = book.api
        self._book = book
        self._isolated = isolated
        self._clock = book.api.clock
        self._polling = book.api.polling
        self._jobs: dict[str, WatchedJob] = {}
        self._turns = itertools.count()
        self._paused_until = self._no_single_before = -math.inf
        self._outage = Retry(self._polling.patience, self._clock)
        self._list_failed = False
        self._failed: set[str] = set()  # jobs whose lookups have failed since the last successful one

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
            status: Its last known status.
            new: Whether it was just submitted. If not, its age is computed from its time stamps.
            queue_timeout: How many seconds it may spend in the queue before it is stopped; None: no limit.
            run_timeout: How many seconds it may run before it is stopped; None: no limit.
            with_tasks: Whether each status must include the tasks' states, which lists do not contain. If so,
                the job is looked up when its state in a list differs from its last state, and every 30 s.
        """
        timeouts = {"queue_timeout": queue_timeout, "run_timeout": run_timeout}
        timer = Timer.start(status, self._clock, new=new, **timeouts)
        if timer.is_start_open:  # 0.7 to 0.14 never send it
            timer.is_start_open = self._api.dialect.version == "v2"
        job = self._jobs[status.name] = WatchedJob(status.name, status, timer, with_tasks)
        self._set_next(job)

    def remove(self, name: str) -> None:
        """Stop watching a job; the job itself continues."""
        self._jobs.pop(name, None)

    def idle(self) -> float:
        """Return the seconds until the next ``step()`` is needed; infinity if no job is watched."""
        first = self._first()
        if first is None:
            return math.inf
        return max(0.0, max(first.due, self._paused_until) - self._clock.monotonic())

    def step(self) -> list[Update]:
        """Look up the jobs that are due, for at most half a second; return their updates.

        Raises:
            PaiApiError: Transient errors lasted longer than ``polling.patience``, or a request was rejected.
        """
        updates: list[Update] = []
        end = self._clock.monotonic() + _LONGEST_STEP
        while (job := self._first()) is not None:
            if not max(job.due, self._paused_until) <= self._clock.monotonic() < end:
                break
            wait = self._api.session.limits.polling_wait()
            if wait > 0:
                wait *= random.uniform(1, 1 + _JITTER)  # noqa: S311  spreads load
                self._paused_until = self._clock.monotonic() + wait
                break
            if self._use_list(job, updates) if len(self._jobs) > _FEW else self._still_waits(job):
                continue
            job.due = math.inf
            try:
                update = self._look_up(job)
            except PaiApiError as error:
                if updates:  # return these first; the next step repeats the request
                    self._set_due(job, self._clock.monotonic())
                    break
                update = self._take_failure(job, error)
            else:
                self._succeeded(job)
            updates += [update] if update is not None else []
        return updates

    # failures

    def _succeeded(self, job: WatchedJob | None = None) -> None:
        """Record that a request for one job, or for the list of jobs, succeeded."""
        self._list_failed = self._list_failed and job is not None
        if self._failed:
            self._failed.clear()
            self._outage.succeeded()
        if job is not None and job.retry is not None:
            job.retry.succeeded()
            job.retry = None

    def _take_failure(self, job: WatchedJob, error: PaiApiError) -> Update | None:
        """Schedule a retry after a failed lookup. If the server is at fault, also pause all jobs.

        If the error is final, raise it; an isolated watcher returns an update with the error instead.
        """
        now = self._clock.monotonic()
        self._failed.add(job.name)
        is_servers = isinstance(error, TRANSIENT) and self._list_failed and len(self._failed) >= _FEW
        if is_servers or isinstance(error, (ClusterUnreachable, RateLimited, TokenLost)):
            self._set_due(job, now)
            self._paused_until = now + self._outage.wait_after(error)
            return None
        try:
            if not isinstance(error, TRANSIENT):
                raise error
            self._set_due(job, now + job.wait_after(error, self._polling, self._clock))
        except PaiApiError as final:
            if not self._isolated:
                raise
            return self._ended(job, job.status, Outcome.REFUSED, final)
        return None

    # lists

    def _use_list(self, first: WatchedJob, updates: list[Update]) -> bool:
        """Update all jobs from a list, or postpone due jobs to the next one; return whether it did either."""
        wait, now = self._book.list_wait(), self._clock.monotonic()
        if wait is None or not self._is_list_worth_it(first, wait):
            return False
        if wait > 0:
            if now >= self._no_single_before and wait > first.list_patience(now, self._polling):
                return False
            self._postpone(now + wait)
            return True
        try:
            listed = self._book.statuses(self._jobs)
        except PaiApiError:
            self._list_failed = True
            return False
        self._succeeded()
        waits = []
        for job in list(self._jobs.values()):
            row = listed.get(job.name)
            if row is None:
                job.record_absence(now)
                continue
            update = self._take_row(job, row, now)
            updates += [update] if update is not None else []
            waits += [] if row.finished else [job.next_wait(self._clock.monotonic(), self._polling)]
        self._book.space_lists(waits)
        return True

    def _is_list_worth_it(self, first: WatchedJob, wait: float) -> bool:
        """Return whether at least three jobs become due before the first of them is due again.

        If the first job has to wait longer for a list, all jobs that become due during its wait also count.
        """
        now = self._clock.monotonic()
        if now < first.single_until or now >= first.timer.end:
            return False
        again = max(first.next_wait(now, self._polling), min(wait, first.list_patience(now, self._polling)))
        until = now + again * (1 + _JITTER)
        return sum(job.due <= until and now >= job.single_until for job in self._jobs.values()) > _FEW

    def _take_row(self, job: WatchedJob, row: JobStatus, now: float) -> Update | None:
        """Record a job's row in a list, or have the job looked up."""
        job.record_presence()
        if not self._needs_lookup(job, row, now):
            if job.with_tasks:  # lists do not contain tasks
                self._set_next(job)
                return None
            with contextlib.suppress(PaiApiError):  # stopping a late job failed; its lookup tries again
                return self._observe(job, listed_status(job.status, row))
        job.single_until = math.inf
        self._set_due(job, now)
        return None

    def _needs_lookup(self, job: WatchedJob, row: JobStatus, now: float) -> bool:
        """Return whether a job's row in a list does not contain enough information."""
        if job.with_tasks:
            is_new = row.finished or row.state is not job.status.state
            return is_new or now - job.looked_up >= _TASKS_EVERY
        is_first = job.timer.is_start_open and job.looked_up == -math.inf
        return is_first or (row.finished and not row.succeeded)

    def _postpone(self, moment: float) -> None:
        """Schedule due jobs for the next list. Jobs that cannot wait so long are looked up earlier."""
        now = self._clock.monotonic()
        for job in sorted((job for job in self._jobs.values() if job.due <= now), key=_by_moment):
            until = moment
            if now < job.single_until:
                until = now
            elif moment - now > job.list_patience(now, self._polling):
                until = min(moment, self._no_single_before)
            self._set_due(job, max(now, min(until, job.timer.end)))

    def _still_waits(self, job: WatchedJob) -> bool:
        """Return whether the forks' shared list shows a due job as waiting; False if only two forks wait.

        Each of Luigi's forks watches one job; without the list, 50 queued jobs take 300 lookups a minute.
        """
        now = self._clock.monotonic()
        if job.status.state is not JobState.WAITING or now < job.single_until or now >= job.timer.end:
            return False
        if self._book.explanations.count_waiting() <= _FEW:
            return False
        row = self._book.shared_status(job.name, job.next_wait(now, self._polling))
        if row is None:
            job.record_absence(now)
            return False
        job.record_presence()
        if row.state is not JobState.WAITING:
            return False
        self._succeeded(job)
        self._set_next(job)
        return True

    # single jobs

    def _look_up(self, job: WatchedJob) -> Update | None:
        job.looked_up = self._clock.monotonic()
        self._no_single_before = job.looked_up + _SINGLE_EVERY
        try:
            status = self._book.status(job.name)
        except JobNotFound as error:
            return self._unknown(job, for_good=error.mocked)
        return self._observe(job, status)

    def _observe(self, job: WatchedJob, status: JobStatus) -> Update | None:
        """Record a status, stop the job if its deadline has passed, and schedule it again."""
        job.unknown_since = None
        if job.single_until == math.inf and job.timer.missed is None:
            job.single_until = -math.inf
        if status.finished:
            return self._ended(job, status, Outcome.ENDED)
        job.timer.observe(status, self._clock)
        if self._clock.monotonic() >= job.timer.end:
            self._stop(job)
        self._set_next(job)
        if status == job.status:
            return None
        job.status = status
        return Update(job.name, status, Outcome.CHANGED, job.timer.missed)

    def _unknown(self, job: WatchedJob, *, for_good: bool) -> Update | None:
        """Record that the server does not know a job: lost after a minute, or immediately in mocked tests."""
        now = self._clock.monotonic()
        job.unknown_since = now if job.unknown_since is None else job.unknown_since
        if for_good or now - job.unknown_since >= _LOST_AFTER:
            return self._ended(job, job.status, Outcome.LOST)
        self._set_next(job)
        return None

    def _ended(
        self, job: WatchedJob, status: JobStatus, outcome: Outcome, error: PaiApiError | None = None
    ) -> Update:
        """Stop watching a job that has ended."""
        self.remove(job.name)
        return Update(job.name, status, outcome, job.timer.missed, error)

    def _stop(self, job: WatchedJob) -> None:
        """Stop a job whose deadline has passed. After an error, the next step tries again."""
        with contextlib.suppress(JobNotFound):  # the next lookup handles a missing job
            self._api.stop(job.name)
        job.timer.missed = job.timer.counting
        job.single_until = math.inf

    # the schedule

    def _first(self) -> WatchedJob | None:
        """Return the job that is due first; None if no job is watched."""
        return min(self._jobs.values(), key=_by_moment, default=None)

    def _set_due(self, job: WatchedJob, moment: float) -> None:
        job.due, job.turn = moment, next(self._turns)

    def _set_next(self, job: WatchedJob) -> None:
        """Schedule the next lookup of a job."""
        now = self._clock.monotonic()
        moment = now + job.next_wait(now, self._polling)
        self._set_due(job, max(now, min(moment, job.timer.end)))


def _by_moment(job: WatchedJob) -> tuple[float, int]:
    return job.due, job.turn
