"""Array mode of sweeps: many points as the instances of one job (``points_per_job``; v2 clusters only).

A point in an array is the same work as alone: it has its own submissions (NAME, NAME__attempt2, ...), its
own output folder, submission record and completion flag; its record names the array as the job that ran it.
The array's name is made of the sweep's name and a hash of the submissions in it, so that the same submissions
are never sent twice. Which points an array has is in the job itself: a later run finds the arrays of the
sweep in the user's list of jobs, whatever ``points_per_job`` is by then.
"""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.api.instances import instance_status
from luigi_pai.api.retries import Retry
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.submissions import LatestSubmission, Submissions
from luigi_pai.api.watcher import Outcome, Update
from luigi_pai.config import OpenPai
from luigi_pai.errors import ConfigError, JobNotFound, PaiApiError, PaiError
from luigi_pai.spec.arrays import array_of, jobs_in
from luigi_pai.spec.convert import convert
from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.names import v2_name
from luigi_pai.sweep.units import PointUnit, end_of, run_of
from luigi_pai.tasks.task_run import Begun

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.retries import Steps
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.units import Ended, Point, Unit
    from luigi_pai.tasks.task_run import TaskRun

__all__ = ["ArrayUnit", "Arrays", "check_points"]

logger = logging.getLogger("luigi-interface")

T = TypeVar("T")

_HASH = 12  # characters
_LONGEST = 200  # of the sweep's name in that of an array


def check_points(points: Sequence[Point]) -> None:
    """Check that any points of a sweep can be instances of one job; nothing is sent.

    Raises:
        SpecError: they cannot; the text has the first point that differs, and what differs.
        ConfigError: the cluster is one of v1.
    """
    if OpenPai.current().api_version == "v1":
        raise _no_arrays("api_version = v1 is set in [OpenPai] of luigi.cfg")
    first: JobProtocol | None = None
    for point in points:
        job = _protocol(point.task._definition().job_named(v2_name(point.name)))  # noqa: SLF001  of this package
        first = first or job
        array_of("points", [first, job])


@dataclass(frozen=True)
class _Instance:
    """Where a submission of a point is: in which array, and at which index."""

    array: str
    index: int


class Arrays:
    """The arrays of a sweep on a cluster.

    Args:
        sweep: the sweep's name.
        cluster: of its points.
    """

    def __init__(self, sweep: str, cluster: Cluster) -> None:
        self.cluster = cluster.with_api_version("v2")
        self._sweep = sweep
        self._prefix = f"{v2_name(sweep)[:_LONGEST]}-array-"
        self._is_loaded = False
        self._statuses: dict[str, JobStatus] = {}
        self._instances: dict[str, _Instance] = {}  # by the name of the submission

    def name(self, submissions: Iterable[str]) -> str:
        """Return the name of the array that has these submissions of points."""
        digest = hashlib.sha256("\n".join(sorted(submissions)).encode()).hexdigest()[:_HASH]
        return f"{self._prefix}{digest}"

    def load(self) -> Steps[None]:
        """Find the arrays of this sweep in the user's list of jobs, once.

        Raises:
            ConfigError: the cluster is one of v1.
            PaiApiError: the cluster did not answer.
        """
        if self._is_loaded:
            return
        if (yield from self.retried(self.cluster.server.api_version)) == "v1":
            raise _no_arrays(f"{self.cluster.url} is an OpenPAI 0.7 to 0.14")
        own = re.compile(rf"{re.escape(self._prefix)}[0-9a-f]{{{_HASH}}}")
        listed = yield from self.retried(self.cluster.list)
        for name in [job.name for job in listed if own.fullmatch(job.name)]:
            yield from self.load_array(name)
        self._is_loaded = True

    def load_array(self, name: str) -> Steps[list[str]]:
        """Look up an array, and return the names of the submissions in it; none if it is not there."""
        try:
            status = yield from self.retried(lambda: self.cluster.status(name))
            config = yield from self.retried(lambda: self.cluster.config(name))
        except JobNotFound:
            return []
        jobs = jobs_in(config) or []
        self._statuses[name] = status
        self._instances |= {job: _Instance(name, index) for index, job in enumerate(jobs)}
        return jobs

    def find(self, run: TaskRun) -> Steps[LatestSubmission | None]:
        """Find the latest submission of a point, by itself or in an array; None if its outputs are complete.

        The status of an instance has the name of its array.
        """
        found = yield from run.find()
        if found is None:
            return None
        number = found.number + 1
        failed = found.status is None or (found.status.finished and not found.succeeded)
        while failed and (instance := self._instances.get(run.submission_name(number))) is not None:
            status = instance_status(self._statuses[instance.array], instance.index)
            found = LatestSubmission(number, status)
            failed = status.finished and not status.succeeded
            number += 1
        return found

    def instance(self, run: TaskRun, found: LatestSubmission) -> Steps[_Instance | None]:
        """Return where a submission is in an array; None if it is a job of its own."""
        name = run.submission_name(found.number)
        if found.status is None or found.status.name == name:
            return None
        if name not in self._instances:  # it was found by its record, in an array of another sweep
            yield from self.load_array(found.status.name)
        return self._instances.get(name)

    def status(self, array: str) -> JobStatus:
        """Return the status of an array, as it was loaded."""
        return self._statuses[array]

    def retried(self, request: Callable[[], T]) -> Steps[T]:
        """Make a request of a sweep; transient errors are retried."""
        retry = Retry(self.cluster.polling.patience, self.cluster.clock, f"sweep {self._sweep}")
        return (yield from retry.call(request))


