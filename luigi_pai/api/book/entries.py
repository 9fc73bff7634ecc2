"""The types of the book's arguments and results: recorded submissions and entries."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from luigi_pai.api.status import JobState

if TYPE_CHECKING:
    from luigi_pai.api.status import JobStatus


class Recorded(Protocol):
    """A submission that was recorded before it was posted."""

    @property
    def number(self) -> int:
        """The submission's number: 1 for NAME, 2 for NAME__attempt2, ..."""

    @property
    def job(self) -> str:
        """The name of the job that runs the submission. The job may be an array with other submissions."""

    @property
    def has_failed(self) -> bool:
        """Whether the submission failed or was stopped, or a process asked the server to stop it."""


class Records(Protocol):
    """A piece of work's records outside of the server."""

    @property
    def is_durable(self) -> bool:
        """Whether submissions from all machines are recorded, for longer than a server keeps jobs."""

    def last(self) -> Recorded | None:
        """Return the last recorded submission; None if there is none."""

    def may_have_run(self) -> bool:
        """Return whether work without a record may have run before, that is, whether an output exists."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The newest known submission of a piece of work.

    Attributes:
        number: The submission's number: 1 for NAME, 2 for NAME__attempt2, ...
        job: The server's name for the job that runs the submission. The job may be an array.
        status: The submission's status; in an array, the status of its instance. None if the submission was
            recorded but the server does not know the job.
        index: The instance's index in the array; None if no instance is known.
        posted: Whether this process just submitted it.
        void: Whether the submission will never run, because its recorded array exists on the server but does
            not contain it.
    """

    number: int
    job: str
    status: JobStatus | None
    index: int | None = None
    posted: bool = False
    void: bool = False

    @property
    def known(self) -> JobStatus:
        """The status of the submission; the server must know the job.

        Raises:
            ValueError: The server does not know the job.
        """
        if self.status is None:
            raise ValueError(f"job {self.job!r} is not on the server")
        return self.status

    @property
    def succeeded(self) -> bool:
        """Whether the submission has succeeded."""
        return self.status is not None and self.status.state is JobState.SUCCEEDED

    @property
    def failed(self) -> bool:
        """Whether the submission has ended without success."""
        return self.status is not None and self.status.state in (JobState.FAILED, JobState.STOPPED)

    @property
    def may_have_successor(self) -> bool:
        """Whether to look for a later submission: this one failed, and the response is identified.

        A response with neither an owner nor a submission time comes from a mocked test.
        """
        return self.status is not None and self.failed and self.status.identified
