"""The account of a connection and its session: limited answers, and whether a request was sent."""

from __future__ import annotations

import io
import math
import threading
import time
from dataclasses import dataclass
from functools import partial
from http.client import HTTPResponse, IncompleteRead
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    import socket

__all__ = ["Account", "OverLimit", "new_session", "progress"]

_POOL = 64  # connections kept open to one server: one for each thread of an upload
_WHOLE_ANSWER = 4  # times read_timeout: the longest that an answer may take from its first byte to its last
_LEAST_CONTENT = 64 * 1024  # bytes that arrive in that time where the content of a file is waited for
_MIB = 1024 * 1024
_CONTENT = (requests.codes.ok, requests.codes.partial_content)


@dataclass(frozen=True)
class Account:
    """The NameNodes to talk to, as whom, and within which limits.

    Attributes:
        bases: of the WebHDFS of each NameNode, ``http://HOST:PORT/webhdfs/v1``; one of them is active.
        user: the user on HDFS; with Kerberos it is the one of the ticket.
        auth: ``simple`` or ``kerberos``.
        redirect: how DataNodes are reached, ``http://PROXY/{host}:{port}``; None: as the NameNode says.
        verify: check TLS certificates; True, False or a file of CA certificates.
        connect_timeout: seconds to wait for a connection.
        read_timeout: seconds to wait for an answer, or its next part. A whole answer takes four
            times that at most; in the same time 64 KiB of a file have to arrive.
        patience: seconds to wait altogether before retries, since the last answer.
        max_answer: bytes of an answer that is neither a listing nor the content of a file.
        max_listing: bytes of a listing. Hadoop 2.7 has no listing in parts; 128 MiB are some 350,000
            entries, which take 0.6 GiB of memory when they are read.
    """

    bases: tuple[str, ...]
    user: str
    auth: str = "simple"
    redirect: str | None = None
    verify: bool | str = True
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    patience: float = 1800.0
    max_answer: int = 16 * _MIB
    max_listing: int = 128 * _MIB


def new_session(account: Account) -> requests.Session:
    """Return a session for an account. It sends each request once."""
    session = _Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(account))
    if account.auth == "kerberos":
        _log_in_with_kerberos(session)
    else:
        session.params = {"user.name": account.user}
    return session


class _Session(requests.Session):
    """A session that looks for proxies and certificates in the environment once for a server.

    requests looks for each request: a quarter of the time that a small one takes.
    """

    def __init__(self) -> None:
        super().__init__()
        self._found: dict[tuple[str, str], dict[str, Any]] = {}

    def merge_environment_settings(self, url: Any, proxies: Any, stream: Any, verify: Any, cert: Any) -> Any:
        """Return proxies, verify and cert for a server, and what the request says of stream."""
        server = urlsplit(url)[:2]
        if server not in self._found:
            self._found[server] = dict(super().merge_environment_settings(url, proxies, None, verify, cert))
        return {**self._found[server], "stream": bool(stream)}

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return where a reply redirects to; None if that is not a valid URL, for which requests raises."""
        try:
            target: str | None = super().get_redirect_target(resp)
            _port = urlsplit(target or "").port
        except ValueError:
            return None
        return target


def _log_in_with_kerberos(session: requests.Session) -> None:
    """Let a session answer the servers' Negotiate with the ticket of ``kinit``."""
    try:
        from hdfs.ext.kerberos import KerberosClient  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(
            "hdfs_auth = kerberos in [OpenPai] needs an extra: pip install 'luigi-pai[kerberos]'"
        ) from error
    KerberosClient("namenode:", session=session)  # its one effect here is session.auth


# requests' timeout bounds each silence, and nothing bounds how much it reads. Both are bounded
# where an answer is received, so that no way to read one is forgotten: the answers to redirects
# and to logins, which requests reads itself, are bounded too.


class OverLimit(OSError):
    """An answer is longer, or takes longer, than answers may."""


