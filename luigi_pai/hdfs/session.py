"""The account of a connection, and its requests session with bounded answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlsplit

import requests

from luigi_pai.errors import ConfigError
from luigi_pai.timed_http import (
    OverLimit,
    TimedAdapter,
    TimedAnswer,
    TimedBytes,
    TimedConnection,
    timed_pools,
)

if TYPE_CHECKING:
    import socket

_CONNECTIONS = 64  # connections kept open to one server: one for each thread of an upload
_LEAST_CONTENT = 64 * 1024  # minimum bytes of a file in the time limit of a whole reply
_MIB = 1024 * 1024
MAX_ANSWER = 16 * _MIB  # bytes of an answer, except listings and the content of files
# Hadoop 2.7 has no listing in parts; 128 MiB are some 350,000 entries, 0.6 GiB of memory when they are read
MAX_LISTING = 128 * _MIB
CONTENT = (requests.codes.ok, requests.codes.partial_content)


@dataclass(frozen=True)
class Account:
    """NameNodes, user, timeouts and further arguments of ``WebHdfs``.

    Attributes:
        bases: WebHDFS of each NameNode, ``http://HOST:PORT/webhdfs/v1``; one of them is active.
        section: of luigi.cfg, for errors.
    """

    bases: tuple[str, ...]
    user: str
    auth: str = "simple"
    redirect: str | None = None
    verify: bool | str = True
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    patience: float = 1800.0
    section: str = "OpenPai"


def new_session(account: Account) -> requests.Session:
    """Return a session for an account, which sends each request once."""
    session = _Session()
    session.trust_env = False  # a NameNode could redirect to a host whose password is in .netrc
    for scheme in ("http://", "https://"):
        session.mount(scheme, TimedAdapter(_POOLS, pool_maxsize=_CONNECTIONS))
    if account.auth == "kerberos":
        _log_in_with_kerberos(session)
    else:
        session.params = {"user.name": account.user}
    return session


class _Session(requests.Session):
    """A session that follows a redirect only to a valid URL."""

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Return where a reply redirects to; None if that is not a valid URL, for which requests raises."""
        try:
            target: str | None = super().get_redirect_target(resp)
            _port = urlsplit(target or "").port
        except ValueError:
            return None
        return target


def _log_in_with_kerberos(session: requests.Session) -> None:
    """Let a session authenticate with Kerberos (Negotiate), by the ticket of ``kinit``."""
    try:
        from hdfs.ext.kerberos import KerberosClient  # noqa: PLC0415  an extra
    except ImportError as error:
        raise ConfigError(
            "hdfs_auth = kerberos in [OpenPai] needs an extra: pip install 'luigi-pai[kerberos]'"
        ) from error
    KerberosClient("namenode:", session=session)  # its only effect here is session.auth


def without_login(request: requests.PreparedRequest) -> requests.PreparedRequest:
    """Return a request unchanged: the ``auth`` of requests to hosts that no setting names."""
    return request


class _Received(TimedBytes):
    """The bytes of one reply, with a maximum number or, for the content of a file, a minimum rate."""

    is_content = False  # the content of a file: any length, and its reader may pause

    def __init__(self, connected: socket.socket, longest: int) -> None:
        super().__init__(connected, longest)
        self._waited = 0.0

    def check(self) -> None:
        if self.is_content:
            if self._count >= _LEAST_CONTENT:
                self._count, self._waited = 0, 0.0
            if self._waited > self._limit:
                raise OverLimit(f"only {self._count:,} bytes of the file arrived in {self._limit:g} s")
            return
        super().check()

    def readinto(self, buffer: Any) -> int | None:
        asked = time.monotonic()
        count = super().readinto(buffer)
        self._waited += time.monotonic() - asked
        return count


class _Answer(TimedAnswer):
    """A reply whose size or rate is limited according to the operation."""

    def __init__(self, *args: Any, operation: str, **kwargs: Any) -> None:
        self._operation = operation
        super().__init__(*args, **kwargs)

    def received(self, sock: socket.socket) -> TimedBytes:
        self._received = _Received(sock, MAX_LISTING if self._operation == "LISTSTATUS" else MAX_ANSWER)
        return self._received

    def begin(self) -> None:
        """Read the headers."""
        super().begin()
        del self.headers["Content-Encoding"]  # was not requested; decompression would have no bound
        self._received.is_content = self._operation == "OPEN" and self.status in CONTENT


class _Connection(TimedConnection):
    """A connection whose replies are limited according to their operations."""

    def putrequest(self, method: str, url: str, *args: Any, **kwargs: Any) -> None:
        """Begin a request."""
        operation = parse_qs(urlsplit(url).query).get("op", [""])[0].upper()
        self.response_class = partial(_Answer, operation=operation)  # type: ignore[assignment]
        super().putrequest(method, url, *args, **kwargs)


_POOLS = timed_pools(_Connection)
