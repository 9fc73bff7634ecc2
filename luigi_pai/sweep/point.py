"""Point: a sweep's task, its state in this run, and its description. Ended: how a point ended."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import luigi
from luigi.parameter import ParameterVisibility

from luigi_pai.sweep.journal.records import Record
from luigi_pai.tasks.task_work import TaskWork
from luigi_pai.work.evidence import Evidence
from luigi_pai.work.submission import Member

if TYPE_CHECKING:
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.rows import Row
    from luigi_pai.tasks.job_task import JobTask
    from luigi_pai.work.piece import Work


@dataclass(slots=True, eq=False, repr=False)
class Point(Member):
    """A sweep's point. As a member of a job, it has the attributes of ``Member`` after ``prepare()``.

    Attributes:
        task: The user's task.
        name: The task's ``name``, which is also the name of its first submission.
        record: The point's state in the journal.
        max_attempts: The task's ``max_attempts`` setting.
        handled: The number of the last failed submission that this run decided to retry; 0 if there is
            none.
        posted: How many times this run submitted the point.
        proposed: Whether ``points()`` returned the task in this run. If False, the point exists only in a
            search's journal; it is looked up and watched, but never submitted.
        untold: Tasks that a search yielded for the point, and that were not passed to ``tell`` yet.
        looked_up: When the point was last looked up, in seconds on the monotonic clock; 0 before the first
            lookup.
        started_ms: The start time that the server sends, in ms since 1970. If it sends none, the time of the
            first lookup that found the point running.
    """

    work: Work = field(init=False)
    evidence: Evidence = field(init=False)
    number: int = field(default=0, init=False)
    index: int | None = field(default=None, init=False)
    task: JobTask
    name: str
    record: Record = field(default_factory=Record)
    max_attempts: int = 1
    handled: int = 0
    posted: int = 0
    proposed: bool = True
    untold: list[JobTask] = field(default_factory=list)
    looked_up: float = 0.0
    started_ms: int | None = None

    def prepare(self) -> None:
        """Prepare the point for a lookup or a submission, using the current settings.

        Raises:
            SpecError, ConfigError: its task's class or a setting is invalid.
        """
        self.work = TaskWork(self.task, single=False)
        self.evidence = Evidence(self.work)
        self.max_attempts = int(self.work.options["max_attempts"])
        self.number, self.index, self.looked_up, self.started_ms = 0, None, 0.0, None

    @property
    def is_proposed(self) -> bool:
        """Whether its work belongs to a task from ``points()``, not to a task from the journal."""
        return self.proposed and self.task is self.work.origin

    def is_final(self, number: int, limits: SweepLimits) -> bool:
        """Return whether a failed submission is the last allowed one.

        It is also the last one if this run submitted the point that many times, even if the journal contains
        fewer.
        """
        most = limits.attempts(self)
        return not self.proposed or self.posted >= most or self.record.is_final(number, most)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a point, or of a submission after which the point may be submitted again.

    Attributes:
        point: The point.
        row: The point's row in the table; the result is added when the end is recorded.
        may_retry: Whether another submission may succeed.
        number: The number of the finished submission; 0 if it is unknown.
        recorded: Whether the end is in the journal.
        unrecorded: Whether the end could not be recorded in the output folder, so the next run has to do it.
    """

    point: Point
    row: Row
    may_retry: bool = False
    number: int = 0
    recorded: bool = False
    unrecorded: bool = False


def parameters_of(task: luigi.Task) -> dict[str, Any]:
    """Return a task's significant public parameters."""
    return {
        name: getattr(task, name)
        for name, parameter in type(task).get_params()
        if parameter.significant and parameter.visibility == ParameterVisibility.PUBLIC
    }


def describe(task: object) -> str:
    """Return a readable description of a point, such as ``rate=0.1, batch=16``."""
    if not isinstance(task, luigi.Task):
        return f"{task!r:.60}"
    values = ", ".join(f"{name}={value}" for name, value in parameters_of(task).items())
    return f"{values:.200}" or task.task_family


def name_of(task: JobTask) -> str:
    """Return a point's name, or its task as a string if ``name`` raises an error."""
    try:
        return str(task.name)  # type: ignore[attr-defined]  # of each subclass
    except Exception:  # noqa: BLE001  users' own code may raise anything; check_job raises it again
        return str(task)
