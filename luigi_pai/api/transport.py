"""Requests to one server: connections, timeouts, retries, and why nobody answered."""

from __future__ import annotations

import io
import math
import os
import time
from dataclasses import dataclass, field
from http.client import HTTPResponse
from typing import TYPE_CHECKING, Any

import requests
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool
from urllib3.exceptions import LocationParseError, NewConnectionError, ReadTimeoutError
from urllib3.util.retry import Retry

from luigi_pai.errors import ClusterUnreachable, InvalidReply
from luigi_pai.hidden_tokens import hide_tokens

if TYPE_CHECKING:
    import socket
    from collections.abc import Iterator, Sequence

    from luigi_pai.errors import PaiApiError

__all__ = ["Account", "Transport"]

_READ_RETRIES = Retry(
    total=3,
    connect=2,
    read=1,
    redirect=0,
    status=2,
    other=0,
    backoff_factor=0.2,
    status_forcelist=(502, 503, 504),
    allowed_methods=frozenset({"GET"}),
    raise_on_status=False,
    raise_on_redirect=False,
    respect_retry_after_header=False,
)
"""A GET is tried again at once, up to twice and within a second; a longer fault is the caller's."""

hide_tokens()

_WHOLE_ANSWER = 4  # times read_timeout: the longest that an answer may take from its first byte to its last
_REACH_HINT = "check pai_url in [OpenPai] of luigi.cfg, and that the rest-server runs"


@dataclass(frozen=True)
class Account:
    """A user of a cluster, and how to reach it.

    Attributes:
        url: the rest-server, with its path if it has one.
        username: whose jobs these are.
        password: for the login; not needed with ``token``.
        token: an application token, sent as it is and never renewed.
        expiration: life of a login in seconds, 60 to 604800 (0.7 to 0.12; later servers ignore it).
        verify: as requests takes it: True, False, or a file of CA certificates.
        connect_timeout, read_timeout: seconds. ``read_timeout`` bounds each silence of a
            server; an answer that trickles in is given up after four times as long.
    """

    url: str
    username: str
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    expiration: int = 3600
    verify: bool | str = True
    connect_timeout: float = 10.0
    read_timeout: float = 30.0


class Transport:
    """The connections of one process to one rest-server.

    A redirect of a GET is followed, without the token where it leaves the host;
    any other redirect is returned as it is.

    Args:
        account: where the server is, and the timeouts.

    Attributes:
        answered: whether the server has ever answered, with anything.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._http = _connections()
        self._pid = os.getpid()
        self.answered = False

    def connection_epoch(self) -> int:
        return 0

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self._http.close()

    def send(
        self,
        method: str,
        url: str,
        data: str | None,
        token: str | None,
        content_type: str = "application/json",
    ) -> requests.Response:
        """Send one request and return its answer, whatever that says.

        Raises:
            ClusterUnreachable: there was none.
            InvalidReply: it redirects to nowhere.
        """
        if self._pid != os.getpid():  # a fork: its parent's connections are not its own
            self._http, self._pid = _connections(), os.getpid()
        account = self._account
        failure: PaiApiError
        try:
            response = self._http.request(
                method,
                url,
                data=None if data is None else data.encode(),
                headers={} if data is None else {"Content-Type": content_type},
                auth=_Bearer(token),
                timeout=(account.connect_timeout, account.read_timeout),
                verify=account.verify,
                allow_redirects=method == "GET",
            )
        except requests.TooManyRedirects:
            failure = InvalidReply(f"{url} redirects without end; is {account.url} the rest-server?")
        except (requests.RequestException, ValueError) as error:
            failure = self._why(method, url, error)
        else:
            self.answered = True
            return response
        raise failure  # here, so that the cause, which holds the request, is not its context

    def _why(self, method: str, url: str, error: Exception) -> PaiApiError:
        """Say in one line why there is no answer. Libraries' texts name pools, not servers."""
        account = self._account
        if isinstance(error, ValueError) and not _is_about_pai_url(error):
            return InvalidReply(f"{url} redirects to what is no address: {error}")
        causes = list(_causes(error))
        reason = _reason(causes)
        lost = False
        if isinstance(error, ValueError):
            text = f"pai_url = {account.url!r} is no address: {error}; {_REACH_HINT}"
        elif isinstance(error, requests.exceptions.ProxyError):
            text = (
                f"cannot reach {account.url} through the proxy that the environment names: {reason}; "
                "correct http_proxy or https_proxy, or name the host in no_proxy"
            )
        elif isinstance(error, requests.exceptions.SSLError):
            text = f"TLS with {account.url} failed: {reason}; set verify in [OpenPai] to the file of its CA"
        elif isinstance(error, requests.exceptions.ConnectTimeout):
            limit = account.connect_timeout
            text = f"{account.url} did not take a connection within {limit:g} s; {_REACH_HINT}"
        elif too_long := [cause for cause in causes if isinstance(cause, _TooLong)]:
            lost = True
            text = f"{account.url} did not finish its answer within {too_long[0].limit:g} s"
        elif any(isinstance(cause, NewConnectionError) for cause in causes):
            text = f"cannot reach {account.url}: {reason}; {_REACH_HINT}"
        elif any(isinstance(cause, (requests.exceptions.Timeout, ReadTimeoutError)) for cause in causes):
            limit, lost = account.read_timeout, True
            text = f"{account.url} took the connection but did not answer within {limit:g} s"
        else:
            lost = True
            text = f"the connection to {account.url} broke before it answered ({method}): {reason}"
        return ClusterUnreachable(text, answer_lost=lost)


