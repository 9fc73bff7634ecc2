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
from urllib3.exceptions import HTTPError
from urllib3.util.retry import Retry

from luigi_pai.api.shared import NotPickled
from luigi_pai.api.wire.environment import Environment
from luigi_pai.api.wire.timed_http import TimedAdapter, progress
from luigi_pai.api.wire.unreachable import FailedRequest, explain_failure
from luigi_pai.errors import InvalidReply
from luigi_pai.redaction import redact_urllib3_logs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.errors import PaiError

redact_urllib3_logs()

_CONNECTIONS = 20  # kept open; a sweep starts 8 jobs, adds the tags of 8 others and lists, all at once

_READ_RETRIES = Retry(
    total=2,
    connect=1,
    read=1,
    redirect=0,
    status=1,
    other=0,
    backoff_factor=0.1,
    status_forcelist=(502, 503, 504),
    allowed_methods=frozenset({"GET"}),
    raise_on_status=False,
    raise_on_redirect=False,
    respect_retry_after_header=False,
)
"""A GET is repeated at most twice, and only once for each kind of error (connection, read, status).

The waits before both repetitions take 0.2 s in total. Callers retry for longer.
"""

_most: ContextVar[float] = ContextVar("most", default=math.inf)


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Limit the timeouts of the requests inside ``with``, for optional data such as logs."""
    before = _most.set(seconds)
    try:
        yield
    finally:
        _most.reset(before)


@dataclass(frozen=True)
class Account(NotPickled):
    """The settings of a connection, see ``Cluster``; a token is sent as it is, and never renewed.

    ``read_timeout`` bounds each silence of a server; a response may take at most four times as long in total.
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
    """The connections of one process to one rest-server.

    Redirects of a GET are followed, but the token is not sent to another host. Redirects of other methods
    are returned as responses. A GET is repeated once if its connection breaks before or during the response.

    Each process reads the proxies and the CA bundle of the environment only once, see ``Environment``.

    Args:
        account: the URL of the server, the CA setting, and the timeouts.

    Attributes:
        answered: whether the server has ever sent a response of any kind.
        mocked: whether the last response or error came from a test's mock of ``requests``.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._open()
        self.answered = self.mocked = False

    def _open(self) -> None:
        self._environment = Environment(verify=self._account.verify)
        self._http = requests.Session()
        self._http.trust_env = False  # no .netrc; the environment is not read for each request
        self._http.headers["Accept-Encoding"] = "gzip"
        adapter = TimedAdapter(max_retries=_READ_RETRIES, pool_maxsize=_CONNECTIONS)
        for scheme in ("http://", "https://"):
            self._http.mount(scheme, adapter)
        self._pid = os.getpid()

    def close(self) -> None:
        """Close the connections; the next request opens new connections."""
        self._http.close()

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
            data: the body.
            token: the user's token; None to send no token.
            content_type: The body's media type.
            part: value of the ``Range`` header.

        Raises:
            ClusterUnreachable: there was no response.
            ConfigError: a proxy or CA bundle of the configuration or the environment is not valid.
            InvalidReply: the server redirects to an invalid URL, or without end.
        """
        if self._pid != os.getpid():  # a fork must not use its parent's connections
            self._open()
        headers = {
            **({} if data is None else {"Content-Type": content_type}),
            **({} if part is None else {"Range": part}),
            **({} if not token else {"Authorization": f"Bearer {token}"}),
        }
        most = _most.get()
        timeouts = min(self._account.connect_timeout, most), min(self._account.read_timeout, most)
        failure: PaiError
        progress.sent = None
        try:
            prepared = (
                requests.PreparedRequest()
            )  # in a quarter of the time that Session.request takes for it
            body = None if data is None else data.encode()
            prepared.prepare(
                method, url, {**self._http.headers, **headers}, data=body, cookies=self._http.cookies
            )
            request = functools.partial(
                self._http.send,
                prepared,
                timeout=timeouts,
                allow_redirects=method == "GET",
                proxies=dict(self._environment.proxies(url)),
                verify=self._environment.verify,
            )
            try:
                response = request()
            except requests.exceptions.ChunkedEncodingError:  # the connection broke during the response
                if method != "GET":
                    raise
                response = request()
        except requests.TooManyRedirects:
            failure = InvalidReply(f"{url} redirects without end; is {self._account.url} the rest-server?")
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            self.mocked = progress.sent is None and isinstance(error, requests.RequestException)
            server, environment = self._account.url, self._environment
            failed = FailedRequest(method, url, server, *timeouts, environment, progress.sent, self.answered)
            failure = explain_failure(failed, error)
        else:
            self.mocked = progress.sent is None
            self.answered = True
            return response
        raise failure  # not within except, where it gets a __context__ that has the request and its token
