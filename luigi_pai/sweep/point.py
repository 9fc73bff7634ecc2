"""Point: a piece of work of a sweep. PointMember: a point in a job. Ended: the end of a point."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from luigi_pai.sweep.journal.records import Record
from luigi_pai.tasks.task_work import TaskWork
from luigi_pai.work.evidence import Evidence
from luigi_pai.work.submission import Member

if TYPE_CHECKING:
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.rows import Row
    from luigi_pai.tasks.job_task import JobTask
    from luigi_pai.work.submission import Submission


@dataclass(slots=True, eq=False)
class Point:
    """A point of a sweep.

    Attributes:
        task: the user's task.
        name: the ``name`` of its task, which is also the name of its first submission.
        index: its number in the sweep, from 0.
        record: its state in the journal.
        max_attempts: the setting ``max_attempts`` of its task.
        handled: number of the last failed submission that this run has decided to retry; 0 for none.
        posted: how often this run has submitted it.
        proposed: ``points()`` has returned its task in this run. If False, only the journal of a search names
            the point; then it is looked up and watched, and never submitted.
    """

    task: JobTask
    name: str
    index: int
    record: Record = field(default_factory=Record)
    max_attempts: int = 1
    handled: int = 0
    posted: int = 0
    proposed: bool = True

    def is_final(self, number: int, limits: SweepLimits) -> bool:
        """Return whether a failed submission is the last one that is allowed.

        It is also the last if this run has submitted the point as often, whatever the journal says.
        """
        most = limits.attempts(self)
        return not self.proposed or self.posted >= most or self.record.is_final(number, most)


@dataclass(slots=True, eq=False)
class PointMember(Member):
    """A point that is looked up, submitted or run.

    Attributes:
        point: the point.
        looked_up: time of the last lookup in seconds of the monotonic clock; 0 before the first lookup.
        started_ms: start time that the server sends, in ms since 1970. If it sends none, the time of the
            first lookup that found the point running.
    """

    point: Point = field(kw_only=True)
    looked_up: float = 0.0
    started_ms: int | None = None

    @classmethod
    def of(cls, point: Point) -> PointMember:
        """Return a point with the settings that are valid now.

        Raises:
            SpecError, ConfigError: the class of its task or a setting is not valid.
        """
        work = TaskWork(point.task, single=False)
        point.max_attempts = int(work.options["max_attempts"])
        return cls(work, Evidence(work), point=point)

    @property
    def is_proposed(self) -> bool:
        """Whether its task is the one that ``points()`` has returned, not one that the journal describes."""
        return self.point.proposed and self.point.task is self.work.origin


def point_members(job: Submission) -> list[PointMember]:
    """Return the points in a job that have not ended."""
    return [member for member in job.members if isinstance(member, PointMember)]


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
