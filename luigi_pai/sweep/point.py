"""Point: a task of a sweep, its state in this run, and its description. Ended: the end of a point."""

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
    """A point of a sweep. As a member of a job, it has the attributes of ``Member`` from ``begin()`` on.

    Attributes:
        task: the user's task.
        name: the ``name`` of its task, which is also the name of its first submission.
        record: its state in the journal.
        max_attempts: the setting ``max_attempts`` of its task.
        handled: number of the last failed submission that this run has decided to retry; 0 for none.
        posted: how often this run has submitted it.
        proposed: ``points()`` has returned its task in this run. If False, only the journal of a search names
            the point; then it is looked up and watched, and never submitted.
        untold: tasks that a search has yielded for the point, and that were not passed to ``tell`` yet.
        looked_up: time of the last lookup in seconds of the monotonic clock; 0 before the first lookup.
        started_ms: start time that the server sends, in ms since 1970. If it sends none, the time of the
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

    def begin(self) -> None:
        """Prepare the point to be looked up or submitted, with the settings that are valid now.

        Raises:
            SpecError, ConfigError: the class of its task or a setting is not valid.
        """
        self.work = TaskWork(self.task, single=False)
        self.evidence = Evidence(self.work)
        self.max_attempts = int(self.work.options["max_attempts"])
        self.number, self.index, self.looked_up, self.started_ms = 0, None, 0.0, None

    @property
    def is_proposed(self) -> bool:
        """Whether its work is of the task that ``points()`` has returned, not of one in the journal."""
        return self.proposed and self.task is self.work.origin

    def is_final(self, number: int, limits: SweepLimits) -> bool:
        """Return whether a failed submission is the last one that is allowed.

        It is also the last if this run has submitted the point as often, whatever the journal says.
        """
        most = limits.attempts(self)
        return not self.proposed or self.posted >= most or self.record.is_final(number, most)


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a point, or of a submission after which the point may be submitted again.

    Attributes:
        point: the point.
        row: its row of the table; the result is added when the end is recorded.
        may_retry: another submission may succeed.
        number: number of the submission that has ended; 0 if it is not known.
        recorded: the end is in the journal.
        unrecorded: the end could not be recorded in the output folder; the next run has to do it.
    """

    point: Point
    row: Row
    may_retry: bool = False
    number: int = 0
    recorded: bool = False
    unrecorded: bool = False


def parameters_of(task: luigi.Task) -> dict[str, Any]:
    """Return the parameters of a task that are both significant and public."""
    return {
        name: getattr(task, name)
        for name, parameter in type(task).get_params()
        if parameter.significant and parameter.visibility == ParameterVisibility.PUBLIC
    }


def describe(task: object) -> str:
    """Return the text that shows a point to users: ``rate=0.1, batch=16``."""
    if not isinstance(task, luigi.Task):
        return f"{task!r:.60}"
    values = ", ".join(f"{name}={value}" for name, value in parameters_of(task).items())
    return f"{values:.200}" or task.task_family


def name_of(task: JobTask) -> str:
    """Return the name of a point, or its task as text if ``name`` raises an error."""
    try:
        return str(task.name)  # type: ignore[attr-defined]  # of each subclass
    except Exception:  # noqa: BLE001  users' own code may raise anything; check_job raises it again
        return str(task)
