"""Sources of points: a list, and a search that proposes points while others run."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any

import luigi

from luigi_pai.errors import Problem, SpecError
from luigi_pai.sweep.jobs import Ended, Point
from luigi_pai.sweep.points import checked_point, describe, problem_texts, too_many_points
from luigi_pai.sweep.user_code import user_error
from luigi_pai.tasks.job_task import JobTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from luigi_pai.sweep.journal import Journal, Record
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.sweep import PaiSweep

__all__ = ["SearchedPoints", "Source"]

logger = logging.getLogger("luigi-interface")


class Source:
    """Where the engine draws points from: a list. Points that were submitted before are drawn first.

    Args:
        points: in their order.
        known: returns how a point has ended in an earlier run of the sweep, if that stands; else None.

    Attributes:
        points: all that are known so far, in their order.
        fills_packs: points that are to share a job wait for others.
        error: of the user's code, which ends a search; empty for none.
    """

    fills_packs = True
    error = ""

    def __init__(self, points: list[Point], known: Callable[[Point], Ended | None]) -> None:
        self.points = points
        self._again = deque(sorted(points, key=lambda point: point.record.claim is None))
        self._known = known

    @property
    def exhausted(self) -> bool:
        """There are no more points."""
        return not self._again

    @property
    def waits(self) -> bool:
        """It has no point before another one has ended."""
        return False

    @property
    def total(self) -> int | None:
        """Number of points; None while it is not known."""
        return len(self.points)

    @property
    def left(self) -> int:
        """Number of points that are known and not drawn yet."""
        return len(self._again)

    def draw(self) -> Point | Ended | None:
        """Return the next point, or how it has ended if it has already; None if there is none now."""
        if not self._again:
            return None
        point = self._again.popleft()
        return self._known(point) or point

    def put_back(self, point: Point) -> None:
        """Draw a point again, after the others that are known."""
        self._again.append(point)

    def tell(self, point: Point, row: Mapping[str, Any]) -> None:
        """Take note of the end of a point; only a search does.

        Args:
            point: which one.
            row: of the table: column -> value.
        """


class SearchedPoints(Source):
    """Points that a generator proposes, one whenever a place is free.

    It may yield None: there is no point before another one has ended. A task that it has yielded before is
    not run again; it gets the row of the first.

    What was asked and told before a kill is asked and told again first, in the same order. A point of the
    journal that is not proposed again is made anew from its parameters, so that its job is watched, and its
    row stays.

    Args:
        sweep: the search.
        name: of the sweep.
        limits: of the sweep.
        journal: of the sweep, as it was read.
        known: as of ``Source``.
        row_of: returns the row of a point that has ended, from the journal.
    """

    fills_packs = False

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
        self._waits = False
        self._name = name
        self._sweep = sweep
        self._limits = limits
        self._journal = journal
        self._rows: dict[str, Mapping[str, Any] | None] = {}
        self._duplicates: dict[str, list[JobTask]] = {}
        self._retold: set[str] = set()
        self._drawn = 0
        self._ended = False
        history = list(journal.history)
        sweep._replay([(journal.of(asked).asked or {}).get("note") for asked in journal.asked])  # noqa: SLF001
        self._tasks: Iterator[Any] = iter(sweep.points())
        self._replay(history, row_of)

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
        """Return the next point.

        Raises:
            SpecError: the generator has yielded more than ``max_points``.
            HdfsError, OSError: the journal cannot be written; the point is drawn again.
        """
        if self._again:
            point = self._again.popleft()
            return point if point.handled else self._known_or(point)
        while not self._ended and not self._waits:
            task = self._next()
            if task is not None:
                drawn = self._checked(task)
                if drawn is not None:
                    return drawn
        return None

    def _next(self) -> Any:
        """Ask the generator for a task; None if it waits or has ended."""
        try:
            task = next(self._tasks)
        except StopIteration:
            self._ended = True
            return None
        except SpecError:
            raise
        except Exception as error:  # noqa: BLE001  users' own code may raise anything
            self._fail(user_error(error, "points()"))
            return None
        if task is None:
            self._waits = True
            return None
        self._drawn += 1
        if self._drawn > self._limits.max_points:
            raise SpecError(self._name, [too_many_points(self._limits.max_points)], "sweep")
        return task

    def _fail(self, error: str) -> None:
        """End the search; what runs is watched to its end."""
        if not self.error:
            logger.error("%s: %s; no further points are proposed", self._name, error)
        self.error, self._ended = self.error or error, True

    def tell(self, point: Point, row: Mapping[str, Any]) -> None:
        """Hand on the end of a point, for each time that the generator has yielded it."""
        self._waits = False
        self._rows[point.name] = row
        if point.name in self._retold:
            return
        self._journal.note({"event": "told", "point": point.name})
        for task in [point.task, *self._duplicates.pop(point.name, ())]:
            self._tell(task, row)

    def _tell(self, task: JobTask, row: Mapping[str, Any]) -> None:
        try:
            self._sweep.tell(task, row)
        except Exception as error:  # noqa: BLE001  users' own code may raise anything
            self._fail(user_error(error, "tell()"))

    def _known_or(self, point: Point) -> Point | Ended:
        """Return a point, or how it has ended; if that cannot be found out now, it is drawn again."""
        try:
            if point.record.asked is None:
                self._journal.write({"event": "asked", "point": point.name, **self._asked(point.task)})
            return self._known(point) or point
        except BaseException:
            self._again.append(point)
            raise

    def _asked(self, task: JobTask) -> dict[str, Any]:
        """Return what it takes to make a task again."""
        texts = task.to_str_params(only_public=True)  # type: ignore[no-untyped-call]
        return {"family": task.task_family, "parameters": texts, "note": self._sweep._note(task)}  # noqa: SLF001

    def _checked(self, task: Any) -> Point | Ended | None:
        """Return a point that is new; None for one that was yielded before.

        Raises:
            SpecError: it is no task of this package.
        """
        try:
            point, _ = checked_point(task, len(self.points))
        except Exception as error:
            where = f"points()[{len(self.points)}], {describe(task)}"
            if not isinstance(task, JobTask):
                raise SpecError(self._name, [Problem(where, str(error))], "sweep") from None
            logger.debug("%s cannot be begun", where, exc_info=error)
            point = Point(task, str(task), len(self.points))
            self.points.append(point)
            return Ended(point, "FAILED", error="; ".join(problem_texts(error)))
        if point.name not in self._rows:
            self._take(point)
            return self._known_or(point)
        row = self._rows[point.name]
        if row is None:
            self._duplicates.setdefault(point.name, []).append(task)
        else:
            self._tell(task, row)
        return None

    def _take(self, point: Point) -> None:
        point.record = self._journal.of(point.name)
        self._rows[point.name] = None
        self.points.append(point)

    # after a kill

    def _replay(self, history: list[tuple[str, str]], row_of: Callable[[Point], Mapping[str, Any]]) -> None:
        """Ask and tell again what the journal has."""
        points: dict[str, Point] = {}
        waits = 1  # how often the generator may have waited for the end of a point
        differs = False
        for event, name in history:
            if event == "told":
                waits += 1
                if name in points and points[name].record.row is not None:
                    self._rows[name] = row_of(points[name])
                    self._retold.add(name)
                    for task in [points[name].task, *self._duplicates.pop(name, ())]:
                        self._tell(task, self._rows[name] or {})
                continue
            point = None if differs else self._asked_again(name, points, waits)
            if point is None and not differs:
                differs = True
                logger.warning(
                    "%s: points() proposes other points than before it was interrupted (has its sampler a "
                    "seed?). The points of then are in the table, their jobs are watched, and the search is "
                    "told of them",
                    self._name,
                )
            point = point or self._made_again(name, self._journal.of(name))
            if point is not None:
                points[name] = point
                self._again.append(point)
        self._waits = False

    def _asked_again(self, name: str, points: Mapping[str, Point], waits: int) -> Point | None:
        """Ask the generator for the point of a name; None if it proposes another one."""
        while waits > 0:
            self._waits = False
            task = self._next()
            if task is None:
                if self._ended:
                    return None
                waits -= 1
            elif getattr(task, "name", None) in points:  # it was not asked again then either
                self._checked(task)
            elif isinstance(task, JobTask) and task.name == name:  # type: ignore[attr-defined]
                point = Point(task, name, len(self.points))
                self._take(point)
                return point
            else:
                self._again_later(task)
                return None
        return None

    def _again_later(self, task: Any) -> None:
        """Draw a task that differs from the journal's after those of the journal."""
        drawn = self._checked(task) if isinstance(task, JobTask) else None
        if drawn is not None:
            self._again.append(drawn.point if isinstance(drawn, Ended) else drawn)

    def _made_again(self, name: str, record: Record) -> Point | None:
        """Return a point of the journal from its parameters; None if its class cannot be found."""
        if record.asked is None or name in self._rows:
            return None
        try:
            kind = luigi.task_register.Register.get_task_cls(record.asked["family"])
            task = kind.from_str_params(record.asked["parameters"])
        except Exception as error:  # noqa: BLE001  of Luigi, or of the user's own code
            logger.warning("%s: point %s cannot be made again: %s", self._name, name, user_error(error, "it"))
            return None
        if not isinstance(task, JobTask) or task.name != name:  # type: ignore[attr-defined]
            return None
        point = Point(task, name, len(self.points))
        self._take(point)
        return point