@dataclass
class _Member:
    """A point in an array.

    Attributes:
        point: the point.
        run: of its task.
        number: of its submission.
    """

    point: Point
    run: TaskRun
    number: int


class _OneJob:
    """What units of one array have in common.

    Args:
        arrays: those of the sweep.
        points: of the array.
        limits: of the sweep.

    Attributes:
        points, cluster, key, settings: see ``Unit``.
    """

    def __init__(self, arrays: Arrays, points: Sequence[Point], limits: SweepLimits) -> None:
        self.points = tuple(points)
        self.cluster = arrays.cluster
        self.key: Hashable = (self.cluster.url, self.cluster.username, "v2")
        self.settings: Any = run_of(points[0]).settings
        self._arrays = arrays
        self._limits = limits
        self._members: dict[int, _Member] = {}  # by index; those that have not ended
        self._begun: Begun | None = None

    def changed(self, status: JobStatus) -> Sequence[Ended]:
        """Return the points that have ended while others go on.

        Those that will be submitted again are kept to the end, so that they share a job again.
        """
        return list(self._ended(Update(status.name, status, Outcome.CHANGED)))

    def finish(self, update: Update | None) -> Sequence[Ended]:
        """Return the points that have not been returned."""
        if self._begun is None:
            return ()
        last = update or Update(self._begun.status.name, self._begun.status, Outcome.ENDED)
        return list(self._ended(last))

    def reports(self) -> list[dict[str, Any]]:
        """Return nothing: what the containers report is of several points."""
        return []

    def _ended(self, update: Update) -> Iterator[Ended]:
        assert self._begun is not None
        is_last = update.outcome is not Outcome.CHANGED
        for index, member in list(self._members.items()):
            status = instance_status(update.status, index)
            if not (is_last or status.succeeded or (status.finished and self._is_final(member))):
                continue
            del self._members[index]
            outcome = Outcome.ENDED if status.finished else Outcome.LOST
            begun = Begun(member.number, self._begun.status, self._begun.submitted)
            yield end_of(member.point, member.run, begun, Update(update.name, status, outcome, update.missed))

    def _is_final(self, member: _Member) -> bool:
        return member.point.attempts >= self._limits.max_attempts


class _RunningArray(_OneJob):
    """Points in an array that is on the server."""

    def __init__(self, arrays: Arrays, array: str, members: dict[int, _Member], limits: SweepLimits) -> None:
        super().__init__(arrays, [member.point for member in members.values()], limits)
        self._members = members
        self._array = array

    def begin(self) -> Steps[Begun | None]:
        """Return the array."""
        yield from ()
        self._begun = Begun(1, self._arrays.status(self._array), submitted=False)
        return self._begun

    def further(self) -> Sequence[Unit]:
        """Return nothing."""
        return ()


