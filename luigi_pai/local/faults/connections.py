"""Injects faults into requests, which then fail, or are processed but never answered.

`FaultyServer` is between tornado's server and the application, because only there a connection can be broken.
It is given a function that chooses the faults: `InjectedFaults.choose` in the local server; in the server of
a test, a function that applies the faults of that test.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from dataclasses import dataclass
from http.client import responses as reasons
from typing import TYPE_CHECKING, Any

from tornado.httputil import HTTPConnection, HTTPHeaders, HTTPMessageDelegate, HTTPServerConnectionDelegate
from tornado.httputil import ResponseStartLine as StatusLine

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Mapping

    from tornado.httputil import RequestStartLine, ResponseStartLine

_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Answer:
    """A reply: status, headers and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Fate:
    """The fault of a request.

    Attributes:
        end: ends a request that has fully arrived; called with the connection and the application's answer,
            or with the connection and None if the application has not got the request.
        after: whether the application processes the request first. The client never gets this answer.
    """

    end: Callable[[Any, Answer | None], None]
    after: bool = False


class FaultyServer(HTTPServerConnectionDelegate):
    """Injects faults into the requests to an application.

    ``choose`` is called with a request's first line and headers, and returns its fault, if any.
    """

    def __init__(
        self,
        app: HTTPServerConnectionDelegate,
        choose: Callable[[RequestStartLine, HTTPHeaders], Awaitable[Fate | None]],
    ) -> None:
        self._app = app
        self._choose = choose

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Begin a request."""
        return _Request(
            self._choose, lambda connection: self._app.start_request(server_conn, connection), request_conn
        )


class _Request(HTTPMessageDelegate):
    """A request whose fault is chosen as soon as method and path are known."""

    def __init__(
        self,
        choose: Callable[[Any, HTTPHeaders], Awaitable[Fate | None]],
        begin: Callable[[Any], HTTPMessageDelegate],
        connection: HTTPConnection,
    ) -> None:
        self._choose = choose
        self._begin = begin
        self._connection = connection
        self._inner: HTTPMessageDelegate | None = None
        self._fate: Fate | None = None

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        """Choose the fault. The application gets the request if there is no fault or `Fate.after` is True."""
        self._fate = fate = await self._choose(start_line, headers)
        if fate is None or fate.after:
            self._inner = self._begin(self._connection if fate is None else _Held(self._connection, fate))
            waiting = self._inner.headers_received(start_line, headers)
            if waiting is not None:
                await waiting

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Pass a piece of the body on."""
        return None if self._inner is None else self._inner.data_received(chunk)

    def finish(self) -> None:
        """End the request in the application; if the application never got the request, apply the fault."""
        if self._inner is not None:
            self._inner.finish()
        elif self._fate is not None:
            self._fate.end(self._connection, None)

    def on_connection_close(self) -> None:
        """Pass on that the client is gone."""
        if self._inner is not None:
            self._inner.on_connection_close()


class _Held:
    """A substitute for a connection. It keeps the answer for the fault; other calls go to the connection."""

    def __init__(self, connection: HTTPConnection, fate: Fate) -> None:
        self._connection = connection
        self._fate = fate
        self._status = 0
        self._headers = HTTPHeaders()
        self._body = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def write_headers(
        self, line: StatusLine, headers: HTTPHeaders, chunk: bytes = b""
    ) -> asyncio.Future[None]:
        """Keep status, headers and the first piece of the answer."""
        self._status, self._headers = line.code, headers
        return self.write(chunk)

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        """Keep a piece of the answer."""
        self._body += chunk
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    def finish(self) -> None:
        """Apply the fault, after the application has processed the request."""
        answer = Answer(self._status, dict(self._headers.get_all()), self._body)
        self._fate.end(self._connection, answer)


def send(connection: Any, answer: Answer, *, with_body: bool = True) -> None:
    """Send an answer; a HEAD request gets it without body (``with_body=False``)."""
    headers = HTTPHeaders({"Content-Length": str(len(answer.body)), **answer.headers})
    line = StatusLine("HTTP/1.1", answer.status, reasons.get(answer.status, "Error"))
    connection.write_headers(line, headers, answer.body if with_body else b"")
    connection.finish()


def break_off(connection: Any, *, reset: bool) -> None:
    """Close a connection; with ``reset`` the client sees "connection reset by peer"."""
    if reset and connection.stream.socket is not None:
        connection.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.stream.close()
