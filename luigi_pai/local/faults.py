"""Injects faults into requests; defines the routes that let tests control faults, job scripts and contents.

A request with a fault fails, or is processed but never answered. `FaultyServer` sits between tornado's server
and the application, the only place where a connection can be dropped. It takes a function that chooses the
faults: `InjectedFaults.choose` in the local server; in a test's own server, a function that applies that
test's faults.
"""

from __future__ import annotations

import asyncio
import json
import math
import socket
import struct
import time
from dataclasses import dataclass
from http.client import responses as reasons
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from tornado.httputil import HTTPConnection, HTTPHeaders, HTTPMessageDelegate, HTTPServerConnectionDelegate
from tornado.httputil import ResponseStartLine as StatusLine

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.rules import CONTROL, Faults, parse_faults, parse_job_scripts
from luigi_pai.local.json_http import ApiError, RestHandler, logged_path
from luigi_pai.local.rest.base import PREFIX, RACE

if TYPE_CHECKING:
    import logging
    from collections.abc import Awaitable, Callable, Mapping

    from tornado.httputil import RequestStartLine, ResponseStartLine

    from luigi_pai.local.config.rules import Rule
    from luigi_pai.local.rest.base import Api

_RESET = struct.pack("ii", 1, 0)


@dataclass(frozen=True)
class Answer:
    """A response: status, headers and body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass(frozen=True)
class Fate:
    """A request's fault.

    Attributes:
        end: ends a request that has fully arrived; called with the connection and the application's response,
            or with the connection and None if the application did not receive the request.
        after: whether the application processes the request first. The client never gets the response.
    """

    end: Callable[[Any, Answer | None], None]
    after: bool = False


class FaultyServer(HTTPServerConnectionDelegate):
    """Injects faults into an application's requests.

    ``choose`` is called with a request's first line and headers, and returns its fault, if any.
    """

    def __init__(
        self,
        app: HTTPServerConnectionDelegate,
        choose: Callable[[RequestStartLine, HTTPHeaders], Awaitable[Fate | None]],
    ) -> None:
        self.app = app
        self.choose = choose

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Start a request."""
        return _Request(self, server_conn, request_conn)


class _Request(HTTPMessageDelegate):
    """A request whose fault is chosen as soon as its method and path are known."""

    def __init__(self, server: FaultyServer, server_conn: object, connection: HTTPConnection) -> None:
        self._server = server
        self._server_conn = server_conn
        self._connection = connection
        self._inner = HTTPMessageDelegate()  # does nothing, until the application gets the request
        self._unprocessed: Fate | None = None

    async def headers_received(
        self, start_line: RequestStartLine | ResponseStartLine, headers: HTTPHeaders
    ) -> None:
        """Choose the fault. The application gets the request if there is no fault or `Fate.after` is True."""
        line: Any = start_line
        fate = await self._server.choose(line, headers)
        if fate is not None and not fate.after:
            self._unprocessed = fate
            return
        connection: Any = self._connection if fate is None else _Held(self._connection, fate)
        self._inner = self._server.app.start_request(self._server_conn, connection)
        waiting = self._inner.headers_received(start_line, headers)
        if waiting is not None:
            await waiting

    def data_received(self, chunk: bytes) -> Awaitable[None] | None:
        """Pass a piece of the body on."""
        return self._inner.data_received(chunk)

    def finish(self) -> None:
        """End the request in the application or, if the application never received it, apply the fault."""
        self._inner.finish()
        if self._unprocessed is not None:
            self._unprocessed.end(self._connection, None)

    def on_connection_close(self) -> None:
        """Tell the application that the client is gone."""
        self._inner.on_connection_close()


class _Held:
    """A substitute for a connection. It keeps the response for the fault, and forwards all other calls."""

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
        """Keep the response's status, headers and first piece."""
        self._status, self._headers = line.code, headers
        return self.write(chunk)

    def write(self, chunk: bytes) -> asyncio.Future[None]:
        """Keep a piece of the response."""
        self._body += chunk
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        future.set_result(None)
        return future

    def finish(self) -> None:
        """Apply the fault, now that the application has processed the request."""
        response = Answer(self._status, dict(self._headers.get_all()), self._body)
        self._fate.end(self._connection, response)


def send(connection: Any, response: Answer, *, with_body: bool = True) -> None:
    """Send a response; a HEAD request gets it without a body (``with_body=False``)."""
    headers = HTTPHeaders({"Content-Length": str(len(response.body)), **response.headers})
    line = StatusLine("HTTP/1.1", response.status, reasons.get(response.status, "Error"))
    connection.write_headers(line, headers, response.body if with_body else b"")
    connection.finish()


def break_off(connection: Any, *, reset: bool) -> None:
    """Close a connection; with ``reset`` the client sees "connection reset by peer"."""
    if reset and connection.stream.socket is not None:
        connection.stream.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    connection.stream.close()


class Control(RestHandler):
    """A route that controls the server's behaviour. Like every route, it serves only the server's user."""

    def _parsed(self, parse: Callable[[Any], Any]) -> Any:
        """Return the body, parsed by ``parse``; raises ApiError 400 if ``parse`` raises ConfigError."""
        try:
            return parse(self.body_value())
        except ConfigError as error:
            raise ApiError(400, "InvalidParametersError", str(error)) from None


