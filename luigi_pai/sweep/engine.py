"""Engine: starts the points of a sweep as places become free, and watches their jobs to the end."""

from __future__ import annotations

import logging
import math
import threading
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.api.request_limits import Kind
from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.api.status import JobState
from luigi_pai.api.watching import Outcome, Update, Watcher
from luigi_pai.console import first_line, user_error
from luigi_pai.errors import ClusterUnreachable, PaiError
from luigi_pai.hdfs.errors import HdfsError
from luigi_pai.sweep.ending import Ending, endings
from luigi_pai.sweep.point import Ended, Point, PointMember
from luigi_pai.sweep.rows import Row
from luigi_pai.sweep.starting import NotConfirmedError, Pack, Starter
from luigi_pai.sweep.stopping import Pruning, stopped_by_message
from luigi_pai.sweep.table import failure
from luigi_pai.tasks.events import PaiEvent, trigger
from luigi_pai.work.decide import Submit
from luigi_pai.work.stopping import OF_ALL, stop
from luigi_pai.work.submission import InFlight, Submission

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.request_limits import Window
    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.journal import Journal
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.source import Source
    from luigi_pai.sweep.starting import Result
    from luigi_pai.sweep.table import Table

logger = logging.getLogger("luigi-interface")

_AT_ONCE = 8  # points or packs that are started at the same time
_SLICE = 0.5  # maximum seconds to draw points; after them, the jobs that run are looked up again
_OUTAGES = (ClusterUnreachable, HdfsError)
_AGAIN_AFTER = 1.0  # seconds until points that another process has claimed are looked up again
_GATHERED = 2.0  # seconds to find all points that are claimed for one array
_LONGEST_WAIT = 0.05  # seconds to wait for the end of a thread, before other work


@dataclass(slots=True, eq=False)
class _Start:
    """A thread that starts the points of a pack.

    Attributes:
        pack: the pack.
        began: when the thread was started, in seconds of the monotonic clock.
        future: gets the results.
    """

    pack: Pack
    began: float
    future: Future[list[tuple[PointMember, Result]]] = field(default_factory=Future)


def run_in_thread(act: Callable[[], Any], future: Future[Any]) -> None:
    """Call a function in a thread of its own. Neither the sweep nor the end of the process waits for it."""

    def work() -> None:
        try:
            future.set_result(act())
        except BaseException as error:  # noqa: BLE001  raised again by future.result()
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()


