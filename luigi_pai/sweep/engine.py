"""Engine: starts the points of a sweep as places become free, and watches their jobs to the end."""

from __future__ import annotations

import logging
from concurrent.futures import FIRST_COMPLETED, wait
from typing import TYPE_CHECKING, Any

from luigi_pai.api.request_limits import Kind
from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.api.status import JobState
from luigi_pai.api.watched import Outcome, Update
from luigi_pai.api.watching import Watcher
from luigi_pai.console import first_line, user_error
from luigi_pai.errors import PaiError
from luigi_pai.files.errors import HdfsError
from luigi_pai.sweep.ending import Recorder, announce, endings
from luigi_pai.sweep.packs import Outages, Pack, Packs, Start
from luigi_pai.sweep.point import Ended, Point, PointMember, point_members
from luigi_pai.sweep.rows import Row
from luigi_pai.sweep.starting import NotConfirmedError, Starter, Tags
from luigi_pai.sweep.stopping import Pruning, stopped_by_message
from luigi_pai.sweep.table import failure
from luigi_pai.work.decide import Submit
from luigi_pai.work.stopping import OF_ALL, stop
from luigi_pai.work.submission import InFlight, Submission

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from concurrent.futures import Future

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.request_limits import Window
    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.journal.journal import Journal
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.source import Source
    from luigi_pai.sweep.starting import Result
    from luigi_pai.sweep.table import Table

logger = logging.getLogger("luigi-interface")

_SLICE = 0.5  # maximum seconds to draw points; after them, the jobs that run are looked up again
_LONGEST_WAIT = 0.05  # seconds to wait for the end of a thread, before other work


