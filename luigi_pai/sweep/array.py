"""Array mode of sweeps: many points as the instances of one job (``points_per_job``; v2 clusters only).

A point in an array is the same work as alone: it has its own submissions (NAME, NAME__attempt2, ...), its
own output folder, submission record and completion flag; its record names the array as the job that ran it.
The array's name is made of the sweep's name and a hash of the submissions in it, so that the same submissions
are never sent twice. Which points an array has is in the job itself: a later run finds the arrays of the
sweep in the user's list of jobs, whatever ``points_per_job`` is by then.
"""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.api.instances import instance_status, jobs_of
from luigi_pai.api.retries import Retry
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.api.submissions import LatestSubmission, Submissions
from luigi_pai.api.watcher import Outcome, Update
from luigi_pai.config import OpenPai
from luigi_pai.errors import ConfigError, JobNotFound, PaiApiError, PaiError
from luigi_pai.spec.arrays import array_of, check_alike
from luigi_pai.spec.convert import Conversion, convert
from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.names import array_name, is_array_name, v2_name
from luigi_pai.sweep.units import PointUnit, end_of, run_of
from luigi_pai.tasks.task_run import Begun

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.retries import Steps
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.units import Ended, Point, Unit
    from luigi_pai.tasks.task_run import TaskRun

__all__ = ["Arrays", "Lookup", "check_points"]

logger = logging.getLogger("luigi-interface")

T = TypeVar("T")

_MAY_DIFFER = ("jobName", "dataDir", "outputDir", "codeDir", "jobEnvs")


def check_points(points: Sequence[Point]) -> None:
    """Check that any points of a sweep can be instances of one job; nothing is sent.

    Raises:
        SpecError: they cannot; the text has the first point that differs, and what differs.
        ConfigError: the cluster is one of v1.
    """
    if OpenPai.current().api_version == "v1":
        raise _no_arrays("api_version = v1 is set in [OpenPai] of luigi.cfg")
    definitions = (point.task._definition() for point in points)  # noqa: SLF001  of this package
    jobs = (definition.job_named(v2_name(definition.name)) for definition in definitions)
    check_alike(_converted(job).protocol for job in _of_each_kind(jobs))


def _of_each_kind(jobs: Iterable[PaiJob | JobProtocol]) -> Iterator[PaiJob | JobProtocol]:
    """Yield jobs without v1 jobs that differ from an earlier one in what may differ only."""
    kinds = set()
    for job in jobs:
        if isinstance(job, PaiJob):
            fields = {key: value for key, value in job.to_dict().items() if key not in _MAY_DIFFER}
            fields["taskRoles"] = [{**role, "command": ""} for role in fields["taskRoles"]]
            kind = json.dumps(fields, sort_keys=True)
            if kind in kinds:
                continue
            kinds.add(kind)
        yield job


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

    Attributes:
        sweep: as given.
        cluster: the same, in v2.
        waiting: points to submit that wait for others to share a job with.
    """

    def __init__(self, sweep: str, cluster: Cluster) -> None:
        self.cluster = cluster.with_api_version("v2")
        self._given = cluster
        self.sweep = sweep
        self._is_loaded = False
        self._losses_logged = False
        self._statuses: dict[str, JobStatus] = {}
        self._instances: dict[str, _Instance] = {}  # by the name of the submission
        self.waiting: list[_Member] = []

    def load(self) -> Steps[None]:
        """Find the arrays of this sweep in the user's list of jobs, once.

        Raises:
            ConfigError: the cluster is one of v1.
            PaiApiError: the cluster did not answer.
        """
        if self._is_loaded:
            return
        if (yield from self.retried(self._given.server.api_version)) == "v1":
            raise _no_arrays(f"{self.cluster.url} is an OpenPAI 0.7 to 0.14")
        listed = yield from self.retried(self.cluster.list)
        for name in [job.name for job in listed if is_array_name(job.name, self.sweep)]:
            yield from self.load_array(name)
        self._is_loaded = True

    def load_array(self, name: str) -> Steps[list[str]]:
        """Look up an array, and return the names of the submissions in it; none if it is not there."""
        try:
            status = yield from self.retried(lambda: self.cluster.status(name))
            jobs = yield from self.retried(lambda: jobs_of(self.cluster, name))
        except JobNotFound:
            return []
        self.add(name, jobs)
        self.note(status)
        return jobs

    def add(self, name: str, submissions: Sequence[str]) -> None:
        """Add an array with these submissions, by index."""
        self._instances |= {job: _Instance(name, index) for index, job in enumerate(submissions)}

    def note(self, status: JobStatus) -> None:
        """Take the newest status of an array."""
        self._statuses[status.name] = status

    def find(self, run: TaskRun) -> Steps[LatestSubmission | None]:
        """Find the latest submission of a point, by itself or in an array; None if its outputs are complete.

        The status of an instance has the name of its array.
        """
        known = self._latest(run, LatestSubmission(0, None))
        if not _has_failed(known):
            return known
        found = yield from run.find()
        return None if found is None else self._latest(run, found)

    def _latest(self, run: TaskRun, found: LatestSubmission) -> LatestSubmission:
        """Return the latest submission in an array that comes after one that has failed."""
        while _has_failed(found):
            instance = self._instances.get(run.submission_name(found.number + 1))
            if instance is None:
                break
            status = instance_status(self._statuses[instance.array], instance.index)
            found = LatestSubmission(found.number + 1, status)
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

    def protocol(self, job: PaiJob | JobProtocol) -> JobProtocol:
        """Return a job as a protocol; a v1 job is converted. What the first of a sweep loses is logged."""
        conversion = _converted(job)
        for loss in () if self._losses_logged else conversion.losses:
            logger.warning("%s, jobs of a v2 cluster: %s", self.sweep, loss)
        self._losses_logged = True
        return conversion.protocol

    def retried(self, request: Callable[[], T]) -> Steps[T]:
        """Make a request of a sweep; transient errors are retried."""
        retry = Retry(self.cluster.polling.patience, self.cluster.clock, f"sweep {self.sweep}")
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
        members: index -> point.
        limits: of the sweep.

    Attributes:
        points, cluster, key, settings: see ``Unit``.
    """

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
        """Return nothing."""
        return ()

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
        self._begun = Begun(1, self._arrays.status(self._array), submitted=False)
        return self._begun


