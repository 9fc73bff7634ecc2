"""Array mode of sweeps: many points as the instances of one job (``points_per_job``; v2 clusters only).

A point in an array is the same work as alone: it has its own submissions (NAME, NAME__attempt2, ...), its
own output folder, submission record and completion flag; its record names the array as the job that ran it.
The array's name is made of the sweep's name and a hash of the submissions in it, so that the same submissions
are never sent twice. Which points an array has is in the job itself: a later run finds the arrays of the
sweep in the user's list of jobs, whatever ``points_per_job`` is by then.

How a sweep uses it::

    arrays = Arrays("study", cluster)
    yield from arrays.load()                       # the arrays of this sweep that the server knows
    found = yield from arrays.find(run)            # of each point: a TaskRun; as run.find()
    ...                                            # done, running by itself, or an instance of an array
    array = arrays.new([(run, found), ...])        # points to submit: one job
    array = arrays.existing(found.status.name, ...)  # or one that runs already
    status = yield from array.submit()             # watch this job, and for each of its updates
    for run, begun, update in array.ended(update): # the points that have ended since:
        run.finish(begun, update)                  # as of a job of its own
"""

from __future__ import annotations

import hashlib
import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

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
from luigi_pai.tasks.task_run import Begun

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.retries import Steps
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.tasks.definition import JobDefinition
    from luigi_pai.tasks.task_run import TaskRun

__all__ = ["ArrayRun", "Arrays", "check_points"]

logger = logging.getLogger("luigi-interface")

T = TypeVar("T")

_HASH = 12  # characters
_LONGEST = 200  # of the sweep's name in that of an array


def check_points(definitions: Sequence[JobDefinition]) -> None:
    """Check that any points of a sweep can be instances of one job; nothing is sent.

    Raises:
        SpecError: they cannot; the text has the first point that differs, and what differs.
        ConfigError: the cluster is one of v1.
    """
    if OpenPai.current().api_version == "v1":
        raise _no_arrays("api_version = v1 is set in [OpenPai] of luigi.cfg")
    jobs = [_protocol(definition.job_named(definition.name)) for definition in definitions]
    for job in jobs[1:]:
        array_of("points", [jobs[0], job])


def array_name(sweep: str, submissions: Sequence[str]) -> str:
    """Return the name of the array that has these submissions of a sweep's points."""
    digest = hashlib.sha256("\n".join(sorted(submissions)).encode()).hexdigest()[:_HASH]
    return f"{_prefix(sweep)}{digest}"


def _prefix(sweep: str) -> str:
    return f"{v2_name(sweep)[:_LONGEST]}-array-"


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
        self._sweep = sweep
        self._cluster = cluster.with_api_version("v2")
        self._statuses: dict[str, JobStatus] = {}
        self._instances: dict[str, _Instance] = {}  # by the name of the submission

    def load(self) -> Steps[None]:
        """Find the arrays of this sweep in the user's list of jobs.

        Raises:
            ConfigError: the cluster is one of v1.
            PaiApiError: the cluster did not answer.
        """
        if (yield from self._retried(self._cluster.server.api_version)) == "v1":
            raise _no_arrays(f"{self._cluster.url} is an OpenPAI 0.7 to 0.14")
        own = re.compile(re.escape(_prefix(self._sweep)) + rf"[0-9a-f]{{{_HASH}}}")
        listed = yield from self._retried(self._cluster.list)
        for name in [job.name for job in reversed(listed) if own.fullmatch(job.name)]:
            yield from self._load(name)

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
        names = (*self._statuses, run.submission_name(found.number))
        if found.status is not None and found.status.name not in names:  # an array of another sweep
            yield from self._load(found.status.name)
        return found

    def new(self, points: Sequence[tuple[TaskRun, LatestSubmission]]) -> ArrayRun:
        """Return the array of points that are to be submitted.

        Args:
            points: each with what ``find`` returned; at most 10,000.

        Raises:
            PaiJobForgotten: a point was submitted, and its result is not known.
        """
        numbers = [run.next_submission(found)[0] for run, found in points]
        members = dict(enumerate(zip([run for run, _ in points], numbers, strict=True)))
        names = [run.submission_name(number) for run, number in members.values()]
        return ArrayRun(self._cluster, array_name(self._sweep, names), members)

    def existing(self, name: str, points: Sequence[tuple[TaskRun, LatestSubmission]]) -> ArrayRun:
        """Return an array that is on the server, to watch some of its points.

        Args:
            name: of the array, as in the status of these points.
            points: each with what ``find`` returned.
        """
        members = {}
        for run, found in points:
            instance = self._instances[run.submission_name(found.number)]
            members[instance.index] = (run, found.number)
        return ArrayRun(self._cluster, name, members, self._statuses[name])

    def _load(self, name: str) -> Steps[None]:
        try:
            status = yield from self._retried(lambda: self._cluster.status(name))
            config = yield from self._retried(lambda: self._cluster.config(name))
        except JobNotFound:
            return
        self._statuses[name] = status
        for index, job in enumerate(jobs_in(config) or ()):
            self._instances[job] = _Instance(name, index)

    def _retried(self, request: Callable[[], T]) -> Steps[T]:
        retry = Retry(self._cluster.polling.patience, self._cluster.clock, f"sweep {self._sweep}")
        return (yield from retry.call(request))


