"""The errors of HDFS and storages. HdfsError derives from PaiError and from Luigi's FileSystemException.

The tree::

    HdfsError              PaiError and luigi.target.FileSystemException
    ├── HdfsUnreachable          no response, or no active NameNode
    ├── FileAlreadyExists        also luigi.target.FileAlreadyExists
    ├── MissingParentDirectory   also luigi.target.MissingParentDirectory
    └── NotADirectory            also luigi.target.NotADirectory
    TransferError          PaiError: files that cannot be sent or fetched
"""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import luigi.target

from luigi_pai.api.wire.environment import CORRECT_PROXY, THROUGH
from luigi_pai.errors import PaiError, Problem
from luigi_pai.json_bodies import parse_json
from luigi_pai.redaction import redact, with_hint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import requests

    from luigi_pai.api.wire.faults import NoResponse
    from luigi_pai.files.volume import Volume

__all__ = [
    "FileAlreadyExists",
    "HdfsError",
    "HdfsUnreachable",
    "MissingParentDirectory",
    "NotADirectory",
    "TransferError",
]

_UNAUTHORIZED = 401
_PASSING = (429, 502, 503, 504)  # statuses if a server or its proxy is overloaded or down
_CHECK_URL = "check webhdfs_url in [OpenPai], dfs.webhdfs.enabled on the cluster, http_proxy and no_proxy"
TOO_LARGE = "check webhdfs_url in [OpenPai], or divide the folder: it may hold too many files"
"""Advice for the user after a response that is too large."""
_WANTS_KERBEROS = "it wants Kerberos: set hdfs_auth = kerberos in [OpenPai], and get a ticket with kinit"
_PROBLEMS_SHOWN = 20
_SHOWN = 200  # how many characters of an invalid response the error quotes
_LONGEST_MESSAGE = 2000  # characters; the rest of a RemoteException's message is ignored

NOT_THERE = "check the path, and that the task that writes it has run"
"""Advice for the user if a path does not exist."""

# RemoteException -> advice for the user
_NEXT_STEPS = {
    "AccessControlException": "ask for permission on that path, or check hdfs_user in [OpenPai]",
    "AlreadyBeingCreatedException": "another writer has it open; try again when it is done",
    "DSQuotaExceededException": "the folder's quota is used up; delete something, or ask for more",
    "FileAlreadyExistsException": "choose another path, or remove what is there",
    "FileNotFoundException": NOT_THERE,
    "InvalidPathException": "no name in an HDFS path may contain ':', or be '.', '..' or empty",
    "NSQuotaExceededException": "the folder has as many files as its quota allows",
    "ParentNotDirectoryException": "a part of the path is a file",
    "PathIsNotEmptyDirectoryException": "remove it with recursive=True, or empty it",
    "SafeModeException": "the NameNode is in safe mode; try again when it has left it",
    "StandbyException": "this NameNode is on standby; name all of them in webhdfs_url of [OpenPai]",
}


ELSEWHERE = ("StandbyException", "RetriableException")
"""Exceptions after which another NameNode is tried."""

# Errors that go away by themselves: exception -> start of its message. Real HDFS 2.7.4 and 3.3.4 sent them in
# safe mode, during a failover, and after the NameNode was killed and restarted. RetriableException,
# SocketException, SocketTimeoutException and NoRouteToHostException come from the source code of these
# versions (NamenodeWebHdfsMethods.getRPCServer, NetUtils.wrapException).
_TRANSIENT_REFUSALS = {
    "SafeModeException": "",  # a NameNode that has just started waits until enough blocks are reported
    "StandbyException": "",  # no NameNode is active yet
    "RetriableException": "",  # a NameNode is starting, or one of several is in safe mode
    "RemoteException": ".*Name node is in safe mode|Operation category",  # the same, from a DataNode of 2.7
    # A DataNode sends these while its NameNode is down.
    "ConnectException": "Call From ",
    "EOFException": "End of File Exception between local host",
    "NoRouteToHostException": "No Route to Host from ",
    "SocketException": "Call From ",
    "SocketTimeoutException": "Call From ",
    # A DataNode also sends the first of these while its NameNode is down. The others mean that no
    # DataNode has reported to the NameNode since the NameNode started.
    "IOException": (
        "Failed on local exception|Failed to find datanode|No active nodes contain this block|"
        "File .* could only be (replicated|written) to 0 .*There are 0 datanode"
    ),
}


