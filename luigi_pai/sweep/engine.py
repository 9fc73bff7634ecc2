"""Engine: begins the jobs of a sweep where places are free, and watches them to their ends."""

from __future__ import annotations

import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from luigi_pai.api.retries import TRANSIENT
from luigi_pai.api.status import JobState
from luigi_pai.api.watching import Outcome, Watcher
from luigi_pai.errors import ClusterUnreachable, JobNotFound, PaiApiError, PaiError
from luigi_pai.hdfs.errors import HdfsError
from luigi_pai.sweep.units import OF_ALL, Ended, first_line

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.request_limits import Window
    from luigi_pai.api.retries import Steps
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.watching import Update
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.sources import Source
    from luigi_pai.sweep.units import Point, Unit

__all__ = ["Engine", "Listener"]

logger = logging.getLogger("luigi-interface")

_SLICE = 0.5  # seconds of submitting, or of reading reports, before running jobs are looked up again
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0  # seconds, while HDFS or the server does not answer
_REPORTS_EVERY = 10.0  # seconds between two readings of the reports of a job; containers send them as often


class Listener(Protocol):
    """What a sweep reports its progress to."""

    def changed(self, unit: Unit, status: JobStatus) -> None:
        """Take the status of a job that waits or runs."""
        ...

    def ended(self, ended: Ended) -> Mapping[str, Any]:
        """Take the end of a point, and return its row of the table."""
        ...

    def retried(self, ended: Ended) -> None:
        """Take the failure of a point that will be submitted again."""
        ...

    def pruned(self, point: Point, job: str) -> None:
        """Take it that the job of a point is being stopped, as the point is not kept."""
        ...