class ArrayRun:
    """A run of one array: submitted or taken over, and the ends of its points.

    Args:
        cluster: of the array.
        name: of the array.
        members: index -> the run of a point, and the number of its submission.
        status: of an array that is on the server.

    Attributes:
        name: of the array.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        members: Mapping[int, tuple[TaskRun, int]],
        status: JobStatus | None = None,
    ) -> None:
        self.name = name
        self._cluster = cluster
        self._members = dict(members)
        self._begun = status

    def submit(self) -> Steps[JobStatus]:
        """Submit the array unless it is on the server, and return its status: it may have ended already.

        Raises:
            SpecError: the points differ in what they share, or the array is too large; nothing was sent.
            PaiError: it was not submitted, or may have been: the text says which.
        """
        if self._begun is None:
            self._begun = yield from self._submitted()
        return self._begun

    def ended(self, update: Update) -> Iterator[tuple[TaskRun, Begun, Update]]:
        """Yield the points that have ended, each once, with what its ``finish`` takes."""
        status = update.status
        for index, (run, number) in list(self._members.items()):
            own = instance_status(status, index)
            is_over = update.outcome is Outcome.LOST or own.finished
            if is_over:
                del self._members[index]
                outcome = Outcome.ENDED if own.finished else Outcome.LOST
                begun = Begun(number, self._begun or status, submitted=False)
                yield run, begun, Update(update.name, own, outcome, update.missed)

    def states(self, status: JobStatus) -> Iterator[tuple[TaskRun, JobStatus]]:
        """Yield the points that have not ended, and their statuses."""
        for index, (run, _number) in self._members.items():
            yield run, instance_status(status, index)

    def _submitted(self) -> Steps[JobStatus]:
        submissions = Submissions(self._cluster, self.name)
        recorded: list[TaskRun] = []
        try:
            jobs = []
            for run, number in self._members.values():
                jobs.append(_protocol(run.prepare(number, self.name)))
                recorded.append(run)
            found = yield from submissions.submit(1, array_of(self.name, jobs))
        except PaiApiError as error:
            if submissions.may_be_submitted:
                text = f"job {self.name} may have been submitted; run the sweep again: it looks up the job"
                raise error.extended(text) from None
            self._undo(recorded)
            raise error.reworded(f"job {self.name!r} was not submitted: {error}") from None
        except PaiError:
            self._undo(recorded)
            raise
        except BaseException:
            logger.warning("Interrupted: job %s may have been submitted; run the sweep again", self.name)
            raise
        if not found.submitted:
            yield from self._take_over()
        return found.status or JobStatus(self.name, JobState.UNKNOWN)

    def _take_over(self) -> Steps[None]:
        """Find the points in an array that turned out to be on the server: their order may be another."""
        retry = Retry(self._cluster.polling.patience, self._cluster.clock, f"job {self.name}")
        config = yield from retry.call(lambda: self._cluster.config(self.name))
        places = {name: index for index, name in enumerate(jobs_in(config) or ())}
        members = self._members.values()
        self._members = {places[run.submission_name(number)]: (run, number) for run, number in members}
        logger.info("Job %s already exists; nothing is submitted", self.name)

    @staticmethod
    def _undo(recorded: Sequence[TaskRun]) -> None:
        for run in recorded:
            run.undo_submission()


def _protocol(job: PaiJob | JobProtocol) -> JobProtocol:
    """Return a job as a protocol; a v1 job is converted."""
    if not isinstance(job, PaiJob):
        return job
    return convert(job, fs_uri=OpenPai.current().fs_uri).protocol


def _no_arrays(why: str) -> ConfigError:
    return ConfigError(
        f"points_per_job needs a cluster of OpenPAI 0.15 to 1.8 or LTP, whose jobs have instances that end "
        f"by themselves: {why}; leave points_per_job out"
    )
