"""An HTTP server in threads of this process that does to chosen requests what real life does."""

from __future__ import annotations

import contextlib
import json
import re
import socket
import struct
import threading
import time
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST
_LONGEST_HANG = 60.0
_ANSWERING = ("truncated", "garbled", "nothing")
_OUTAGE = 0.05  # seconds of the clock; a client's first retry falls into it, or its second comes after it
_GARBLED = 3  # bytes: what a JSON body shows of itself is all there, and it is no JSON


@dataclass(frozen=True)
class Request:
    """A request, whole."""

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

    def encoded(self) -> tuple[dict[str, str], bytes]:
        """Return the headers and the body as they are sent."""
        if isinstance(self.body, bytes):
            return self.headers, self.body
        if isinstance(self.body, str):
            return {"Content-Type": "text/html", **self.headers}, self.body.encode()
        kind = {"Content-Type": "application/json; charset=utf-8"}
        return {**kind, **self.headers}, json.dumps(self.body).encode()


@dataclass
class Fault:
    """Something to do to requests in place of, or after, answering them.

    Attributes:
        method: of the requests; ``*`` for any.
        path: pattern that is searched for in their path.
        kind: a number is the status of an answer with ``body`` and ``headers``.
            ``reset``: the connection is reset.
            ``hang``: there is no answer.
            ``nothing``: it is counted and answered as usual.
            ``truncated``: of the answer the second half is missing: it says
            the whole length, and the connection is closed in an orderly way.
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
        lasts: seconds that pass on the server's clock when it hangs: until the client gives up.
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
    lasts: float = 0
    struck: int = 0

    def befalls(self, request: Request) -> bool:
        return (
            self.struck < self.times
            and self.method in ("*", request.method)
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
        self.listening = False
        self._lock = threading.Lock()
        self._released = threading.Event()
        self._listener: socket.socket | None = None
        self._open: set[socket.socket] = set()
        self.up()

    def answer(self, request: Request) -> Reply:
        """Do what is asked, and return the answer."""
        raise NotImplementedError

    def up(self) -> None:
        """Listen, on the same port as before."""
        with self._lock:
            if self._listener is None:
                self._listener = socket.create_server(("127.0.0.1", self.port), backlog=128)
                self.port = self._listener.getsockname()[1]
                threading.Thread(target=self._accept, args=(self._listener,), daemon=True).start()

    def down(self) -> None:
        """Stop listening: connections are refused, and those that are open are cut."""
        with self._lock:
            listener, self._listener = self._listener, None
            opened = list(self._open)
        if listener is not None:
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # wakes accept()
            listener.close()
        for connection in opened:
            with contextlib.suppress(OSError):
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                connection.shutdown(socket.SHUT_RDWR)

    def heal(self) -> None:
        """End all faults: be up, and answer as one should."""
        self.faults.clear()
        released, self._released = self._released, threading.Event()
        released.set()
        self.up()

    def close(self) -> None:
        self._released.set()
        self.down()

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

    def take_fault(self, request: Request) -> Fault | None:
        with self._lock:
            for fault in self.faults:
                if fault.befalls(request):
                    fault.struck += 1
                    return fault
        return None

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                connection, address = listener.accept()
                self.connections += 1
                threading.Thread(target=self._serve, args=(connection, address), daemon=True).start()

    def _serve(self, connection: socket.socket, address: Any) -> None:
        self._open.add(connection)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(OSError, ValueError), connection:  # clients that go away are what we test
            _Handler(connection, address, self)  # type: ignore[arg-type]
        self._open.discard(connection)

    def meet(self, fault: Fault, request: Request, handler: _Handler) -> None:
        """Do to a request what a fault says."""
        reply = self.answer(request) if fault.after or fault.kind in _ANSWERING else None
        if isinstance(fault.kind, int):
            handler.send(request, fault.reply())
        elif fault.kind == "hang":
            if fault.lasts:
                self.clock.advance(fault.lasts)
            self._released.wait(_LONGEST_HANG)
            handler.close_connection = True
        elif reply is not None and fault.kind in _ANSWERING:
            if fault.kind == "garbled":
                reply = Reply(reply.status, reply.encoded()[1][:-_GARBLED], reply.encoded()[0])
            handler.send(request, reply, whole=fault.kind != "truncated")
        elif fault.kind == "reset":
            handler.reset()
        elif fault.kind == "refused":
            if fault.times < float("inf"):
                self.clock.call_later(_OUTAGE, self.up)  # before the client can wait
            self.down()
            handler.reset()
        else:
            raise AssertionError(fault.kind)


class _Handler(BaseHTTPRequestHandler):
    """One connection."""

    server: FaultServer  # type: ignore[assignment]
    protocol_version = "HTTP/1.1"

    def _any(self) -> None:
        headers = {key: value for key, value in self.headers.items()}  # noqa: C416  plain, not by message
        request = Request(self.command, self.path, headers, self._body())
        self.server.calls.append((self.command, self.path))
        fault = self.server.take_fault(request)
        if fault is None:
            self.send(request, self.server.answer(request))
        else:
            self.server.meet(fault, request, self)

    do_GET = do_POST = do_PUT = do_DELETE = _any

    def date_time_string(self, timestamp: float | None = None) -> str:
        """Return the Date of an answer, by the server's clock."""
        return super().date_time_string(self.server.clock.time() if timestamp is None else timestamp)

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while length := int(self.rfile.readline().split(b";")[0], 16):
            parts.append(self.rfile.read(length))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def send(self, request: Request, reply: Reply, *, whole: bool = True) -> None:
        """Send an answer, or its first half."""
        headers, data = reply.encoded()
        said = len(data) if whole else len(data) + 10
        sent = data if whole else data[: len(data) // 2]
        self.send_response(reply.status)
        for name, value in {"Content-Length": str(said), **headers}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(sent)
        if whole:
            self.server.answers.append((request.method, request.path, reply.status))
        else:
            self.close_connection = True

    def reset(self) -> None:
        """Break the connection; it is closed for good when the handler is done."""
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            self.connection.close()

    def log_message(self, *_about: object) -> None:
        pass
