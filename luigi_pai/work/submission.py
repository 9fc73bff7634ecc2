"""Submission: a job and the pieces of work that it runs. InFlight: the jobs that may be on the server."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.api.book.entries import Entry
from luigi_pai.api.status import JobState, JobStatus, instance_statuses
from luigi_pai.errors import PaiError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from luigi_pai.api.book.book import Book
    from luigi_pai.work.evidence import Evidence
    from luigi_pai.work.piece import Work

TRY_AGAIN = "run the task again: it looks up the job first"
"""The next step for a job that may have been submitted."""


@dataclass(slots=True, eq=False)
class Member:
    """A piece of work in a job.

    Attributes:
        work: The work.
        evidence: The evidence about the work.
        number: Its submission's number, from 1; 0 if still unknown.
        index: Its instance's number in an array; None if its job is not an array.
    """

    work: Work
    evidence: Evidence
    number: int = 0
    index: int | None = None

    @property
    def own_name(self) -> str:
        """Its submission's name (NAME, NAME__attempt2, ...), even if an array runs it."""
        return self.work.job_name(self.number)

    def save_memory(self) -> None:
        """Drop the job's definition and the access to evidence; both are recreated when needed."""
        self.work.forget_job()
        self.evidence.close()


@dataclass(slots=True, eq=False)
class Submission:
    """A job on the server, and the work that it runs. The job is an array, or runs one piece of work.

    Attributes:
        name: The job's name.
        book: Its cluster's book.
        members: The work that has not finished.
        status: The last known status.
        posted: Whether this process submitted it.
        is_there: Whether the server accepted it; False during the submission, or if the response was lost.
        is_over: Whether the job has finished, or the server does not know it.
    """

    name: str
    book: Book
    members: list[Member]
    status: JobStatus
    posted: bool = False
    is_there: bool = True
    is_over: bool = False

    @classmethod
    def from_entry(cls, member: Member, entry: Entry) -> Submission:
        """Return some work's existing submission."""
        member.number, member.index = entry.number, entry.index
        status = member.evidence.with_start(entry.known)
        return cls(entry.job, member.work.book, [member], status, posted=entry.posted)

    @classmethod
    def new(cls, name: str, book: Book) -> Submission:
        """Return a job that is about to be posted, without its members."""
        status = JobStatus(name, JobState.WAITING, raw_state="SUBMITTED")
        return cls(name, book, [], status, posted=True, is_there=False)

    @property
    def key(self) -> Hashable:
        """Cluster, user and dialect, as a key; one watcher watches all jobs with the same key."""
        return self.book.api.url, self.book.api.username, self.book.api.detector.given

    @property
    def is_array(self) -> bool:
        """Whether the job is an array."""
        return any(member.index is not None for member in self.members)

    def statuses(self, status: JobStatus) -> Iterator[tuple[Member, JobStatus]]:
        """Yield each piece of work that has not finished, with its part of the job's status."""
        of_instance = instance_statuses(status)
        for member in list(self.members):
            yield member, status if member.index is None else of_instance(member.index)

    def entry_of(self, member: Member, status: JobStatus) -> Entry:
        """Return a piece of work's entry in the job."""
        return Entry(member.number, self.name, status, member.index, self.posted)

    def stop_sent(self) -> None:
        """Record for each piece of work that the server was asked to stop the job."""
        for member in list(self.members):
            member.evidence.stop_sent(self.name)


class InFlight:
    """A run's jobs that may be waiting or running on the server. Threads share this object.

    A job is added before its first post. It is removed when it has ended, or when it is certain that the
    server did not accept it. An interrupted run can therefore stop and name all its jobs.
    """

    def __init__(self) -> None:
        self._jobs: dict[tuple[str, str], Submission] = {}  # by the cluster's URL and the job's name
        self._lock = threading.Lock()
        self._is_closed = False

    def jobs(self) -> list[Submission]:
        """Return the jobs; those that the server certainly accepted come last."""
        with self._lock:
            jobs = [job for job in self._jobs.values() if not job.is_over]
        return sorted(jobs, key=lambda job: job.is_there)

    def close(self) -> None:
        """Prevent all threads from posting more jobs: ``announce`` raises an error instead."""
        with self._lock:
            self._is_closed = True

    def announce(self, job: Submission) -> None:
        """Add a job that is about to be posted, unless it was added already.

        Raises:
            PaiError: The run was interrupted; the post must not be made.
        """
        with self._lock:
            if self._jobs.get(_key(job)) is job:
                return
            if self._is_closed:
                raise PaiError(f"job {job.name!r} was not submitted: the run was interrupted")
            self._jobs[_key(job)] = job

    def add(self, job: Submission) -> None:
        """Add a job that the server has."""
        with self._lock:
            job.is_there = True
            self._jobs[_key(job)] = job

    def remove(self, job: Submission) -> None:
        """Remove a job that has finished, or that the server certainly did not accept."""
        with self._lock:
            job.is_over = True
            if self._jobs.get(_key(job)) is job:
                del self._jobs[_key(job)]


def _key(job: Submission) -> tuple[str, str]:
    return job.book.api.url, job.name
