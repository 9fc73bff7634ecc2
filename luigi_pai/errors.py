"""Every error of this package.

The tree::

    PaiError
    ├── ConfigError        a setting of [OpenPai] is missing or wrong        (also a ValueError)
    │   └── MissingPackage       an optional package is not installed  (also a ModuleNotFoundError)
    ├── SpecError          the description of a job or sweep is not valid    (also a ValueError)
    ├── PaiApiError        a request to the cluster failed
    │   ├── ClusterUnreachable   no reply: unknown host, timeout, TLS (also a requests.ConnectionError)
    │   ├── InvalidReply         a reply that is not from an OpenPAI         (also a requests.HTTPError)
    │   └── PaiHttpError         an error reply of an OpenPAI                (also a requests.HTTPError)
    │       ├── AuthenticationError  login or token refused
    │       │   └── TokenLost                the server refuses a token that it has just issued
    │       ├── PermissionRefused    403
    │       ├── JobNotFound          404 for a job
    │       ├── NameConflict         409: the name is in use
    │       ├── RateLimited          429
    │       └── ServerFault          5xx
    ├── PaiJobError        a job did not succeed                             (also a RuntimeError)
    │   ├── PaiJobFailed         it ended as FAILED or STOPPED
    │   │   └── PaiJobTimeout        it was stopped for its queue_timeout or run_timeout
    │   ├── PaiNameTaken         its name belongs to another user            (also a requests.HTTPError)
    │   ├── PaiJobLost           the server no longer knows it          (also a requests.HTTPError)
    │   ├── PaiJobForgotten      it was submitted earlier, and its result is not known
    │   ├── PaiOutputElsewhere   it writes to another output folder than the task's
    │   └── PaiWorkConflict      another task has used its name or output folder
    ├── PaiSweepFailed     more points of a sweep failed than its tolerance allows (also a RuntimeError)
    └── HdfsError          an operation on files failed  (luigi_pai.files: also luigi's FileSystemException)

RuntimeError and the base classes from requests are the types that ``luigi.contrib.pai`` raised, so ``except``
clauses written for ``luigi.contrib.pai`` work with luigi_pai, too. ValueError is Python's type for a wrong
value, and FileSystemException is the base of the errors of the file systems in Luigi.
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
    """Base of every error that this package raises.

    ``str()`` leaves control characters out, because the text may quote a server.

    Attributes:
        mocked: whether a test replaced ``requests``; then nothing was sent, and nothing is retried.
        transient: whether the same operation on files may succeed soon. Only an HdfsError sets it.
        answer_lost: whether the server may have executed the request, although no reply arrived.
        unsent: whether the request has certainly not reached HDFS.
    """

    mocked = False
    transient = False
    answer_lost = False
    unsent = False

    def __str__(self) -> str:
        return printable(str(self.args[0])) if self.args else ""

    def in_section(self, section: str) -> Self:
        """Replace ``[OpenPai]`` in the text by the name of a section, and return the error."""
        if section != "OpenPai":
            self.args = (str(self).replace("[OpenPai]", f"[{section}]"), *self.args[1:])
        return self


class ConfigError(PaiError, ValueError):
    """A setting is missing or wrong. The error's text names the setting and says what to write."""


class MissingPackage(ConfigError, ModuleNotFoundError):
    """An optional package is not installed. The error's text has the command that installs it."""


class Level(str, Enum):
    """The severity of a problem.

    Attributes:
        REFUSED: the server refuses the job.
        STRICTER: the server accepts the job, but the job fails later. The checks are stricter than the
            server here: only checks with ``lenient`` accept the job.
        WARNING: the job runs, but perhaps not as intended.
    """

    REFUSED = "refused"
    STRICTER = "stricter"
    WARNING = "warning"


@dataclass(frozen=True)
class Problem:
    """A problem of a job description, or of a file to transfer.

    Attributes:
        path: the field of the job format, such as ``taskRoles[1].portList[0].label``, or the file's path.
        message: what is wrong, and what is valid.
        level: severity.
        line: number of the line in the job file, from 1; None if it is not known.
    """

    path: str
    message: str
    level: Level = Level.REFUSED
    line: int | None = None

    def __str__(self) -> str:
        text = f"{self.path}: {self.message}" if self.path else self.message
        return text if self.line is None else f"{text} (line {self.line})"


