"""Sources of points: a list, and a search that proposes points while others run."""

from __future__ import annotations

import logging
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from luigi_pai.errors import Problem, SpecError
from luigi_pai.sweep.points import checked_point, describe, problem_texts, too_many_points
from luigi_pai.sweep.units import Ended, Point
from luigi_pai.tasks.job_task import JobTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from luigi_pai.sweep.limits import SweepLimits

__all__ = ["ListedPoints", "SearchedPoints", "Source"]

logger = logging.getLogger("luigi-interface")


class Source(Protocol):
    """Where the engine draws points from.

    Attributes:
        points: all that are known so far, in their order.
    """

    points: list[Point]

    @property
    def exhausted(self) -> bool:
        """There are no more points."""
        ...

    @property
    def waits(self) -> bool:
        """It has no point before another one has ended."""
        ...

    @property
    def total(self) -> int | None:
        """Number of points; None while it is not known."""
        ...

    @property
    def left(self) -> int:
        """Number of points that are known and not drawn yet."""
        ...

    def draw(self) -> Point | Ended | None:
        """Return the next point, or how it has ended if it has already; None if there is none now."""
        ...

    def put_back(self, point: Point) -> None:
        """Draw a point again, after the others."""
        ...

    def tell(self, point: Point, row: Mapping[str, Any]) -> None:
        """Take note of the end of a point.

        Args:
            point: which one.
            row: of the table: column -> value.
        """
        ...


class ListedPoints:
    """Points that are known beforehand.

    Args:
        points: in their order.
        order: points are drawn by this key; those of the same one in their order.
        known: returns how a point has ended in an earlier run of the sweep, if that stands; else None.
        tell: called with each task that has ended, and its row.
    """

    def __init__(
        self,
        points: list[Point],
        order: Callable[[Point], int],
        known: Callable[[Point], Ended | None],
        tell: Callable[[JobTask, Mapping[str, Any]], object],
    ) -> None:
        self.points = points
        self.waits = False
        self._left = deque(sorted(points, key=order))
        self._known = known
        self._tell = tell

    @property
    def exhausted(self) -> bool:
        """Whether all points are drawn."""
        return not self._left

    @property
    def total(self) -> int | None:
        """The number of points."""
        return len(self.points)

    @property
    def left(self) -> int:
        """The number of points that are not drawn yet."""
        return len(self._left)

    def draw(self) -> Point | Ended | None:
        """Return the next point."""
        if not self._left:
            return None
        point = self._left.popleft()
        return self._known(point) or point

    def put_back(self, point: Point) -> None:
        """Draw a point again, after the others."""
        self._left.append(point)

    def tell(self, point: Point, row: Mapping[str, Any]) -> None:
        """Hand on the end of a point."""
        self._tell(point.task, row)


class SearchedPoints:
    """Points that a generator proposes, one whenever a place is free.

    It may yield None: there is no point before another one has ended. A task that it has yielded before is
    not run again; it gets the row of the first.

    Args:
        name: of the sweep.
        tasks: the generator.
        limits: of the sweep.
        known, tell: as of ``ListedPoints``.
    """

    def __init__(
        self,
        name: str,
        tasks: Iterable[Any],
        limits: SweepLimits,
        known: Callable[[Point], Ended | None],
        tell: Callable[[JobTask, Mapping[str, Any]], object],
    ) -> None:
        self.points: list[Point] = []
        self._waits = False
        self._name = name
        self._tasks: Iterator[Any] = iter(tasks)
        self._limits = limits
        self._known = known
        self._tell = tell
        self._again: deque[Point] = deque()
        self._rows: dict[str, Mapping[str, Any] | None] = {}
        self._twins: dict[str, list[JobTask]] = {}
        self._drawn = 0
        self._ended = False

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

    @property
    def left(self) -> int:
        """The number of points that are to be drawn again."""
        return len(self._again)

    def draw(self) -> Point | Ended | None:
        """Return the next point.

        Raises:
            SpecError: the generator has yielded more than ``max_points``.
        """
        if self._again:
            point = self._again.popleft()
            return point if point.attempts else self._known_or(point)
        while not self._ended and not self._waits:
            try:
                task = next(self._tasks)
            except StopIteration:
                self._ended = True
                break
            if task is None:
                self._waits = True
                break
            self._drawn += 1
            if self._drawn > self._limits.max_points:
                raise SpecError(self._name, [too_many_points(self._limits.max_points)], "sweep")
            drawn = self._checked(task)
            if drawn is not None:
                return drawn
        return None

    def put_back(self, point: Point) -> None:
        """Draw a point again, before the generator proposes others."""
        self._again.append(point)

    def tell(self, point: Point, row: Mapping[str, Any]) -> None:
        """Hand on the end of a point, for each time that the generator has yielded it."""
        self._waits = False
        self._rows[point.name] = row
        for task in [point.task, *self._twins.pop(point.name, ())]:
            self._tell(task, row)

    def _known_or(self, point: Point) -> Point | Ended:
        """Return a point, or how it has ended; if that cannot be found out now, it is drawn again."""
        try:
            return self._known(point) or point
        except BaseException:
            self._again.append(point)
            raise

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
            self._rows[point.name] = None
            self.points.append(point)
            return self._known_or(point)
        row = self._rows[point.name]
        if row is None:
            self._twins.setdefault(point.name, []).append(task)
        else:
            self._tell(task, row)
        return None
