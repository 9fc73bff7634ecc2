"""All errors that this package raises.

The tree::

    PaiError
    ├── ConfigError        a setting of [OpenPai] is missing or invalid      (also a ValueError)
    │   └── MissingPackage       an optional package is not installed  (also a ModuleNotFoundError)
    ├── SpecError          the description of a job or sweep is not valid    (also a ValueError)
    ├── PaiApiError        a request to the cluster failed
    │   ├── ClusterUnreachable   no response: unknown host, timeout, TLS (also a requests.ConnectionError)
    │   ├── InvalidReply         a response that is not from OpenPAI         (also a requests.HTTPError)
    │   └── PaiHttpError         an error response from OpenPAI              (also a requests.HTTPError)
    │       ├── AuthenticationError  login or token rejected
    │       │   └── TokenLost                the server rejected a token that it had just issued
    │       ├── PermissionRefused    403
    │       ├── JobNotFound          404 for a job
    │       ├── NameConflict         409: the name is in use
    │       ├── RateLimited          429
    │       └── ServerFault          5xx
    ├── PaiJobError        a job did not succeed                             (also a RuntimeError)
    │   ├── PaiJobFailed         it ended as FAILED or STOPPED
    │   │   └── PaiJobTimeout        it was stopped because of queue_timeout or run_timeout
    │   ├── PaiNameTaken         its name belongs to another user            (also a requests.HTTPError)
    │   ├── PaiJobLost           the server no longer knows it          (also a requests.HTTPError)
    │   ├── PaiJobForgotten      it was submitted earlier, and its result is not known
    │   ├── PaiOutputElsewhere   it does not write to the task's output folder
    │   └── PaiWorkConflict      another task has used its name or output folder
    ├── PaiSweepFailed     more points of a sweep failed than its tolerance allows (also a RuntimeError)
    └── HdfsError          a file operation failed       (luigi_pai.files: also luigi's FileSystemException)

``luigi.contrib.pai`` raised RuntimeError and the base classes from requests, so ``except`` clauses
written for ``luigi.contrib.pai`` also work with luigi_pai. ValueError is Python's type for an invalid value,
and FileSystemException is the base class of Luigi's file system errors.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Any

from requests.exceptions import ConnectionError as RequestsConnectionError
from requests.exceptions import HTTPError

from luigi_pai.redaction import printable, with_hint

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

    from luigi_pai.api.status import JobStatus

__all__ = [
    "AuthenticationError",
    "ClusterUnreachable",
    "ConfigError",
    "InvalidReply",
    "JobNotFound",
    "Level",
    "MissingPackage",
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
    "PaiSweepFailed",
    "PaiWorkConflict",
    "PermissionRefused",
    "Problem",
    "RateLimited",
    "ServerFault",
    "SpecError",
    "TokenLost",
]


class PaiError(Exception):
    """The base class of all errors that this package raises.

    ``str()`` removes control characters, because the message may quote a server.

    Attributes:
        mocked: Whether a test mocks ``requests``. If so, nothing was sent, and nothing is retried.
        transient: Whether the same file operation may succeed if repeated soon. Only HdfsError sets it.
        answer_lost: Whether the server may have executed the request although no response arrived.
        unsent: Whether the request certainly did not reach HDFS.
    """

    mocked = False
    transient = False
    answer_lost = False
    unsent = False

    def __str__(self) -> str:
        return printable(str(self.args[0])) if self.args else ""

    def in_section(self, section: str) -> Self:
        """Replace ``[OpenPai]`` in the message with the name of a section; return the error."""
        if section != "OpenPai":
            self.args = (str(self).replace("[OpenPai]", f"[{section}]"), *self.args[1:])
        return self


class ConfigError(PaiError, ValueError):
    """A setting is missing or invalid. The message names the setting and valid values."""


class MissingPackage(ConfigError, ModuleNotFoundError):
    """An optional package is not installed. The message contains the command that installs it."""


class Level(str, Enum):
    """The severity of a problem.

    Attributes:
        REFUSED: The server rejects the job.
        STRICTER: The server accepts the job, but the job fails later. The checks are stricter than the
            server: they accept the job only with ``lenient``.
        WARNING: The job runs, but perhaps not as intended.
    """

    REFUSED = "refused"
    STRICTER = "stricter"
    WARNING = "warning"


@dataclass(frozen=True)
class Problem:
    """A problem with a job description, or with a file to transfer.

    Attributes:
        path: The field in the job format, such as ``taskRoles[1].portList[0].label``, or the file's path.
        message: A description of the problem and of valid values.
        level: The severity.
        line: The line number in the job file, starting at 1; None if it is not known.
    """

    path: str
    message: str
    level: Level = Level.REFUSED
    line: int | None = None

    def __str__(self) -> str:
        line = f"{self.path}: {self.message}" if self.path else self.message
        return line if self.line is None else f"{line} (line {self.line})"


class SpecError(PaiError, ValueError):
    """The description of a job or a sweep is not valid. Nothing was sent.

    Attributes:
        name: The name of the job or sweep, or of a file whose content cannot be read as a job.
        problems: All problems, in the order of the job's fields or of the sweep's points.
        kind: ``job`` or ``sweep``.
    """

    def __init__(self, name: str, problems: Iterable[Problem], kind: str = "job") -> None:
        self.name = name
        self.problems = tuple(problems)
        self.kind = kind
        count = len(self.problems)
        lines = "".join(f"\n  {problem}" for problem in self.problems)
        super().__init__(
            f"{kind} {name!r} was not submitted: {count} problem{'' if count == 1 else 's'} in its "
            f"description{lines}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name, self.problems, self.kind)


class PaiApiError(PaiError):
    """A request to the cluster failed."""

    def reworded(self, message: str) -> Self:
        """Return a copy of the error with another message."""
        new = copy.copy(self)
        new.args = (message,)
        return new

    def extended(self, hint: str) -> Self:
        """Return a copy of the error with a hint appended to its message."""
        return self.reworded(with_hint(str(self), hint))


class ClusterUnreachable(PaiApiError, RequestsConnectionError):
    """There was no response: connection refused, unknown host, timeout, or TLS failure.

    Attributes:
        never_replied: Whether the server has never responded, as far as this process knows. Its URL is then
            probably wrong, so requests are not retried.
    """

    never_replied = False

    def __init__(self, message: str, *, answer_lost: bool = False) -> None:
        super().__init__(message)
        self.answer_lost = answer_lost


class InvalidReply(PaiApiError, HTTPError):
    """A response arrived, but not from an OpenPAI rest-server."""


class PaiHttpError(PaiApiError, HTTPError):
    """An error response from OpenPAI.

    The ``response`` attribute, inherited from requests, is always None: a response contains its
    request with the token or the password, and a program that prints an error may also print its response.

    Attributes:
        status: The HTTP status.
        code: OpenPAI's error code, such as ``NoJobError``; None if the response has none.
        server_message: The message in OpenPAI's response.
    """

    def __init__(
        self, message: str, *, status: int = 0, code: str | None = None, server_message: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.server_message = server_message


class AuthenticationError(PaiHttpError):
    """The server rejected the login or the token."""


class TokenLost(AuthenticationError):
    """The server rejected a token that it had just issued, so the request was not executed.

    At a login, the rest-servers of OpenPAI 0.17 to 1.8 and of LTP read the user's stored tokens, add one,
    and write them all back. Simultaneous logins of the same user may therefore delete each other's tokens.
    """


class PermissionRefused(PaiHttpError):
    """The user does not have permission (403)."""


class JobNotFound(PaiHttpError):
    """The server has no job with this name."""


class NameConflict(PaiHttpError):
    """The name is in use (409). OpenPAI never lets you reuse a job name."""


class RateLimited(PaiHttpError):
    """Too many requests (429).

    Attributes:
        reset_at: When the limit ends, in seconds since 1970 UTC; None if the server did not say.
        sent: Whether the request was sent. It is not sent if the limit is known to be reached.
    """

    def __init__(
        self, message: str, *, reset_at: float | None = None, sent: bool = True, **about: Any
    ) -> None:
        super().__init__(message, **about)
        self.reset_at = reset_at
        self.sent = sent


class ServerFault(PaiHttpError):
    """The server failed (5xx). It may or may not have executed the request."""


class PaiJobError(PaiError, RuntimeError):
    """A job did not succeed.

    Attributes:
        job_name: The job's name on the server, ``NAME`` or ``NAME__attempt2``; empty if there is no job.
    """

    def __init__(self, message: str, job_name: str = "") -> None:
        super().__init__(message, job_name)
        self.job_name = job_name


class PaiJobFailed(PaiJobError):
    """A job ended in the state FAILED or STOPPED.

    Attributes:
        status: The job's last status.
        last_line: The last log line of the task that ended the job, from the log or the server's
            diagnostics; empty if the line is not known.
    """

    def __init__(self, message: str, status: JobStatus, last_line: str = "") -> None:
        super().__init__(message, status.name)
        self.args = (message, status, last_line)
        self.status = status
        self.last_line = last_line


class PaiJobTimeout(PaiJobFailed):
    """A job was stopped because it was queued longer than queue_timeout or ran longer than run_timeout."""


class PaiNameTaken(PaiJobError, HTTPError):
    """The job's name belongs to another user of the cluster."""


class PaiJobLost(PaiJobError, HTTPError):
    """The server no longer knows a job that this process was monitoring."""


class PaiJobForgotten(PaiJobError):
    """A job was submitted earlier, but the server no longer knows it, and its result is unknown."""


class PaiOutputElsewhere(PaiJobError):
    """A job with the task's name already exists, but it writes to another folder than the task expects."""


class PaiWorkConflict(PaiJobError):
    """Another task has used the same job name or output folder."""


class PaiSweepFailed(PaiError, RuntimeError):
    """A sweep did not succeed.

    Too many points failed, your code failed, a user stopped the sweep with ``stop``, or another process is
    running it.

    Attributes:
        sweep: The name of the sweep.
        failed: The names of the failed points.
    """

    def __init__(self, message: str, sweep: str = "", failed: Iterable[str] = ()) -> None:
        self.sweep = sweep
        self.failed = tuple(failed)
        super().__init__(message, sweep, self.failed)
