"""Engine: starts the points of a sweep as places become free, and watches their jobs to the end."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from luigi_pai.api.request_limits import Kind
from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.api.status import JobState
from luigi_pai.api.watching import Outcome, Update, Watcher
from luigi_pai.console import first_line, user_error
from luigi_pai.errors import ClusterUnreachable, PaiError
from luigi_pai.hdfs.errors import HdfsError
from luigi_pai.sweep.jobs import OF_ALL, Ended, JournalClaims, Member, NotConfirmedError, Point
from luigi_pai.sweep.results import Row
from luigi_pai.sweep.sending import Sending
from luigi_pai.sweep.starting import Pack, Started, record, start_pack
from luigi_pai.sweep.stopping import Pruning, stop, stopped_by_message
from luigi_pai.sweep.table import failure
from luigi_pai.sweep.workers import Start, Workers

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.request_limits import Window
    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.jobs import Ending, SweepJob
    from luigi_pai.sweep.journal import Journal
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.source import Source
    from luigi_pai.sweep.table import Table

logger = logging.getLogger("luigi-interface")

_AT_ONCE = 8  # points or packs that are started at the same time
_SLICE = 0.5  # maximum seconds to start jobs; after them, the jobs that run are looked up again
_OUTAGES = (ClusterUnreachable, HdfsError)
_AGAIN_AFTER = 1.0  # seconds until points that another process has claimed are looked up again
_GATHERED = 2.0  # seconds to find all points that are claimed for one array


class Engine:
    """Runs the points of a sweep. ``step()`` does the work that is due; it waits at most 0.5 s for starts.

    Up to eight points or packs (see ``Pack``) are started at the same time, in threads. While HDFS or the
    server does not answer, only one point or pack is started at a time, and the pauses between these starts
    grow, so that an outage is logged only once. Submissions stay within the server's limit.

    Args:
        source: of the points.
        limits: of the sweep; they may change at any time.
        clock: for the times of lookups and retries.
        journal: of the sweep.
        table: records every event.
        patience: seconds for which errors of HDFS or the server are retried.
        keep: see ``Pruning``.

    Attributes:
        stopping: no more jobs are started.
        sending: the jobs that may be on the server, but are not watched yet.
        book: the book of the cluster of the point that was started last; None before the first start.
    """

    def __init__(
        self,
        source: Source,
        limits: SweepLimits,
        clock: Clock,
        journal: Journal,
        table: Table,
        patience: float,
        keep: Callable[[Any, list[dict[str, Any]]], bool | None] | None = None,
    ) -> None:
        self.stopping = False
        self.sending = Sending()
        self.book: Book | None = None
        self._source = source
        self._limits = limits
        self._clock = clock
        self._journal = journal
        self._table = table
        self._workers = Workers(clock)
        self._packs: list[Pack] = []  # to start before further points are drawn
        self._watchers: dict[Hashable, Watcher] = {}
        self._jobs: dict[tuple[Hashable, str], SweepJob] = {}
        self._seen: list[tuple[Member, JobStatus]] = []  # running points; their starts are not recorded yet
        self._endings: list[Ending] = []  # to be recorded
        self._pruning = Pruning(keep, journal, clock, table.failed_code)
        self._is_proven = False  # whether the last start ended without a transient error
        self._patience = patience
        self._outage = Retry(patience, clock, table.sweep)  # of starts
        self._recording = Retry(patience, clock, table.sweep)
        self._paused_until = -math.inf

    # for the run

    @property
    def done(self) -> bool:
        """Whether no job runs, and no point is left to start."""
        if self._jobs or self._workers.starts:
            return False
        return self.stopping or not (self._packs or not self._source.exhausted)

    @property
    def is_hopeless(self) -> bool:
        """Whether more points failed than the tolerance allows.

        While a search proposes points, their number is not known, so ``max_points`` is used instead.
        """
        total = self._limits.max_points if self._source.total is None else self._source.total
        return len(self._table.failed) > self._limits.failures(total)

    @property
    def window(self) -> Window | None:
        """The server's limit of submissions; None if it is not known."""
        return None if self.book is None else self.book.api.session.limits.window(Kind.SUBMIT)

    def watched(self) -> list[SweepJob]:
        """Return the jobs that wait or run."""
        return [job for job in self._jobs.values() if job.members]

    def close(self) -> None:
        """Let the threads end."""
        self._workers.close()

    def stop(self) -> str:
        """Start no more jobs, ask the server to stop the waiting and running jobs, and return a summary."""
        self.stopping = True
        return stopped_by_message(self.watched(), self.sending.jobs())

    def idle(self) -> float:
        """Return the seconds until ``step()`` has work to do; infinity if it has none."""
        now = self._clock.monotonic()
        waits = [watcher.idle() for watcher in self._watchers.values()]
        waits += [self._pruning.idle(), self._workers.idle()]
        waits += [pack.due - now for pack in self._packs if pack.due > now]
        if self._may_begin():
            waits.append(self._held_for())
        return min(waits, default=math.inf)

    def step(self) -> None:
        """Start jobs for the free places, and look up the jobs that are due.

        Raises:
            PaiError: the cluster cannot be reached, or refuses the user; running jobs continue.
            ValueError: the search waits for the end of a point, but no point runs.
        """
        self._begin()
        for key, watcher in self._watchers.items():
            for update in watcher.step():
                self._update(key, update)
        self._record()
        self._pruning.step()

    # starting

    def _may_begin(self) -> bool:
        """Return whether another job may be started now. If True, the source may still have no point."""
        at_once = _AT_ONCE if self._is_proven else 1
        busy = self._busy
        if (
            self.stopping
            or self.is_hopeless
            or busy >= at_once
            or len(self._jobs) + busy >= self._limits.places
        ):
            return False
        return self._due_pack() is not None or not (self._source.exhausted or self._source.waits)

    @property
    def _busy(self) -> int:
        """Number of points or packs that are being started."""
        return sum(bool(start.members) for start in self._workers.starts)

    def _due_pack(self) -> Pack | None:
        """Return a pack to start, or None. An incomplete pack is due only if no more points can join it."""
        now = self._clock.monotonic()
        due = next((pack for pack in self._packs if pack.due <= now), None)
        if due is None and not self._busy and (self._source.exhausted or self._source.waits):
            is_last = all(pack.due == math.inf for pack in self._packs)
            due = self._packs[0] if self._packs and is_last else None
        return due

    def _held_for(self) -> float:
        """Return the seconds until the next start, which the server's limit or an outage may delay."""
        window = self.window
        held = window.ends_in if window is not None and window.left <= self._busy else 0.0
        return max(held, self._paused_until - self._clock.monotonic())

    def _begin(self) -> None:
        end = self._clock.monotonic() + _SLICE
        while True:
            for start in self._workers.taken():
                self._taken(start)
            while self._may_begin() and self._held_for() <= 0 and self._clock.monotonic() < end:
                self._start_next()
            if not self._workers.wait() or self._clock.monotonic() >= end:
                break
        if self._source.waits and not (self._jobs or self._workers.starts or self._packs):
            raise ValueError("points() has yielded None, to wait for the end of a point, but none runs")

    def _start_next(self) -> None:
        """Start looking up, or submitting, the next points."""
        pack = self._due_pack() or Pack(self._next_members())
        self._packs = [each for each in self._packs if each is not pack]
        if not pack.members:
            return
        self.book = pack.members[0].run.book
        self._workers.add(lambda: start_pack(pack, self._limits, self.sending), pack.members)

    def _next_members(self) -> list[Member]:
        """Draw points for a job."""
        began, points, members = self._clock.monotonic(), list[Point](), []
        try:
            while len(points) < self._limits.points_per_job and (drawn := self._source.draw()) is not None:
                if isinstance(drawn, Ended):
                    self._end(drawn)
                else:
                    points.append(drawn)
        except (*TRANSIENT, HdfsError) as error:
            if self.book is None or not self._retries(error, points, began):
                raise
            return []
        for point in points:
            try:
                members.append(Member(point, JournalClaims(self._journal, point.name)))
            except OF_ALL:
                raise
            except Exception as error:  # noqa: BLE001  an error of this point's job, or of the user's code
                self._fail(point, error)
        return members

    def _taken(self, start: Start) -> None:
        """Handle the result of a call."""
        members = start.members
        try:
            result = start.future.result()
        except Exception as error:
            if not members:  # record() handles the errors that it expects; any other error ends the sweep
                raise
            points = [member.point for member in members]
            if isinstance(error, _OUTAGES) and self._retries(error, points, start.began):
                return
            if isinstance(error, OF_ALL):
                raise
            for point in points:  # the error concerns only these points
                self._fail(point, error)
        else:
            if members:
                self._started(result)
            for ending in result.recorded:
                ending.job.unrecorded -= 1
                self._end(ending.ended())
                self._free(ending.job)

    def _retries(self, error: PaiError, points: Sequence[Point], began: float) -> bool:
        """Put points back and pause starts after a transient error. Return False if there is no retry."""
        assert self.book is not None
        is_away = error.transient if isinstance(error, HdfsError) else self.book.api.session.answered
        if not is_away or self._clock.monotonic() - began >= self._patience:
            return False
        if self._is_proven or began >= self._paused_until:  # otherwise starts are paused already
            try:
                self._paused_until = self._clock.monotonic() + self._outage.wait_after(error)
            except PaiError:
                return False
        self._is_proven = False
        for point in points:
            self._source.put_back(point)
        return True

    def _fail(self, point: Point, error: Exception) -> None:
        """End a point that cannot be started; a point that only the journal names is dropped."""
        logger.debug("A point cannot be begun", exc_info=error)
        text = first_line(error) if isinstance(error, PaiError) else user_error(error)
        if isinstance(error, NotConfirmedError) or not point.proposed:
            self._source.drop(point, text)
        else:
            self._end(Ended(point, Row("FAILED", error=text)))

    def _started(self, started: Started) -> None:
        now, self._is_proven = self._clock.monotonic(), True
        self._outage.succeeded()
        for member, error in started.failed:
            self._fail(member.point, error)
        for job in started.jobs:
            self._add(job)
            self.sending.watched(job.name)
        for ended in started.ended:
            self._end(ended)
        if started.again:
            self._packs.append(Pack(started.again, due=now + _AGAIN_AFTER))
        for name, members in started.claimed.items():
            pack = next((each for each in self._packs if each.name == name), Pack([], name))
            pack.members += members
            pack.due = now + _GATHERED
            self._packs = [*(each for each in self._packs if each is not pack), pack]
        for member in started.to_submit:
            self._to_pack(member)

    def _to_pack(self, member: Member) -> None:
        """Add a point to the pack that waits for further points. When the pack is full, it is due now."""
        pack = next((each for each in self._packs if each.due == math.inf), None)
        if pack is None:
            pack = Pack([], "", math.inf)
            self._packs.append(pack)
        pack.members.append(member)
        if len(pack.members) >= self._limits.points_per_job:
            pack.due = -math.inf

    def _add(self, job: SweepJob) -> None:
        """Watch a job, or record its end if it has ended."""
        if not job.status.finished or job.posted:
            job.announce()
        if job.status.finished:
            self._jobs.setdefault((job.key, job.name), job)
            self._end_all(job, Update(job.name, job.status, Outcome.ENDED))
            return
        known = self._jobs.get((job.key, job.name))
        if known is not None and not known.is_over:  # other points of this job were found before
            known.members += job.members
        else:
            self._jobs[job.key, job.name] = job
            watcher = self._watchers.setdefault(job.key, Watcher(job.book, isolated=True))
            watcher.add(
                job.status,
                new=job.posted,
                with_tasks=job.shared,
                queue_timeout=job.options["queue_timeout"],
                run_timeout=job.options["run_timeout"],
            )
        self._changed(job, job.status)
        if self.stopping:  # stop() was called while the job was being submitted
            stop(job)

    # watching

    def _update(self, key: Hashable, update: Update) -> None:
        job = self._jobs[key, update.name]
        if update.outcome is Outcome.CHANGED:
            self._end_all(job, update)
            job.status = update.status
            self._changed(job, update.status)
            return
        self._pruning.forget(job)
        if update.error is None:
            self._end_all(job, update)
        elif isinstance(update.error, OF_ALL):
            raise update.error
        else:  # its lookup is refused; the end of the job is not known
            del self._jobs[key, update.name]
            for member in job.members:
                self._fail(member.point, update.error)

    def _changed(self, job: SweepJob, status: JobStatus) -> None:
        for member, own in job.statuses(status):
            if own.state is JobState.RUNNING and member.started_ms is None:
                member.started_ms = own.launched_ms or int(self._clock.time() * 1000)
                self._seen += [(member, own)] if own.launched_ms is None else []
            self._table.changed(member.point, own)
        self._pruning.watch(job, status)

    def _end_all(self, job: SweepJob, update: Update) -> None:
        kept = [member for member in job.members if not member.point.is_final(member.number, self._limits)]
        self._endings += job.endings(update, kept)
        self._free(job)

    def _record(self) -> None:
        """Record start times and ends of points on HDFS, in one thread.

        Only then does the journal get the ends, because no later run looks up a point whose end is there.
        """
        if (self._seen or self._endings) and all(start.members for start in self._workers.starts):
            seen, endings = self._seen, self._endings
            self._seen, self._endings = [], []
            self._workers.add(lambda: record(seen, endings, self._recording), [])

    def _free(self, job: SweepJob) -> None:
        if job.is_over and not job.unrecorded and self._jobs.get((job.key, job.name)) is job:
            del self._jobs[job.key, job.name]

    def _end(self, ended: Ended) -> None:
        point = ended.point
        if ended.may_retry and not point.is_final(ended.number, self._limits) and not self.stopping:
            point.handled, most = max(point.handled, ended.number), self._limits.attempts(point)
            attempt = f"attempt {min(len(point.record.made) + 1, most)} of {most}"
            logger.info("%s: %s; it is submitted again, %s", self._table.sweep, failure(ended), attempt)
            self._table.progress.left(point.name)
            self._source.put_back(point)
            return
        self._source.tell(point, self._table.ended(ended))
