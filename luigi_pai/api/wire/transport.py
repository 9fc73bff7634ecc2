"""Transport: requests to one server, with timeouts, retries of GET, and errors for missing responses."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import requests

from luigi_pai.api.shared import NotPickled
from luigi_pai.api.wire.faults import NoResponse, explain_failure
from luigi_pai.api.wire.http import HttpClient
from luigi_pai.api.wire.repeats import BROKEN_OFF, READS, Tries
from luigi_pai.api.wire.timed_http import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

_CONNECTIONS = 20  # open at once: a sweep starts 8 jobs, adds tags to 8 others and requests a list

_most: ContextVar[float] = ContextVar("most", default=math.inf)

_inherited: list[HttpClient] = []
"""The clients of parent processes. They are never closed or released, because urllib3 would then wait for a
lock that another thread of the parent may have held at the fork."""


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Limit the timeouts of requests made inside ``with``, for optional data such as logs."""
    before = _most.set(seconds)
    try:
        yield
    finally:
        _most.reset(before)


@dataclass(frozen=True)
class Account(NotPickled):
    """A connection's settings; see ``Cluster``. A configured token is sent unchanged and never renewed.

    ``read_timeout`` limits each of a server's pauses. In total, a response may take up to four times as long.
    """

    url: str
    username: str
    password: str | None = field(default=None, repr=False)
    token: str | None = field(default=None, repr=False)
    expiration: int = 3600
    verify: bool | str = True
    connect_timeout: float = 10.0
    read_timeout: float = 30.0
    section: str = "OpenPai"


class Transport:
    """One process's connections to one rest-server.

    Redirects of a GET are followed, but the token is not sent to another host. Redirects of other methods
    are returned as responses. A GET is repeated once if its connection breaks before or during the response.

    Args:
        account: The URL of the server, the CA setting, and the timeouts.

    Attributes:
        answered: Whether the server has ever sent a response of any kind.
        mocked: Whether the last response or error came from a test's mock of ``requests``.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._open()
        self.answered = self.mocked = False

    def _open(self) -> None:
        self._http = HttpClient(verify=self._account.verify, connections=_CONNECTIONS, repeats=READS)
        self._pid = os.getpid()

    def _own(self) -> HttpClient:
        """Return this process's client. A forked process must neither use nor close its parent's."""
        if self._pid != os.getpid():
            _inherited.append(self._http)
            self._open()
        return self._http

    def close(self) -> None:
        """Close the connections; the next request opens new connections."""
        self._own().close()

    def send(
        self,
        method: str,
        url: str,
        data: str | None,
        token: str | None,
        content_type: str = "application/json",
        part: str | None = None,
    ) -> requests.Response:
        """Send one request and return the response, whatever its status.

        Args:
            method: GET, POST, PUT or DELETE.
            url: The absolute URL.
            data: The body.
            token: The user's token; None to send no token.
            content_type: The body's media type.
            part: Value of the ``Range`` header.

        Raises:
            ClusterUnreachable: There was no response.
            ConfigError: A proxy or CA bundle in the configuration or the environment is not valid.
            InvalidReply: The server redirects to an invalid URL, or without end.
        """
        headers = {
            "Accept-Encoding": "gzip",
            **({} if data is None else {"Content-Type": content_type}),
            **({} if part is None else {"Range": part}),
            **({} if not token else {"Authorization": f"Bearer {token}"}),
        }
        most = _most.get()
        timeouts = min(self._account.connect_timeout, most), min(self._account.read_timeout, most)
        send = functools.partial(
            self._own().send,
            method,
            url,
            timeouts=timeouts,
            headers=headers,
            data=data,
            follow=method == "GET",
        )
        try:
            response = Tries(BROKEN_OFF).call(send) if method == "GET" else send()
        except NoResponse as no:
            self.mocked = no.sent is None and isinstance(no.error, requests.RequestException)
            failure = explain_failure(no, self._account.url, answered=self.answered)
        else:
            self.mocked = progress.sent is None
            self.answered = True
            return response
        raise failure  # not inside except, where it would get a __context__ with the request and its token
