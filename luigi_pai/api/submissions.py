"""Submissions: lookup and submission of a task's job, under NAME, NAME__attempt2, ...

A server never frees a name, so a failed job is submitted again under the next name. A name is posted
again only after the server has replied that it does not know it, whatever was lost in between. All
functions are steps (``retries.Steps``): they yield the seconds to wait and never sleep.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.api.status import JobState, JobStatus, instance_status
from luigi_pai.errors import (
    ClusterUnreachable,
    InvalidReply,
    JobNotFound,
    NameConflict,
    PaiApiError,
    PaiHttpError,
    PaiNameTaken,
    ServerFault,
)
from luigi_pai.spec.arrays.commands import jobs_in
from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.names import attempt_name

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.retries import Steps
    from luigi_pai.spec.protocol import JobProtocol

__all__ = ["LatestSubmission", "Submissions", "jobs_of", "validated_name"]

logger = logging.getLogger(__name__)

_MOST_ARRAYS = 200
_RECENT = 30.0  # seconds for which a lookup is cached; a 409 corrects it
_SERVER_ERROR = 500  # unlike 502 to 504, usually caused by this job
_SERVER_ERRORS_TAKEN = 3
_LISTED_WITHIN = 10.0  # seconds that a server may need to list a job whose name it already refuses


@dataclass(frozen=True, slots=True)
class LatestSubmission:
    """The latest submission of a task's job.

    Attributes:
        number: 1 for NAME, 2 for NAME__attempt2, ...; 0 if the server knows none.
        status: its status; None if the server knows none.
        submitted: it was submitted just now, by this process.
    """

    number: int
    status: JobStatus | None
    submitted: bool = False

    @property
    def succeeded(self) -> bool:
        """Whether it has succeeded."""
        return self.status is not None and self.status.succeeded

    @property
    def has_failed(self) -> bool:
        """Whether it has ended without success, or there is none."""
        return self.status is None or (self.status.finished and not self.status.succeeded)


class Submissions:
    """The submissions of one task's job on a cluster.

    Args:
        cluster: the cluster and the user.
        name: of the task's job; the first submission has this name.
        patience: seconds for which transient errors are retried; default: that of the cluster.
        alone: it is not one of many: a submission is logged (INFO), and then looked up.

    Attributes:
        may_be_submitted: in the last ``submit``, a post was sent whose reply was lost.
    """

    def __init__(
        self, cluster: Cluster, name: str, patience: float | None = None, *, alone: bool = True
    ) -> None:
        self._alone = alone
        self._cluster = cluster
        self._name = name
        self._patience = cluster.polling.patience if patience is None else patience
        self.may_be_submitted = False

    def job_name(self, number: int) -> str:
        """Return the name of a submission on this cluster."""
        return attempt_name(self._cluster.job_name(self._name), number)

    def cached(self) -> LatestSubmission | None:
        """Return the result of a recent ``latest``, once: run() follows complete() within seconds."""
        known = self._cluster.cached_lookup(self._name)
        if known is None or not known.reusable or known.age(self._cluster.clock) > _RECENT:
            return None
        self._cluster.cache_lookup(self._name, known.found, reusable=False)
        return known.found

    def latest(self, first: int | None = None) -> Steps[LatestSubmission]:
        """Find the latest submission.

        Looks up NAME; if it has failed, NAME__attempt2, and so on until a name is unknown. The search
        starts at the latest submission in the cache, and ends there if that entry is recent.

        Args:
            first: number of the submission to start with.

        Raises:
            PaiNameTaken: the name belongs to another user.
            PaiApiError: a lookup failed.
        """
        known = self._cluster.cached_lookup(self._name) if first is None else None
        number = first or (max(known.found.number, 1) if known else 1)
        status = yield from self._status(number)
        if status is None and number > 1 and first is None:
            number = 1
            status = yield from self._status(number)
        age = known.age(self._cluster.clock) if known and number == known.found.number else _RECENT
        while status is not None and status.finished and not status.succeeded and age >= _RECENT:
            later = yield from self._status(number + 1, may_list=False)
            if later is None:
                break
            status, number = later, number + 1
        found = LatestSubmission(number if status else 0, status)
        self._cluster.cache_lookup(self._name, found, reusable=True)
        return found

    def latest_in_list(self) -> Steps[int]:
        """Return the number of the latest submission in the user's list; 0 if there is at most one.

        On servers whose lists omit jobs, the second submission is looked up by its name.
        """
        latest = yield from self._retry().call(self._cluster.latest_submissions)
        number = latest.get(self._cluster.job_name(self._name), 0)
        if number == 0 and not self._cluster.dialect.can.whole_lists:
            second = yield from self._status(2, may_list=False)
            number = 2 if second is not None else 0
        return number

    def in_array(self, number: int, array: str) -> Steps[JobStatus | None]:
        """Return the status of a submission that is an instance of an array; None if there is no such job.

        Args:
            number: of the submission.
            array: the name of the array on the server.
        """
        name = self.job_name(number)
        return (yield from self._retry(array).call(lambda: _find_instance(self._cluster, array, name)))

    def cache(self, found: LatestSubmission) -> None:
        """Cache what is the result of a lookup now, for ``cached``."""
        self._cluster.cache_lookup(self._name, found, reusable=True)

    def latest_in_arrays(self, found: LatestSubmission) -> Steps[LatestSubmission]:
        """Return the latest submission among the instances of the user's arrays; else what was found.

        The newest 200 arrays of the user's list are read, each once by a process.

        Args:
            found: the latest submission under a name of its own; it has failed, or there is none.
        """
        listed = yield from self._retry().call(self._cluster.arrays)
        for array in reversed(listed[:_MOST_ARRAYS]):
            try:
                jobs = yield from self._retry(array).call(partial(jobs_of, self._cluster, array))
            except JobNotFound:
                continue
            while self.job_name(found.number + 1) in jobs:
                status = yield from self.in_array(found.number + 1, array)
                if status is None:
                    break
                found = LatestSubmission(found.number + 1, status)
        return found

    def submit(self, number: int, job: PaiJob | JobProtocol) -> Steps[LatestSubmission]:
        """Post a submission until the server has it.

        Args:
            number: of the submission.
            job: the job, under the name ``job_name(number)``.

        Returns:
            the submission; or, with ``submitted`` False, the result of a new lookup, if the name is in use
            or the server turned out to speak the other dialect.

        Raises:
            PaiNameTaken: the server refuses the name as in use, but has no job of that name.
            PaiHttpError: the server refused the job.
            PaiApiError: no reply.
        """
        name = self.job_name(number)
        spoken = self._cluster.dialect.version
        since: float | None = None
        while True:
            try:
                status = yield from self._post(name, job)
            except NameConflict:
                found = yield from self._find_holder(number)
                now = self._cluster.clock.monotonic()
                since = now if since is None else since
                if found.number >= number:
                    return found
                if now - since > _LISTED_WITHIN:  # else: a server may need a moment to list it
                    raise self._not_listed(name) from None
                yield 1.0
            except PaiHttpError:
                if self._cluster.dialect.version == spoken:
                    raise
                self._cluster.drop_lookup(self._name)  # it was made in the other dialect
                return (yield from self.latest())
            else:
                found = LatestSubmission(number, status, submitted=True)
                self._cluster.cache_lookup(self._name, found, reusable=False)
                return found

    def submit_new(self, job: PaiJob | JobProtocol) -> Steps[JobStatus]:
        """Post a job under its own name, which must be new, and return its first status.

        Raises:
            NameConflict: the name is in use.
            PaiHttpError: the server refused the job.
            PaiApiError: no reply.
        """
        name, began = self.job_name(1), self._cluster.clock.time()
        status = yield from self._post(name, job)
        if self.may_be_submitted and self._cluster.server.had(status, began):
            raise NameConflict(f"job {name!r} was not submitted: an earlier job has this name", status=409)
        return status

    def _post(self, name: str, job: PaiJob | JobProtocol) -> Steps[JobStatus]:
        posts, lookups = self._retry(name), self._retry(name)
        self.may_be_submitted = False
        failures = 0  # of the server itself
        while True:
            try:
                self._cluster.post(job)
                break
            except NameConflict:
                if not self.may_be_submitted:
                    raise
                break
            except TRANSIENT as error:
                self.may_be_submitted |= _may_be_accepted(error)
                if isinstance(error, ClusterUnreachable) and not self._cluster.answered:
                    raise  # there was never a reply: a wrong URL, not an outage
                yield posts.wait_after(error)
                if not _may_be_accepted(error):
                    continue
                there = yield from lookups.call(lambda: self._status_of(name))
                if there is not None:
                    logger.info(
                        "Job %s is on the server: the submission whose reply was lost was accepted", name
                    )
                    return there
                failures += _is_caused_by_the_job(error)
                if failures >= _SERVER_ERRORS_TAKEN:
                    raise
        posts.succeeded()
        logger.log(
            logging.INFO if self._alone else logging.DEBUG, "Submitted job %s to %s", name, self._cluster.url
        )
        return self._first_status(name)

    def _find_holder(self, number: int) -> Steps[LatestSubmission]:
        """Find the job that has the name of a submission, or a later submission."""
        self._cluster.drop_lookup(self._name)
        found = yield from self.latest()
        if found.status is None and number > 1:
            found = yield from self.latest(number)
        return found

    def _not_listed(self, name: str) -> PaiNameTaken:
        return PaiNameTaken(
            f"the server refuses the name {name!r} as in use, but has no job of that name; choose another "
            "name for the task",
            name,
        )

    def cache_end(self, number: int, status: JobStatus) -> None:
        """Cache the end of a submission that was watched."""
        self._cluster.cache_lookup(self._name, LatestSubmission(number, status), reusable=False)

    def _first_status(self, name: str) -> JobStatus:
        """Return the status of a job submitted just now; UNKNOWN if the server does not list it yet."""
        if not self._alone:
            return JobStatus(name, JobState.WAITING, raw_state="SUBMITTED")
        status = None
        with contextlib.suppress(PaiApiError):  # the job is on the server and is looked up again
            status = self._status_of(name)
        return status or JobStatus(name, JobState.UNKNOWN, raw_state="SUBMITTED")

    def _status(self, number: int, *, may_list: bool = True) -> Steps[JobStatus | None]:
        """Look up a submission; an error is final if the server has never replied.

        Args:
            number: of the submission.
            may_list: see ``Cluster.lookup``.
        """
        lookup = functools.partial(self._cluster.lookup, may_list=may_list)
        retry = self._retry(self.job_name(number))
        while True:
            try:
                status = self._checked(self.job_name(number), lookup)
            except TRANSIENT as error:
                if isinstance(error, ClusterUnreachable) and not self._cluster.answered:
                    raise
                yield retry.wait_after(error)
            else:
                retry.succeeded()
                return status

    def _status_of(self, name: str) -> JobStatus | None:
        return self._checked(name, self._cluster.status)

    def _checked(self, name: str, lookup: Callable[[str], JobStatus]) -> JobStatus | None:
        """Return the status of a job of this user; None if the server knows none."""
        try:
            status = lookup(name)
        except JobNotFound:
            return None
        if status.username is not None and status.username != self._cluster.username:
            raise PaiNameTaken(
                f"the name {name!r} belongs to a job of user {status.username!r} "
                f"({self._cluster.page(name, status.username)}); names are shared by all users of a "
                "cluster: choose another name for the task",
                name,
            )
        return status

    def _retry(self, name: str = "") -> Retry:
        what = f"job {name}" if name else ""
        return Retry(self._patience, self._cluster.clock, what, self._cluster.polling.patience)


def _is_caused_by_the_job(error: Exception) -> bool:
    """Return whether an error of a submission may come back each time it is repeated."""
    if isinstance(error, ServerFault):
        return error.status == _SERVER_ERROR
    return isinstance(error, InvalidReply)


def _may_be_accepted(error: Exception) -> bool:
    """Return whether a submission with this error may have been accepted."""
    if isinstance(error, ClusterUnreachable):
        return error.answer_lost
    return isinstance(error, (ServerFault, InvalidReply))


def validated_name(job: PaiJob | JobProtocol) -> str:
    """Validate a job and return its name.

    Raises:
        SpecError: the job is not valid.
    """
    if isinstance(job, PaiJob):
        from luigi_pai.spec.validate import check_job  # noqa: PLC0415  costs what only submitting needs

        check_job(job)
        return job.jobName
    from luigi_pai.spec.validate_protocol import check_protocol  # noqa: PLC0415  as above

    for warning in check_protocol(job):
        logger.warning("Job %s: %s", job.name, warning)
    return str(job.name)


def _find_instance(cluster: Cluster, array: str, job: str) -> JobStatus | None:
    """Return the status of a job in an array; None if the server has no such array."""
    try:
        status, jobs = cluster.status(array), jobs_of(cluster, array)
    except JobNotFound:
        return None
    return instance_status(status, jobs.index(job)) if job in jobs else None


def jobs_of(cluster: Cluster, array: str) -> list[str]:
    """Return the names of the jobs in an array, by index; none if it is another job. They are cached.

    Raises:
        JobNotFound: the server has no such job.
        PaiApiError: the lookup failed.
    """
    key = ("array", array)
    jobs: list[str] | None = cluster.cache.get(key)
    if jobs is None:
        jobs = jobs_in(cluster.config(array)) or []
        cluster.cache.put(key, jobs)
    return jobs