class Engine:
    """Runs the points of a sweep. ``step()`` does the work that is due; it waits at most 0.05 s for threads.

    Up to eight points or packs (see ``Pack`` and ``Outages``) are started at the same time, in threads.
    Submissions stay within the server's limit.

    Args:
        source: of the points.
        limits: of the sweep; they may change at any time.
        clock: for the times of lookups and retries.
        journal: of the sweep.
        table: records every event.
        patience: seconds for which errors of files or the server are retried.
        keep: see ``Pruning``.

    Attributes:
        stopping: no more jobs are started.
        in_flight: the jobs that may wait or run on the server, from before their first post.
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
        self.in_flight = InFlight()
        self.book: Book | None = None
        self._source = source
        self._limits = limits
        self._clock = clock
        self._table = table
        self._starter = Starter(journal, limits, self.in_flight)
        self._starts: list[Start] = []
        self._packs = Packs(limits, clock)
        self._watchers: dict[Hashable, Watcher] = {}
        self._jobs: dict[tuple[Hashable, str], Submission] = {}
        self._tags = Tags()
        self._recorder = Recorder(Retry(patience, clock, table.sweep))
        self._pruning = Pruning(keep, journal, clock, table.failed_code)
        self._outages = Outages(patience, clock, table.sweep)

    # for the run

    @property
    def done(self) -> bool:
        """Whether no job runs, and no point is left to start."""
        if self._jobs or self._running:
            return False
        return self.stopping or not (self._packs or not self._source.exhausted)

    @property
    def is_hopeless(self) -> bool:
        """Whether more points failed than the tolerance allows."""
        return self._limits.are_exceeded(len(self._table.failed), self._source.total)

    @property
    def window(self) -> Window | None:
        """The server's limit of submissions; None if it is not known."""
        return None if self.book is None else self.book.api.session.limits.window(Kind.SUBMIT)

    def watched(self) -> list[Submission]:
        """Return the jobs that wait or run."""
        return [job for job in self._jobs.values() if job.members]

    def stop(self) -> str:
        """Start no more jobs, ask the server to stop the waiting and running jobs, and return a summary."""
        self.stopping = True
        return stopped_by_message(self.watched(), self.in_flight.jobs())

    def idle(self) -> float:
        """Return the seconds until ``step()`` has work to do; infinity if it has none."""
        if self._running:
            return 0.0
        waits = [self._idle_of_jobs(), self._packs.idle()]
        if self._may_begin():
            waits.append(self._held_for())
        return min(waits)

    @property
    def _running(self) -> list[Future[Any]]:
        """The threads that start points, record ends and add tags."""
        return [*(start.future for start in self._starts), *self._recorder.running, *self._tags.running]

    def _idle_of_jobs(self) -> float:
        return min([*(watcher.idle() for watcher in self._watchers.values()), self._pruning.idle()])

    def step(self) -> None:
        """Start jobs for the free places, and look up the jobs that are due.

        Raises:
            PaiError: the cluster cannot be reached, or refuses the user; running jobs continue.
            ValueError: the search waits for the end of a point, but no point runs.
        """
        for key, watcher in self._watchers.items():
            for update in watcher.step():
                self._update(key, update)
        self._record()
        self._begin()
        self._tags.step()
        self._pruning.step()
        if running := self._running:
            wait(running, min(_LONGEST_WAIT, max(0.0, self._idle_of_jobs())), FIRST_COMPLETED)

    # starting

    def _may_begin(self) -> bool:
        """Return whether another job may be started now. If True, the source may still have no point."""
        busy = len(self._starts)
        is_full = busy >= self._outages.at_once or len(self._jobs) + busy >= self._limits.places
        if self.stopping or self.is_hopeless or is_full:
            return False
        return self._due_pack() is not None or not (self._source.exhausted or self._source.waits)

    def _due_pack(self) -> Pack | None:
        is_drawn = self._source.exhausted or self._source.waits
        return self._packs.next_due(is_last=is_drawn and not self._starts)

    def _held_for(self) -> float:
        """Return the seconds until the next start, which the server's limit or an outage may delay."""
        window = self.window
        held = window.ends_in if window is not None and window.left <= len(self._starts) else 0.0
        return max(held, self._outages.wait())

    def _begin(self) -> None:
        """Take the results of starts that have ended, and start further points."""
        for start in [start for start in self._starts if start.future.done()]:
            self._starts.remove(start)
            self._take(start)
        end = self._clock.monotonic() + _SLICE
        while self._may_begin() and self._held_for() <= 0 and self._clock.monotonic() < end:
            self._start_next()
        if self._source.waits and not (self._jobs or self._starts or self._packs or self._recorder.running):
            raise ValueError("points() has yielded None, to wait for the end of a point, but none runs")

    def _start_next(self) -> None:
        """Start looking up, or submitting, the next points."""
        pack = self._due_pack() or Pack(self._next_members())
        self._packs.take(pack)
        if not pack.members:
            return
        self.book = pack.members[0].work.book
        self._starts.append(Start.of(pack, self._clock, self._starter.start))

    def _next_members(self) -> list[PointMember]:
        """Draw points for a job."""
        began, points, members = self._clock.monotonic(), list[Point](), []
        try:
            for drawn in self._source.drawn(points, self._limits.points_per_job):
                self._end(drawn)
        except (*TRANSIENT, HdfsError) as error:
            if not self._retries(error, points, began):
                raise
            return []
        for point in points:
            try:
                members.append(PointMember.of(point))
            except OF_ALL:
                raise
            except Exception as error:  # noqa: BLE001  an error of this point's job, or of the user's code
                self._fail(point, error)
        return members

    def _take(self, start: Start) -> None:
        """Handle the results of a start."""
        points = [member.point for member in start.pack.members]
        try:
            results = start.future.result()
        except Exception as error:
            if self._retries(error, points, start.began):
                return
            if isinstance(error, OF_ALL):
                raise
            for point in points:  # the error concerns only these points
                self._fail(point, error)
        else:
            self._outages.end()
            self._distribute(results)

    def _distribute(self, results: Sequence[tuple[PointMember, Result]]) -> None:
        """Go on with each point as its result says."""
        self._packs.look_up_again(member for member, result in results if result is None)
        added = set[Submission]()
        for member, result in results:
            if isinstance(result, Submission):
                if result not in added:
                    added.add(result)
                    self._add(result)
            elif isinstance(result, Submit):
                self._packs.add(member, result.array)
            elif isinstance(result, Row):
                self._end(Ended(member.point, result))
            elif result is not None:
                self._fail(member.point, result)

    def _retries(self, error: Exception, points: Sequence[Point], began: float) -> bool:
        """Put points back after a transient error. Return False if there is no retry."""
        if not self._outages.retries(error, self.book, began):
            return False
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

    def _add(self, job: Submission) -> None:
        """Watch a job, or record its end if it has ended."""
        key = job.key
        if not job.status.finished or job.posted:
            announce(job)
        if job.posted:
            self._tags.add(job)
        if job.status.finished:
            self._jobs.setdefault((key, job.name), job)
            self._end_all(job, Update(job.name, job.status, Outcome.ENDED))
            return
        known = self._jobs.get((key, job.name))
        if known is not None and not known.is_over:  # other points of this job were found before
            known.members += job.members
        else:
            self._jobs[key, job.name] = job
            self.in_flight.add(job)
            watcher = self._watchers.setdefault(key, Watcher(job.book, isolated=True))
            options = job.members[0].work.options
            watcher.add(
                job.status,
                new=job.posted,
                with_tasks=job.is_array,
                queue_timeout=options["queue_timeout"],
                run_timeout=options["run_timeout"],
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
        self.in_flight.remove(job)
        if update.error is None:
            self._end_all(job, update)
        elif isinstance(update.error, OF_ALL):
            raise update.error
        else:  # its lookup is refused; the end of the job is not known
            del self._jobs[key, update.name]
            for member in point_members(job):
                self._fail(member.point, update.error)

    def _changed(self, job: Submission, status: JobStatus) -> None:
        for member, own in job.statuses(status):
            assert isinstance(member, PointMember)
            if own.state is JobState.RUNNING and member.started_ms is None:
                member.started_ms = own.launched_ms or int(self._clock.time() * 1000)
                self._recorder.seen += [(member, own)] if own.launched_ms is None else []
            self._table.changed(member.point, own)
        self._pruning.watch(job, status)

    def _end_all(self, job: Submission, update: Update) -> None:
        kept = [each for each in point_members(job) if not each.point.is_final(each.number, self._limits)]
        self._recorder.add(endings(job, update, kept))
        self._free(job)

    def _record(self) -> None:
        """Go on with the points whose ends are recorded: only then does the journal get the ends."""
        for ending in self._recorder.step():
            self._end(ending.ended())
            self._free(ending.job)

    def _free(self, job: Submission) -> None:
        key, is_recorded = (job.key, job.name), not self._recorder.has(job)
        if job.is_over and is_recorded and self._jobs.get(key) is job:
            del self._jobs[key]

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
