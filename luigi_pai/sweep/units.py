"""Units: a unit is a job that a sweep submits, and the points that it serves."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Protocol

from luigi_pai.api.status import JobState
from luigi_pai.api.watching import Outcome, Update
from luigi_pai.errors import (
    AuthenticationError,
    ClusterUnreachable,
    ConfigError,
    PaiError,
    PaiJobFailed,
    PaiJobTimeout,
    RateLimited,
)
from luigi_pai.tasks.task_run import RunsInArrayError, TaskRun

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.retries import Steps
    from luigi_pai.api.status import JobStatus
    from luigi_pai.tasks.job_task import JobTask
    from luigi_pai.tasks.options import Options

__all__ = ["OF_ALL", "Ended", "Point", "PointUnit", "Unit", "end_of", "first_line", "key_of", "run_of"]

OF_ALL = (AuthenticationError, ClusterUnreachable, ConfigError, RateLimited)
"""Errors that concern all points of a sweep."""

_LONGEST = 300  # characters of a reason


@dataclass(slots=True, eq=False)
class Point:
    """A point of a sweep.

    Attributes:
        task: the user's task.
        name: of its job; that of the task.
        index: its number in the sweep, from 0.
        attempts: how many times this run of the sweep has begun it.
    """

    task: JobTask
    name: str
    index: int
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a point has ended.

    Attributes:
        point: which one.
        state: ``SUCCEEDED``, ``FAILED``, ``STOPPED``, or ``PRUNED``.
        job: the name of its submission; empty where the server no longer knows it.
        page: URL of that job's page, or empty.
        seconds: from the start of the job to its end; None where it is not known.
        error: why it failed, in a line.
        may_retry: another submission may succeed.
        result: its values; None: those of ``result()`` of the task.
    """

    point: Point
    state: str
    job: str = ""
    page: str = ""
    seconds: float | None = None
    error: str = ""
    may_retry: bool = False
    result: dict[str, Any] | None = field(default=None, hash=False)

    @property
    def succeeded(self) -> bool:
        """Whether it has succeeded."""
        return self.state == "SUCCEEDED"


class Unit(Protocol):
    """A job and the points that it serves. The engine begins it, watches its job, and finishes it."""

    @property
    def points(self) -> Sequence[Point]:
        """The points that it serves; at least one."""
        ...

    @property
    def book(self) -> Book:
        """The book of its job's cluster."""
        ...

    @property
    def key(self) -> Hashable:
        """Units of one key are on one cluster, in one dialect: one watcher has them all."""
        ...

    @property
    def options(self) -> Options:
        """``queue_timeout``, ``run_timeout`` and ``on_kill`` of its job."""
        ...

    @property
    def with_tasks(self) -> bool:
        """Whether the tasks of its job tell how its points end."""
        ...

    def begin(self) -> Steps[Entry | None]:
        """Find its job, or submit it; None if there is nothing to run. Called once.

        Raises:
            PaiError: it was not submitted, or may have been: the text says which.
        """
        ...

    def further(self) -> Sequence[Unit]:
        """Return units of those points that are not served by this one; called once, after ``begin``."""
        ...

    def statuses(self, status: JobStatus) -> Iterable[tuple[Point, JobStatus]]:
        """Return the points that have not ended, each with its own status, by the status of the job."""
        ...

    def changed(self, status: JobStatus) -> Sequence[Ended]:
        """Return the points that have ended while the job goes on; called for each new status."""
        ...

    def finish(self, update: Update | None) -> Sequence[Ended]:
        """Return how the rest of its points have ended.

        Args:
            update: the last one of its job; None if there was nothing to watch: ``begin`` returned None, or
                a job that has ended.
        """
        ...

    def reports(self) -> list[dict[str, Any]]:
        """Return what the containers of its job have reported, oldest first."""
        ...


