"""Source: a sweep's points, from a list or from a search that proposes points as other points run."""

from __future__ import annotations

import logging
import math
from collections import deque
from typing import TYPE_CHECKING, Any

from luigi_pai.api.retries import TRANSIENT
from luigi_pai.console import first_line, user_error
from luigi_pai.durations import counted
from luigi_pai.errors import PaiSweepFailed
from luigi_pai.files.errors import HdfsError
from luigi_pai.redaction import printable
from luigi_pai.sweep.point import Ended, Point, describe, name_of
from luigi_pai.sweep.points import (
    check_job,
    iterated,
    missing_requirement,
    problem_texts,
    task_like,
    too_many_points,
)
from luigi_pai.sweep.rows import Row
from luigi_pai.tasks.job_task import JobTask
from luigi_pai.work.stopping import OF_ALL

if TYPE_CHECKING:
    from collections.abc import Container, Iterator, Mapping, Sequence

    from luigi_pai.sweep.journal.journal import Journal
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.sweep import PaiSweep
    from luigi_pai.sweep.table import Table

logger = logging.getLogger("luigi-interface")

_LONGEST = 100  # characters of a name in a warning
_OTHERS = (
    "%s: points() proposes different points than before the interruption (does its sampler have a seed?). "
    "Earlier points with a job or an end stay in the table, their jobs are watched, and tell() gets their "
    "rows"
)