class _NewArray(_OneJob):
    """Points that are to be submitted as one job."""

    def begin(self) -> Steps[Begun | None]:
        """Submit the array.

        Raises:
            SpecError: the points differ in what they share, or the array is too large; nothing was sent.
            PaiError: it was not submitted, or may have been: the text says which.
        """
        members = {member.run.submission_name(member.number): member for member in self._members.values()}
        name = array_name(self._arrays.sweep, members)
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
            self._arrays.add(name, list(members))
            self._arrays.note(status)
        else:
            logger.info("Job %s already exists; nothing is submitted", name)
            jobs_there = yield from self._arrays.load_array(name)  # its points may be in another order
            self._members = {jobs_there.index(job): member for job, member in members.items()}
        self._begun = Begun(1, status, found.submitted)
        return self._begun


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
        self._further: list[Unit] = []

    def begin(self) -> Steps[Begun | None]:
        """Look up the points; ``further`` returns units for them then.

        Raises:
            ConfigError: the cluster is one of v1.
            PaiApiError: a lookup failed.
        """
        yield from self._arrays.load()
        missing: list[_Member] = []
        running: dict[str, dict[int, _Member]] = {}
        for member in self._members.values():
            yield 0.0  # jobs that run are looked up meanwhile
            try:
                found = yield from self._arrays.find(member.run)
                if found is None:
                    self._further.append(PointUnit(member.point))
                elif _has_failed(found):
                    member.number, _ = member.run.next_submission(found)
                    missing.append(member)
                elif (instance := (yield from self._arrays.instance(member.run, found))) is not None:
                    member.number = found.number
                    running.setdefault(instance.array, {})[instance.index] = member
                else:
                    self._further.append(PointUnit(member.point))
            except (PaiApiError, ConfigError):
                raise
            except Exception as error:  # noqa: BLE001  of this point's job, or of the user's own code
                self._further.append(_Refused(member.point, error))
        self._further += (
            _RunningArray(self._arrays, array, members, self._limits) for array, members in running.items()
        )
        self._further += self._packed(missing)
        return None

    def further(self) -> Sequence[Unit]:
        """Return units for all points but those that wait for others to share a job with."""
        return self._further

    def _packed(self, missing: Sequence[_Member]) -> Iterator[Unit]:
        waiting = [*self._arrays.waiting, *missing]
        size = self._limits.points_per_job
        while waiting and (len(waiting) >= size or not self._more()):
            yield _NewArray(self._arrays, dict(enumerate(waiting[:size])), self._limits)
            waiting = waiting[size:]
        self._arrays.waiting = waiting


def _has_failed(found: LatestSubmission) -> bool:
    """Return whether a submission has ended without success, or there is none."""
    return found.status is None or (found.status.finished and not found.status.succeeded)


def _undo(recorded: Sequence[_Member]) -> None:
    for member in recorded:
        member.run.undo_submission()


def _unknown(name: str) -> str:
    return f"job {name} may have been submitted; run the sweep again: it looks up the job first"


def _converted(job: PaiJob | JobProtocol) -> Conversion:
    if not isinstance(job, PaiJob):
        return Conversion(job, ())
    return convert(job, fs_uri=OpenPai.current().fs_uri)


def _no_arrays(why: str) -> ConfigError:
    return ConfigError(
        "points_per_job needs a cluster of OpenPAI 0.15 to 1.8 or LTP, whose jobs have instances that end "
        f"by themselves: {why}; leave points_per_job out"
    )
