"""Array mode of sweeps: many points as the instances of one job (``points_per_job``; v2 clusters only).

A point in an array is the same work as alone: it has its own submissions (NAME, NAME__attempt2, ...), its
own output folder, claims and completion flag; its claim names the array as the job that runs it. The
array's name is made of the submissions that were to be in it, so that equal packs are sent once. With HDFS
each submission is claimed before its array is sent, so that no point is in two of them: an array has those of
its points whose claims name it. Which they are is in the job itself.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.api.book.entries import Entry
from luigi_pai.api.status import instance_status
from luigi_pai.api.submitting import Posting
from luigi_pai.api.watching import Outcome, Update
from luigi_pai.errors import JobNotFound, PaiApiError, PaiError
from luigi_pai.spec.arrays.jobs import array_of
from luigi_pai.spec.names import array_name
from luigi_pai.sweep.units import OF_ALL, PointUnit, end_of, key_of, run_of
from luigi_pai.tasks.task_run import RECENT

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence

    from luigi_pai.api.retries import Steps
    from luigi_pai.api.status import JobStatus
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.sweep.arrays import Arrays
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.units import Ended, Point, Unit
    from luigi_pai.tasks.options import Options
    from luigi_pai.tasks.task_run import TaskRun

__all__ = ["Lookup", "packed"]

logger = logging.getLogger("luigi-interface")


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
    number: int = 0
    looked_up: float = 0.0

    @property
    def submission(self) -> str:
        """The name that its submission would have as a job of its own."""
        return self.run.book.job_name(self.point.name, self.number)


class _ArrayUnit:
    """Points in an array that is on the server.

    Args:
        arrays: those of the sweep.
        name: of the array.
        members: index -> point.
        limits: of the sweep.

    Attributes:
        points, book, key, options, with_tasks: see ``Unit``.
    """

    with_tasks = True

    def __init__(
        self, arrays: Arrays, name: str, members: Mapping[int, _Member], limits: SweepLimits
    ) -> None:
        self.points = tuple(member.point for member in members.values())
        self.book = arrays.book
        self.key: Hashable = key_of(self.book)
        self.options: Options = next(iter(members.values())).run.options
        self._arrays = arrays
        self._name = name
        self._limits = limits
        self._members = dict(members)  # those that have not ended
        self._entry: Entry | None = None
        self._again: list[Point] = []  # those that it does not serve after all

    def begin(self) -> Steps[Entry | None]:
        """Look the array up."""
        status = yield from self._arrays.retried(lambda: self.book.of(self._name))
        return self._announced(status, posted=False)

    def further(self) -> Sequence[Unit]:
        """Return a unit for the points that this one does not serve after all."""
        if not self._again:
            return ()
        return (Lookup(self._arrays, self._again, self._limits, lambda: False, max_age=0.0),)

    def _announced(self, status: JobStatus, *, posted: bool) -> Entry:
        """Trigger the events of the points; the array gets the tags of the first one."""
        self._entry = Entry(1, self._name, status, posted=posted)
        for place, (index, member) in enumerate(self._members.items()):
            member.run.announce(self._entry_of(index, member), with_tags=place == 0)
        return self._entry

    def _entry_of(self, index: int, member: _Member) -> Entry:
        assert self._entry is not None
        assert self._entry.status is not None
        status = instance_status(self._entry.status, index)
        return Entry(member.number, self._name, status, index, self._entry.posted)

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
        if update is None and self._entry is not None and self._entry.status is not None:
            update = Update(self._name, self._entry.status, Outcome.ENDED)
        return [] if update is None else list(self._ended(update))

    def reports(self) -> list[dict[str, Any]]:
        """Return nothing: what the containers report is of several points."""
        return []

    def _ended(self, update: Update) -> Iterator[Ended]:
        for index, member in list(self._members.items()):
            status = instance_status(update.status, index)
            is_final = status.succeeded or member.point.attempts >= self._limits.max_attempts
            if update.outcome is Outcome.CHANGED and not (status.finished and is_final):
                continue
            del self._members[index]
            outcome = Outcome.ENDED if status.finished else Outcome.LOST
            own = Update(update.name, status, outcome, update.missed)
            yield end_of(member.point, member.run, self._entry_of(index, member), own)


class _Pack(_ArrayUnit):
    """Points that are to be submitted as one job."""

    def begin(self) -> Steps[Entry | None]:
        """Claim the points, and submit an array of those that are given; the others are looked up again.

        Raises:
            SpecError: the points differ in what they share, or the array is too large; nothing was sent.
            PaiError: it was not submitted, or may have been: the text says which.
        """
        now = self.book.api.clock.monotonic()
        if any(now - member.looked_up > RECENT for member in self._members.values()):
            self._again = [member.point for member in self._members.values()]
            return None
        posting = Posting(self.book, self._name, single=False)
        claimed: list[_Member] = []
        try:
            jobs = yield from self._claim(claimed)
            if not claimed:
                return None
            status = yield from posting.steps(array_of(self._name, jobs))
        except PaiApiError as error:
            if posting.may_be_submitted:
                raise error.extended(_unknown(self._name)) from None
            _release(claimed)
            raise error.reworded(f"job {self._name!r} was not submitted: {error}") from None
        except PaiError:
            _release(claimed)
            raise
        except BaseException:
            logger.warning("Interrupted: %s", _unknown(self._name))
            raise
        if status is None or posting.may_be_submitted:  # the one that is there may have other points
            return (yield from self._taken_over(claimed))
        self._members = dict(enumerate(claimed))
        return self._announced(status, posted=True)

    def _claim(self, claimed: list[_Member]) -> Steps[list[JobProtocol]]:
        """Claim the points, add those that are given to ``claimed``, and return their jobs."""
        jobs = []
        for member in self._members.values():
            yield 0.0  # jobs that run are looked up meanwhile
            job = self._arrays.protocol(member.run.prepare(member.number))
            if member.run.evidence.claim(member.number, self._name) == self._name:
                claimed.append(member)
                jobs.append(job)
            else:
                self._again.append(member.point)
        return jobs

    def _taken_over(self, claimed: Sequence[_Member]) -> Steps[Entry | None]:
        """Watch the array that is there; points that it does not have are looked up again."""
        entry = yield from self.book.holder(self._name, 1)
        if entry is None or entry.status is None:
            raise JobNotFound(f"the server refuses the name {self._name!r} as in use, but shows no job of it")
        there = yield from self._arrays.retried(lambda: self.book.members(self._name))
        self._members = {there.index(each.submission): each for each in claimed if each.submission in there}
        self._again += [each.point for each in claimed if each.submission not in there]
        if not self._members:
            return None
        logger.info("Job %s already exists; nothing is submitted", self._name)
        return self._announced(entry.status, posted=False)


class Lookup:
    """Points of a sweep that are looked up: those that are to be submitted share jobs.

    Args:
        arrays: those of the sweep.
        points: the points.
        limits: of the sweep; ``points_per_job`` points share a job.
        more: whether further points will be looked up: with those, jobs are filled up.
        max_age: seconds for which an earlier lookup of a point is good enough.

    Attributes:
        points, book, key, options, with_tasks: see ``Unit``.
    """

    with_tasks = False

    def __init__(
        self,
        arrays: Arrays,
        points: Sequence[Point],
        limits: SweepLimits,
        more: Callable[[], bool],
        *,
        max_age: float = RECENT,
    ) -> None:
        self.points = tuple(points)
        self.book = arrays.book
        self.key: Hashable = key_of(self.book)
        self._members = [_Member(point, run_of(point)) for point in points]
        self.options: Options = self._members[0].run.options
        self._arrays = arrays
        self._limits = limits
        self._more = more
        self._max_age = max_age
        self._further: list[Unit] = []

    def begin(self) -> Steps[Entry | None]:
        """Look up the points; ``further`` returns units for them then.

        Raises:
            ConfigError: the cluster is one of v1.
            PaiApiError: the cluster cannot be reached, or refuses the user.
        """
        yield from self._arrays.check()
        there: dict[str, dict[int, _Member]] = {}  # on the server, by array and index
        claimed: dict[str, list[_Member]] = {}  # for arrays that the server does not know
        missing: list[_Member] = []
        for member in self._members:
            yield 0.0  # jobs that run are looked up meanwhile
            try:
                yield from self._look_up(member, there, claimed, missing)
            except OF_ALL:
                raise
            except Exception as error:  # noqa: BLE001  of this point's job, or of the user's own code
                self._further.append(PointUnit(member.point, self._again, error))
        for name, members in there.items():
            self._further.append(_ArrayUnit(self._arrays, name, members, self._limits))
        if any(list(map(self._arrays.is_on_its_way, claimed))):
            yield 1.0
        for name, waiting in claimed.items():
            self._further.append(self._claimed(name, waiting))
        self._further += packed(self._arrays, missing, self._limits, self._more)
        return None

    def _look_up(
        self,
        member: _Member,
        there: dict[str, dict[int, _Member]],
        claimed: dict[str, list[_Member]],
        missing: list[_Member],
    ) -> Steps[None]:
        """Look up a point, and put it where it belongs."""
        run = member.run
        entry = yield from run.newest(max_age=self._max_age)
        member.looked_up = self.book.api.clock.monotonic()
        if run.is_done(entry):
            self._further.append(self._alone(member.point))
        elif entry is None or entry.failed or entry.status is None:
            member.number = run.next_number(entry)
            if entry is None or entry.number != member.number:
                missing.append(member)
            elif entry.job == member.submission:  # its own name decides
                self._further.append(self._alone(member.point))
            else:
                claimed.setdefault(entry.job, []).append(member)
        elif entry.index is None:
            self._further.append(self._alone(member.point))
        else:
            member.number = entry.number
            there.setdefault(entry.job, {})[entry.index] = member

    def _claimed(self, name: str, members: Sequence[_Member]) -> Unit:
        """Return a unit for points that are claimed for an array which the server does not know (yet)."""
        if self._arrays.is_on_its_way(name):
            points = [member.point for member in members]
            return Lookup(self._arrays, points, self._limits, self._more, max_age=0.0)
        return _Pack(self._arrays, name, dict(enumerate(members)), self._limits)

    def _alone(self, point: Point) -> Unit:
        return PointUnit(point, self._again)

    def _again(self, point: Point) -> Unit:
        return Lookup(self._arrays, [point], self._limits, self._more, max_age=0.0)

    def further(self) -> Sequence[Unit]:
        """Return the units of the points."""
        return self._further

    def statuses(self, status: JobStatus) -> Sequence[tuple[Point, JobStatus]]:
        """Return nothing: a lookup has no job."""
        del status
        return ()

    def changed(self, status: JobStatus) -> Sequence[Ended]:
        """Return nothing, as ``statuses``."""
        del status
        return ()

    def finish(self, update: Update | None) -> Sequence[Ended]:
        """Return nothing, as ``statuses``."""
        del update
        return ()

    def reports(self) -> list[dict[str, Any]]:
        """Return nothing, as ``statuses``."""
        return []


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
        members = waiting[:size]
        name = array_name(member.submission for member in members)
        yield _Pack(arrays, name, dict(enumerate(members)), limits)
        waiting = waiting[size:]
    arrays.waiting = waiting


def _release(members: Sequence[_Member]) -> None:
    for member in members:
        member.run.evidence.release()


def _unknown(name: str) -> str:
    return f"job {name} may have been submitted; run the sweep again: it looks up the job first"
