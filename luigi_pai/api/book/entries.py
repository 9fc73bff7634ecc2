"""Arguments and results of the book: evidence, recorded submissions, entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from luigi_pai.api.status import JobStatus


class Recorded(Protocol):
    """A submission that was recorded before it was posted."""

    @property
    def number(self) -> int:
        """1 for NAME, 2 for NAME__attempt2, ..."""
        ...

    @property
    def job(self) -> str:
        """The job on the server that runs it: one of its own, or an array."""
        ...


class Evidence(Protocol):
    """Information about a piece of work that its server does not have."""

    def last(self) -> Recorded | None:
        """Return the last recorded submission; None if there is none."""
        ...

    def may_have_run(self) -> bool:
        """Return whether work without a record may have run before, as its outputs exist."""
        ...


@dataclass(frozen=True, slots=True)
class Entry:
    """The newest known submission of a piece of work.

    Attributes:
        number: 1 for NAME, 2 for NAME__attempt2, ...
        job: the name on the server of the job that runs it: one of its own, or an array.
        status: of the submission; for an instance of an array, that of the instance. None if it was
            recorded, and the server does not know the job.
        index: of the instance in the array; None for a job of its own.
        posted: this process submitted it just now.
        void: it was recorded for an array that exists without it, so that it will never run.
    """

    number: int
    job: str
    status: JobStatus | None
    index: int | None = None
    posted: bool = False
    void: bool = False

    @property
    def known(self) -> JobStatus:
        """Its status; the server must know the job.

        Raises:
            ValueError: the server does not know the job.
        """
        if self.status is None:
            raise ValueError(f"job {self.job!r} is not on the server")
        return self.status

    @property
    def succeeded(self) -> bool:
        """Whether it has succeeded."""
        return self.status is not None and self.status.succeeded

    @property
    def failed(self) -> bool:
        """Whether it has ended without success."""
        return self.status is not None and self.status.finished and not self.status.succeeded
