"""One HTTP session per process and HDFS, on the ``hdfs`` library."""

from __future__ import annotations

import atexit
import logging
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urljoin, urlsplit

from hdfs import Client
from urllib3.exceptions import HTTPError

from luigi_pai.hdfs.addresses import datanode_address, encoded_twice, probe_of_decoding
from luigi_pai.hdfs.answers import Answer, answer_of, leads_on
from luigi_pai.hdfs.errors import (
    HdfsError,
    HdfsUnreachable,
    failed,
    no_namenode,
    refused,
    unanswered,
)
from luigi_pai.hdfs.retries import Retries
from luigi_pai.hdfs.session import new_session, progress
from luigi_pai.redaction import redact, redact_urllib3_logs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import requests

__all__ = ["Account", "Connection", "connection"]

logger = logging.getLogger("luigi-interface")

_CREATE_TRIES = 6  # a NameNode may send us to a DataNode that has just died, and again
_ELSEWHERE = ("StandbyException", "RetriableException")  # another NameNode may do it
_LIBRARYS_URL = "namenode:"  # the library has one prefix for all; what stands here is replaced
_LIBRARYS_BASE = f"{_LIBRARYS_URL}/webhdfs/v1"
_OF_THE_PROBE = {"FileNotFoundException": False, "IllegalArgumentException": True}  # does it decode twice?
_AS_SENT = {"user.name": None}  # an address that a NameNode sent names the user already


@dataclass(frozen=True)
class Account:
    """Whom to talk to, as whom, and how patiently.

    Attributes:
        bases: of the WebHDFS of each NameNode, ``http://HOST:PORT/webhdfs/v1``; one of them is active.
        user: the user on HDFS; with Kerberos it is the one of the ticket.
        auth: ``simple`` or ``kerberos``.
        redirect: how DataNodes are reached, ``http://PROXY/{host}:{port}``; None: as the NameNode says.
        verify: check TLS certificates; True, False or a file of CA certificates.
        connect_timeout: seconds to wait for a connection.
        read_timeout: seconds to wait for an answer.
    """

    bases: tuple[str, ...]
    user: str
    auth: str = "simple"
    redirect: str | None = None
    verify: bool | str = True
    connect_timeout: float = 10.0
    read_timeout: float = 30.0


