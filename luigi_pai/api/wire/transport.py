"""Transport: requests to one server, with timeouts, retries of GET, and errors without a reply."""

from __future__ import annotations

import contextlib
import os
from contextvars import ContextVar
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import requests
import requests.auth
from urllib3.exceptions import HTTPError

from luigi_pai.api.wire.connections import Connections
from luigi_pai.api.wire.environment import Environment, Route
from luigi_pai.api.wire.unreachable import FailedRequest, explain_failure, proxy_login_error, tls_port_error
from luigi_pai.errors import InvalidReply
from luigi_pai.redaction import redact_urllib3_logs
from luigi_pai.timed_http import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.errors import PaiError

redact_urllib3_logs()

_TLS_PORT_PHRASES = (b"to HTTPS port", b"to an HTTPS server", b"to an SSL-enabled server port")
"""Phrases in the reply (400) of nginx, Go and Apache to plain http on a TLS port."""

_most: ContextVar[float | None] = ContextVar("most", default=None)


@contextlib.contextmanager
def at_most(seconds: float) -> Iterator[None]:
    """Limit the timeouts of the requests inside ``with``, for data that is optional."""
    before = _most.set(seconds)
    try:
        yield
    finally:
        _most.reset(before)


@dataclass(frozen=True)
class Account:
    """The settings of a connection, see ``Cluster``; a token is sent as it is, and never renewed.

    ``read_timeout`` bounds each silence of a server; a reply may take at most four times as long in total.
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

    Redirects of GET are followed, without the token if they leave the host; any other redirect is
    returned. A GET is repeated once if its connection breaks, before or during the reply.

    Proxies and CA bundle of the environment are read once.

    Args:
        account: where the server is, and the timeouts.

    Attributes:
        answered: whether the server has ever sent a reply of any kind.
        mocked: the last reply, or error, came without any connection: a test has replaced requests.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._open()
        self.answered = self.mocked = False

    def _open(self) -> None:
        self._environment = Environment(verify=self._account.verify)
        self._http = Connections(self._environment)
        self._headers = dict(self._http.headers)
        self._pid = os.getpid()

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
        part: str | None = None,
    ) -> requests.Response:
        """Send one request and return the reply, whatever its status.

        Args:
            method: GET, POST, PUT or DELETE.
            url: absolute.
            data: the body.
            token: of the user; None for none.
            content_type: of the body.
            part: value of the ``Range`` header.

        Raises:
            ClusterUnreachable: there was no reply.
            ConfigError: a proxy or CA bundle of the configuration or the environment is not valid.
            InvalidReply: it redirects to an invalid URL, or without end.
        """
        if self._pid != os.getpid():  # a fork: its parent's connections are not its own
            self._open()
        failure: PaiError
        progress.sent = None
        try:
            request, how = self._prepared(method, url, data, token, content_type, part)
            try:
                response = self._http.send(request, **how)
            except requests.exceptions.ChunkedEncodingError:  # the connection broke during the reply
                if method != "GET":
                    raise
                response = self._http.send(request, **how)
        except requests.TooManyRedirects:
            failure = InvalidReply(f"{url} redirects without end; is {self._account.url} the rest-server?")
        except (requests.RequestException, HTTPError, OSError, ValueError) as error:
            self.mocked = progress.sent is None and isinstance(error, requests.RequestException)
            failure = explain_failure(self._failed(method, url), error)
        else:
            self.mocked = progress.sent is None
            wrong_port = self._check_port(method, url, response)
            if wrong_port is None:
                self.answered = True
                return response
            failure = wrong_port
        raise failure  # outside of except, so that the cause, which holds the request, is not its context

    def _prepared(
        self, method: str, url: str, data: str | None, token: str | None, content_type: str, part: str | None
    ) -> tuple[requests.PreparedRequest, dict[str, Any]]:
        """Return a request, and the options to send it with.

        The session does not prepare it: merging its settings, which are empty, costs 10 % of a GET.
        """
        account = self._account
        request = requests.PreparedRequest()
        request.prepare(
            method=method,
            url=url,
            headers={
                **self._headers,
                **({} if data is None else {"Content-Type": content_type}),
                **({} if part is None else {"Range": part}),
            },
            data=None if data is None else data.encode(),
            auth=_Bearer(token),
        )
        return request, {
            "timeout": (_limited(account.connect_timeout), _limited(account.read_timeout)),
            "allow_redirects": method == "GET",
            "proxies": dict(self._environment.route(url).proxies),
            "verify": self._environment.verify,
        }

    def _check_port(self, method: str, url: str, response: requests.Response) -> PaiError | None:
        """Return the error for a reply of a proxy, or of a TLS port to plain http; None for other replies."""
        if response.status_code == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            failed = self._failed(method, url)
            return proxy_login_error(failed) if failed.proxy_variable else None
        if response.status_code == HTTPStatus.BAD_REQUEST and response.url.startswith("http:"):
            start = response.content[:4096]
            if any(phrase in start for phrase in _TLS_PORT_PHRASES):
                return tls_port_error(self._failed(method, url))
        return None

    def _failed(self, method: str, url: str) -> FailedRequest:
        account = self._account
        try:
            route = self._environment.route(url)
        except ValueError:
            route = Route()
        return FailedRequest(
            method=method,
            url=url,
            server=account.url,
            connect_timeout=_limited(account.connect_timeout),
            read_timeout=_limited(account.read_timeout),
            proxy_variable=route.variable,
            environment=self._environment,
            sent=progress.sent,
            answered=self.answered,
        )


def _limited(timeout: float) -> float:
    most = _most.get()
    return timeout if most is None else min(timeout, most)


class _Bearer(requests.auth.AuthBase):
    """The token of a request."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request
