"""The arrays of a sweep: jobs of which each instance is a point, as the server has them (v2 only)."""

from __future__ import annotations

import json
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.api.retries import Retry
from luigi_pai.api.status import instance_status
from luigi_pai.api.submissions import LatestSubmission, jobs_of
from luigi_pai.config import OpenPai
from luigi_pai.errors import ConfigError, JobNotFound
from luigi_pai.spec.arrays.jobs import check_alike
from luigi_pai.spec.convert import Conversion, convert
from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.names import is_array_name, v2_name
from luigi_pai.sweep.units import run_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from luigi_pai.api.retries import Steps
    from luigi_pai.api.status import JobStatus
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.sweep.units import Point
    from luigi_pai.tasks.task_run import TaskRun

__all__ = ["Arrays", "check_cluster", "check_points"]

logger = logging.getLogger("luigi-interface")

T = TypeVar("T")

_ON_ITS_WAY = 10.0  # seconds from the record of a submission to its arrival on the server
_LEAVE_OUT = "leave points_per_job out"
_MAY_DIFFER = ("jobName", "dataDir", "outputDir", "codeDir", "jobEnvs")


def check_points(points: Sequence[Point]) -> None:
    """Check that any points of a sweep can be instances of one job; nothing is sent.

    Raises:
        SpecError: they cannot; the text has the first point that differs, and what differs.
        ConfigError: the cluster is one of v1.
    """
    clusters = sorted({point.task.cluster or "" for point in points})
    if len(clusters) > 1:
        named = ", ".join(repr(cluster) if cluster else "that of [OpenPai]" for cluster in clusters)
        raise ConfigError(f"points of one job are on one cluster, not on several: {named}; {_LEAVE_OUT}")
    settings = OpenPai.current(points[0].task.cluster)
    if settings.api_version == "v1":
        raise _no_arrays("api_version = v1 is set in luigi.cfg")
    definitions = (point.task._definition() for point in points)  # noqa: SLF001  of this package
    jobs = (definition.job_named(v2_name(definition.name)) for definition in definitions)
    check_alike(_converted(job, settings).protocol for job in _of_each_kind(jobs))


def check_cluster(point: Point) -> None:
    """Ask the cluster of a point whether it takes arrays.

    Raises:
        ConfigError: it is one of v1.
        PaiApiError: it does not answer.
    """
    cluster = run_of(point).cluster
    if cluster.server.api_version() == "v1":
        raise _no_arrays(f"{cluster.url} is an OpenPAI 0.7 to 0.14")


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
        point: one of them; the others are on the same cluster.

    Attributes:
        sweep: as given.
        cluster: of its points, in v2.
        waiting: points to submit that wait for others to share a job with.
    """

    def __init__(self, sweep: str, point: Point) -> None:
        cluster = run_of(point).cluster
        self._settings = OpenPai.current(point.task.cluster)
        self.cluster = cluster.with_api_version("v2")
        self._given = cluster
        self.sweep = sweep
        self._is_loaded = False
        self._losses_logged = False
        self._statuses: dict[str, JobStatus] = {}
        self._instances: dict[str, _Instance] = {}  # by the name of the submission
        self._unposted: dict[str, float] = {}  # jobs that others have recorded, and when that was seen first
        self.waiting: list[Any] = []

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
        if not known.has_failed:
            return known
        found = yield from run.find()
        return None if found is None else self._latest(run, found)

    def _latest(self, run: TaskRun, found: LatestSubmission) -> LatestSubmission:
        """Return the latest submission in an array that comes after one that has failed."""
        while found.has_failed:
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

    def is_taken(self, point: Point, run: TaskRun, number: int, array: str) -> bool:
        """Return whether another process has recorded a submission of a point since that was looked up.

        A record of a submission that the server does not know counts for 10 s: it may be on its way.

        Args:
            point: the point.
            run: of its task.
            number: of the submission that is to be made.
            array: the name of its array.

        Raises:
            HdfsError: HDFS failed.
        """
        record = run.outputs.submission_record(point.name)
        last = None if record is None else record.read()
        if last is None or last.number < number or last.job == array:
            return False
        if last.state is not None:
            return True
        now = self.cluster.clock.monotonic()
        return now - self._unposted.setdefault(last.job, now) < _ON_ITS_WAY

    def status(self, array: str) -> JobStatus:
        """Return the status of an array, as it was loaded."""
        return self._statuses[array]

    def protocol(self, job: PaiJob | JobProtocol) -> JobProtocol:
        """Return a job as a protocol; a v1 job is converted. What the first of a sweep loses is logged."""
        conversion = _converted(job, self._settings)
        for loss in () if self._losses_logged else conversion.losses:
            logger.warning("%s, jobs of a v2 cluster: %s", self.sweep, loss)
        self._losses_logged = True
        return conversion.protocol

    def retried(self, request: Callable[[], T]) -> Steps[T]:
        """Make a request of a sweep; transient errors are retried."""
        retry = Retry(self.cluster.polling.patience, self.cluster.clock, f"sweep {self.sweep}")
        return (yield from retry.call(request))


def _converted(job: PaiJob | JobProtocol, settings: OpenPai) -> Conversion:
    if not isinstance(job, PaiJob):
        return Conversion(job, ())
    return convert(job, fs_uri=settings.fs_uri)


def _no_arrays(why: str) -> ConfigError:
    return ConfigError(
        "points_per_job needs a cluster of OpenPAI 0.15 to 1.8 or LTP, whose jobs have instances that end "
        f"by themselves: {why}; {_LEAVE_OUT}"
    )
