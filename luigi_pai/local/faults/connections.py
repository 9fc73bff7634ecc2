"""Injects faults into requests: they are delayed, fail, or are processed and never answered.

This stands between tornado's server and the application, where a connection can
still be broken. Without rules it passes requests on unchanged.
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

from luigi_pai.local.config.fault_rules import CONTROL
from luigi_pai.local.faults.control import purge_ended
from luigi_pai.local.node.http import NO_DATABASE, logged_path
from luigi_pai.local.rest.base.api import PREFIX

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Sequence

    from tornado.httputil import RequestStartLine, ResponseStartLine

    from luigi_pai.local.config.fault_rules import Faults, Rule
    from luigi_pai.local.rest.base.api import Api
    from luigi_pai.local.store.records import Job

__all__ = ["FaultyServer"]

_RESET = struct.pack("ii", 1, 0)
_WINDOW = 60  # seconds that Retry-After names, as OpenPAI 1.8 does: the whole window
_JOB = re.compile(r"/api/(v[12])/jobs(?:/([^/]+))?", re.IGNORECASE)


class FaultyServer(HTTPServerConnectionDelegate):
    """The application, with faults injected into its requests, each of which is logged.

    ``is_foreign`` says of a request's headers whether a page of another site sent it.
    """

    def __init__(
        self,
        app: HTTPServerConnectionDelegate,
        is_foreign: Callable[[HTTPHeaders], bool],
        faults: Faults,
        api: Api,
        log: logging.Logger,
    ) -> None:
        self._app = app
        self._is_foreign = is_foreign
        self._faults = faults
        self._api = api
        self._log = log

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Begin a request."""
        if not self._faults.rules:
            return self._app.start_request(server_conn, request_conn)
        return _Request(
            self, lambda connection: self._app.start_request(server_conn, connection), request_conn
        )

    async def inject(self, start_line: RequestStartLine, headers: HTTPHeaders) -> Rule | None:
        """Delay a request, revoke its token or forget its job, as the rules say.

        Requests of other sites' pages are left alone, because they are refused anyway. Returns the rule that
        applies to the connection or the reply; None if none does.
        """
        path = unquote(start_line.path.partition("?")[0]).removeprefix(PREFIX)
        if path.startswith(CONTROL) or self._is_foreign(headers):
            return None
        seconds, rule = self._faults.strike(start_line.method, path)
        if seconds:
            await asyncio.sleep(seconds)
        if rule is not None:
            self._log.info("fault %s: %s %s", rule.fault, start_line.method, logged_path(path))
            if rule.fault == "expire":
                self._api.tokens.revoke(headers.get("Authorization", "").rpartition(" ")[2])
            elif rule.fault == "vanish":
                self._vanish(path)
        return rule

    def retry_after(self, seconds: float) -> int:
        """Return the value of Retry-After for a limit that ends in this number of seconds."""
        return math.ceil(seconds) if self._api.release.window_of_each_key else _WINDOW

    def _vanish(self, path: str) -> None:
        """Remove the ended job that a path names, or all ended jobs of a list's API, as retention does."""
        found = _JOB.fullmatch("/".join(path.split("/")[:5]))
        if found is None:
            return
        store, api, name = self._api.store, found[1].lower(), found[2]
        jobs: Sequence[Job | None]
        if name is None:
            jobs = store.jobs(api)
        else:
            user, _, job_name = name.partition("~")
            jobs = [store.job(name) if api == "v1" else store.job_of(user, job_name)]
        purge_ended(self._api, (job for job in jobs if job is not None))


class _Request(HTTPMessageDelegate):
    """A request into which a fault may be injected."""

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
        """Choose the fault as soon as method and path are known."""
        return self._decide(start_line, headers)

    async def _decide(self, start_line: Any, headers: HTTPHeaders) -> None:
        self._is_head = start_line.method == "HEAD"
        self._rule = rule = await self._server.inject(start_line, headers)
        if rule is not None and rule.fault == "reset":
            _break(self._connection, reset=True)
        elif rule is None or rule.fault not in ("error", "limit"):
            self._inner = self._begin(_with_fault(self._connection, "" if rule is None else rule.fault))
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


def _with_fault(connection: HTTPConnection, fault: str) -> Any:
    if fault == "database":
        setattr(connection, NO_DATABASE, True)  # see `AccessV2.require_database`
    return _Unanswered(connection) if fault == "drop" else connection


class _Unanswered:
    """A connection that discards the reply and closes; all else is done by the real one."""

    def __init__(self, connection: HTTPConnection) -> None:
        self._connection = connection

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    def write(self, *_: object) -> asyncio.Future[None]:
        """Send nothing."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    write_headers = write

    def finish(self) -> None:
        """Close the connection: the request has been processed."""
        _break(self._connection, reset=False)


def _break(connection: Any, *, reset: bool) -> None:
    """Close a connection; with ``reset`` the client sees "connection reset by peer"."""
    if reset and connection.stream.socket is not None:
        connection.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.stream.close()
