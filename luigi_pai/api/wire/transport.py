"""Requests to one server: connections, timeouts, retries, and why nobody answered."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

import requests
import requests.auth
from urllib3.exceptions import HTTPError

from luigi_pai.api.wire.connections import Connections, NotTls
from luigi_pai.api.wire.environment import Environment, Route
from luigi_pai.api.wire.probes import TLS_PORT_PHRASES
from luigi_pai.api.wire.unreachable import Failed, login_at_proxy, tls_port, why
from luigi_pai.errors import InvalidReply
from luigi_pai.hidden_tokens import hide_tokens
from luigi_pai.timed_http import progress

if TYPE_CHECKING:
    from luigi_pai.errors import PaiError

__all__ = ["Account", "Transport"]

hide_tokens()


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
    any other redirect is returned as it is. A GET whose connection breaks is sent
    again once, whether that was before its answer or in the middle of it.

    Proxies and CA bundle of the environment are read once.

    Args:
        account: where the server is, and the timeouts.

    Attributes:
        answered: whether the server has ever answered, with anything.
    """

    def __init__(self, account: Account) -> None:
        self._account = account
        self._open()
        self._epoch = 0
        self.answered = False

    def _open(self) -> None:
        self._environment = Environment(verify=self._account.verify)
        self._http = Connections(self._account.url, self._environment)
        self._headers = dict(self._http.headers)
        self._pid = os.getpid()

    def close(self) -> None:
        """Close the connections; the next request opens new ones."""
        self._http.close()

    def connection_epoch(self) -> int:
        """Return a number that changes when the server may have been replaced.

        It changes when an idle connection to the server turns out to be closed by it, and
        when a request fails, or is repeated, because its connection broke. Nothing is sent.
        Servers also close idle connections after some time (Node.js after 5 s), so a
        change proves nothing. The number stays the same as long as there is no connection,
        through a proxy, and with a server that closes each connection after its answer.
        """
        if self._http.close_dropped():
            self._epoch += 1
        return self._epoch

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
            ConfigError: a proxy or a CA bundle of the configuration or the environment cannot be used.
            InvalidReply: it redirects to nowhere.
        """
        self.connection_epoch()  # of the old connections, after a fork too
        if self._pid != os.getpid():  # a fork: its parent's connections are not its own
            self._open()
        failure: PaiError
        try:
            response = self._send(method, url, data, token, content_type)
        except requests.TooManyRedirects:
            failure = InvalidReply(f"{url} redirects without end; is {self._account.url} the rest-server?")
        except (requests.RequestException, HTTPError, OSError, ValueError, NotTls) as error:
            self._epoch += 1
            failure = why(self._failed(method, url), error)
        else:
            wrong_port = self._check_port(method, url, response)
            if wrong_port is None:
                self.answered = True
                return response
            failure = wrong_port
        raise failure  # here, so that the cause, which holds the request, is not its context

    def _send(
        self, method: str, url: str, data: str | None, token: str | None, content_type: str
    ) -> requests.Response:
        account = self._account
        progress.sent = None
        if url.startswith("https:"):
            self._environment.check_ca_bundle()
        request = (
            requests.PreparedRequest()
        )  # not the session's: to merge what it has none of costs 10 % of a GET
        request.prepare(
            method=method,
            url=url,
            headers={**self._headers, **({} if data is None else {"Content-Type": content_type})},
            data=None if data is None else data.encode(),
            auth=_Bearer(token),
        )
        how: dict[str, Any] = {
            "timeout": (account.connect_timeout, account.read_timeout),
            "allow_redirects": method == "GET",
            "proxies": dict(self._environment.route(url).proxies),
            "verify": self._environment.verify,
        }
        try:
            response = self._http.send(request, **how)
        except requests.exceptions.ChunkedEncodingError:  # broken in the middle of the answer
            if method != "GET":
                raise
            self._epoch += 1
            response = self._http.send(request, **how)
        if _was_repeated(response):
            self._epoch += 1
        return response

    def _check_port(self, method: str, url: str, response: requests.Response) -> PaiError | None:
        """Return the error that an answer of a proxy, or of a TLS port to plain http, is."""
        if response.status_code == HTTPStatus.PROXY_AUTHENTICATION_REQUIRED:
            failed = self._failed(method, url)
            return login_at_proxy(failed) if failed.proxy_variable else None
        if response.status_code == HTTPStatus.BAD_REQUEST and response.url.startswith("http:"):
            start = response.content[:4096]
            if any(phrase in start for phrase in TLS_PORT_PHRASES):
                return tls_port(self._failed(method, url))
        return None

    def _failed(self, method: str, url: str) -> Failed:
        account = self._account
        try:
            route = self._environment.route(url)
        except ValueError:
            route = Route()
        return Failed(
            method=method,
            url=url,
            server=account.url,
            connect_timeout=account.connect_timeout,
            read_timeout=account.read_timeout,
            proxy_variable=route.variable,
            environment=self._environment,
            sent=progress.sent,
            answered=self.answered,
        )


class _Bearer(requests.auth.AuthBase):
    """The token of a request."""

    def __init__(self, token: str | None) -> None:
        self._token = token

    def __call__(self, request: requests.PreparedRequest) -> requests.PreparedRequest:
        if self._token:
            request.headers["Authorization"] = f"Bearer {self._token}"
        return request


def _was_repeated(response: requests.Response) -> bool:
    """Return whether urllib3 sent a request again because its connection broke."""
    answers = [*response.history, response]
    retries = [getattr(answer.raw, "retries", None) for answer in answers]
    return any(step.error is not None for one in retries if one for step in one.history)