class Connection(Client):  # type: ignore[misc]  # the library has no types
    """The operations of one HDFS, as one account.

    Paths are absolute and normalised. What is refused, and what gets no answer,
    is an HdfsError. Requests that may be done twice are retried after transient
    errors, see ``Retries``; any other is sent once.

    Of several NameNodes, the one that answered last is asked first. One that is
    on standby, or did not get the request, is passed over; a request that
    changes something and whose answer is lost is an error, for it may be done.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._active = account.bases[0]
        self._alone = len(account.bases) == 1
        self._twice: bool | None = None  # whether DataNodes decode paths twice
        timeout = (account.connect_timeout, account.read_timeout)
        super().__init__(_LIBRARYS_URL, session=new_session(account), timeout=timeout)

    @property
    def server(self) -> str:
        """Host and port of the NameNode that answered last."""
        return urlsplit(self._active).netloc

    def resolve(self, hdfs_path: str) -> str:
        """Return the path as it is: ``#LATEST`` is a name like any other."""
        return hdfs_path

    def close(self) -> None:
        """Close what is kept open; it opens again when it is needed."""
        self._session.close()

    # how requests are sent

    def _request(self, method: str, url: str, **about: Any) -> Answer:
        """Send a request of the library's to the active NameNode, and follow it to a DataNode."""
        quoted = url.removeprefix(_LIBRARYS_BASE)
        path, operation = unquote(quoted), about["params"]["op"]
        answer = self._ask_namenodes(method, quoted, path, operation, about)
        if not leads_on(answer.reply, operation):
            return answer
        answer.reply.close()
        address = self._datanode(answer.reply, answer.reply.headers["Location"], path, operation)
        alone = self._alone and operation != "OPEN"  # for which a reader asks for another DataNode
        stream = about.get("stream", False)
        return self._retried(method, address, path, operation, alone=alone, stream=stream, params=_AS_SENT)

    def _datanode(self, reply: requests.Response, location: str, path: str, operation: str) -> str:
        """Return where to send what a NameNode sent on."""
        try:
            address = datanode_address(urljoin(reply.url, location), self._account.redirect)
        except ValueError:
            address = ""
        if not address:
            reason = f"the server sent us to {redact(location)[:200]!r}, which is not a valid URL"
            raise failed(operation, path, self.server, reason, next_step="check webhdfs_url in [OpenPai]")
        other = encoded_twice(address)
        return other if other and self._datanodes_decode_twice(address, path) else address

    def _datanodes_decode_twice(self, address: str, path: str) -> bool:
        if self._twice is None:
            try:
                probe, how = probe_of_decoding(address), {"stream": True, "params": _AS_SENT}
                self._retried("GET", probe, path, "OPEN", alone=False, **how).reply.close()
            except HdfsError as error:
                if error.exception not in _OF_THE_PROBE:
                    raise
                self._twice = _OF_THE_PROBE[error.exception]
        return bool(self._twice)

    def _ask_namenodes(
        self, method: str, quoted: str, path: str, operation: str, about: dict[str, Any]
    ) -> Answer:
        about = {**about, "allow_redirects": False}
        passed: list[HdfsError] = []
        for base in self._by_turns():
            try:
                answer = self._retried(method, base + quoted, path, operation, alone=self._alone, **about)
            except HdfsError as error:
                if not _may_be_done_elsewhere(method, error):
                    raise
                passed.append(error)
            else:
                self._active = base
                return answer
        raise passed[0] if len(passed) == 1 else no_namenode(operation, path, passed)

    def _by_turns(self) -> Iterator[str]:
        """Yield the NameNodes, the one that answered last first."""
        bases = self._account.bases
        first = bases.index(self._active)
        yield from bases[first:]
        yield from bases[:first]

    def _retried(
        self, method: str, url: str, path: str, operation: str, *, alone: bool, **about: Any
    ) -> Answer:
        """Send a request, again after transient errors where it may be done twice."""
        retries = Retries(method, operation, alone=alone)
        while True:
            try:
                reply = self._send(method, url, path, operation, **about)
                return replace(answer_of(operation, path, reply), maybe_done=retries.maybe_done)
            except HdfsError as error:
                failure = error
            pause = retries.pause_after(failure)
            if pause is None:
                raise failure
            logger.info("%s; retried in %g s: %s %s", failure, pause, method, redact(url))
            time.sleep(pause)

    def _send(self, method: str, url: str, path: str, operation: str, **about: Any) -> requests.Response:
        """Send a request once, and return the reply unless it is a refusal."""
        headers = {
            "Content-Type": "application/octet-stream",  # HttpFS wants to be told
            "Accept-Encoding": "identity",  # what arrives is counted
        }
        progress.sent = False
        namenodes = [urlsplit(base).netloc for base in self._account.bases]
        failure: HdfsError
        try:
            reply: requests.Response = self._session.request(
                method,
                url,
                timeout=self._timeout,
                headers=headers,
                verify=self._account.verify,  # of the session, REQUESTS_CA_BUNDLE would come before it
                **about,
            )
            if reply.ok:
                return reply
            failure = refused(operation, path, reply)
        except (HTTPError, OSError) as error:  # requests' own are OSErrors
            server = urlsplit(url).netloc
            failure = unanswered(operation, path, server, error, namenodes, unsent=not progress.sent)
        # not in the except block: the text of its error has the address, and that a delegation token
        raise failure

    # operations

    def file_status(self, path: str) -> dict[str, Any]:
        """Return the FileStatus of a file or folder."""
        found: dict[str, Any] = self._get_file_status(path).value
        return found

    def list_status(self, path: str) -> list[dict[str, Any]]:
        """Return the FileStatus of each entry of a folder, or of a file itself."""
        found: list[dict[str, Any]] = self._list_status(path).value["FileStatus"]
        return found

    def content_summary(self, path: str) -> dict[str, Any]:
        """Return the ContentSummary of a file or folder."""
        found: dict[str, Any] = self._get_content_summary(path).value
        return found

    def home(self) -> str:
        """Return the home folder of the user."""
        return str(self._get_home_directory("/").value)

    def make_folders(self, path: str, permission: str | None) -> None:
        """Make a folder and those above it."""
        if not self._mkdirs(path, permission=permission).value:
            raise failed("MKDIRS", path, self.server, "the server did not do it, and does not say why")

    def remove(self, path: str, *, recursive: bool) -> bool:
        """Delete; False where there was nothing."""
        answer: Answer = self._delete(path, recursive=str(recursive).lower())
        return bool(answer.value) or answer.maybe_done

    def rename_to(self, path: str, destination: str, options: str | None = None) -> bool | None:
        """Rename.

        Args:
            path: what to rename.
            destination: what to call it.
            options: ``NONE`` or ``OVERWRITE`` for HDFS's rename2; None for its first rename.

        Returns:
            None after a rename2; true or false after a first rename, which is also
            what a server answers that does not know the options.
        """
        done: bool | None = self._rename(path, destination=destination, renameoptions=options).value
        return done

    def change_mode(self, path: str, permission: str) -> None:
        """Set mode bits, written in octal."""
        self._set_permission(path, permission=permission)

    def change_owner(self, path: str, owner: str | None, group: str | None) -> None:
        """Set owner or group."""
        self._set_owner(path, owner=owner, group=group)

    def open_file(self, path: str, offset: int = 0) -> requests.Response:
        """Return the reply whose body is the file from an offset on; to be closed."""
        reply: requests.Response = self._open(path, offset=offset or None).reply
        return reply

    def create_file(self, path: str, data: bytes | Iterable[bytes], *, overwrite: bool) -> str:
        """Write a file; its folder is made where it is missing.

        A DataNode that takes no connection has taken no data: the NameNode is asked for another.

        Args:
            path: of the file.
            data: its content; parts are sent as they come.
            overwrite: a file that is there may be replaced.

        Returns:
            The address on a DataNode that it was written to.
        """
        for tries_left in reversed(range(_CREATE_TRIES)):
            answer: Answer = self._create(path, overwrite=str(overwrite).lower())
            address = self._datanode(answer.reply, answer.value, path, "CREATE")
            try:
                self.write_to(address, path, data)
            except HdfsError as error:
                if not tries_left or not error.unsent:
                    raise
            else:
                break
        return address

    def write_to(self, address: str, path: str, data: bytes | Iterable[bytes]) -> None:
        """Write a file to an address on a DataNode, as ``create_file`` returns them."""
        self._send("PUT", address, path, "CREATE", data=data, params=_AS_SENT).close()


def _may_be_done_elsewhere(method: str, error: HdfsError) -> bool:
    """Return whether another NameNode can be asked after this error."""
    if error.exception:
        return error.exception in _ELSEWHERE
    return isinstance(error, HdfsUnreachable) and (method == "GET" or error.unsent)


redact_urllib3_logs()

_connections: dict[tuple[int, Account], Connection] = {}


def connection(account: Account) -> Connection:
    """Return this process's connection for an account; a forked process makes its own."""
    key = (os.getpid(), account)
    # no lock: it could be held at the moment of a fork; two threads at once make one too many
    return _connections.get(key) or _connections.setdefault(key, Connection(account))


@atexit.register
def _close_all() -> None:
    for (process, _account), opened in _connections.items():
        if process == os.getpid():
            opened.close()