class Engine:
    """Runs the points of a sweep. ``step()`` does the work that is due; it waits at most 0.05 s for threads.

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
        self._starts: list[_Start] = []
        self._packs: list[Pack] = []  # to start before further points are drawn
        self._watchers: dict[Hashable, Watcher] = {}
        self._jobs: dict[tuple[Hashable, str], Submission] = {}
        self._seen: list[
            tuple[PointMember, JobStatus]
        ] = []  # running points; their starts are not recorded yet
        self._endings: list[Ending] = []  # to be recorded
        self._unrecorded: Counter[Submission] = Counter()  # ended points whose ends are not recorded yet
        self._recording: Future[list[Ending]] | None = None
        self._pruning = Pruning(keep, journal, clock, table.failed_code)
        self._is_proven = False  # whether the last start ended without a transient error
        self._patience = patience
        self._outage = Retry(patience, clock, table.sweep)  # of starts
        self._records = Retry(patience, clock, table.sweep)
        self._paused_until = -math.inf

    # for the run

    @property
    def done(self) -> bool:
        """Whether no job runs, and no point is left to start."""
        if self._jobs or self._starts or self._recording is not None:
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

    def watched(self) -> list[Submission]:
        """Return the jobs that wait or run."""
        return [job for job in self._jobs.values() if job.members]

    def stop(self) -> str:
        """Start no more jobs, ask the server to stop the waiting and running jobs, and return a summary."""
        self.stopping = True
        watched = self.watched()
        names = {job.name for job in watched}
        starting = [job for job in self.in_flight.jobs() if job.name not in names]
        return stopped_by_message(watched, starting)

    def idle(self) -> float:
        """Return the seconds until ``step()`` has work to do; infinity if it has none."""
        if self._starts or self._recording is not None:
            return 0.0
        now = self._clock.monotonic()
        waits = [self._idle_of_jobs()]
        waits += [pack.due - now for pack in self._packs if pack.due > now]
        if self._may_begin():
            waits.append(self._held_for())
        return min(waits)

    def _idle_of_jobs(self) -> float:
        waits = [watcher.idle() for watcher in self._watchers.values()]
        return min([*waits, self._pruning.idle()])

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
        running = [start.future for start in self._starts]
        running += [] if self._recording is None else [self._recording]  # type: ignore[list-item]
        if running:
            wait(running, min(_LONGEST_WAIT, max(0.0, self._idle_of_jobs())), FIRST_COMPLETED)

    # starting

    def _may_begin(self) -> bool:
        """Return whether another job may be started now. If True, the source may still have no point."""
        at_once = _AT_ONCE if self._is_proven else 1
        busy = len(self._starts)
        if (
            self.stopping
            or self.is_hopeless
            or busy >= at_once
            or len(self._jobs) + busy >= self._limits.places
        ):
            return False
        return self._due_pack() is not None or not (self._source.exhausted or self._source.waits)

    def _due_pack(self) -> Pack | None:
        """Return a pack to start, or None. An incomplete pack is due only if no more points can join it."""
        now = self._clock.monotonic()
        due = next((pack for pack in self._packs if pack.due <= now), None)
        if due is None and not self._starts and (self._source.exhausted or self._source.waits):
            is_last = all(pack.due == math.inf for pack in self._packs)
            due = self._packs[0] if self._packs and is_last else None
        return due

    def _held_for(self) -> float:
        """Return the seconds until the next start, which the server's limit or an outage may delay."""
        window = self.window
        held = window.ends_in if window is not None and window.left <= len(self._starts) else 0.0
        return max(held, self._paused_until - self._clock.monotonic())

    def _begin(self) -> None:
        """Take the results of starts that have ended, and start further points."""
        for start in [start for start in self._starts if start.future.done()]:
            self._starts.remove(start)
            self._take(start)
        end = self._clock.monotonic() + _SLICE
        while self._may_begin() and self._held_for() <= 0 and self._clock.monotonic() < end:
            self._start_next()
        if self._source.waits and not (self._jobs or self._starts or self._packs or self._recording):
            raise ValueError("points() has yielded None, to wait for the end of a point, but none runs")

    def _start_next(self) -> None:
        """Start looking up, or submitting, the next points."""
        pack = self._due_pack() or Pack(self._next_members())
        self._packs = [each for each in self._packs if each is not pack]
        if not pack.members:
            return
        self.book = pack.members[0].work.book
        start = _Start(pack, self._clock.monotonic())
        self._starts.append(start)
        run_in_thread(lambda: self._starter.start(pack), start.future)

    def _next_members(self) -> list[PointMember]:
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
                members.append(PointMember.of(point))
            except OF_ALL:
                raise
            except Exception as error:  # noqa: BLE001  an error of this point's job, or of the user's code
                self._fail(point, error)
        return members

    def _take(self, start: _Start) -> None:
        """Handle the results of a start."""
        points = [member.point for member in start.pack.members]
        try:
            results = start.future.result()
        except Exception as error:
            if isinstance(error, _OUTAGES) and self._retries(error, points, start.began):
                return
            if isinstance(error, OF_ALL):
                raise
            for point in points:  # the error concerns only these points
                self._fail(point, error)
        else:
            self._is_proven = True
            self._outage.succeeded()
            self._distribute(results)

    def _distribute(self, results: Sequence[tuple[PointMember, Result]]) -> None:
        """Go on with each point as its result says."""
        again = [member for member, result in results if result is None]
        if again:
            self._packs.append(Pack(again, due=self._clock.monotonic() + _AGAIN_AFTER))
        added = set[Submission]()
        for member, result in results:
            if isinstance(result, Submission):
                if result not in added:
                    added.add(result)
                    self._add(result)
            elif isinstance(result, Submit):
                self._to_pack(member, result.array)
            elif isinstance(result, Row):
                self._end(Ended(member.point, result))
            elif result is not None:
                self._fail(member.point, result)

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

    def _to_pack(self, member: PointMember, array: str | None) -> None:
        """Add a point to the pack of its array, or to the one that waits for further points.

        When the latter is full, it is due now.
        """
        if array is not None:
            pack = next((each for each in self._packs if each.name == array), Pack([], array))
            pack.due = self._clock.monotonic() + _GATHERED
        else:
            waiting = (each for each in self._packs if each.due == math.inf)
            pack = next(waiting, Pack([], "", math.inf))
        pack.members.append(member)
        if array is None and len(pack.members) >= self._limits.points_per_job:
            pack.due = -math.inf
        self._packs = [*(each for each in self._packs if each is not pack), pack]

    def _add(self, job: Submission) -> None:
        """Watch a job, or record its end if it has ended."""
        key = _key(job)
        if not job.status.finished or job.posted:
            _announce(job)
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
            for member in _members(job):
                self._fail(member.point, update.error)

    def _changed(self, job: Submission, status: JobStatus) -> None:
        for member, own in job.statuses(status):
            assert isinstance(member, PointMember)
            if own.state is JobState.RUNNING and member.started_ms is None:
                member.started_ms = own.launched_ms or int(self._clock.time() * 1000)
                self._seen += [(member, own)] if own.launched_ms is None else []
            self._table.changed(member.point, own)
        self._pruning.watch(job, status)

    def _end_all(self, job: Submission, update: Update) -> None:
        kept = [each for each in _members(job) if not each.point.is_final(each.number, self._limits)]
        ended = list(endings(job, update, kept))
        self._endings += ended
        self._unrecorded[job] += len(ended)
        self._free(job)

    def _record(self) -> None:
        """Record start times and ends of points, in one thread.

        Only then does the journal get the ends, because no later run looks up a point whose end is there.
        """
        if self._recording is not None and self._recording.done():
            recorded, self._recording = self._recording.result(), None
            for ending in recorded:
                self._unrecorded[ending.job] -= 1
                self._end(ending.ended())
                self._free(ending.job)
        if self._recording is None and (self._seen or self._endings):
            seen, ended = self._seen, self._endings
            self._seen, self._endings = [], []
            self._recording = Future()
            run_in_thread(lambda: record(seen, ended, self._records), self._recording)

    def _free(self, job: Submission) -> None:
        key = _key(job), job.name
        if job.is_over and not self._unrecorded[job]:
            del self._unrecorded[job]
            if self._jobs.get(key) is job:
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


def record(
    seen: Sequence[tuple[PointMember, JobStatus]], ended: Sequence[Ending], retry: Retry
) -> Sequence[Ending]:
    """Record the start times of points whose server does not send them, and the ends of points."""
    for member, status in seen:
        member.evidence.with_start(status)
    for ending in ended:
        ending.record(retry)
    return ended


def _key(job: Submission) -> Hashable:
    """Return the key of cluster, user and dialect; one watcher watches all jobs of a key."""
    return job.book.api.url, job.book.api.username, job.book.api.detector.given


def _members(job: Submission) -> list[PointMember]:
    return [member for member in job.members if isinstance(member, PointMember)]


def _announce(job: Submission) -> None:
    """Trigger the events of the points of a job that was submitted or taken over."""
    for member, status in job.statuses(job.status):
        if isinstance(member, PointMember) and (job.posted or not status.finished):
            event = PaiEvent.SUBMITTED if job.posted else PaiEvent.TAKEN_OVER
            trigger(member.point.task, event, status)