class _Received(io.RawIOBase):
    """The bytes of one answer, as a socket receives them, within the limits.

    Args:
        connected: the socket.
        longest: bytes of the answer, until ``is_content`` is set.
    """

    is_content = False  # of a file: it has any length, and is read at the pace of its reader

    def __init__(self, connected: socket.socket, longest: int) -> None:
        self._raw = connected.makefile("rb", buffering=0)
        self._seconds = (connected.gettimeout() or math.inf) * _WHOLE_ANSWER
        self._began = time.monotonic()
        self._longest = longest
        self._waited = 0.0
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        asked = time.monotonic()
        if self.is_content:
            if self._count >= _LEAST_CONTENT:
                self._count, self._waited = 0, 0.0
            if self._waited > self._seconds:
                raise OverLimit(f"only {self._count:,} bytes of the file arrived in {self._seconds:g} s")
        elif asked > self._began + self._seconds:
            raise OverLimit(f"the answer was not finished within {self._seconds:g} s")
        elif self._count >= self._longest:
            raise OverLimit(f"the answer is longer than {self._longest / _MIB:g} MiB")
        count = self._raw.readinto(buffer)
        self._waited += time.monotonic() - asked
        self._count += count or 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(HTTPResponse):
    """An answer that is read within the limits, and that is an error when it ends too early."""

    def __init__(self, sock: socket.socket, *args: Any, opens: bool, longest: int, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self._opens = opens
        self._received = _Received(sock, longest)
        self.fp = io.BufferedReader(self._received)

    def begin(self) -> None:
        """Read the headers."""
        super().begin()
        del self.headers["Content-Encoding"]  # not asked for; what is decompressed has no limit
        self._received.is_content = self._opens and self.status in _CONTENT

    def read(self, amt: int | None = None) -> bytes:
        """Read the body. urllib3 before 2 takes a body that is cut off for a whole one."""
        data = super().read(amt)
        if amt and not data and self.length:
            raise IncompleteRead(b"", self.length)
        return data


# How far a request got decides whether the server may have done what it was asked. The
# exceptions of urllib3 do not say it; the connection knows.


class _Progress(threading.local):
    """How far this thread's request got.

    Attributes:
        sent: whether any of it was handed to a connected socket; set it to False before a request.
    """

    sent: bool = False


progress = _Progress()


class _Connection(HTTPConnection):
    """A connection whose answers are limited, and that records whether a request was sent."""

    _connecting = False

    def __init__(self, *args: Any, account: Account, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._account = account
        self._expect("")

    def _expect(self, operation: str) -> None:
        longest = self._account.max_listing if operation == "LISTSTATUS" else self._account.max_answer
        self.response_class = partial(  # type: ignore[assignment]
            _Answer, opens=operation == "OPEN", longest=longest
        )

    def connect(self) -> None:
        """Connect; what is sent to a proxy meanwhile is not the request."""
        self._connecting = True
        try:
            super().connect()
        finally:
            self._connecting = False

    def putrequest(self, method: str, url: str, *args: Any, **kwargs: Any) -> None:
        """Begin a request."""
        self._expect(parse_qs(urlsplit(url).query).get("op", [""])[0].upper())
        super().putrequest(method, url, *args, **kwargs)

    def send(self, data: Any) -> None:
        """Send a part of a request."""
        try:
            super().send(data)
        finally:
            if not self._connecting and self.sock is not None:
                progress.sent = True


class _TlsConnection(_Connection, HTTPSConnection):
    """The same with TLS."""


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TlsConnection


class _Adapter(HTTPAdapter):
    """An adapter with such connections."""

    def __init__(self, account: Account) -> None:
        self._pools = {
            "http": partial(_Pool, account=account),
            "https": partial(_TlsPool, account=account),
        }
        super().__init__(pool_maxsize=_POOL)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of direct connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = self._pools

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Return the pools of connections through a proxy."""
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = self._pools
        return manager