class SpecError(PaiError, ValueError):
    """The description of a job, or of a sweep, is not valid. Nothing was sent.

    Attributes:
        name: name of the job or of the sweep, or of a file whose text cannot be read as a job.
        problems: all problems, in the order of the job's fields, or of the sweep's points.
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
        """Return a copy of the error with another text."""
        new = copy.copy(self)
        new.args = (message,)
        return new

    def extended(self, hint: str) -> Self:
        """Return a copy of the error with a hint added to its text."""
        return self.reworded(with_hint(str(self), hint))


class ClusterUnreachable(PaiApiError, RequestsConnectionError):
    """There was no reply: connection refused, unknown host, timeout, TLS failure.

    Attributes:
        never_replied: whether the server has not replied yet, as far as this process knows. Then its URL is
            probably wrong, so requests are not retried.
    """

    never_replied = False

    def __init__(self, message: str, *, answer_lost: bool = False) -> None:
        super().__init__(message)
        self.answer_lost = answer_lost


class InvalidReply(PaiApiError, HTTPError):
    """There was a reply, but not from an OpenPAI rest-server."""


class PaiHttpError(PaiApiError, HTTPError):
    """An error reply of an OpenPAI.

    The attribute ``response``, inherited from requests, is always None, because a response contains its
    request with the token or the password, and a program that prints an error may print its response, too.

    Attributes:
        status: the HTTP status.
        code: OpenPAI's error code (``NoJobError``); None if the reply has none.
        server_message: the message in OpenPAI's reply.
    """

    def __init__(
        self, message: str, *, status: int = 0, code: str | None = None, server_message: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.server_message = server_message


class AuthenticationError(PaiHttpError):
    """The login or the token was refused."""


class TokenLost(AuthenticationError):
    """The server refused a token that it has just issued, so the request was not executed.

    At a login, the rest-servers of OpenPAI 0.17 to 1.8 and of LTP read the stored tokens of the user, add
    one, and replace them all. So logins of one user at the same moment may delete each other's tokens.
    """


class PermissionRefused(PaiHttpError):
    """The user has no permission (403)."""


class JobNotFound(PaiHttpError):
    """The server has no job of this name."""


class NameConflict(PaiHttpError):
    """The name is in use (409); OpenPAI never frees a name."""


class RateLimited(PaiHttpError):
    """Too many requests (429).

    Attributes:
        reset_at: end of the limit in seconds since 1970 UTC; None if the server did not send it.
        sent: False if the request was not sent because the limit was known to be reached.
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
        job_name: the job's name on the server, ``NAME`` or ``NAME__attempt2``; empty if there is no job.
    """

    def __init__(self, message: str, job_name: str = "") -> None:
        super().__init__(message, job_name)
        self.job_name = job_name


class PaiJobFailed(PaiJobError):
    """A job ended as FAILED or STOPPED.

    Attributes:
        status: the job's last status.
        last_line: last line of the log of the task that ended the job, as the log or the server's diagnostics
            show it; empty if the line is not known.
    """

    def __init__(self, message: str, status: JobStatus, last_line: str = "") -> None:
        super().__init__(message, status.name)
        self.args = (message, status, last_line)
        self.status = status
        self.last_line = last_line


class PaiJobTimeout(PaiJobFailed):
    """A job was stopped because it waited longer than queue_timeout, or ran longer than run_timeout."""


class PaiNameTaken(PaiJobError, HTTPError):
    """The job's name belongs to another user of the cluster."""


class PaiJobLost(PaiJobError, HTTPError):
    """The server no longer knows a job that this process was watching."""


class PaiJobForgotten(PaiJobError):
    """A job was submitted earlier, the server does not know it, and its result is not known."""


class PaiOutputElsewhere(PaiJobError):
    """A job with the task's name already exists, but it writes to another folder than the task expects."""


class PaiWorkConflict(PaiJobError):
    """Another task has used the same job name or output folder."""


class PaiSweepFailed(PaiError, RuntimeError):
    """A sweep did not succeed.

    Too many points failed, the user's code failed, a user sent ``stop`` to it, or another process runs it.

    Attributes:
        sweep: name of the sweep.
        failed: the names of the points that failed.
    """

    def __init__(self, message: str, sweep: str = "", failed: Iterable[str] = ()) -> None:
        self.sweep = sweep
        self.failed = tuple(failed)
        super().__init__(message, sweep, self.failed)
