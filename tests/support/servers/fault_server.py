"""An HTTP server in a thread of this process that does to chosen requests what real life does.

The faults are injected by the local server's own engine, `luigi_pai.local.faults`.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from tornado.httpserver import HTTPServer
from tornado.httputil import HTTPMessageDelegate, HTTPServerConnectionDelegate
from tornado.iostream import StreamClosedError
from tornado.netutil import bind_sockets

from luigi_pai.local.faults import Answer, Fate, FaultyServer, break_off, send

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_LONGEST_HANG = 60.0
_OUTAGE = 0.05  # seconds of the clock; a client's first retry falls into it, or its second comes after it
_GARBLED = 3  # bytes: what a JSON body shows of itself is all there, and it is no JSON
_AFTER = ("slow", "drip", "garbage", "truncated", "garbled")  # the answer was given, and something befalls it
_GARBAGE = b"\x16\x03\x01\x00\xff no HTTP \xfe\r\n\r\n"
_DROP = 0.05  # seconds between two bytes that drip
_MOST = 2**40  # bytes of a request


@dataclass(frozen=True)
class Request:
    """A request; its body is empty while its fault is chosen."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def content_type(self) -> str:
        return self.headers.get("Content-Type", "")


@dataclass
class Reply:
    """An answer: text is sent as HTML, bytes as they are, all else as JSON."""

    status: int
    body: object = ""
    headers: dict[str, str] = field(default_factory=dict)

    def encoded(self) -> Answer:
        """Return it as it is sent."""
        if isinstance(self.body, bytes):
            return Answer(self.status, self.headers, self.body)
        if isinstance(self.body, str):
            return Answer(self.status, {"Content-Type": "text/html", **self.headers}, self.body.encode())
        kind = {"Content-Type": "application/json; charset=utf-8"}
        return Answer(self.status, {**kind, **self.headers}, json.dumps(self.body).encode())


@dataclass
class Fault:
    """Something to do to requests in place of, or after, answering them.

    Attributes:
        method: pattern for the whole method of the requests; ``*`` for any.
        path: pattern that is searched for in their path.
        kind: a number is the status of an answer with ``body`` and ``headers``.
            ``reset``: the connection is reset.
            ``hang``: there is no answer.
            ``nothing``: it is counted and answered as usual.
            ``held``: it is counted, and answered as usual when ``until`` has returned.
            ``truncated``: of the answer the second half is missing: it says
            the whole length, and the connection is closed in an orderly way.
            ``slow``: the answer comes late, when some time has passed on the server's clock.
            ``drip``: it comes byte by byte, faster than any silence, and longer than an answer may take.
            ``garbage``: in place of the answer come bytes that are no HTTP, and the connection is closed.
            ``garbled``: the last bytes of the answer's body are missing, and nothing tells.
            ``refused``: the server goes down. A server cannot refuse a connection for
            the sake of the request that it would bring, so this request, which has
            arrived, is not acted upon; its connection is reset, all others are
            cut; from then on nobody listens, and connections are truly refused: for
            0.05 s of the server's clock, or until ``up()`` where ``times`` is infinite.
        times: for how many requests.
        after: the server first does what it is asked, and then this.
        body, headers: of the answer; headers may be a function that returns them.
        when: asked of a request that fits: is it one of those meant?
        until: called in a thread for a request that is held.
        lasts: seconds that pass on the server's clock when it hangs, drips or is slow.
        struck: how many requests it has befallen.
    """

    method: str
    path: str
    kind: int | str
    times: float = 1
    after: bool = False
    body: Any = ""
    headers: Mapping[str, str] | Callable[[], Mapping[str, str]] = field(default_factory=dict)
    when: Callable[[Request], bool] | None = None
    until: Callable[[], object] = int
    lasts: float = 0
    struck: int = 0

    def befalls(self, request: Request) -> bool:
        return (
            self.struck < self.times
            and (self.method == "*" or re.fullmatch(self.method, request.method) is not None)
            and re.search(self.path, request.path) is not None
            and (self.when is None or self.when(request))
        )

    def reply(self) -> Reply:
        headers = self.headers() if callable(self.headers) else self.headers
        return Reply(int(self.kind), self.body or {"message": "fault"}, dict(headers))


