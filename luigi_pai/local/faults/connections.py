"""Faults on the wire: requests that wait, fail, or are done and never answered.

This stands between tornado's server and the application, where a connection can
still be broken. While there are no rules, requests pass by it untouched.
"""

from __future__ import annotations

import asyncio
import math
import re
import socket
import struct
import time
from http.client import responses as reasons
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tornado.httputil import HTTPConnection, HTTPHeaders, HTTPMessageDelegate, HTTPServerConnectionDelegate
from tornado.httputil import ResponseStartLine as StatusLine

from luigi_pai.local.config.fault_rules import CONTROL, Faults
from luigi_pai.local.node.http import NO_DATABASE, logged_path
from luigi_pai.local.rest.base.api import PREFIX
from luigi_pai.local.store.records import COMPLETED

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable

    from tornado.httputil import RequestStartLine, ResponseStartLine

    from luigi_pai.local.app import LocalApplication
    from luigi_pai.local.config.fault_rules import Rule
    from luigi_pai.local.rest.base.api import Api
    from luigi_pai.local.store.records import Job

__all__ = ["FaultDesk", "FaultyServer"]

_RESET = struct.pack("ii", 1, 0)
_WINDOW = 60  # seconds that Retry-After names, as OpenPAI 1.8 does: the whole window
_JOB = re.compile(r"/api/(v[12])/jobs(?:/([^/]+))?", re.IGNORECASE)


class FaultDesk:
    """Where the faults in force are kept.

    Attributes:
        faults: the rules in force.
    """

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = Faults() if faults is None else faults


class FaultyServer(HTTPServerConnectionDelegate):
    """The application, with faults before and behind it.

    Args:
        app: what answers.
        desk: the faults in force.
        api: what tokens and jobs are taken from.
        log: gets one line a fault.
    """

    def __init__(self, app: LocalApplication, desk: FaultDesk, api: Api, log: logging.Logger) -> None:
        self._app = app
        self._desk = desk
        self._api = api
        self._log = log

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Begin a request."""
        if not self._desk.faults.rules:
            return self._app.start_request(server_conn, request_conn)
        return _Request(
            self, lambda connection: self._app.start_request(server_conn, connection), request_conn
        )

    async def suffer(self, start_line: RequestStartLine, headers: HTTPHeaders) -> Rule | None:
        """Wait as long as the rules say, do to the server what they say, and return what is left to do.

        What a page of another site sends is none of a client's requests: it is refused as ever.
        """
        path = unquote(start_line.path.partition("?")[0]).removeprefix(PREFIX)
        if path.startswith(CONTROL) or self._app.is_strange(headers):
            return None
        strike = self._desk.faults.strike(start_line.method, path)
        if strike.seconds:
            await asyncio.sleep(strike.seconds)
        rule = strike.rule
        if rule is not None:
            self._log.info("fault %s: %s %s", rule.fault, start_line.method, logged_path(path))
            if rule.fault == "expire":
                self._api.tokens.revoke(headers.get("Authorization", "").rpartition(" ")[2])
            elif rule.fault == "vanish":
                self._vanish(path)
        return rule

    def retry_after(self, seconds: float) -> int:
        """Return what Retry-After says of a limit that ends in so many seconds."""
        return math.ceil(seconds) if self._api.release.window_of_each_key else _WINDOW

    def _vanish(self, path: str) -> None:
        """Forget the ended job that a path names, or, for a list, all of its API, as servers do in time."""
        found = _JOB.fullmatch("/".join(path.split("/")[:5]))
        if found is None:
            return
        store, api, name = self._api.store, found[1].lower(), found[2]
        jobs: list[Job | None]
        if name is None:
            jobs = [*store.jobs(api)]
        elif api == "v1":
            jobs = [store.job(name)]
        else:
            jobs = [store.job_of(name.partition("~")[0], name.partition("~")[2])]
        for job in jobs:
            if job is not None and job.sub_state == COMPLETED:
                self._api.folders.remove(job.id, job.name)
                store.purge_job(job)


class _Request(HTTPMessageDelegate):
    """A request that may go wrong."""

    def __init__(
        self,
        server: FaultyServer,
        begin: Callable[[HTTPConnection], HTTPMessageDelegate],
        connection: HTTPConnection,
    ) -> None:
        self._server = server
        self._begin = begin
        self._connection = connection
        self._inner: HTTPMessageDelegate | None = None
        self._rule: Rule | None = None
        self._is_head = False

    def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> Awaitable[None] | None:
        """Decide what goes wrong, as soon as it is known what is asked."""
        return self._decide(start_line, headers)

    async def _decide(self, start_line: Any, headers: HTTPHeaders) -> None:
        self._is_head = start_line.method == "HEAD"
        self._rule = rule = await self._server.suffer(start_line, headers)
        if rule is not None and rule.fault == "reset":
            _break(self._connection, reset=True)
        elif rule is None or rule.fault not in ("error", "limit"):
            self._inner = self._begin(_suffering(self._connection, "" if rule is None else rule.fault))
            waiting = self._inner.headers_received(start_line, headers)
            if waiting is not None:
                await waiting

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Pass a piece of the body on."""
        return None if self._inner is None else self._inner.data_received(chunk)

    def finish(self) -> None:
        """Pass the end of the request on, or answer with the fault."""
        if self._inner is not None:
            self._inner.finish()
        elif self._rule is not None:
            self._answer(self._rule)

    def on_connection_close(self) -> None:
        """Pass on that the client is gone."""
        if self._inner is not None:
            self._inner.on_connection_close()

    def _answer(self, rule: Rule) -> None:
        """Send a 5xx as a proxy would, or a 429 as the rest-server does."""
        headers = HTTPHeaders({"Content-Type": "text/html; charset=utf-8"})
        status = rule.status
        body = f"<html><body><h1>{status} {reasons.get(status, 'Error')}</h1></body></html>"
        if rule.fault == "limit":
            status, body = 429, "Too many requests, please try again later."
            headers["Retry-After"] = str(self._server.retry_after(rule.seconds))
            headers["X-RateLimit-Limit"] = "1"
            headers["X-RateLimit-Remaining"] = "0"
            headers["X-RateLimit-Reset"] = str(math.ceil(time.time() + rule.seconds))
        headers["Content-Length"] = str(len(body))
        line = StatusLine("HTTP/1.1", status, reasons.get(status, "Error"))
        self._connection.write_headers(line, headers, b"" if self._is_head else body.encode())
        self._connection.finish()