class FaultControl(Control):
    """``GET`` returns the active fault rules, ``PUT`` replaces them."""

    async def get(self) -> None:
        """Respond with the rules, each with its numbers of matching and affected requests."""
        self.respond(200, self.api.faults.shown())

    async def put(self) -> None:
        """Replace the rules, and restart their counts and random numbers."""
        vars(self.api.faults).update(vars(self._parsed(parse_faults)))
        self.respond(200, self.api.faults.shown())


class JobScriptControl(Control):
    """``POST`` adds job scripts, which are tried after the existing job scripts."""

    async def post(self) -> None:
        """Add the scripts, and respond with the total number of scripts."""
        self.api.scripts.rules += self._parsed(parse_job_scripts)
        self.respond(200, {"rules": len(self.api.scripts.rules)})


class ContentsControl(Control):
    """``GET`` lists jobs, ``DELETE`` clears all but users, ``POST`` deletes jobs that ended before a time."""

    async def get(self) -> None:
        """Respond with each job's task name and user, in the order of submission."""
        jobs = self.api.store.whole_jobs("NOT deleted ORDER BY id")
        shown = [{"name": job.task_name, "username": job.username} for job in jobs]
        self.respond(200, {"jobs": shown})

    async def delete(self) -> None:
        """Delete all jobs, fault rules, job scripts, and files in the server's own HDFS and storages."""
        vars(self.api.faults).update(vars(Faults()))
        await self.api.launcher.delete_all()
        self.api.scripts.clear()
        self.api.files.empty()
        self.api.storages.empty()
        self.respond(200, {})

    async def post(self) -> None:
        """Delete jobs that ended before a given time, and their files, like a real server's retention."""
        body = self.body_value()
        before = body.get("endedBefore") if isinstance(body, dict) else None
        if not isinstance(before, int):
            raise ApiError(400, "InvalidParametersError", "the body must be {endedBefore: milliseconds}")
        for job in self.api.store.select_jobs("WHERE completed < ?", [before]):
            self.api.folders.remove(job.id, job.name)
            self.api.store.purge_job(job)
        self.respond(200, {})


_WINDOW = 60  # seconds, the window of 1.8's rate limits; 1.8's Retry-After is always the whole window


class InjectedFaults:
    """Applies the active fault rules to the server's requests, and logs every fault except delays."""

    def __init__(self, api: Api, log: logging.Logger) -> None:
        self._api = api
        self._log = log

    async def choose(self, line: RequestStartLine, headers: HTTPHeaders) -> Fate | None:
        """Apply a delay, revoke the token, or mark a login. Return any other fault, or None."""
        headers.pop(RACE, None)  # only a rule may set this header
        path = unquote(line.path.partition("?")[0]).removeprefix(PREFIX)
        faults = self._api.faults
        if not faults.rules or path.startswith(CONTROL):
            return None
        seconds, rule = faults.strike(line.method, path)
        if seconds:
            await asyncio.sleep(seconds)
        if rule is None:
            return None
        self._log.info("fault %s: %s %s", rule.fault, line.method, logged_path(path))
        if rule.fault == "expire":
            self._api.tokens.revoke(headers.get("Authorization", "").rpartition(" ")[2])
        elif rule.fault == "race":
            headers[RACE] = str(rule.seconds)
        elif rule.fault in ("reset", "drop"):
            reset = rule.fault == "reset"
            return Fate(lambda connection, _: break_off(connection, reset=reset), after=not reset)
        else:
            response = {"error": self._error, "limit": self._limit, "safe-mode": _safe_mode}[rule.fault](rule)
            with_body = line.method != "HEAD"
            return Fate(
                lambda connection, _: send(connection, response, with_body=with_body), after=rule.executed
            )
        return None

    def _error(self, rule: Rule) -> Answer:
        """Return a 5xx like a proxy's."""
        body = f"<html><body><h1>{rule.status} {reasons.get(rule.status, 'Error')}</h1></body></html>"
        return Answer(rule.status, {"Content-Type": "text/html; charset=utf-8"}, body.encode())

    def _limit(self, rule: Rule) -> Answer:
        """Return a 429 like the rest-server's."""
        left = self._api.release.window_per_key
        headers = {
            "Content-Type": "text/html; charset=utf-8",
            "Retry-After": str(math.ceil(rule.seconds) if left else _WINDOW),
            "X-RateLimit-Limit": "1",
            "X-RateLimit-Remaining": "0",
            "X-RateLimit-Reset": str(math.ceil(time.time() + rule.seconds)),
        }
        return Answer(429, headers, b"Too many requests, please try again later.")


def _safe_mode(_rule: Rule) -> Answer:
    """Return the error that a NameNode in safe mode sends in HDFS 2.7.4 and 3.3.4."""
    message = "Name node is in safe mode.\nThe reported blocks 0 needs additional 1 blocks"
    body = {"RemoteException": {"exception": "SafeModeException", "message": message}}
    return Answer(403, {"Content-Type": "application/json"}, json.dumps(body).encode())