class FaultServer:
    """The server, on a port of its own on 127.0.0.1; ``answer`` is for subclasses.

    Args:
        clock: of its Date headers; a MovableClock where a fault is an outage, or lasts.

    Attributes:
        calls: method and path of each request, in the order of their arrival.
        answers: method, path and status of each answer that was sent whole.
        connections: how many there were.
        faults: what befalls requests; of those that fit, the first.
    """

    def __init__(self, clock: Any = time) -> None:
        self.clock = clock
        self.calls: list[tuple[str, str]] = []
        self.answers: list[tuple[str, str, int]] = []
        self.connections = 0
        self.faults: list[Fault] = []
        self.port = 0
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._open: set[Any] = set()
        self._server: _Server | None = None
        self._workers = ThreadPoolExecutor(64, thread_name_prefix="fault-server")
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.up()

    def answer(self, request: Request) -> Reply:
        """Do what is asked, and return the answer."""
        raise NotImplementedError

    def app(self) -> HTTPServerConnectionDelegate:
        """Return what is served; by default what ``answer`` returns."""
        return _App(self)

    def up(self) -> None:
        """Listen, on the same port as before."""
        with self._lock:
            if self._server is None:
                sockets = bind_sockets(self.port, "127.0.0.1")
                self.port = sockets[0].getsockname()[1]
                self._server = self._in_loop(self._serve, sockets)

    def down(self) -> None:
        """Stop listening: connections are refused, and those that are open are cut."""
        with self._lock:
            server, self._server = self._server, None
        if server is not None:
            self._in_loop(self._cut, server)

    def heal(self) -> None:
        """End all faults: be up, and answer as one should."""
        self.faults.clear()
        released, self._released = self._released, threading.Event()
        released.set()
        self.up()

    def close(self) -> None:
        self._released.set()
        self.down()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._workers.shutdown(wait=False)

    def fail(
        self, method: str, path: str, kind: int | str, times: float = 1, *, after: bool = False, **how: Any
    ) -> Fault:
        """Do this to the next requests whose method is this and whose path matches the pattern."""
        fault = Fault(method, path, kind, times, after, **how)
        self.faults.append(fault)
        return fault

    def count(self, method: str, path: str = "") -> int:
        """Return how many requests of a method had a path that matches the pattern."""
        return sum(1 for m, p in self.calls if m == method and re.search(path, p))

    def count_answers(self, status: int, method: str = "", path: str = "") -> int:
        """Return how many answers had a status, of the requests that match."""
        return sum(1 for m, p, s in self.answers if s == status and method in m and re.search(path, p))

    # in the thread of the loop

    def _in_loop(self, work: Callable[..., Any], *arguments: Any) -> Any:
        """Do something in the loop's thread, and return what it returns."""
        if threading.current_thread() is self._thread:
            return work(*arguments)

        async def run() -> Any:
            return work(*arguments)

        return asyncio.run_coroutine_threadsafe(run(), self._loop).result(60)

    def _serve(self, sockets: list[socket.socket]) -> _Server:
        server = _Server(FaultyServer(self.app(), self._choose), max_body_size=_MOST)
        server.owner, server.sockets = self, sockets
        server.add_sockets(sockets)
        return server

    def _cut(self, server: _Server) -> None:
        server.stop()
        for listener in server.sockets:
            with contextlib.suppress(OSError):  # a forked process may have it, too
                listener.shutdown(socket.SHUT_RDWR)
        for stream in list(self._open):
            break_off(_Connection(stream), reset=True)

    async def _choose(self, line: Any, headers: Any) -> Fate | None:
        self.calls.append((line.method, line.path))
        request = Request(line.method, line.path, headers, b"")
        fault = next((fault for fault in self.faults if fault.befalls(request)), None)
        if fault is None:
            return None
        fault.struck += 1
        if fault.kind == "held":
            await asyncio.to_thread(fault.until)
        if fault.kind in ("nothing", "held"):
            return None
        after = fault.after or fault.kind in _AFTER
        return Fate(lambda connection, answer: self._befall(fault, request, connection, answer), after=after)

    def _befall(self, fault: Fault, request: Request, connection: Any, answer: Answer | None) -> None:
        """Do to a request what a fault says."""
        if answer is not None:  # it was given, and will not arrive
            with contextlib.suppress(ValueError):
                self.answers.remove((request.method, request.path, answer.status))
        if isinstance(fault.kind, int):
            self.send(request, connection, fault.reply().encoded())
        elif fault.kind == "hang":
            self._workers.submit(self._hang, fault, connection)
        elif fault.kind == "reset":
            break_off(connection, reset=True)
        elif fault.kind == "refused":
            if fault.times < float("inf"):
                self.clock.call_later(_OUTAGE, self.up)  # before the client can wait
            self.down()
        elif fault.kind == "garbage":
            connection.stream.write(_GARBAGE)
            break_off(connection, reset=False)
        elif answer is not None:
            self._spoil(fault, request, connection, answer)
        else:
            raise AssertionError(fault.kind)

    def _spoil(self, fault: Fault, request: Request, connection: Any, answer: Answer) -> None:
        """Do to an answer what a fault says."""
        if fault.kind == "slow":
            self.clock.advance(fault.lasts)
            self.send(request, connection, answer)
        elif fault.kind == "drip":
            asyncio.ensure_future(self._drip(fault, connection, answer))  # noqa: RUF006  it ends with its connection
        elif fault.kind == "garbled":
            headers = {key: value for key, value in answer.headers.items() if key != "Content-Length"}
            self.send(request, connection, replace(answer, headers=headers, body=answer.body[:-_GARBLED]))
        elif fault.kind == "truncated":
            headers = {**answer.headers, "Content-Length": str(len(answer.body) + 10)}
            half = replace(answer, headers=headers, body=answer.body[: len(answer.body) // 2])
            with contextlib.suppress(Exception):  # tornado tells that it is not all
                send(connection, half)
            break_off(connection, reset=False)
        else:
            raise AssertionError(fault.kind)

    def _hang(self, fault: Fault, connection: Any) -> None:
        released = self._released
        if fault.lasts:
            self.clock.advance(fault.lasts)
        released.wait(_LONGEST_HANG)
        with contextlib.suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(lambda: break_off(connection, reset=False))

    async def _drip(self, fault: Fault, connection: Any, answer: Answer) -> None:
        """Send an answer byte by byte, until the client goes away."""
        self.clock.advance(fault.lasts)
        stream, body = connection.stream, answer.body + b" " * 10_000
        headers = {**answer.headers, "Content-Length": str(len(body))}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        released, sent = self._released, f"HTTP/1.1 {answer.status} OK\r\n{lines}\r\n".encode()
        with contextlib.suppress(StreamClosedError):
            for byte in body:
                await stream.write(sent)
                await asyncio.sleep(0 if released.is_set() else _DROP)
                sent = bytes([byte])

    def send(self, request: Request, connection: Any, answer: Answer) -> None:
        """Send an answer, and count it."""
        date = formatdate(self.clock.time(), usegmt=True)
        with contextlib.suppress(Exception):  # clients that go away are what we test
            send(connection, replace(answer, headers={"Date": date, **answer.headers}))
            self.answers.append((request.method, request.path, answer.status))


@dataclass
class _Connection:
    """A connection that can be broken off."""

    stream: Any


class _Server(HTTPServer):
    """Counts its connections, and knows those that are open."""

    owner: FaultServer
    sockets: list[socket.socket]

    def handle_stream(self, stream: Any, address: Any) -> None:
        self.owner.connections += 1
        self.owner._open.add(stream)
        stream.set_nodelay(True)
        super().handle_stream(stream, address)

    def on_close(self, server_conn: Any) -> None:
        self.owner._open.discard(server_conn.stream)
        super().on_close(server_conn)


@dataclass
class _App(HTTPServerConnectionDelegate):
    """Answers requests by a function, in threads: it may wait."""

    server: FaultServer

    def start_request(self, _server_conn: object, request_conn: Any) -> HTTPMessageDelegate:
        return _Exchange(self.server, request_conn)


class _Exchange(HTTPMessageDelegate):
    """One request, and its answer."""

    def __init__(self, server: FaultServer, connection: Any) -> None:
        self._server = server
        self._connection = connection
        self._body = b""

    def headers_received(self, start_line: Any, headers: Any) -> None:
        self._line, self._headers = start_line, dict(headers.get_all())

    def data_received(self, chunk: bytes) -> None:
        self._body += chunk

    def finish(self) -> None:
        server = self._server
        request = Request(self._line.method, self._line.path, self._headers, self._body)

        def work() -> None:
            answer = server.answer(request).encoded()
            with contextlib.suppress(RuntimeError):  # the loop is closed
                server._loop.call_soon_threadsafe(server.send, request, self._connection, answer)

        server._workers.submit(work)
