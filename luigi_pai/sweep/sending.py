"""Sending: the jobs of a sweep that may be on the server, but are not watched yet."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.errors import PaiError
from luigi_pai.sweep.jobs import SweepJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.sweep.jobs import Member
    from luigi_pai.tasks.signals import Note


class Sending:
    """The jobs of a sweep that may be on the server, but are not watched yet. Threads share it.

    A job is in it from its first post until the sweep watches the job, or until it is certain that the server
    has not taken the job. So an interrupted sweep can stop and name all its jobs.
    """

    def __init__(self) -> None:
        self._jobs: dict[str, SweepJob] = {}
        self._lock = threading.Lock()
        self._is_closed = False

    def jobs(self) -> list[SweepJob]:
        """Return the jobs."""
        with self._lock:
            return list(self._jobs.values())

    def close(self) -> None:
        """Let no thread post another job: the functions of ``noting`` raise an error instead."""
        with self._lock:
            self._is_closed = True

    def watched(self, name: str) -> None:
        """Remove a job, which is watched now."""
        with self._lock:
            self._jobs.pop(name, None)

    def noting(self, book: Book, members: Sequence[Member]) -> Note:
        """Return a function that notes a job of these points, as ``TaskRun.submit`` calls it.

        The function raises PaiError before a post, which must then not be made, after ``close``.
        """
        job: SweepJob | None = None

        def note(name: str, *, is_there: bool = False) -> None:
            nonlocal job
            with self._lock:
                if not name:
                    if job is not None:
                        job.is_over = True
                        self._jobs.pop(job.name, None)
                elif is_there and job is not None:
                    job.is_there = True
                elif self._is_closed:
                    raise PaiError(f"job {name!r} was not submitted: the sweep was interrupted")
                else:
                    status = JobStatus(name, JobState.WAITING, raw_state="SUBMITTED")
                    job = SweepJob(name, book, list(members), status, posted=True, is_there=False)
                    self._jobs[name] = job

        return note
