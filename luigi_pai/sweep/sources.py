"""Sources of points: a list, and a search that proposes points while others run."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

import luigi

from luigi_pai.api.retries import TRANSIENT
from luigi_pai.console import user_error
from luigi_pai.errors import PaiSweepFailed
from luigi_pai.hdfs.errors import HdfsError
from luigi_pai.sweep.jobs import OF_ALL, Ended, Point
from luigi_pai.sweep.points import (
    check_job,
    describe,
    iterated,
    missing_requirement,
    problem_texts,
    too_many_points,
)
from luigi_pai.sweep.results import Row
from luigi_pai.tasks.job_task import JobTask

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from luigi_pai.sweep.journal import Journal
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.sweep import PaiSweep

logger = logging.getLogger("luigi-interface")

_OTHERS = (
    "%s: points() proposes other points than before the interruption (has its sampler a seed?). The earlier "
    "points stay in the table, their jobs are watched, and tell() gets their rows"
)


class Source:
    """A list of points for the engine. Points with submissions are drawn first.

    Args:
        points: in their order.
        known: returns the valid end of a point in an earlier run of the sweep; None for none.

    Attributes:
        points: all known points, in their order.
        error: of the user's code, which ends a search; empty for none.
    """

    error = ""

    def __init__(self, points: list[Point], known: Callable[[Point], Ended | None]) -> None:
        self.points = points
        self._again = deque(sorted(points, key=_is_new))
        self._known = known

    @property
    def exhausted(self) -> bool:
        """Whether there are no more points."""
        return not self._again

    @property
    def waits(self) -> bool:
        """Whether the next point depends on the end of another one."""
        return False

    @property
    def total(self) -> int | None:
        """Number of points; None if not known yet."""
        return len(self.points)

    @property
    def left(self) -> int:
        """Number of known points that are not drawn yet."""
        return len(self._again)

    def draw(self) -> Point | Ended | None:
        """Return the next point, or its end if it has ended; None if there is no point now."""
        if not self._again:
            return None
        point = self._again.popleft()
        return self._known(point) or point

    def put_back(self, point: Point) -> None:
        """Draw a point again, after the other known ones."""
        self._again.append(point)

    def tell(self, point: Point, row: Mapping[str, Any]) -> None:
        """Handle the end of a point; only a search does something.

        Args:
            point: that has ended.
            row: of the table: column -> value.
        """


class SearchedPoints(Source):
    """Points that a generator proposes, one for each free place.

    The generator yields None to wait for the end of another point. A task that it has yielded before is not
    run again; it gets the row of the first one.

    After a kill, points are drawn and ``tell`` is called in the recorded order first. A recorded point that
    is not proposed again is made from its parameters, so that its job is watched, and its row stays.

    Args:
        sweep: the search.
        name: of the sweep.
        limits: of the sweep.
        journal: of the sweep, after reading.
        known: as of ``Source``.
        row_of: returns the row of a point that has ended, from the journal.
    """

    def __init__(
        self,
        sweep: PaiSweep,
        name: str,
        limits: SweepLimits,
        journal: Journal,
        known: Callable[[Point], Ended | None],
        row_of: Callable[[Point], Mapping[str, Any]],
    ) -> None:
        super().__init__([], known)
        self._name = name
        self._sweep = sweep
        self._limits = limits
        self._journal = journal
        self._by_name: dict[str, Point] = {}
        self._rows: dict[str, Mapping[str, Any]] = {}
        self._untold: dict[str, list[JobTask]] = {}  # tasks that were yielded, by the names of their points
        self._yielded = 0
        self._waits = self._ended = False
        self._complete: dict[str, bool] = {}  # tasks that points require
        sweep._recall(journal.notes)  # noqa: SLF001  of this package
        self._tasks = iterated(sweep.points)
        self._replay(row_of)

    @property
    def exhausted(self) -> bool:
        """Whether the generator has ended, and no point is to be drawn again."""
        return self._ended and not self._again

    @property
    def waits(self) -> bool:
        """Whether the generator waits for the end of a point, and no point is to be drawn again."""
        return self._waits and not self._again

    @property
    def total(self) -> int | None:
        """The number of points, once the generator has ended."""
        return len(self.points) if self._ended else None

    def draw(self) -> Point | Ended | None:
        """Return the next point, or its end.

        Raises:
            PaiError, OSError: the journal cannot be written, or a server does not answer; the point stays.
            PaiSweepFailed: another process runs the search.
        """
        point = self._again.popleft() if self._again else self._propose()
        if point is None or point.handled:
            return point
        try:
            if point.record.asked is None:
                self._journal.ask(self._event("asked", point.name, **_recipe(point.task)))
            ended = self._known(point)
            if ended is None:
                if (missing := missing_requirement(point.task, self._complete)) is not None:
                    return Ended(point, Row("FAILED", error=missing))
                check_job(point.task)
        except (*TRANSIENT, *OF_ALL, HdfsError, OSError, PaiSweepFailed):
            self._again.append(point)
            raise
        except Exception as error:  # noqa: BLE001  users' own code may raise anything
            return Ended(point, Row("FAILED", error="; ".join(problem_texts(error))))
        return ended or point

    def tell(self, point: Point, row: Mapping[str, Any]) -> None:
        """Call ``tell`` of the sweep, once for each time that the generator has yielded the point."""
        self._waits = False
        self._rows[point.name] = row
        tasks = self._untold.pop(point.name, [])
        if tasks and not point.record.told:
            self._journal.note(self._event("told", point.name))
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
        """Return the next new point of the generator; None if it waits or has ended."""
        while not (self._ended or self._waits):
            try:
                task = next(self._tasks)
                if task is None:
                    self._waits = True
                elif (point := self._taken(task)) is not None:
                    return point
            except StopIteration:
                self._ended = True
            except Exception as error:  # noqa: BLE001  as above
                self._fail(user_error(error, "points()"))
        return None

    def _taken(self, task: Any) -> Point | None:
        """Return the point of a yielded task; None if its name is known, or if it is no task."""
        self._yielded += 1
        if self._yielded > self._limits.max_points:
            self._fail(too_many_points(self._limits.max_points))
            return None
        if not isinstance(task, JobTask):
            self._fail(f"points() has yielded {describe(task)}, which is no PaiTask or PaiProtocolTask")
            return None
        name = _name_of(task)
        if name in self._rows:
            self._tell(task, self._rows[name])
            return None
        self._untold.setdefault(name, []).append(task)
        return None if name in self._by_name else self._added(task, name)

    def _added(self, task: JobTask, name: str) -> Point:
        point = Point(task, name, len(self.points), self._journal.of(name))
        self._by_name[name] = point
        self.points.append(point)
        return point

    def _fail(self, error: str) -> None:
        """End the search; running jobs are watched to their ends."""
        if not self.error:
            logger.error("%s: %s; no further points are proposed", self._name, error)
        self.error, self._ended = self.error or error, True

    # after a kill

    def _replay(self, row_of: Callable[[Point], Mapping[str, Any]]) -> None:
        """Repeat the draws and ``tell`` calls in the journal."""
        told, is_same = 0, True
        for event, name in list(self._journal.history):
            if event == "asked":
                if is_same and not self._proposes(name, told):
                    is_same = False
                    if not self.error:
                        logger.warning(_OTHERS, self._name)
                if name not in self._by_name:
                    self._make(name)
                continue
            told += 1
            point = self._by_name.get(name)
            if point is not None and point.record.row is not None:
                self.tell(point, row_of(point))
        self._again = deque(sorted(self.points, key=_is_new))
        self._waits = False

    def _proposes(self, name: str, told: int) -> bool:
        """Return whether the generator's next point has a name.

        Args:
            name: of the point.
            told: number of ``tell`` calls before it; the generator may have waited for each.
        """
        for _ in range(told + 1):
            self._waits = False
            point = self._propose()
            if point is not None or self._ended:
                return point is not None and point.name == name
        return False

    def _make(self, name: str) -> None:
        """Recreate a recorded point from its parameters; end the search if that fails."""
        recipe = self._journal.of(name).asked or {}
        try:
            kinds = {point.task.task_family: type(point.task) for point in self.points}
            kind = kinds.get(recipe["family"]) or luigi.task_register.Register.get_task_cls(recipe["family"])
            task = kind.from_str_params(recipe["parameters"])
            if not isinstance(task, JobTask) or _name_of(task) != name:
                raise ValueError("its parameters make another task now")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001  of Luigi, or of the user's own code
            self._fail(
                f"point {name} of the journal cannot be made again: {user_error(error)}; define its class as "
                f"it was, or remove the folder {self._sweep.results.folder}"
            )
            return
        self._untold[name] = [task]
        self._added(task, name)


def _is_new(point: Point) -> bool:
    return point.record.claim is None


def _name_of(task: JobTask) -> str:
    """Return the name of a point; if that raises an error, the text of its task."""
    try:
        return task._definition().name  # noqa: SLF001  of this package
    except Exception:  # noqa: BLE001  users' own code may raise anything; check_job raises it again
        return str(task)


def _recipe(task: JobTask) -> dict[str, Any]:
    """Return family and parameters, from which a task can be made again."""
    texts = task.to_str_params(only_public=True)  # type: ignore[no-untyped-call]
    return {"family": task.task_family, "parameters": texts}