class _Refused(PointUnit):
    """A point that cannot be submitted, with the reason."""

    def __init__(self, point: Point, error: Exception) -> None:
        super().__init__(point)
        self._error = error

    def begin(self) -> Steps[Begun | None]:
        """Raise the reason."""
        yield from ()
        raise self._error


class ArrayUnit(_OneJob):
    """Points of a sweep, of which those that are to be submitted become one job."""

    def __init__(self, arrays: Arrays, points: Sequence[Point], limits: SweepLimits) -> None:
        super().__init__(arrays, points, limits)
        self._further: list[Unit] = []

    def begin(self) -> Steps[Begun | None]:
        """Look up the points, and submit those that are not done and not on the server, as one job.

        Raises:
            ConfigError: the cluster is one of v1.
            SpecError: the points differ in what they share, or the array is too large; nothing was sent.
            PaiError: the array was not submitted, or may have been: the text says which.
        """
        yield from self._arrays.load()
        missing = yield from self._missing()
        self.points = tuple(member.point for member, _ in missing)
        if missing:
            self._begun = yield from self._submitted(missing)
        return self._begun

    def further(self) -> Sequence[Unit]:
        """Return units for those of its points that are not part of its job, once it has begun."""
        return self._further

    def _missing(self) -> Steps[list[tuple[_Member, JobProtocol]]]:
        """Return the points to submit, with their jobs; the others go to further units."""
        missing: list[tuple[_Member, JobProtocol]] = []
        running: dict[str, dict[int, _Member]] = {}
        for point in self.points:
            try:
                run = run_of(point)
                found = yield from self._arrays.find(run)
                instance = None if found is None else (yield from self._arrays.instance(run, found))
                status = None if found is None else found.status
                if found is not None and (status is None or (status.finished and not status.succeeded)):
                    number, _ = run.next_submission(found)
                    job = _protocol(run.prepare(number), log_losses=not missing)
                    missing.append((_Member(point, run, number), job))
                elif found is not None and instance is not None:
                    member = _Member(point, run, found.number)
                    running.setdefault(instance.array, {})[instance.index] = member
                else:
                    self._further.append(PointUnit(point))
            except (PaiApiError, ConfigError):
                raise
            except Exception as error:  # noqa: BLE001  of this point's job, or of the user's own code
                self._further.append(_Refused(point, error))
        self._further += (
            _RunningArray(self._arrays, array, members, self._limits) for array, members in running.items()
        )
        return missing

    def _submitted(self, missing: Sequence[tuple[_Member, JobProtocol]]) -> Steps[Begun]:
        submissions = {member.run.submission_name(member.number): member for member, _ in missing}
        name = self._arrays.name(submissions)
        array = array_of(name, [job for _, job in missing])
        posts = Submissions(self.cluster, name)
        recorded: list[_Member] = []
        try:
            for member in submissions.values():
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
        jobs = list(submissions)
        if not found.submitted:
            logger.info("Job %s already exists; nothing is submitted", name)
            jobs = yield from self._arrays.load_array(name)  # its points may be in another order
        self._members = {jobs.index(job): member for job, member in submissions.items()}
        return Begun(1, found.status or JobStatus(name, JobState.UNKNOWN), found.submitted)


def _undo(recorded: Sequence[_Member]) -> None:
    for member in recorded:
        member.run.undo_submission()


def _unknown(name: str) -> str:
    return f"job {name} may have been submitted; run the sweep again: it looks up the job first"


def _protocol(job: PaiJob | JobProtocol, *, log_losses: bool = False) -> JobProtocol:
    """Return a job as a protocol; a v1 job is converted."""
    if not isinstance(job, PaiJob):
        return job
    conversion = convert(job, fs_uri=OpenPai.current().fs_uri)
    for loss in conversion.losses if log_losses else ():
        logger.warning("Job %s and others of the sweep on a v2 cluster: %s", job.jobName, loss)
    return conversion.protocol


def _no_arrays(why: str) -> ConfigError:
    return ConfigError(
        "points_per_job needs a cluster of OpenPAI 0.15 to 1.8 or LTP, whose jobs have instances that end "
        f"by themselves: {why}; leave points_per_job out"
    )