class Source:
    """Gives the engine a sweep's points, from a list or from a search's generator.

    A search is asked for a point when another job may start. Its generator yields None to wait until another
    point has finished. If it yields a task again, the task does not run again; ``tell`` gets the first run's
    row.

    ``drawn`` first yields the points that have submissions. A search repeats the proposals and ``tell`` calls
    of earlier runs in the journal's order. A recorded point that is not proposed again is recreated from its
    parameters, so that its job is watched and its row stays in the table. Because others may be able to write
    the journal, such a point is never submitted. Its class must be one whose tasks ``points()`` yielded in
    this run, and the point is dropped if the server does not confirm it.

    Attributes:
        limits, journal, table: The sweep's limits, journal and table.
        points: All known points, in order.
        error: The error in the user's code that ended a search; empty if there is none.
        dropped: Name of a dropped point, which is recorded but not proposed in this run -> the reason.
    """

    def __init__(
        self, sweep: PaiSweep, points: list[Point], limits: SweepLimits, journal: Journal, table: Table
    ) -> None:
        self.points = points
        self.error = ""
        self.dropped: dict[str, str] = {}
        self._is_warned = False
        self._sweep = sweep
        self.limits = limits
        self.journal = journal
        self.table = table
        self._by_name: dict[str, Point] = {}
        self._rows: dict[str, Mapping[str, Any]] = {}  # of the finished points
        self._yielded = 0
        self._waits, self._ended = False, not sweep.is_search
        self._complete: dict[str, bool] = {}  # id of a task that points require -> whether it is complete
        for point in points:
            point.record = journal.record(point.name)
        if sweep.is_search:
            sweep._recall(journal.notes)  # noqa: SLF001  of this package
            self._tasks = iterated(sweep.points)
            self._replay()
        self._again = deque(sorted(self.points, key=lambda point: point.record.claim is None))

    @property
    def exhausted(self) -> bool:
        """Whether there are no more points."""
        return self._ended and not self._again

    @property
    def waits(self) -> bool:
        """Whether a search is waiting for a point to finish before it proposes the next one."""
        return self._waits and not self._again

    @property
    def total(self) -> int | None:
        """Number of points; None for a search whose generator has not finished."""
        return len(self.points) if self._ended else None

    @property
    def left(self) -> int:
        """Number of known points that ``drawn`` has not yielded yet, including points that were put back."""
        return len(self._again)

    def put_back(self, point: Point) -> None:
        """Make ``drawn`` yield a point again, after the other known points."""
        self._again.append(point)

    def drawn(self, points: list[Point], most: int) -> Iterator[Ended]:
        """Append up to ``most`` points to ``points``, and yield ends for points that need no job.

        Raises:
            PaiError, OSError: the journal cannot be written, or a server is down. Put back the points
                that were appended, and call this again later.
            PaiSweepFailed: another process runs the search.
        """
        while len(points) < most and (drawn := self._draw()) is not None:
            if isinstance(drawn, Ended):
                yield drawn
            else:
                points.append(drawn)

    def _draw(self) -> Point | Ended | None:
        """Return the next point, or its end if it has finished or cannot run; None if there is none now."""
        point = self._again.popleft() if self._again else self._propose()
        if point is None:
            return None
        try:
            # points of a list were checked before the run
            if self._sweep.is_search and point.proposed and not point.handled:
                return self._checked(point)
            return self._ended_before(point) or point
        except (*TRANSIENT, *OF_ALL, HdfsError, OSError, PaiSweepFailed):
            self.put_back(point)
            raise
        except Exception as error:  # noqa: BLE001  users' own code may raise anything
            return Ended(point, Row("FAILED", error="; ".join(problem_texts(error))))

    def _ended_before(self, point: Point) -> Ended | None:
        """Return the recorded end of a listed point; None if the point failed before it had a job."""
        ended = self.table.recorded_end(point)
        return ended if ended is not None and (ended.row.is_good or ended.row.job) else None

    def _checked(self, point: Point) -> Point | Ended:
        """Record and check a search's point; return it, or its end if it has finished or cannot run."""
        if point.record.asked is None:
            task = point.task  # the event contains everything that ``_recreate`` needs
            parameters = task.to_str_params(only_public=True)  # type: ignore[no-untyped-call]
            self.journal.ask(self._event("asked", point.name, family=task.task_family, parameters=parameters))
        if (ended := self.table.recorded_end(point)) is not None:
            return ended
        if (missing := missing_requirement(point.task, self._complete)) is not None:
            return Ended(point, Row("FAILED", error=missing))
        check_job(point.task)
        return point

    def tell(self, point: Point, row: Mapping[str, Any]) -> None:
        """Call a search's ``tell`` for a finished point, as often as the generator yielded the point."""
        if not self._sweep.is_search:
            return
        self._waits = False
        if not (point.proposed or self._is_warned):
            self._is_warned = True
            logger.warning(_OTHERS, self.table.sweep)
        self._rows[point.name] = row
        tasks, point.untold = point.untold, []
        if tasks and not point.record.told:
            self.journal.queue(self._event("told", point.name))
        for task in tasks:
            self._tell(task, row)

    def _event(self, kind: str, name: str, **more: object) -> dict[str, object]:
        return {"event": kind, "point": name, **more, "note": self._sweep._note()}  # noqa: SLF001  as above

    def _tell(self, task: JobTask, row: Mapping[str, Any]) -> None:
        try:
            self._sweep.tell(task, row)
        except Exception as error:  # noqa: BLE001  users' own code may raise anything
            self._fail(user_error(error, "tell()"))

    def _propose(self) -> Point | None:
        """Return the generator's next new point; None if the generator waits or has finished."""
        while not (self._ended or self._waits):
            try:
                task = next(self._tasks)
                if task is None:
                    self._waits = True
                elif (point := self._point_of(task)) is not None:
                    return point
            except StopIteration:
                self._ended = True
            except Exception as error:  # noqa: BLE001  as above
                self._fail(user_error(error, "points()"))
        return None

    def _point_of(self, task: Any) -> Point | None:
        """Return the point for a yielded task; None if it is already known or an error ends the search."""
        self._yielded += 1
        if self._yielded > self.limits.max_points:
            self._fail(too_many_points(self.limits.max_points))
            return None
        if not isinstance(task, JobTask):
            self._fail(f"points() yielded {describe(task)}, which is not a PaiTask or PaiProtocolTask")
            return None
        name = name_of(task)
        if name in self._rows:
            self._tell(task, self._rows[name])
            return None
        known = self._by_name.get(name)
        if known is not None and not known.proposed:  # from now on, do not use the journal's task
            known.task, known.proposed, known.untold = task, True, []
        point = known or self._added(task, name)
        point.untold.append(task)
        self.dropped.pop(name, None)
        return point if known is None else None

    def _added(self, task: JobTask, name: str, *, proposed: bool = True) -> Point:
        self._by_name[name] = point = Point(task, name, self.journal.record(name), proposed=proposed)
        self.points.append(point)
        return point

    def _fail(self, error: str) -> None:
        """End the search; running jobs are watched until they finish."""
        if not self.error:
            logger.error("%s: %s; no more points are proposed", self.table.sweep, error)
        self.error, self._ended = self.error or error, True

    # after a kill

    def _replay(self) -> None:
        """Repeat the proposals and ``tell`` calls recorded in the journal.

        Recorded points that the generator does not propose are left out, so that they do not change the order
        of the others. They are recreated at the end, when the classes of the search's points are known.
        """
        tells, waited, is_same = 0, -1, True
        ahead: str | None = None  # a proposed point whose event comes later
        skipped = set[str]()
        for event, name in list(self.journal.history):
            point = self._by_name.get(name)
            if event != "asked":
                tells += 1
                if point is not None and point.record.row is not None:
                    self.tell(point, self.table.row_of(point))
            elif name == ahead:
                ahead = None
            elif point is None:
                if is_same and ahead is None and waited != tells:
                    point = self._proposed(tells, skipped)
                    waited = tells if point is None else -1
                if point is not None and point.name != name:
                    ahead, is_same = point.name, point.record.asked is not None
                if name not in self._by_name:
                    skipped.add(name)
        self._recreate([name for name in self.journal.asked if name not in self._by_name])
        self._waits = False

    def _proposed(self, tells: int, skipped: Container[str]) -> Point | None:
        """Return the generator's next point whose name is not in ``skipped``; None if it waits.

        The generator may yield None before the point, once for each of the ``tells`` calls to ``tell``.
        """
        for _ in range(tells + 1):
            self._waits = False
            point = self._propose()
            while point is not None and point.name in skipped:
                point = self._propose()
            if point is not None or self._ended:
                return point
        return None

    def _recreate(self, names: Sequence[str]) -> None:
        """Recreate recorded points from their parameters, or drop them."""
        most = min(self.limits.max_points, self._sweep._budget or math.inf)  # noqa: SLF001  of this package
        kinds = {point.task.task_family: point.task for point in self.points}
        made = 0
        for name in names:
            asked = self.journal.record(name).asked
            assert asked is not None
            try:
                if made >= most:
                    raise ValueError("the search may not propose that many points")  # noqa: TRY301
                if asked.family not in kinds:
                    raise ValueError(f"points() yielded no task of the class {asked.family:.50}")  # noqa: TRY301
                task = task_like(kinds[asked.family], asked.parameters)
                if name_of(task) != name:
                    raise ValueError("its parameters result in another name")  # noqa: TRY301
            except Exception as error:  # noqa: BLE001  of Luigi, or of the user's own code
                self.dropped[name] = first_line(error)
            else:
                made += 1
                self._added(task, name, proposed=False).untold = [task]

    def drop(self, point: Point, why: str) -> None:
        """Drop a recorded point that the cluster does not confirm, unless it was proposed in the meantime."""
        self.table.progress.left(point.name)
        if point.proposed:
            self.put_back(point)
            return
        self.dropped[point.name] = why
        del self._by_name[point.name]
        self.points.remove(point)
        self._waits = False

    def warn_of_dropped(self) -> None:
        """Log one line about dropped points."""
        first = next((name for _, name in self.journal.history if name in self.dropped), None)
        if first is None:
            return
        asked = self.journal.record(first).asked
        verb, them = ("is", "it") if len(self.dropped) == 1 else ("are", "them")
        place = "the journal" if asked is None else asked.place
        message = (
            f"{counted(len(self.dropped), 'recorded point')} {verb} ignored, because points() does not "
            f"propose {them} in this run; no job is submitted for {them}. The first is "
            f"{printable(first)[:_LONGEST]}, in {place}: {printable(self.dropped[first])}"
        )
        logger.warning("%s: %s", self.table.sweep, message)