def _suffering(connection: HTTPConnection, fault: str) -> HTTPConnection:
    """Return the connection of a request that is done, with what goes wrong with it."""
    kinds = {"drop": _Unanswered, "database": _WithoutDatabase}
    return kinds[fault](connection) if fault in kinds else connection


class _Around(HTTPConnection):
    """A connection that is another one in all but what a kind of it changes."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def write_headers(
        self,
        start_line: RequestStartLine | ResponseStartLine,
        headers: HTTPHeaders,
        chunk: bytes | None = None,
    ) -> asyncio.Future[None]:
        """Send the begin of an answer."""
        return self._connection.write_headers(start_line, headers, chunk)

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        """Send a piece of an answer."""
        return self._connection.write(chunk)

    def finish(self) -> None:
        """End an answer."""
        self._connection.finish()


class _WithoutDatabase(_Around):
    """The connection of a request that finds no database; `AccessV2.require_database` asks for it."""

    def __init__(self, connection: HTTPConnection) -> None:
        super().__init__(connection)
        setattr(self, NO_DATABASE, True)


class _Unanswered(_Around):
    """A connection that takes an answer and breaks off in place of sending it."""

    def write_headers(
        self,
        start_line: RequestStartLine | ResponseStartLine,  # noqa: ARG002 - tornado's signature
        headers: HTTPHeaders,  # noqa: ARG002 - as above
        chunk: bytes | None = None,  # noqa: ARG002 - as above
    ) -> asyncio.Future[None]:
        """Send nothing."""
        return _done()

    def write(self, chunk: bytes) -> asyncio.Future[None]:  # noqa: ARG002 - tornado's signature
        """Send nothing."""
        return _done()

    def finish(self) -> None:
        """Break off: the work is done."""
        _break(self._connection, reset=False)


def _done() -> asyncio.Future[None]:
    future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    future.set_result(None)
    return future


def _break(connection: Any, *, reset: bool) -> None:
    """Close a connection, if wanted so that the client sees "connection reset by peer"."""
    if reset and connection.stream.socket is not None:
        connection.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.stream.close()