class PointUnit:
    """One job for one point: that of its task alone, unless the point waits or runs in an array.

    Args:
        point: the point.
        lookup: returns a unit that looks the point up in arrays.
        error: why it cannot be submitted; None if it can.

    Attributes:
        points: that point.
        book, key, options, with_tasks: see ``Unit``.
    """

    with_tasks = False

    __slots__ = ("_entry", "_error", "_further", "_lookup", "_run", "book", "key", "options", "points")

    def __init__(self, point: Point, lookup: Callable[[Point], Unit], error: Exception | None = None) -> None:
        self._run = run_of(point)
        self._lookup = lookup
        self._error = error
        self.points = (point,)
        self.book = self._run.book
        self.key = key_of(self.book)
        self.options = self._run.options
        self._entry: Entry | None = None
        self._further: list[Unit] = []

    def begin(self) -> Steps[Entry | None]:
        """Find the job, or submit it."""
        if self._error is not None:
            raise self._error
        try:
            self._entry = yield from self._run.begin()
        except RunsInArrayError:
            self._further = [self._lookup(self.points[0])]
        return self._entry

    def further(self) -> Sequence[Unit]:
        """Return the unit that looks for the array, if there is one."""
        return self._further

    def statuses(self, status: JobStatus) -> Iterable[tuple[Point, JobStatus]]:
        """Return the point with the status of the job."""
        return ((self.points[0], status),)

    def changed(self, status: JobStatus) -> Sequence[Ended]:
        """Return nothing: the point ends with its job."""
        del status
        return ()

    def finish(self, update: Update | None) -> Sequence[Ended]:
        """Record the end of the job, as a run of the task alone does, and return that of the point."""
        (point,), entry = self.points, self._entry
        if self._further:
            return ()
        if entry is None or entry.status is None:
            return [Ended(point, "SUCCEEDED")]
        return [end_of(point, self._run, entry, update or Update(entry.job, entry.status, Outcome.ENDED))]

    def reports(self) -> list[dict[str, Any]]:
        """Return what the containers have reported in this submission."""
        return self._run.outputs.reports(None if self._entry is None else self._entry.job)


def key_of(book: Book) -> Hashable:
    """Return what units have in common whose jobs one watcher can have."""
    return book.api.url, book.api.username, book.api.detector.given


def run_of(point: Point) -> TaskRun:
    """Return a run of a point's task."""
    return TaskRun(point.task._definition(), single=False)  # noqa: SLF001  of this package


def end_of(point: Point, run: TaskRun, entry: Entry, update: Update) -> Ended:
    """Record the end of a submission of a point, and return how the point has ended.

    Args:
        point: which one.
        run: of its task.
        entry: the submission.
        update: its last one.
    """
    status = update.status
    ended = Ended(point, status.state.value, status.name, run.book.api.page(status.name), _seconds(status))
    try:
        run.finish(entry, update)
    except PaiJobFailed as error:
        may_retry = status.state is JobState.FAILED and not isinstance(error, PaiJobTimeout)
        may_retry = may_retry and run.options.is_retried((status.exit_code, status.command_exit_code))
        return replace(ended, error=_reason(error), may_retry=may_retry)
    except PaiError as error:
        return replace(ended, state="FAILED", error=first_line(error))
    return ended


def first_line(error: BaseException) -> str:
    """Return the first line of an error, cut."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0] if len(lines[0]) <= _LONGEST else f"{lines[0][:_LONGEST]} ..."


def _reason(error: PaiJobFailed) -> str:
    """Return why a job failed, in a line: its end, and the last line of its log, or what the server says."""
    end = first_line(error).removeprefix(f"job {error.status.name!r} ").removeprefix("ended as FAILED with ")
    end = end.replace(" (UNKNOWN)", "")
    lines = iter(str(error).splitlines())
    log: list[str] = []
    if any(line.startswith("  last lines of ") for line in lines):
        log = [line.strip() for line in itertools.takewhile(lambda line: line.startswith("    "), lines)]
    last = next((line for line in reversed(log) if line), "")
    return f"{end.partition(': ')[0]}: {last[:_LONGEST]}" if last else end


def _seconds(status: JobStatus) -> float | None:
    began = status.launched_ms or status.created_ms
    if began is None or status.completed_ms is None:
        return None
    return max(0.0, (status.completed_ms - began) / 1000)