class HdfsError(PaiError, luigi.target.FileSystemException):
    """An operation on the cluster's file system (HDFS or a storage) failed.

    Attributes:
        operation: The WebHDFS operation (``LISTSTATUS``), or an empty string.
        path: The path on HDFS or, for a storage, on this machine. May be an empty string.
        server: The host and port of the NameNode or DataNode, or an empty string.
        exception: The name of the server's ``RemoteException`` (``FileNotFoundException``). None if the
            server sent none.
        reason: Why the operation failed, without operation, path, server and advice; or an empty string.
        next_step: The advice for the user at the end of the message, or an empty string.
        at_datanode: Whether a DataNode did not respond.
    """

    at_datanode = False

    def __init__(
        self,
        message: str,
        *,
        operation: str = "",
        path: str = "",
        server: str = "",
        exception: str | None = None,
        reason: str = "",
        next_step: str = "",
    ) -> None:
        super().__init__(message)
        self.operation, self.path, self.server = operation, path, server
        self.exception, self.reason, self.next_step = exception, reason, next_step

    def advise(self, next_step: str) -> None:
        """Replace the advice at the end of the message."""
        self.args = (str(self).removesuffix(self.next_step) + next_step,)
        self.next_step = next_step


class HdfsUnreachable(HdfsError):
    """No response: connection refused, unknown host, timeout, TLS failure, or no active NameNode."""

    answer_lost = True


class FileAlreadyExists(HdfsError, luigi.target.FileAlreadyExists):
    """The path already exists."""


class MissingParentDirectory(HdfsError, luigi.target.MissingParentDirectory):
    """The parent folder does not exist."""


class NotADirectory(HdfsError, luigi.target.NotADirectory):
    """The path is a file, but must be a folder."""


@contextlib.contextmanager
def missing_ok() -> Iterator[None]:
    """Suppress the HdfsError that is raised if a path does not exist."""
    try:
        yield
    except HdfsError as error:
        if error.exception != "FileNotFoundException":
            raise


class TransferError(PaiError):
    """Files cannot be sent or fetched. The message lists the first 20 problems.

    Attributes:
        what: The start of the message, such as ``nothing was sent``.
        problems: All problems, each with the path of a file.
    """

    def __init__(self, what: str, problems: Iterable[Problem]) -> None:
        self.what = what
        self.problems = tuple(problems)
        shown = [str(problem) for problem in self.problems[:_PROBLEMS_SHOWN]]
        more = len(self.problems) - len(shown)
        super().__init__(f"{what}: {'; '.join(shown)}" + (f"; and {more:,} more" if more else ""))

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.problems)


_CLASSES = {"FileAlreadyExistsException": FileAlreadyExists, "ParentNotDirectoryException": NotADirectory}


def failed(
    operation: str,
    path: str,
    server: str,
    reason: str,
    *,
    next_step: str = "",
    exception: str | None = None,
    kind: type[HdfsError] | None = None,
    prefix: str = "HDFS ",
) -> HdfsError:
    """Return the error for a failed operation, with path, server, reason and advice.

    The message starts with ``prefix``, which is empty if ``server`` names the file system.
    """
    step = next_step or _NEXT_STEPS.get(exception or "", "")
    if reason.partition(": ")[2].startswith("Path is not a file"):
        step = 'it is a folder: open a file in it, (target / "NAME").open()'
    # the path, with line breaks and other control characters escaped
    shown = "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in path)
    message = with_hint(f"{prefix}{operation} {shown} on {server}: {reason}", step)
    kind = kind or _CLASSES.get(exception or "", HdfsError)
    about = {"operation": operation, "path": path, "server": server, "reason": reason, "next_step": step}
    return kind(message, exception=exception, **about)


