"""Table: the rows of a sweep while it runs, with the results of ended points; written now and then."""

from __future__ import annotations

import json
import logging
import math
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import PaiError
from luigi_pai.hdfs.errors import HdfsError
from luigi_pai.spec.names import base_name, v2_name
from luigi_pai.sweep.points import parameters_of
from luigi_pai.sweep.results import FIXED, Row, Summary, flattened, points_digest
from luigi_pai.sweep.units import Ended, first_line

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.api.clock import Clock
    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.results import SweepResults
    from luigi_pai.sweep.units import Point
    from luigi_pai.tasks.job_task import JobTask

__all__ = ["Table"]

logger = logging.getLogger("luigi-interface")

_EVERY = 5.0  # seconds between two writings, at least
_SHARE = 0.05  # of the time, spent on writing at most
_LONGEST_PAUSE = 300.0  # seconds after a writing that failed
_MOST_VALUES = 100  # of a result
_LONGEST_VALUE = 1000  # characters of JSON
_PRUNED = "PRUNED"
_SUBMITTED = (
    "SUCCEEDED",
    "RUNNING",
    "WAITING",
    "STOPPING",
    "COMPLETING",
    "RETRY_PENDING",
    "UNKNOWN",
    _PRUNED,
)


class Table:
    """The rows of a sweep.

    Args:
        target: the table on HDFS or in a local folder.
        sweep: the name of the sweep.
        points: all points that are known so far; the list may grow.
        clock: throttles, and says when rows were written.
    """

    def __init__(self, target: SweepResults, sweep: str, points: list[Point], clock: Clock) -> None:
        self._target = target
        self._sweep = sweep
        self._points = points
        self._clock = clock
        self._rows: dict[int, Row] = {}
        self._running: dict[int, tuple[str, str]] = {}
        self._unread: list[Ended] = []
        self._started_ms = int(clock.time() * 1000)
        self._changed = True
        self._next = clock.monotonic() + _EVERY
        self._earlier = self._read()

    # of an earlier run

    def place(self, point: Point) -> int:
        """Return where to draw a point: 0 if an earlier run of the sweep has submitted it, else 1."""
        row = self._earlier_row(point)
        return 0 if row is not None and row["state"] in _SUBMITTED else 1

    def pruned(self, point: Point) -> Ended | None:
        """Return how an earlier run of the sweep has ended a point, if it has stopped it."""
        row = self._earlier_row(point)
        if row is None or row["state"] != _PRUNED:
            return None
        parameters = parameters_of(point.task)
        result = {key: row[key] for key in row if key not in (*FIXED, *parameters, "task")}
        kept = {key: value for key, value in result.items() if value is not None}
        return Ended(point, _PRUNED, row["job"] or "", row["page"] or "", row["seconds"], result=kept or None)

    def _earlier_row(self, point: Point) -> dict[str, Any] | None:
        return self._earlier.get(point.name) or self._earlier.get(v2_name(point.name))

    def _read(self) -> dict[str, dict[str, Any]]:
        """Return the rows of an earlier run by the names of their points."""
        try:
            summary, rows = self._target.summary(), self._target.rows()
            found = {base_name(row["job"]): row for row in rows if row["job"]}
        except (PaiError, OSError, ValueError, LookupError, TypeError) as error:
            logger.debug("Sweep %s: no rows of an earlier run: %s", self._sweep, error)
            return {}
        if not summary.complete:
            self._started_ms = summary.started_ms
        return found

    # of this run

    def changed(self, point: Point, status: JobStatus) -> None:
        """Note the state of a point that waits or runs."""
        before = self._running.get(point.index)
        if before != (_PRUNED, status.name):
            self._running[point.index] = status.state.value, status.name
            self._changed = self._changed or before != self._running[point.index]

    def pruning(self, point: Point, job: str) -> None:
        """Note that the job of a point is being stopped, as the point is not kept."""
        self._running[point.index] = _PRUNED, job
        self._changed = True

    def ended(self, ended: Ended) -> Mapping[str, Any]:
        """Note the end of a point, and return its row: column -> value."""
        point = ended.point
        self._running.pop(point.index, None)
        result, error = ended.result or {}, ended.error
        if ended.result is None and ended.state in ("SUCCEEDED", _PRUNED):
            result, problem, may_succeed = _result_of(point.task)
            error = error or problem
            if may_succeed:
                self._unread.append(ended)
        row = self._rows[point.index] = Row(
            self._parameters(point), ended.state, result, ended.seconds, ended.job, ended.page, error
        )
        self._changed = True
        return flattened([row])[1][0]

    def collect_again(self) -> None:
        """Collect results once more that could not be read because HDFS did not answer."""
        unread, self._unread = self._unread, []
        for ended in unread:
            self.ended(ended)

    def idle(self) -> float:
        """Return the seconds until rows are to be written; infinity if none has changed."""
        return max(0.0, self._next - self._clock.monotonic()) if self._changed else math.inf

    def write_if_due(self) -> None:
        """Write the rows, if some have changed, at most every 5 s; an error is logged."""
        if self.idle() > 0:
            return
        began = self._clock.monotonic()
        try:
            self.write()
        except (PaiError, OSError) as error:
            logger.warning("Sweep %s: its table could not be written: %s", self._sweep, first_line(error))
            now = self._clock.monotonic()
            self._next = now + min(max(_EVERY, (now - began) / _SHARE), _LONGEST_PAUSE)

    def write(self, *, complete: bool = False) -> None:
        """Write all rows.

        Args:
            complete: the sweep has ended as it should.

        Raises:
            HdfsError: HDFS failed.
            OSError: the local folder cannot be written.
        """
        began = self._clock.monotonic()
        summary = Summary(
            self._sweep,
            points=len(self._points),
            complete=complete,
            started_ms=self._started_ms,
            updated_ms=int(self._clock.time() * 1000),
            digest=points_digest(point.name for point in self._points),
        )
        self._target.write(
            [self._rows.get(point.index) or self._open_row(point) for point in self._points], summary
        )
        now = self._clock.monotonic()
        self._next, self._changed = now + max(_EVERY, (now - began) / _SHARE), False

    def _open_row(self, point: Point) -> Row:
        """Return the row of a point that has not ended."""
        state, job = self._running.get(point.index, ("PENDING", ""))
        return Row(self._parameters(point), state, job=job)

    def _parameters(self, point: Point) -> dict[str, Any]:
        """Return what tells a point from others: its parameters, and its class where there are several."""
        parameters = parameters_of(point.task)
        if type(point.task) is not type(self._points[0].task):
            parameters["task"] = point.task.task_family
        return parameters


def _result_of(task: JobTask) -> tuple[dict[str, Any], str, bool]:
    """Return the values of a task's ``result()``.

    Returns:
        the values; what is wrong with them, or an empty text; whether another try may succeed.
    """
    try:
        given: Any = task.result()
        if given is None:
            return {}, "", False
        values = dict(given)
        sizes = {key: len(json.dumps(value, default=str)) for key, value in values.items()}
    except Exception as error:  # noqa: BLE001  users' own code may raise anything, and the sweep goes on
        text = first_line(error)
        known = isinstance(error, (PaiError, ValueError))
        may_succeed = isinstance(error, HdfsError) and error.transient
        return {}, f"no result: {text if known else f'{type(error).__name__}: {text}'}", may_succeed
    kept = [key for key in values if sizes[key] <= _LONGEST_VALUE][:_MOST_VALUES]
    left_out = [str(key) for key in values if key not in kept]
    names = f"{', '.join(left_out[:5])}{', ...' if len(left_out) > 5 else ''}"  # noqa: PLR2004
    problem = (
        f"left out of the result: {names} (a row has at most {_MOST_VALUES} values of {_LONGEST_VALUE} "
        "characters)"
    )
    return {str(key): values[key] for key in kept}, problem if left_out else "", False
