"""Table: builds a sweep's rows from its journal, and writes them. Progress: sums them up in one line."""

from __future__ import annotations

import contextlib
import logging
import math
from collections import Counter, defaultdict, deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from luigi_pai.api.retries import is_transient
from luigi_pai.api.status import JobState
from luigi_pai.config import OpenPai
from luigi_pai.console import first_line, user_error
from luigi_pai.durations import counted, duration
from luigi_pai.errors import PaiError
from luigi_pai.sweep.point import Ended, describe, parameters_of
from luigi_pai.sweep.rows import Row, bounded, flattened
from luigi_pai.sweep.sheet import Summary, points_digest
from luigi_pai.tasks.outputs import LastReports
from luigi_pai.tasks.task_work import TaskWork
from luigi_pai.work.evidence import Evidence
from luigi_pai.work.lookup import decision

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.api.clock import Clock
    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.journal.journal import Journal
    from luigi_pai.sweep.point import Point
    from luigi_pai.sweep.results import SweepResults
    from luigi_pai.sweep.rows import Best
    from luigi_pai.tasks.job_task import JobTask

logger = logging.getLogger("luigi-interface")

_EVERY = 5.0  # minimum seconds between two writes
_SHARE = 0.05  # maximum share of time spent on writing
_LONGEST_PAUSE = 300.0  # maximum seconds between a failed write and the next one
_SHORTEST, _LONGEST = 2.0, 60.0  # seconds between two lines of progress
_GROWTH = 0.2  # the time between two lines, as a share of the sweep's age
_RATE_OF = 100  # a sweep's rate is estimated from its last 100 finished points
_LEAST_ENDS = 5  # how many points must have finished before the sweep's end is estimated
SHOWN_FAILURES = 10
"""How many failed points the log and an error name at most."""


class Progress:
    """A sweep's progress.

    Attributes:
        best: The best point so far; None if the sweep's ``best`` is not set.
        jobs: Point name -> its state in the table and its job's name. Leaves out finished points, and
            points without a job in this run.
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
        """Record a waiting or running point's state and job; return whether they changed."""
        before, self.jobs[point] = self.jobs.get(point), (state, job)
        return before != self.jobs[point]

    def left(self, point: str) -> None:
        """Record that a point's job has finished, and that the point may be submitted again."""
        if point in self.jobs:
            self.jobs[point] = "RETRY_PENDING", self.jobs[point][1]

    def ended(self, point: str, state: str) -> None:
        """Record a point's final state."""
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
        """Return the percentage of finished points; None if the total is unknown."""
        return math.floor(100 * sum(self._ended.values()) / total) if total else None

    def idle(self) -> float:
        """Return how long until the next line, in seconds."""
        now = self._clock.monotonic()
        wait = min(max(_GROWTH * (now - self._began), _SHORTEST), _LONGEST)
        return max(0.0, self._shown_at + wait - now)

    def line(self, total: int | None, slowest: float = 0.0) -> str | None:
        """Return a line for the log; None if nothing changed or the last line is too recent.

        Args:
            total: The number of points, if known.
            slowest: How long the remaining submissions take at least, in seconds, because the server limits
                them.
        """
        line = self.summary(total)
        if self.idle() > 0 or line == self._last:
            return None
        self._shown_at, self._last = self._clock.monotonic(), line
        left = 0 if total is None else total - sum(self._ended.values())
        return line + self._forecast(left, slowest)

    def summary(self, total: int | None) -> str:
        """Return the line without the estimated end, even if nothing changed."""
        parts = [f"{count:,} {state}" for state, count in self.counts.items() if count] or ["none started"]
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


