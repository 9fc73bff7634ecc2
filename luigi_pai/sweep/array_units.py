"""Array mode of sweeps: many points as the instances of one job (``points_per_job``; v2 clusters only).

A point in an array is the same work as alone: it has its own submissions (NAME, NAME__attempt2, ...), its
own output folder, submission record and completion flag; its record names the array as the job that ran it.
The array's name is made of the sweep's name and a hash of the submissions in it, so that the same submissions
are never sent twice. Which points an array has is in the job itself: a later run finds the arrays of the
sweep in the user's list of jobs, whatever ``points_per_job`` is by then.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from luigi_pai.api.status import JobState, JobStatus, instance_status
from luigi_pai.api.submissions import Submissions
from luigi_pai.api.watcher import Outcome, Update
from luigi_pai.errors import PaiApiError, PaiError
from luigi_pai.spec.arrays.jobs import array_of
from luigi_pai.spec.names import array_name
from luigi_pai.sweep.units import OF_ALL, PointUnit, end_of, run_of
from luigi_pai.tasks.history import RunsInArrayError
from luigi_pai.tasks.task_run import Begun

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from luigi_pai.api.retries import Steps
    from luigi_pai.sweep.arrays import Arrays
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.units import Ended, Point, Unit
    from luigi_pai.tasks.task_run import TaskRun

__all__ = ["AlonePoint", "Lookup", "packed"]

logger = logging.getLogger("luigi-interface")

_RECENT = 30.0  # seconds for which a lookup of a point counts; no 409 corrects it, as it does alone


@dataclass
class _Member:
    """A point in an array.

    Attributes:
        point: the point.
        run: of its task.
        number: of its submission.
        looked_up: when, in seconds of the monotonic clock.
    """

    point: Point
    run: TaskRun
    number: int
    looked_up: float = 0.0


class _OneJob:
    """What units of one array have in common.

    Args:
        arrays: those of the sweep.
        members: index -> point.
        limits: of the sweep.

    Attributes:
        points, cluster, key, settings, with_tasks: see ``Unit``.
    """

    with_tasks = True
    _further: Sequence[Unit] = ()

    def __init__(self, arrays: Arrays, members: Mapping[int, _Member], limits: SweepLimits) -> None:
        self.points = tuple(member.point for member in members.values())
        self.cluster = arrays.cluster
        self.key: Hashable = (self.cluster.url, self.cluster.username, "v2")
        self.settings: Any = next(iter(members.values())).run.settings
        self._arrays = arrays
        self._limits = limits
        self._members = dict(members)  # those that have not ended
        self._begun: Begun | None = None

    def further(self) -> Sequence[Unit]:
        """Return units for points that this one does not serve after all."""
        return self._further

    def _announced(self, begun: Begun) -> Begun:
        """Trigger the events of the points; the array gets the tags of the first one."""
        self._begun = begun
        for index, (place, member) in enumerate(self._members.items()):
            own = replace(begun, number=member.number, status=instance_status(begun.status, place))
            member.run.announce(own, with_tags=index == 0)
        return begun

    def statuses(self, status: JobStatus) -> Iterator[tuple[Point, JobStatus]]:
        """Yield the points that have not ended, with the statuses of their instances."""
        for index, member in self._members.items():
            yield member.point, instance_status(status, index)

    def changed(self, status: JobStatus) -> Sequence[Ended]:
        """Return the points that have ended while others go on.

        Those that will be submitted again are kept to the end, so that they share a job again.
        """
        return list(self._ended(Update(status.name, status, Outcome.CHANGED)))

    def finish(self, update: Update | None) -> Sequence[Ended]:
        """Return the points that have not been returned."""
        if update is None and self._begun is not None:
            update = Update(self._begun.status.name, self._begun.status, Outcome.ENDED)
        return [] if update is None else list(self._ended(update))

    def reports(self) -> list[dict[str, Any]]:
        """Return nothing: what the containers report is of several points."""
        return []

    def _ended(self, update: Update) -> Iterator[Ended]:
        assert self._begun is not None
        self._arrays.note(update.status)
        for index, member in list(self._members.items()):
            status = instance_status(update.status, index)
            is_final = status.succeeded or member.point.attempts >= self._limits.max_attempts
            if update.outcome is Outcome.CHANGED and not (status.finished and is_final):
                continue
            del self._members[index]
            outcome = Outcome.ENDED if status.finished else Outcome.LOST
            begun = Begun(member.number, self._begun.status, self._begun.submitted)
            yield end_of(member.point, member.run, begun, Update(update.name, status, outcome, update.missed))


class _RunningArray(_OneJob):
    """Points in an array that is on the server."""

    def __init__(
        self, arrays: Arrays, array: str, members: Mapping[int, _Member], limits: SweepLimits
    ) -> None:
        super().__init__(arrays, members, limits)
        self._array = array

    def begin(self) -> Steps[Begun | None]:
        """Return the array."""
        yield from ()
        return self._announced(Begun(1, self._arrays.status(self._array), submitted=False))


class _NewArray(_OneJob):
    """Points that are to be submitted as one job."""

    def begin(self) -> Steps[Begun | None]:
        """Submit the array, or let its points be looked up again, if they may have been submitted since.

        Raises:
            SpecError: the points differ in what they share, or the array is too large; nothing was sent.
            PaiError: it was not submitted, or may have been: the text says which.
        """
        members = {member.run.submission_name(member.number): member for member in self._members.values()}
        name = array_name(self._arrays.sweep, members)
        now = self.cluster.clock.monotonic()
        taken = [
            member
            for member in members.values()
            if now - member.looked_up > _RECENT
            or self._arrays.is_taken(member.point, member.run, member.number, name)
        ]
        if taken:
            for member in taken:
                self.cluster.drop_lookup(member.point.name)
            yield 1.0 if now - taken[0].looked_up < _RECENT else 0.0  # it may be on its way to the server
            self._further = [Lookup(self._arrays, self.points, self._limits, lambda: False)]
            return None
        jobs = [self._arrays.protocol(member.run.prepare(member.number)) for member in members.values()]
        array = array_of(name, jobs)
        posts = Submissions(self.cluster, name)
        recorded: list[_Member] = []
        try:
            for member in members.values():
                member.run.record_submission(member.number, name)
                recorded.append(member)
            found = yield from posts.submit(1, array)
        except PaiApiError as error:
            if posts.may_be_submitted:
                raise error.extended(_unknown(name)) from None
            _undo(recorded)
            raise error.reworded(f"job {name!r} was not submitted: {error}") from None
        except PaiError:
            _undo(recorded)
            raise
        except BaseException:
            logger.warning("Interrupted: %s", _unknown(name))
            raise
        status = found.status or JobStatus(name, JobState.UNKNOWN)
        if found.submitted:
            self.cluster.add_array(name)
            self._arrays.add(name, list(members))
            self._arrays.note(status)
        else:
            logger.info("Job %s already exists; nothing is submitted", name)
            jobs_there = yield from self._arrays.load_array(name)  # its points may be in another order
            self._members = {jobs_there.index(job): member for job, member in members.items()}
        return self._announced(Begun(1, status, found.submitted))


class AlonePoint(PointUnit):
    """A point with a job of its own, unless it waits or runs in an array of an earlier run.

    Args:
        point: the point.
        lookup: returns a unit that looks it up in arrays.
    """

    def __init__(self, point: Point, lookup: Callable[[Point], Unit]) -> None:
        super().__init__(point)
        self._lookup = lookup
        self._further: list[Unit] = []

    def begin(self) -> Steps[Begun | None]:
        """Find the job, or submit it."""
        try:
            return (yield from super().begin())
        except RunsInArrayError:
            self._further = [self._lookup(self.points[0])]
            return None

    def further(self) -> Sequence[Unit]:
        """Return the unit that looks for the array, if there is one."""
        return self._further

    def finish(self, update: Update | None) -> Sequence[Ended]:
        """Return the end of the point, unless it is in an array."""
        return () if self._further else super().finish(update)


class _Refused(PointUnit):
    """A point that cannot be submitted, with the reason."""

    def __init__(self, point: Point, error: Exception) -> None:
        super().__init__(point)
        self._error = error

    def begin(self) -> Steps[Begun | None]:
        """Raise the reason."""
        yield from ()
        raise self._error


class Lookup(_OneJob):
    """Points of a sweep that are looked up: those that are to be submitted share jobs.

    Args:
        arrays: those of the sweep.
        points: the points.
        limits: of the sweep; ``points_per_job`` points share a job.
        more: whether further points will be looked up: with those, jobs are filled up.
    """

    def __init__(
        self, arrays: Arrays, points: Sequence[Point], limits: SweepLimits, more: Callable[[], bool]
    ) -> None:
        super().__init__(
            arrays, {i: _Member(point, run_of(point), 0) for i, point in enumerate(points)}, limits
        )
        self._more = more

    def begin(self) -> Steps[Begun | None]:
        """Look up the points; ``further`` returns units for them then.

        Raises:
            ConfigError: the cluster is one of v1.
            PaiApiError: the cluster cannot be reached, or refuses the user.
        """
        yield from self._arrays.load()
        missing: list[_Member] = []
        further: list[Unit] = []
        running: dict[str, dict[int, _Member]] = {}
        for member in self._members.values():
            yield 0.0  # jobs that run are looked up meanwhile
            try:
                found = yield from self._arrays.find(member.run)
                if found is None:
                    further.append(PointUnit(member.point))
                elif found.has_failed:
                    member.number, _ = member.run.next_submission(found)
                    missing.append(member)
                elif (instance := (yield from self._arrays.instance(member.run, found))) is not None:
                    member.number = found.number
                    running.setdefault(instance.array, {})[instance.index] = member
                else:
                    further.append(PointUnit(member.point))
            except OF_ALL:
                raise
            except Exception as error:  # noqa: BLE001  of this point's job, or of the user's own code
                further.append(_Refused(member.point, error))
        further += (
            _RunningArray(self._arrays, array, members, self._limits) for array, members in running.items()
        )
        for member in missing:
            member.looked_up = self.cluster.clock.monotonic()
        self._further = [*further, *packed(self._arrays, missing, self._limits, self._more)]
        return None


def packed(
    arrays: Arrays, missing: Sequence[_Member], limits: SweepLimits, more: Callable[[], bool]
) -> Iterator[Unit]:
    """Yield units for points that are to be submitted and for those that wait for others to share a job with.

    Args:
        arrays: those of the sweep; keeps the points that go on waiting.
        missing: further points.
        limits: of the sweep.
        more: whether further points will be looked up, with which jobs are filled up.
    """
    waiting = [*arrays.waiting, *missing]
    size = limits.points_per_job
    while waiting and (len(waiting) >= size or not more()):
        yield _NewArray(arrays, dict(enumerate(waiting[:size])), limits)
        waiting = waiting[size:]
    arrays.waiting = waiting


def _undo(recorded: Sequence[_Member]) -> None:
    for member in recorded:
        member.run.undo_submission()


def _unknown(name: str) -> str:
    return f"job {name} may have been submitted; run the sweep again: it looks up the job first"
