"""Progress of a sweep in a line: counts, the best point so far, and the estimated end."""

from __future__ import annotations

import math
import sys
from collections import Counter, deque
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from luigi_pai.durations import counted, duration
from luigi_pai.jobspec.hints import nearest
from luigi_pai.sweep.rows import FIXED, shown_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from luigi_pai.api.clock import Clock

_SHORTEST, _LONGEST = 2.0, 60.0  # seconds between two lines
_GROWTH = 0.2  # the time between two lines, as a share of the sweep's age
_RATE_OF = 100  # the rate of a sweep is estimated from the last 100 points that have ended
_LONGEST_WHERE = 100  # characters of the parameters of the best point
_LEAST_ENDS = 5  # number of points that must have ended before the end of the sweep is estimated


class Best:
    """The best point so far.

    Args:
        declaration: ``max COLUMN`` or ``min COLUMN``.

    Attributes:
        declaration: as given.
        sign: 1 for max, -1 for min.
        column: the name of the column.

    Raises:
        ValueError: the declaration has neither of these forms.
    """

    def __init__(self, declaration: str) -> None:
        words = declaration.split() if isinstance(declaration, str) else []
        if len(words) != 2 or words[0] not in ("max", "min"):  # noqa: PLR2004
            raise ValueError(f"{declaration!r} is not max COLUMN or min COLUMN, such as 'max accuracy'")
        self.declaration = declaration
        self.sign = 1 if words[0] == "max" else -1
        self.column = words[1]
        self._value: float | None = None
        self._where = ""
        self._columns: set[str] = set()
        self._has_results = self._is_there = False

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the row of a point that has ended.

        Args:
            row: column -> value, in the order of the table: the parameters, ``state``, the result.
        """
        if row["state"] != "SUCCEEDED":
            return
        columns = list(row)
        parameters = columns[: columns.index("state")]
        numbers = [column for column in columns if _is_number(row[column])]
        self._columns.update(column for column in numbers if column not in (*parameters, *FIXED))
        self._has_results |= any(column not in (*parameters, *FIXED) for column in columns)
        self._is_there |= self.column in columns
        if self.column not in numbers:
            return
        if self._value is None or self.sign * row[self.column] > self.sign * self._value:
            self._value = row[self.column]
            given = [name for name in parameters if row[name] is not None]
            self._where = ", ".join(f"{name}={shown_value(row[name])}" for name in given)

    def rank(self, row: Mapping[str, Any]) -> float:
        """Return a key that sorts rows: the best row is first, and rows that cannot be the best are last."""
        counts = row["state"] == "SUCCEEDED" and _is_number(row.get(self.column))
        return -self.sign * row[self.column] if counts else math.inf

    def missing(self) -> str:
        """Return a problem, if points have results but no point has the column, or else an empty text."""
        if self._value is not None or not self._has_results:
            return ""
        number = "a number in " if self._is_there else ""
        return f"no point has {number}{self.column}{nearest(self.column, sorted(self._columns))}"

    def __str__(self) -> str:
        if self._value is None:
            return ""
        where = shorten(self._where, _LONGEST_WHERE, placeholder=" ...")
        return f"best {self.column} {self._value:.6g}" + (f" ({where})" if where else "")


def ranked(declaration: str, rows: Iterable[Mapping[str, Any]]) -> tuple[str, list[Any]]:
    """Return the best point in words, and rows with the best row first.

    The words are empty, and the rows in the given order, if the declaration or no row says what is best.
    """
    rows = list(rows)
    try:
        best = Best(declaration)
    except ValueError:
        return "", rows
    for row in rows:
        best.add(row)
    return str(best), sorted(rows, key=best.rank)


class Progress:
    """The progress of a sweep.

    Args:
        clock: of the sweep.
        best: the best point so far; None if the sweep's ``best`` is not set.

    Attributes:
        best: as given.
        jobs: name of a point -> its state in the table, and the name of its job; without points that have
            ended, or had no job in this run.
    """

    def __init__(self, clock: Clock, best: Best | None = None) -> None:
        self.best = best
        self.jobs: dict[str, tuple[str, str]] = {}
        self._clock = clock
        self._began = clock.monotonic()
        self._ended: Counter[str] = Counter()
        self._ends: deque[float] = deque(maxlen=_RATE_OF)
        self._shown_at = -math.inf
        self._last = ""

    def changed(self, point: str, state: str, job: str) -> bool:
        """Record the state and the job of a point that waits or runs; return whether they are new."""
        before, self.jobs[point] = self.jobs.get(point), (state, job)
        return before != self.jobs[point]

    def left(self, point: str) -> None:
        """Record that the job of a point has ended, and that the point may be submitted again."""
        if point in self.jobs:
            self.jobs[point] = "RETRY_PENDING", self.jobs[point][1]

    def ended(self, point: str, state: str) -> None:
        """Record the state in which a point has ended."""
        if self.jobs.pop(point, None) is not None:
            self._ends.append(self._clock.monotonic())
        self._ended[{"SUCCEEDED": "done", "PRUNED": "pruned"}.get(state, "failed")] += 1

    @property
    def counts(self) -> dict[str, int]:
        """Number of points ``done``, ``running``, ``waiting``, ``failed`` and ``pruned``."""
        states = Counter(state for state, _ in self.jobs.values())
        waiting, again = states["WAITING"], states["RETRY_PENDING"]
        going = {"running": len(self.jobs) - waiting - again, "waiting": waiting}
        return {"done": 0, **going, "failed": 0, "pruned": 0, **self._ended}

    def percentage(self, total: int | None) -> int | None:
        """Return the percentage of finished points; None if the total is not known."""
        return math.floor(100 * sum(self._ended.values()) / total) if total else None

    def idle(self) -> float:
        """Return the seconds before the next line."""
        now = self._clock.monotonic()
        wait = min(max(_GROWTH * (now - self._began), _SHORTEST), _LONGEST)
        return max(0.0, self._shown_at + wait - now)

    def line(self, total: int | None, slowest: float = 0.0) -> str | None:
        """Return a line for the log; None if nothing has changed, or if the last line is too recent.

        Args:
            total: number of points, if it is known.
            slowest: seconds that the remaining submissions take at least, because the server limits them.
        """
        if self.idle() > 0:
            return None
        text = self.text(total)
        if text == self._last:
            return None
        self._shown_at, self._last = self._clock.monotonic(), text
        left = 0 if total is None else total - sum(self._ended.values())
        return text + self._forecast(left, slowest)

    def text(self, total: int | None) -> str:
        """Return the line without the estimated end, even if nothing has changed."""
        parts = [f"{count:,} {what}" for what, count in self.counts.items() if count] or ["none begun"]
        best = f"; {self.best}" if self.best is not None and str(self.best) else ""
        points = "search" if total is None else counted(total, "point")
        return f"{points}: {', '.join(parts)}{best}"

    def _forecast(self, left: int, slowest: float) -> str:
        now = self._clock.monotonic()
        if not left or len(self._ends) < _LEAST_ENDS:
            return ""
        since = self._ends[0] if len(self._ends) == _RATE_OF else self._began
        seconds = max(slowest, left * (now - since) / len(self._ends))
        return f"; done in about {duration(seconds)}"


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= sys.float_info.max  # an int may be larger than any float