class Table:
    """A sweep's rows.

    Attributes:
        sweep: The sweep's name.
        progress: The sweep's progress.
        points: All known points; the list may grow.
        failed: The failed points with the reasons, in the order in which they failed.
        without_metrics: How many points have no ``metrics.json``; their rows contain the last reported
            values.
        without_result: How many points succeeded without a result.
        result_error: The last error from the user's ``result()``.
    """

    def __init__(
        self, target: SweepResults, sweep: str, journal: Journal, clock: Clock, best: Best | None = None
    ) -> None:
        self.sweep = sweep
        self.progress = Progress(clock, best)
        self.points: list[Point] = []
        self.failed: list[Ended] = []
        self.without_metrics = self.without_result = 0
        self.result_error = ""
        self._target = target
        self._journal = journal
        self._clock = clock
        self._again: list[Ended] = []
        self._remarks: dict[str, str] = {}
        self._changed = True
        self._next = clock.monotonic() + _EVERY

    def recorded_end(self, point: Point) -> Ended | None:
        """Return a point's recorded end on its current cluster; None if there is none."""
        row, cluster = point.record.row, point.record.cluster
        return None if row is None or cluster != _url_of(point) else Ended(point, row, recorded=True)

    def changed(self, point: Point, status: JobStatus) -> None:
        """Record a waiting or running point's state."""
        state = "RETRY_PENDING" if status.state is JobState.FAILED else status.state.value
        state = "PRUNED" if point.record.pruned else state
        self._changed = self.progress.changed(point.name, state, status.name) or self._changed

    def failed_code(self, error: str, point: Point) -> None:
        """Record an error from the user's ``keep()``; the point continues. Logs only new messages."""
        if error not in self._remarks.values():
            logger.error("%s: %s; the point continues", self.sweep, error)
        self._remarks[point.name] = error

    def ended(self, ended: Ended) -> Mapping[str, Any]:
        """Record a point's end, log a failure, and return the point's row: column -> value."""
        if not ended.row.is_good:
            self.failed.append(ended)
            if len(self.failed) <= SHOWN_FAILURES:
                logger.warning("%s: %s", self.sweep, failure(ended))
            elif len(self.failed) == SHOWN_FAILURES + 1:
                logger.warning("%s: more failures are in its table only", self.sweep)
        self.progress.ended(ended.point.name, ended.row.state)
        self._record(ended)
        row = self.row_of(ended.point)
        if self.progress.best is not None:
            self.progress.best.add(row)
        return row

    def _record(self, ended: Ended) -> None:
        point = ended.point
        self._changed = True
        if not ended.recorded:
            row = replace(ended.row, error=ended.row.error or self._remarks.get(point.name, ""))
            may_succeed = False
            if row.is_good:
                result, problem, may_succeed = self._result_of(point.task)
                row = replace(row, result=result, error=row.error or problem)
            if may_succeed or ended.unrecorded:
                self._again.append(ended)
            self._journal.end(point.name, ended.number, row, "" if ended.unrecorded else _url_of(point))

    def row_of(self, point: Point) -> Mapping[str, Any]:
        """Return a finished point's row: column -> value. A missing column's value is None."""
        return defaultdict(lambda: None, flattened([self._cells(point)])[1][0])

    def collect_again(self) -> None:
        """Try again to record ends and read results that failed because a server did not respond."""
        again, self._again = self._again, []
        for ended in again:
            self._record(replace(ended, unrecorded=ended.unrecorded and not _records_again(ended)))

    def idle(self) -> float:
        """Return how long until rows must be written, in seconds; infinity if no row changed."""
        return max(0.0, self._next - self._clock.monotonic()) if self._changed else math.inf

    def write_if_due(self) -> None:
        """Write the journal and all rows if a row changed, at most every 5 s. Logs errors."""
        if self.idle() > 0:
            return
        start, longest = self._clock.monotonic(), math.inf
        try:
            self.write()
        except (PaiError, OSError) as error:
            logger.warning("Sweep %s: cannot write its table: %s", self.sweep, first_line(error))
            longest = _LONGEST_PAUSE
        now = self._clock.monotonic()
        self._next = now + min(max(_EVERY, (now - start) / _SHARE), longest)

    def write(self, *, complete: bool = False) -> None:
        """Write the journal and all rows; ``complete`` says whether the sweep succeeded."""
        now_ms = int(self._clock.time() * 1000)
        self._journal.flush()
        summary = Summary(
            self.sweep,
            points=len(self.points),
            complete=complete,
            started_ms=self._journal.info.get("at", now_ms),
            updated_ms=now_ms,
            digest=points_digest(point.name for point in self.points),
            best=self.progress.best.declaration if self.progress.best else "",
        )
        self._target.write(map(self._cells, self.points), summary)
        self._changed = False

    def _cells(self, point: Point) -> tuple[dict[str, Any], Row]:
        parameters = parameters_of(point.task)
        if self.points and type(point.task) is not type(self.points[0].task):
            parameters["task"] = point.task.task_family
        if (row := point.record.row) is not None and point.name not in self.progress.jobs:
            return parameters, row
        state, job = self.progress.jobs.get(point.name, ("PENDING", ""))
        return parameters, Row(state, job=job)

    def _result_of(self, task: JobTask) -> tuple[dict[str, Any], str, bool]:
        """Return the values from ``result()``, a problem if any, and whether a retry may succeed."""
        try:
            result: Any = task.result()
            if result is not None and not hasattr(result, "keys"):
                kind = f"{type(result).__name__}, not a dict such as {{'accuracy': 0.97}}"
                raise ValueError(f"result() of {type(task).__name__} returned {kind}")  # noqa: TRY301
            self.without_metrics += isinstance(result, LastReports)
            values, problem = bounded(dict(result or {}))
        except Exception as error:  # noqa: BLE001  users' own code may raise anything, and the sweep continues
            message = first_line(error) if isinstance(error, (PaiError, ValueError)) else ""
            self.result_error = message or user_error(error)
            return {}, f"no result: {self.result_error}", is_transient(error)
        self.without_result += not (values or problem)
        return values, problem, False


def _records_again(ended: Ended) -> bool:
    """Look up a point again; return whether this recorded its end in its output folder."""
    work = TaskWork(ended.point.task, single=False)
    with contextlib.suppress(PaiError):
        decision(work)
    return Evidence(work).recorded_end == (ended.number, ended.row.state)


def _url_of(point: Point) -> str:
    """Return the URL of a point's rest-server."""
    return OpenPai.current(point.task.cluster).cluster().url


def failure(ended: Ended) -> str:
    """Return a message with a failed point's parameters, its job and why it failed."""
    point = describe(ended.point.task)
    job = f" ({ended.row.job})" if ended.row.job and ended.row.job not in point else ""
    return f"{point}{job}: {ended.row.error}"
