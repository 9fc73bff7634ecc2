"""The requests session of a WebHDFS connection: limited answers, and whether a request was sent."""

from __future__ import annotations

import io
import math
import threading
import time
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

    from luigi_pai.hdfs.connection import Account

__all__ = ["OverLimit", "new_session", "progress"]

_POOL = 64  # connections kept open to one server: one for each thread of an upload
_WHOLE_ANSWER = 4  # times read_timeout: the longest that an answer may take from its first byte to its last
_LONGEST_ANSWER = 128  # MiB, of what is not the content of a file: some 350,000 entries of a folder
_MIB = 1024 * 1024
_CONTENT = (requests.codes.ok, requests.codes.partial_content)


def new_session(account: Account) -> requests.Session:
    """Return a session for an account. It sends each request once."""
    session = _Session()
    for scheme in ("http://", "https://"):
        session.mount(scheme, _Adapter(pool_maxsize=_POOL))
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
        target: str | None = super().get_redirect_target(resp)
        try:
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
    """The bytes of one answer, as a socket receives them, within the limits."""

    def __init__(self, connected: socket.socket) -> None:
        self._raw = connected.makefile("rb", buffering=0)
        self._seconds = (connected.gettimeout() or math.inf) * _WHOLE_ANSWER
        self._deadline = time.monotonic() + self._seconds
        self._left: float = _LONGEST_ANSWER * _MIB

    def lift_limits(self) -> None:
        """Receive the rest without limits."""
        self._deadline = self._left = math.inf

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if time.monotonic() > self._deadline:
            raise OverLimit(f"the answer was not finished within {self._seconds:g} s")
        if self._left <= 0:
            raise OverLimit(f"the answer is longer than {_LONGEST_ANSWER} MiB")
        count = self._raw.readinto(buffer)
        self._left -= count or 0
        return count

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(HTTPResponse):
    """An answer that is read within the limits, and that is an error when it ends too early."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self._received = _Received(sock)
        self.fp = io.BufferedReader(self._received)

    def begin(self) -> None:
        """Read the headers."""
        super().begin()
        del self.headers["Content-Encoding"]  # not asked for; what is decompressed has no limit

    def read(self, amt: int | None = None) -> bytes:
        """Read the body. urllib3 before 2 takes a body that is cut off for a whole one."""
        data = super().read(amt)
        if amt and not data and self.length:
            raise IncompleteRead(b"", self.length)
        return data


class _FileAnswer(_Answer):
    """The answer to an OPEN: the content of a file has any length, and is read at the pace of its reader."""

    def begin(self) -> None:
        """Read the headers."""
        super().begin()
        if self.status in _CONTENT:
            self._received.lift_limits()


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

    response_class = _Answer
    _connecting = False

    def connect(self) -> None:
        """Connect; what is sent to a proxy meanwhile is not the request."""
        self._connecting = True
        try:
            super().connect()
        finally:
            self._connecting = False

    def putrequest(self, method: str, url: str, *args: Any, **kwargs: Any) -> None:
        """Begin a request."""
        opens = "OPEN" in parse_qs(urlsplit(url).query).get("op", ())
        self.response_class = _FileAnswer if opens else _Answer
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


_POOLS = {"http": _Pool, "https": _TlsPool}


class _Adapter(HTTPAdapter):
    """An adapter with such connections."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of direct connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Return the pools of connections through a proxy."""
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager
