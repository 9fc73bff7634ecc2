"""Watcher: polls any number of jobs on a schedule, stops them at their deadlines, detects lost jobs."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import math
import random
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from luigi_pai.api.deadlines import Deadline, Timer
from luigi_pai.api.polling import next_wait
from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.api.status import JobState, listed_status
from luigi_pai.errors import ClusterUnreachable, JobNotFound, PaiApiError, RateLimited, TokenLost

if TYPE_CHECKING:
    from luigi_pai.api.book.book import Book
    from luigi_pai.api.polling import Polling
    from luigi_pai.api.status import JobStatus

_LOST_AFTER = 60.0  # seconds
_LONGEST_STEP = 0.5
_JITTER = 0.1
_FEW = 2  # up to this number, jobs are looked up one by one
_PATIENCE = 5.0  # seconds that a due job waits for a list; longer if the time between its lookups is longer
_SINGLE_EVERY = 0.25  # seconds between two lookups of jobs that do not wait for a list
_ABSENT, _LONGEST_ABSENT = 30.0, 600.0  # seconds of single lookups after a list lacked a job: first, longest
_TASKS_EVERY = 30.0  # seconds between two lookups of a job for its tasks, while lists show its state


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
class _Watched:
    """The state of a watched job. Times are seconds of the monotonic clock."""

    name: str
    status: JobStatus
    timer: Timer
    retry: Retry
    with_tasks: bool
    single_until: float = -math.inf  # until then, it is looked up alone
    looked_up: float = -math.inf
    turn: int = -1  # number of its valid entry in the schedule
    unknown_since: float | None = None
    absent: int = 0  # lists that lacked it, in sequence

    def note_absent(self, now: float) -> None:
        """Record that a list lacked the job, so that it is looked up alone for a while."""
        self.single_until = now + min(_ABSENT * 2**self.absent, _LONGEST_ABSENT)
        self.absent += 1


class Watcher:
    """Polls any number of jobs of one cluster. ``step()`` looks up jobs that are due, and does not sleep.

    A step counts the jobs that become due before the first due job is due again. If there are at most two,
    due jobs are looked up singly. If there are more, one list of the user's jobs updates all jobs. A due job
    waits for the list if ``Lists`` allows a list within 5 s, or within the time between two lookups of the
    job, whichever is longer. If not, the job is looked up singly; at most four such lookups are made a
    second. A job that a list lacks is looked up singly for 30 s. Each further list that lacks it doubles this
    time, up to 10 minutes. A job listed as failed or stopped is looked up at once, for its exit code,
    diagnostics and tasks. If more than two forks wait for queued jobs, a shared list tells them which of
    these jobs still wait.

    If a lookup fails, only its job is retried. If the server is the cause, all jobs pause until a retry
    succeeds. The server counts as the cause if there was no reply, if a request limit is reached, if a new
    token is refused, or if the last list and the lookups of two jobs have failed since the last success.

    Args:
        book: of the jobs.
        polling: schedule and retries; default: the settings of the cluster.
        isolated: whether a lookup that fails for good yields the update ``REFUSED`` and ends the watching
            of its job. If so, ``step()`` raises only errors that concern all jobs.
    """

    def __init__(self, book: Book, polling: Polling | None = None, *, isolated: bool = False) -> None:
        self._api = book.api
        self._book = book
        self._isolated = isolated
        self._clock = book.api.clock
        self._polling = polling or book.api.polling
        self._jobs: dict[str, _Watched] = {}
        self._due: list[tuple[float, int, _Watched]] = []  # a heap; turns differ, so jobs are not compared
        self._serial = itertools.count()
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
            status: its last known status.
            new: whether it was submitted just now; if not, its age is computed from its time stamps.
            queue_timeout: seconds in the queue after which it is stopped; None for no limit.
            run_timeout: seconds of running after which it is stopped; None for no limit.
            with_tasks: whether each status must have the states of the tasks, which no list has. If so, the
                job is looked up when its state in a list differs from its last state, and every 30 s.
        """
        timeouts = {"queue_timeout": queue_timeout, "run_timeout": run_timeout}
        timer = Timer.start(status, self._clock, new=new, **timeouts)
        if timer.is_start_open:  # 0.7 to 0.14 never tell it
            timer.is_start_open = self._api.dialect.version == "v2"
        retry = Retry(self._polling.patience, self._clock, f"job {status.name}")
        job = self._jobs[status.name] = _Watched(status.name, status, timer, retry, with_tasks)
        self._schedule(job)

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
        """Look up the jobs that are due, for half a second at most, and return their updates.

        Raises:
            PaiApiError: transient errors lasted longer than ``polling.patience``, or a request was refused.
        """
        updates: list[Update] = []
        end = self._clock.monotonic() + _LONGEST_STEP
        while self.idle() <= 0 and self._clock.monotonic() < end:
            wait = self._api.session.limits.polling_wait()
            if wait > 0:
                self._pause(wait * random.uniform(1, 1 + _JITTER))  # noqa: S311  spreads load
                break
            if self._list(updates) if len(self._jobs) > _FEW else self._still_waits():
                continue
            _, _, job = heapq.heappop(self._due)
            try:
                update = self._look_up(job)
            except PaiApiError as error:
                if updates:  # return these first; the next step repeats the request
                    self._due_at(self._clock.monotonic(), job)
                    break
                updates += self._take_failure(job, error)
            else:
                self._succeeded(job)
                updates += [update] if update is not None else []
        return updates

    # failures

    def _succeeded(self, job: _Watched | None = None) -> None:
        self._list_failed = self._list_failed and job is not None
        self._failed.clear()
        self._outage.succeeded()
        if job is not None:
            job.retry.succeeded()

    def _take_failure(self, job: _Watched, error: PaiApiError) -> list[Update]:
        """Schedule the retry of a failed lookup. If the server is the cause, pause all jobs, too.

        If the error is final, raise it; an isolated watcher returns an update with the error instead.
        """
        now = self._clock.monotonic()
        self._failed.add(job.name)
        is_servers = isinstance(error, TRANSIENT) and self._list_failed and len(self._failed) >= _FEW
        if is_servers or isinstance(error, (ClusterUnreachable, RateLimited, TokenLost)):
            self._due_at(now, job)
            self._pause(self._outage.wait_after(error))
            return []
        try:
            if not isinstance(error, TRANSIENT):
                raise error
            self._due_at(now + job.retry.wait_after(error), job)
        except PaiApiError as final:
            if not self._isolated:
                raise
            del self._jobs[job.name]
            return [Update(job.name, job.status, Outcome.REFUSED, job.timer.missed, final)]
        return []

    # lists

    def _is_list_worth_it(self, wait: float) -> bool:
        """Return whether at least three jobs become due before the first of them is due again.

        If the first job has to wait longer for a list, all jobs that become due during its wait count, too.
        """
        first, now = self._due[0][2], self._clock.monotonic()
        if now < first.single_until or now >= first.timer.end:
            return False
        again = max(self._next_wait(first), min(wait, self._patience_of(first)))
        before = now + again * (1 + _JITTER)
        due = (
            entry
            for entry in self._due
            if entry[0] <= before and self._is_valid(entry) and now >= entry[2].single_until
        )
        return len(list(itertools.islice(due, _FEW + 1))) > _FEW

    def _list(self, updates: list[Update]) -> bool:
        """Update all jobs from a list, or postpone due jobs to the next list; False if neither is done."""
        wait, now = self._book.list_wait(), self._clock.monotonic()
        if wait is None or not self._is_list_worth_it(wait):
            return False
        if wait > 0:
            if now >= self._no_single_before and wait > self._patience_of(self._due[0][2]):
                return False
            self._postpone(now + wait)
            return True
        try:
            listed = self._book.statuses(self._jobs)
        except PaiApiError:
            self._list_failed = True
            return False
        self._succeeded()
        self._take(listed, now, updates)
        return True

    def _still_waits(self) -> bool:
        """Return whether the forks' shared list shows the due job as waiting; False if only two forks wait.

        Each fork of Luigi watches one job; without the list, 50 queued jobs take 300 lookups a minute.
        """
        job, now = self._due[0][2], self._clock.monotonic()
        if job.status.state is not JobState.WAITING or now < job.single_until or now >= job.timer.end:
            return False
        if self._book.explanations.note_waiting() <= _FEW:
            return False
        row = self._book.shared_status(job.name, self._next_wait(job))
        if row is None:
            job.note_absent(now)
            return False
        job.absent = 0
        if row.state is not JobState.WAITING:
            return False
        self._succeeded(job)
        self._schedule(job)
        return True

    def _take(self, listed: dict[str, JobStatus], now: float, updates: list[Update]) -> None:
        """Update all jobs from a list, and set the earliest time of the next list."""
        waits: list[float] = []
        for job in list(self._jobs.values()):
            if (row := listed.get(job.name)) is None:
                job.note_absent(now)
                continue
            job.absent, job.single_until = 0, -math.inf
            is_first = job.timer.is_start_open and job.looked_up == -math.inf
            update, single = None, is_first or (row.finished and not row.succeeded)
            if job.with_tasks:
                is_new = row.finished or row.state is not job.status.state
                single = is_new or now - job.looked_up >= _TASKS_EVERY
            try:
                if not single and job.with_tasks:
                    self._schedule(job)
                elif not single:
                    update = self._observe(job, listed_status(job.status, row))
            except PaiApiError:  # the stop of a late job failed; its lookup tries the stop again
                single = True
            if single:
                job.single_until = math.inf
                self._due_at(now, job)
            waits += [] if row.finished else [self._next_wait(job)]
            updates += [update] if update is not None else []
        self._book.space_lists(waits)

    def _patience_of(self, job: _Watched) -> float:
        """Return for how many seconds a job waits for a list."""
        return max(_PATIENCE, self._next_wait(job))

    def _postpone(self, moment: float) -> None:
        """Schedule due jobs for the next list; a job that cannot wait so long is looked up alone, earlier."""
        now = self._clock.monotonic()
        due = []
        while self._due and self._due[0][0] <= now:
            due.append(heapq.heappop(self._due))
        for _, _, job in filter(self._is_valid, due):
            until = moment
            if now < job.single_until:
                until = now
            elif moment - now > self._patience_of(job):
                until = min(moment, self._no_single_before)
            self._due_at(max(now, min(until, job.timer.end)), job)

    # single jobs

    def _look_up(self, job: _Watched) -> Update | None:
        job.looked_up = self._clock.monotonic()
        self._no_single_before = job.looked_up + _SINGLE_EVERY
        try:
            status = self._book.status(job.name)
        except JobNotFound as error:
            return self._unknown(job, for_good=error.mocked)
        return self._observe(job, status)

    def _observe(self, job: _Watched, status: JobStatus) -> Update | None:
        """Record a status, stop the job if its deadline has passed, and schedule it again."""
        job.unknown_since = None
        if job.single_until == math.inf and job.timer.missed is None:
            job.single_until = -math.inf
        if status.finished:
            del self._jobs[job.name]
            return Update(job.name, status, Outcome.ENDED, job.timer.missed)
        job.timer.observe(status, self._clock)
        self._stop_if_late(job)
        changed, job.status = status != job.status, status
        self._schedule(job)
        return Update(job.name, status, Outcome.CHANGED, job.timer.missed) if changed else None

    def _unknown(self, job: _Watched, *, for_good: bool) -> Update | None:
        """Record that the server lacks a job. It is lost after a minute, or at once if a test mocks this."""
        now = self._clock.monotonic()
        job.unknown_since = now if job.unknown_since is None else job.unknown_since
        if not for_good and now - job.unknown_since < _LOST_AFTER:
            self._schedule(job)
            return None
        del self._jobs[job.name]
        return Update(job.name, job.status, Outcome.LOST, job.timer.missed)

    def _stop_if_late(self, job: _Watched) -> None:
        """Stop a job whose deadline has passed; after an error the next step tries again."""
        if self._clock.monotonic() < job.timer.end:
            return
        with contextlib.suppress(JobNotFound):  # the next lookup handles a missing job
            self._api.stop(job.name)
        job.timer.missed = job.timer.counting
        job.single_until = math.inf

    # the schedule

    def _schedule(self, job: _Watched) -> None:
        now = self._clock.monotonic()
        self._due_at(max(now, min(now + self._next_wait(job), job.timer.end)), job)

    def _next_wait(self, job: _Watched) -> float:
        age = max(0.0, self._clock.monotonic() - job.timer.since)
        return next_wait(age, self._polling, queued=job.timer.queued)

    def _due_at(self, moment: float, job: _Watched) -> None:
        job.turn = next(self._serial)
        heapq.heappush(self._due, (moment, job.turn, job))

    def _is_valid(self, due: tuple[float, int, _Watched]) -> bool:
        """Return whether a schedule entry is the latest entry of its job, and the job is still watched."""
        return self._jobs.get(due[2].name) is due[2] and due[2].turn == due[1]

    def _pause(self, seconds: float) -> None:
        self._paused_until = self._clock.monotonic() + seconds
