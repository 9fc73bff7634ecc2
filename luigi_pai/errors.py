"""Every error of this package.

The tree::

    PaiError
    ├── ConfigError        a setting of [OpenPai] is missing or wrong        (also a ValueError)
    ├── SpecError          a job that no OpenPAI could run, every problem    (also a ValueError)
    ├── PaiApiError        the cluster did not do what it was asked
    │   ├── ClusterUnreachable   nobody answered: refused, no such host, timeout, TLS
    │   ├── InvalidReply         somebody answered, but not as an OpenPAI does
    │   └── PaiHttpError         an OpenPAI answered with an error           (also a requests.HTTPError)
    │       ├── AuthenticationError  login refused, or the token is not taken
    │       ├── PermissionRefused    403
    │       ├── JobNotFound          404 for a job
    │       ├── NameConflict         409: the name is in use
    │       ├── RateLimited          429
    │       └── ServerFault          5xx
    ├── PaiJobError        a job did not come to a good end                  (also a RuntimeError)
    │   ├── PaiJobFailed         it ended as FAILED or STOPPED
    │   │   └── PaiJobTimeout        it was stopped for its queue_timeout or run_timeout
    │   ├── PaiNameTaken         its name belongs to another user
    │   ├── PaiJobLost           the server lost it while it was watched
    │   ├── PaiJobForgotten      it was submitted once, and the server no longer knows how it ended
    │   └── PaiOutputElsewhere   it succeeded, but wrote to another folder than the task's
    └── HdfsError          an operation on HDFS failed  (luigi_pai.hdfs: also luigi's FileSystemException)

The second bases are those that ``luigi.contrib.pai`` raised, so that a user's
``except`` goes on working after the change of the import line.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

    from luigi_pai.api.status import JobStatus
    from luigi_pai.http_errors import (
        AuthenticationError,
        JobNotFound,
        NameConflict,
        PaiHttpError,
        PermissionRefused,
        RateLimited,
        ServerFault,
    )

__all__ = [
    "AuthenticationError",
    "ClusterUnreachable",
    "ConfigError",
    "InvalidReply",
    "JobNotFound",
    "Level",
    "NameConflict",
    "PaiApiError",
    "PaiError",
    "PaiHttpError",
    "PaiJobError",
    "PaiJobFailed",
    "PaiJobForgotten",
    "PaiJobLost",
    "PaiJobTimeout",
    "PaiNameTaken",
    "PaiOutputElsewhere",
    "PermissionRefused",
    "Problem",
    "RateLimited",
    "ServerFault",
    "SpecError",
]


_HTTP_ERRORS = (
    "AuthenticationError",
    "JobNotFound",
    "NameConflict",
    "PaiHttpError",
    "PermissionRefused",
    "RateLimited",
    "ServerFault",
)


def __getattr__(name: str) -> Any:
    """Load the errors that are requests' own, too, when one is first named: requests costs 35 ms."""
    if name not in _HTTP_ERRORS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from luigi_pai import http_errors  # noqa: PLC0415

    value = getattr(http_errors, name)
    globals()[name] = value
    return value


class PaiError(Exception):
    """Base of every error that this package raises."""


class ConfigError(PaiError, ValueError):
    """A setting is missing or wrong; the text names it and says what to write."""


class Level(str, Enum):
    """What becomes of a job that has a problem.

    Attributes:
        REFUSED: the server refuses it.
        STRICTER: the server takes it, and something goes wrong later; refused here, unless lenient.
        WARNING: it runs; the user should know all the same.
    """

    REFUSED = "refused"
    STRICTER = "stricter"
    WARNING = "warning"


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a job.

    Attributes:
        path: where, in the fields of the job format: ``taskRoles[1].portList[0].label``.
        message: what is wrong there, and what would be right.
        level: what becomes of the job.
        line: where in the file, from 1; None where there is no file.
    """

    path: str
    message: str
    level: Level = Level.REFUSED
    line: int | None = None

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        return text if self.line is None else f"{text} (line {self.line})"


class SpecError(PaiError, ValueError):
    """A job that cannot run as it is written. Nothing was sent.

    Attributes:
        name: the job's name, as far as it has one.
        problems: every problem found, in the order of the job's fields.
    """

    def __init__(self, name: str, problems: Iterable[Problem]) -> None:
        self.name = name
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(
            f"job {name!r} was not submitted: {count} problem{'' if count == 1 else 's'} in its description"
            + lines
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.problems)


class PaiApiError(PaiError):
    """The cluster did not do what it was asked to do."""

    def reworded(self, message: str) -> Self:
        """Return the same error with another text."""
        new = copy.copy(self)
        new.args = (message,)
        return new

    def extended(self, hint: str) -> Self:
        """Return the same error with a hint behind its text."""
        return self.reworded(f"{self}; {hint}")


class ClusterUnreachable(PaiApiError):
    """Nobody answered: connection refused, host unknown, timeout, TLS failure.

    Attributes:
        answer_lost: the request was sent, or may have been, and its answer did
            not arrive: the server may have done what it was asked.
    """

    def __init__(self, message: str, *, answer_lost: bool = False) -> None:
        super().__init__(message)
        self.answer_lost = answer_lost


class InvalidReply(PaiApiError):
    """Somebody answered, but not in the way of an OpenPAI rest-server."""


class PaiJobError(PaiError, RuntimeError):
    """A job did not come to a good end.

    Attributes:
        job_name: the job's name on the server, ``NAME`` or ``NAME__attempt2``; "" where there is none.
    """

    def __init__(self, message: str, job_name: str = "") -> None:
        super().__init__(message, job_name)
        self.job_name = job_name

    def __str__(self) -> str:
        return str(self.args[0])


class PaiJobFailed(PaiJobError):
    """A job ended as FAILED or STOPPED.

    Attributes:
        status: the job's last status.
    """

    def __init__(self, message: str, status: JobStatus) -> None:
        super().__init__(message, status.name)
        self.args = (message, status)
        self.status = status


class PaiJobTimeout(PaiJobFailed):
    """A job was stopped because it waited longer than queue_timeout, or ran longer than run_timeout."""


class PaiNameTaken(PaiJobError):
    """The job's name belongs to another user of the cluster."""


class PaiJobLost(PaiJobError):
    """The server no longer knows a job that this process was watching."""


class PaiJobForgotten(PaiJobError):
    """A job was submitted longer ago than the server keeps jobs, and how it ended was never recorded."""


class PaiOutputElsewhere(PaiJobError):
    """The job of a task's name wrote to another output folder than the task has now."""