class Engine:
    """Runs the points of a sweep. ``step()`` does what is due and does not sleep.

    One unit is begun after the other. While the first request of one is being retried no other is begun,
    so that an outage is met, and logged, once; an outage of HDFS likewise. A server's limit of submissions
    is kept without being hit.

    Args:
        source: of the points.
        limits: of the sweep; they may change at any time.
        clock: says when something is due.
        units_of: returns units for points, each point in one of them; for no points, once the source is
            exhausted, units for those that it has kept back.
        listener: gets every event.
        keep: called with a task and its reports while its job runs; False stops the job. None: no reports
            are read.

    Attributes:
        failed: the points that have failed, with their reasons, in the order of their ends.
        stopping: no more jobs are begun.
        book: that of the last unit's cluster; None before the first.
    """

    def __init__(
        self,
        source: Source,
        limits: SweepLimits,
        clock: Clock,
        units_of: Callable[[Sequence[Point]], Sequence[Unit]],
        listener: Listener,
        keep: Callable[[Any, list[dict[str, Any]]], bool | None] | None = None,
    ) -> None:
        self.failed: list[Ended] = []
        self.stopping = False
        self._source = source
        self._limits = limits
        self._clock = clock
        self._units_of = units_of
        self._listener = listener
        self._keep = keep
        self._ready: list[Unit] = []
        # with the time of its next step, and that of its first
        self._starting: tuple[Unit, Steps[Entry | None], float, float] | None = None
        self._watchers: dict[Hashable, Watcher] = {}
        self._units: dict[tuple[Hashable, str], list[Unit]] = {}  # of each job that is watched
        self._reports_due: dict[tuple[Hashable, str], float] = {}
        self._pruned: set[tuple[Hashable, str]] = set()
        self.book: Book | None = None
        self._outage: tuple[float, float, float] | None = None  # since, end of the pause, its length

    # for its user

    @property
    def done(self) -> bool:
        """Whether nothing runs, and nothing is left to begin."""
        if self._units or self._starting is not None:
            return False
        return self.stopping or (self._source.exhausted and not self._ready)

    @property
    def is_hopeless(self) -> bool:
        """Whether more points have failed than the tolerance will allow."""
        total = self._limits.max_points if self._source.total is None else self._source.total
        return len(self.failed) > self._limits.failures(total)

    @property
    def window(self) -> Window | None:
        """How many submissions the server takes, where that is known."""
        return None if self.book is None else self.book.api.submission_window()

    def watched(self) -> list[tuple[Unit, str]]:
        """Return the names of the jobs that wait or run, each with a unit of it."""
        return [(units[0], name) for (_, name), units in self._units.items()]

    def stop(self) -> str:
        """Begin no more jobs, ask the server to stop those that wait or run, and return what was done."""
        self.stopping = True
        asked, problem, watched = 0, None, self.watched()
        for each in watched:
            error = _stop(each)
            asked += error is None
            problem = problem or error
            if isinstance(error, OF_ALL):  # each further request would fail, perhaps after a long time
                break
        text = f"{asked} job{'' if asked == 1 else 's'} asked to stop"
        if problem is None:
            return text
        return f"{text}; {len(watched) - asked} could not be: {first_line(problem)}"

    def idle(self) -> float:
        """Return the seconds until ``step()`` has something to do; infinity if nothing has."""
        now = self._clock.monotonic()
        waits = [watcher.idle() for watcher in self._watchers.values()]
        waits += [max(0.0, due - now) for due in self._reports_due.values()] if self._keep else []
        if self._starting is not None:
            waits.append(max(0.0, self._starting[2] - now))
        elif self._may_begin():
            waits.append(self._held_for())
        return min(waits, default=math.inf)

    def step(self) -> None:
        """Begin the jobs for which there are places, and look up those that are due.

        Raises:
            PaiError: the cluster cannot be reached, or refuses the user; what runs continues.
            ValueError: the search waits for points to end, and none runs.
        """
        self._begin()
        for key, watcher in self._watchers.items():
            for update in watcher.step():
                self._update(key, update)
        if self._keep is not None:
            self._read_reports(self._keep)

    # beginning

    def _may_begin(self) -> bool:
        """Return whether there is a place, and perhaps a point for it."""
        if self.stopping or len(self._units) >= self._limits.places:
            return False
        return bool(self._ready) or not (self._source.exhausted or self._source.waits)

    def _held_for(self) -> float:
        """Return the seconds for which the server takes no further submission, or does not answer."""
        window = self.window
        held = window.ends_in if window is not None and window.left <= 0 else 0.0
        pause = self._outage[1] - self._clock.monotonic() if self._outage is not None else 0.0
        return max(held, pause, 0.0)

    def _begin(self) -> None:
        end = self._clock.monotonic() + _SLICE
        while self._clock.monotonic() < end:
            if self._starting is None and not (self._may_begin() and self._held_for() <= 0):
                break
            if self._starting is None:
                unit = self._next_unit()
                if unit is not None:
                    self.book = unit.book
                    now = self._clock.monotonic()
                    self._starting = unit, unit.begin(), now, now
            elif self._starting[2] > self._clock.monotonic():
                break
            else:
                self._advance(*self._starting)
        if self._source.waits and not self._units and self._starting is None and not self._ready:
            raise ValueError("points() has yielded None, to wait for the end of a point, but none runs")

    def _next_unit(self) -> Unit | None:
        """Return the next unit; None if a draw gave none."""
        if self._ready:
            return self._ready.pop(0)
        points: list[Point] = []
        try:
            self._draw(points)
        except (*TRANSIENT, HdfsError) as error:
            if self.book is None or not self._waits_out(error, points, self.book):
                raise
            return None
        try:
            self._ready += self._units_of(points) if points or self._source.exhausted else ()
        except OF_ALL:
            raise
        except Exception as error:  # noqa: BLE001  as in _advance
            self._fail(points, error)
        return self._ready.pop(0) if self._ready else None

    def _draw(self, points: list[Point]) -> None:
        """Draw points for a job."""
        while len(points) < self._limits.points_per_job:
            drawn = self._source.draw()
            if drawn is None:
                break
            if isinstance(drawn, Ended):
                self._end(drawn)
            else:
                drawn.attempts += 1
                points.append(drawn)

    def _advance(self, unit: Unit, steps: Steps[Entry | None], _: float, began: float) -> None:
        """Take the next step of the unit that is being begun."""
        try:
            wait = next(steps)
        except StopIteration as end:
            self._starting = None
            self._begun(unit, end.value)
        except (ClusterUnreachable, HdfsError) as error:  # other tasks may have given the server up just now
            self._starting = None
            if self._waits_out(error, unit.points, unit.book, began):
                return
            if isinstance(error, ClusterUnreachable):
                raise
            self._fail(unit.points, error)
        except OF_ALL:
            self._starting = None
            raise
        except Exception as error:  # noqa: BLE001  of the job, or of the user's own code
            self._starting = None
            self._fail(unit.points, error)
        else:
            self._starting = unit, steps, self._clock.monotonic() + wait, began

    def _waits_out(
        self, error: PaiError, points: Sequence[Point], book: Book, since: float | None = None
    ) -> bool:
        """Draw points again later: HDFS or the server does not answer. False for other errors, and too long.

        Args:
            error: what was raised for them.
            points: the points.
            book: of their cluster.
            since: when they were begun.
        """
        if not (error.transient if isinstance(error, HdfsError) else book.api.answered):
            return False
        now = self._clock.monotonic()
        since, _, pause = self._outage or (now if since is None else since, now, _FIRST_PAUSE / 2)
        limit = book.api.polling.patience
        if now - since >= limit:
            return False
        if self._outage is None:
            logger.warning("%s (retrying for up to %.0f s)", first_line(error), limit)
        pause = min(2 * pause, _LONGEST_PAUSE)
        self._outage = since, now + pause, pause
        for point in points:
            point.attempts -= 1
            self._source.put_back(point)
        return True

    def _fail(self, points: Sequence[Point], error: Exception) -> None:
        logger.debug("A point cannot be begun", exc_info=error)
        text = first_line(error)
        text = text if isinstance(error, PaiError) else f"{type(error).__name__}: {text}"
        for point in points:
            self._end(Ended(point, "FAILED", error=text))

    def _begun(self, unit: Unit, entry: Entry | None) -> None:
        self._outage = None
        self._ready[:0] = unit.further()  # they have been looked up just now
        status = None if entry is None else entry.status
        if entry is None or status is None or status.finished:
            self._end_all(unit.finish(None))
            return
        watcher = self._watchers.setdefault(unit.key, Watcher(unit.book, isolated=True))
        units = self._units.setdefault((unit.key, status.name), [])
        units.append(unit)
        if len(units) == 1:  # else other points of this job were begun before
            watcher.add(
                status,
                new=entry.posted,
                with_tasks=unit.with_tasks,
                queue_timeout=unit.options["queue_timeout"],
                run_timeout=unit.options["run_timeout"],
            )
        self._changed(unit, status)
        if self.stopping:  # while it was begun
            _stop((unit, status.name))

    # watching

    def _update(self, key: Hashable, update: Update) -> None:
        job = key, update.name
        if update.outcome is Outcome.CHANGED:
            for unit in self._units[job]:
                self._changed(unit, update.status)
            return
        units = self._units.pop(job)
        self._reports_due.pop(job, None)
        if update.error is not None:  # its lookup is refused; what becomes of it is not known
            if isinstance(update.error, OF_ALL):
                raise update.error
            for unit in units:
                self._fail([point for point, _ in unit.statuses(update.status)], update.error)
            return
        ended = [each for unit in units for each in unit.finish(update)]
        if job in self._pruned:
            self._pruned.discard(job)
            ended = [
                replace(each, state="PRUNED", error="") if each.state == "STOPPED" else each for each in ended
            ]
        self._end_all(ended)

    def _changed(self, unit: Unit, status: JobStatus) -> None:
        self._end_all(unit.changed(status))
        self._listener.changed(unit, status)
        job = unit.key, status.name
        if self._keep and job not in self._pruned and status.state is JobState.RUNNING:
            self._reports_due.setdefault(job, self._clock.monotonic() + _REPORTS_EVERY)

    def _end_all(self, ended: Sequence[Ended]) -> None:
        for each in ended:
            self._end(each)

    def _end(self, ended: Ended) -> None:
        if ended.may_retry and ended.point.attempts < self._limits.max_attempts and not self.stopping:
            self._listener.retried(ended)
            self._source.put_back(ended.point)
            return
        if ended.state not in ("SUCCEEDED", "PRUNED"):
            self.failed.append(ended)
        self._source.tell(ended.point, self._listener.ended(ended))

    # pruning

    def _read_reports(self, keep: Callable[[Any, list[dict[str, Any]]], bool | None]) -> None:
        """Show the reports of running jobs to ``keep``, and stop those that it does not keep."""
        now = self._clock.monotonic()
        for job, unit in list(self._due_reports(now)):
            if self._clock.monotonic() > now + _SLICE:
                break
            self._reports_due[job] = self._clock.monotonic() + _REPORTS_EVERY
            try:
                reports = unit.reports()
            except PaiError as error:
                logger.debug("Job %s: its reports cannot be read: %s", job[1], error)
                continue
            if not reports or keep(unit.points[0].task, reports) is not False:
                continue
            if _stop((unit, job[1])) is None:
                self._pruned.add(job)
                del self._reports_due[job]
                self._listener.pruned(unit.points[0], job[1])

    def _due_reports(self, now: float) -> Iterator[tuple[tuple[Hashable, str], Unit]]:
        for job, due in self._reports_due.items():
            unit = self._units[job][0]
            if due <= now and len(unit.points) == 1:
                yield job, unit


def _stop(watched: tuple[Unit, str]) -> PaiApiError | None:
    """Ask the server to stop a job, and return the error, if that failed."""
    unit, name = watched
    try:
        unit.book.api.stop(name)
    except JobNotFound:
        return None
    except PaiApiError as error:
        return error
    return None
