"""Engine: starts a sweep's points as slots become free, and watches their jobs until they finish."""

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
from luigi_pai.sweep.ending import Pruning, Recorder, announce, endings, stopped_by_message
from luigi_pai.sweep.packs import Outages, Pack, Packs
from luigi_pai.sweep.point import Ended, Point
from luigi_pai.sweep.rows import Row
from luigi_pai.sweep.starting import NotConfirmedError, Starter, Tags
from luigi_pai.sweep.table import failure
from luigi_pai.work.decide import Submit
from luigi_pai.work.stopping import OF_ALL, stop
from luigi_pai.work.submission import InFlight, Submission

if TYPE_CHECKING:
    from collections.abc import Hashable, Sequence
    from concurrent.futures import Future

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.request_limits import Window
    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.ending import Keep
    from luigi_pai.sweep.source import Source
    from luigi_pai.sweep.starting import Result

logger = logging.getLogger("luigi-interface")

_SLICE = 0.5  # how long to draw points, in seconds, before looking up the running jobs again
_LONGEST_WAIT = 0.05  # how long to wait for a thread, in seconds, before doing other work


class Engine:
    """Runs a sweep's points. ``step()`` does the work that is due, and waits at most 0.05 s for threads.

    Up to eight points or packs (see ``Pack`` and ``Outages``) are started at the same time, in threads.
    Submissions stay within the server's limit.

    The limits may change at any time. ``patience`` is how long to retry file and server errors, in seconds.

    Attributes:
        stopping: Whether to start no more jobs.
        in_flight: The jobs that may be waiting or running on the server, added before their first post.
        book: The book for the cluster of the point started last; None before the first start.
    """

    def __init__(self, source: Source, clock: Clock, patience: float, keep: Keep | None = None) -> None:
        self.stopping = False
        self.in_flight = InFlight()
        self.book: Book | None = None
        self._source = source
        self._clock = clock
        self._limits = limits = source.limits
        self._table = table = source.table
        self._starter = Starter(source.journal, limits, self.in_flight)
        self._packs = Packs(limits, clock)
        self._watchers: dict[Hashable, Watcher] = {}
        self._jobs: dict[tuple[Hashable, str], Submission] = {}
        self._tags = Tags()
        self._recorder = Recorder(Retry(patience, clock, table.sweep))
        self._pruning = Pruning(keep, source.journal, clock, table.failed_code)
        self._outages = Outages(patience, clock, table.sweep)

    # for the run

    @property
    def done(self) -> bool:
        """Whether no job is running and no point is left to start."""
        if self._jobs or self._running:
            return False
        return self.stopping or not (self._packs or not self._source.exhausted)

    @property
    def is_hopeless(self) -> bool:
        """Whether more points failed than the tolerance allows (of ``max_points`` if a search continues)."""
        total = self._source.total
        allowed = self._limits.failures(self._limits.max_points if total is None else total)
        return len(self._table.failed) > allowed

    @property
    def window(self) -> Window | None:
        """The server's limit on submissions; None if it is unknown."""
        return None if self.book is None else self.book.api.session.limits.window(Kind.SUBMIT)

    def watched(self) -> list[Submission]:
        """Return the waiting and running jobs."""
        return [job for job in self._jobs.values() if job.members]

    def stop(self) -> str:
        """Start no more jobs, ask the server to stop the waiting and running jobs, and return a summary."""
        self.stopping = True
        return stopped_by_message(self.watched(), self.in_flight.jobs())

    def idle(self) -> float:
        """Return the seconds until ``step()`` has work to do; infinity if there is none."""
        if self._running:
            return 0.0
        waits = [self._idle_of_jobs(), self._packs.idle()]
        if self._may_start():
            waits.append(self._held_for())
        return min(waits)

    @property
    def _running(self) -> list[Future[Any]]:
        """The threads that start points, record ends and add tags."""
        starting = [pack.future for pack in self._packs.starting]
        return [*starting, *self._recorder.running, *self._tags.running]

    def _idle_of_jobs(self) -> float:
        return min([*(watcher.idle() for watcher in self._watchers.values()), self._pruning.idle()])

    def step(self) -> None:
        """Start jobs for the free slots, and look up the jobs that are due.

        Raises:
            PaiError: the cluster cannot be reached, or rejects the user; running jobs continue.
            ValueError: the search is waiting for a point to finish, but no point is running.
        """
        for key, watcher in self._watchers.items():
            for update in watcher.step():
                self._update(key, update)
        self._record()
        self._start()
        self._tags.step()
        self._pruning.step()
        if running := self._running:
            wait(running, min(_LONGEST_WAIT, max(0.0, self._idle_of_jobs())), FIRST_COMPLETED)

    # starting

    def _may_start(self) -> bool:
        """Return whether another job may be started now. Even if True, the source may have no point left."""
        busy = len(self._packs.starting)
        is_full = busy >= min(self._outages.at_once, self._limits.places - len(self._jobs))
        if self.stopping or self.is_hopeless or is_full:
            return False
        return self._due_pack() is not None or not (self._source.exhausted or self._source.waits)

    def _due_pack(self) -> Pack | None:
        return self._packs.next_due(is_drawn=self._source.exhausted or self._source.waits)

    def _held_for(self) -> float:
        """Return how long until the next start, in seconds. The server's limit or an outage may delay it."""
        window = self.window
        held = window.ends_in if window is not None and window.left <= len(self._packs.starting) else 0.0
        return max(held, self._outages.wait())

    def _start(self) -> None:
        """Handle the results of completed starts, and start more points."""
        for pack in self._packs.started():
            self._handle_start(pack)
        end = self._clock.monotonic() + _SLICE
        while self._may_start() and self._held_for() <= 0 and self._clock.monotonic() < end:
            pack = self._due_pack() or Pack(self._next_points())
            self.book = pack.points[0].work.book if pack.points else self.book
            self._packs.start(pack, self._starter.start)
        packs = self._packs
        if self._source.waits and not (self._jobs or packs.starting or packs or self._recorder.running):
            raise ValueError("points() yielded None to wait for a point, but no point is running")

    def _next_points(self) -> list[Point]:
        """Draw the points for a job."""
        start, drawn, points = self._clock.monotonic(), list[Point](), list[Point]()
        try:
            for ended in self._source.drawn(drawn, self._limits.points_per_job):
                self._end(ended)
        except (*TRANSIENT, HdfsError) as error:
            if not self._retries(error, drawn, start):
                raise
            return []
        for point in drawn:
            try:
                point.prepare()
                points.append(point)
            except OF_ALL:
                raise
            except Exception as error:  # noqa: BLE001  an error of this point's job, or of the user's code
                self._fail(point, error)
        return points

    def _handle_start(self, pack: Pack) -> None:
        """Handle the results of a start: decide what to do with each point, given its result."""
        try:
            results: Sequence[tuple[Point, Result]] = pack.future.result()
        except Exception as error:
            if self._retries(error, pack.points, pack.started_at):
                return
            if isinstance(error, OF_ALL):
                raise
            results = [(point, error) for point in pack.points]  # the error affects only these points
        else:
            self._outages.end()
        self._packs.look_up_again(point for point, result in results if result is None)
        for job in dict.fromkeys(result for _, result in results if isinstance(result, Submission)):
            self._add(job)
        for point, result in results:
            if isinstance(result, Submit):
                self._packs.add(point, result.array)
            elif isinstance(result, Row):
                self._end(Ended(point, result))
            elif isinstance(result, Exception):
                self._fail(point, result)

    def _retries(self, error: Exception, points: Sequence[Point], start: float) -> bool:
        """Put points back after a transient error; return False if they are not retried."""
        if not self._outages.retries(error, self.book, start):
            return False
        for point in points:
            self._source.put_back(point)
        return True

    def _fail(self, point: Point, error: Exception) -> None:
        """End a point that cannot be started; if it exists only in the journal, drop it."""
        logger.debug("A point cannot be started", exc_info=error)
        reason = first_line(error) if isinstance(error, PaiError) else user_error(error)
        if isinstance(error, NotConfirmedError) or not point.proposed:
            self._source.drop(point, reason)
        else:
            self._end(Ended(point, Row("FAILED", error=reason)))

    def _add(self, job: Submission) -> None:
        """Watch a job, or record its end if it has finished."""
        key = job.key
        if not job.status.finished or job.posted:
            announce(job)
        if job.posted:
            self._tags.jobs.append(job)
        if job.status.finished:
            self._jobs.setdefault((key, job.name), job)
            self._end_all(job, Update(job.name, job.status, Outcome.ENDED))
            return
        known = self._jobs.get((key, job.name))
        if known is not None and not known.is_over:  # the job is already known from other points
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
        else:  # the server rejects its lookup, so how the job ended is unknown
            del self._jobs[key, update.name]
            for point in _points_of(job):
                self._fail(point, update.error)

    def _changed(self, job: Submission, status: JobStatus) -> None:
        for point, its_status in job.statuses(status):
            assert isinstance(point, Point)
            if its_status.state is JobState.RUNNING and point.started_ms is None:
                point.started_ms = its_status.launched_ms or int(self._clock.time() * 1000)
                self._recorder.seen += [(point, its_status)] if its_status.launched_ms is None else []
            self._table.changed(point, its_status)
        self._pruning.watch(job, status)

    def _end_all(self, job: Submission, update: Update) -> None:
        kept = [point for point in _points_of(job) if not point.is_final(point.number, self._limits)]
        self._recorder.add(endings(job, update, kept))
        self._free(job)

    def _record(self) -> None:
        """Continue with the points whose ends are recorded; only now do the ends go into the journal."""
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


def _points_of(job: Submission) -> list[Point]:
    """Return a job's unfinished points."""
    return [point for point in job.members if isinstance(point, Point)]