class _Bearer(requests.auth.AuthBase):
    """The token of a request, as an auth object so that no ``.netrc`` takes its place."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


class _Connections(requests.Session):
    """A session that, after a redirect too, takes no user and password from a ``.netrc``."""

    def rebuild_auth(self, prepared_request: requests.PreparedRequest, response: requests.Response) -> None:
        """Drop the token where a redirect leaves the host."""
        old, new = response.request.url or "", prepared_request.url or ""
        if self.should_strip_auth(old, new):  # type: ignore[no-untyped-call]
            prepared_request.headers.pop("Authorization", None)


def _connections() -> requests.Session:
    http = _Connections()
    for scheme in ("http://", "https://"):
        http.mount(scheme, _TimedAdapter(max_retries=_READ_RETRIES))
    return http


# requests' timeout bounds each silence. What bounds the whole of an answer, so that one that
# trickles in for ever ends too, is that no more of it is read when its time is over.


class _TooLong(TimeoutError):
    """An answer has taken longer than answers may."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"it was not finished within {limit:g} s")
        self.limit = limit


class _Timed(io.RawIOBase):
    """What a socket receives, until its time is over: some times its own timeout."""

    def __init__(self, connected: socket.socket) -> None:
        self._raw = connected.makefile("rb", buffering=0)
        self._limit = (connected.gettimeout() or math.inf) * _WHOLE_ANSWER
        self._end = time.monotonic() + self._limit

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        if time.monotonic() > self._end:
            raise _TooLong(self._limit)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _TimedAnswer(HTTPResponse):
    """An answer that is read until its time is over."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self.fp = io.BufferedReader(_Timed(sock))


class _TimedConnection(HTTPConnection):
    response_class = _TimedAnswer


class _TimedTlsConnection(HTTPSConnection):
    response_class = _TimedAnswer


class _TimedPool(HTTPConnectionPool):
    ConnectionCls = _TimedConnection


class _TimedTlsPool(HTTPSConnectionPool):
    ConnectionCls = _TimedTlsConnection


_POOLS = {"http": _TimedPool, "https": _TimedTlsPool}


class _TimedAdapter(HTTPAdapter):
    """An adapter whose answers have a time."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make the pools of direct connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Return the pools of connections through a proxy."""
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager


def _is_about_pai_url(error: ValueError) -> bool:
    """Return whether an address was refused that is not out of a redirect."""
    return isinstance(error, (LocationParseError, requests.RequestException))


def _causes(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception of requests and all that is nested in it, the outermost first."""
    seen: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and not any(cause is other for other in seen):
            seen.append(cause)
            yield cause
            waiting += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]


def _reason(causes: Sequence[BaseException]) -> str:
    """Return the system's own words for a failure, or else the library's."""
    for cause in causes:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
    return str(causes[-1]) or type(causes[-1]).__name__