def check_kept(volume: Volume, path: str, sent: int, there: int | None) -> None:
    """Raise HdfsError if the server reported success but did not store the whole file.

    If the quota or the disk space is used up, Hadoop 2.7.4 DataNodes cannot close the file but still respond
    with 201 (Created).
    """
    if there != sent:
        step = "HDFS may be full, or the folder over its quota; make room and try again"
        reason = f"{sent:,} bytes were sent, and {there or 0:,} are there"
        raise failed("CREATE", path, volume.server, reason, next_step=step)


def refused(operation: str, path: str, response: requests.Response) -> HdfsError:
    """Return the error for a status of 400 or more; raise OSError if the response's body is truncated."""
    server, body = urlsplit(response.url).netloc, response.content or b""
    if response.status_code == _UNAUTHORIZED:
        wants_kerberos = "negotiate" in response.headers.get("WWW-Authenticate", "").lower()
        step = _WANTS_KERBEROS if wants_kerberos else "check hdfs_user in [OpenPai]"
        return failed(operation, path, server, "the server requires a login (401)", next_step=step)
    try:
        remote = parse_json(body)["RemoteException"]
        exception, message = str(remote["exception"]), str(remote.get("message", ""))
    except (ValueError, KeyError, TypeError, AttributeError):
        return malformed(operation, path, response)
    message = redact(message[:_LONGEST_MESSAGE].strip())
    reason = f"{exception}: {message.splitlines()[0] if message else 'no reason given'}"
    error = failed(operation, path, server, reason, exception=exception)
    start = _TRANSIENT_REFUSALS.get(exception)
    error.transient = start is not None and re.match(start, message) is not None
    return error


def malformed(operation: str, path: str, response: requests.Response, reason: str = "") -> HdfsError:
    """Return the error for a response that WebHDFS never sends. The response is read and closed."""
    is_passing = response.status_code in _PASSING
    step = "try again" if is_passing else _CHECK_URL
    reason = reason or f"HTTP {response.status_code} {response.reason}, not a valid WebHDFS response"
    body = b""
    with response, contextlib.suppress(OSError, RuntimeError):  # RuntimeError: an earlier read broke off
        body = response.content or b""
    excerpt = redact(" ".join(body[: 10 * _SHOWN].decode("utf-8", "replace").split()))
    step = f"{step}; the response starts with {excerpt[:_SHOWN]!r}"
    error = failed(operation, path, urlsplit(response.url).netloc, reason, next_step=step)
    error.transient = is_passing or (response.ok and response.request.method == "GET")
    return error


def unanswered(operation: str, path: str, no: NoResponse, namenodes: Sequence[str]) -> HdfsError:
    """Return the error for a request that got no complete response from a host and port.

    A server that is not in ``namenodes`` is a DataNode.
    """
    server, proxy = urlsplit(no.url).netloc, no.environment.proxy_variable(no.url)
    through = THROUGH.format(proxy) if proxy else ""
    reason = f"no response{through} ({no.reason()})"
    step = "check webhdfs_url in [OpenPai], and that the NameNode runs; OpenPAI 0.16 and later have storages"
    if over := no.over_limit():
        reason, step = over, TOO_LARGE
    elif no.is_lost and no.is_late():
        reason = f"no response{through} within {no.timeouts[1]:g} s (read_timeout)"
        step = "try again, or raise read_timeout in [OpenPai]"
    elif proxy:
        step = CORRECT_PROXY.format(proxy)
    elif server not in namenodes:
        step = (
            f"NameNode {' or '.join(namenodes)} redirected to this DataNode: check that this machine "
            "resolves its name and reaches it, or set webhdfs_redirect in [OpenPai]"
        )
    unreachable = failed(operation, path, server, reason, next_step=step, kind=HdfsUnreachable)
    unreachable.answer_lost, unreachable.unsent = no.is_lost, not no.is_lost
    unreachable.transient = no.transient
    unreachable.at_datanode = server not in namenodes
    return unreachable
