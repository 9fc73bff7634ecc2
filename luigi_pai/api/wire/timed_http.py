"""HTTP connections that limit a response's time and size and record whether a request was sent.

The timeout in ``requests`` limits each pause, but neither the time nor the size of a whole response. Here,
both are limited while the response is received, and the size also while it is decompressed, so the limits
apply even if ``requests`` reads the whole response. File contents, requested with ``stream``, are not
limited.
"""

from __future__ import annotations

import functools
import io
import math
import threading
import time
from http import HTTPStatus
from http.client import HTTPResponse, IncompleteRead
from typing import TYPE_CHECKING, Any

from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Iterator

    import requests

MAX_ANSWER = 64 * 1024 * 1024
"""Maximum size of a response in bytes, both as received and after decompression."""

_MIB = 1024 * 1024
_WHOLE_ANSWER = 4  # a whole response must be read within this number of timeouts


class OverLimit(OSError):
    """A response exceeds its size or time limit."""


def _too_long() -> OverLimit:
    return OverLimit(f"the response is longer than {MAX_ANSWER / _MIB:g} MiB")


class AnswerTimeout(OverLimit, TimeoutError):
    """A response took too long."""

    def __init__(self, limit: float) -> None:
        super().__init__(f"the response was not finished within {limit:g} s")
        self.limit = limit


class _TimedBytes(io.RawIOBase):
    """Reads the bytes of a response from a socket. The deadline is four times the socket's timeout.

    Attributes:
        is_unlimited: Whether the deadline and the length are not checked.
    """

    is_unlimited = False

    def __init__(self, connected: socket.socket) -> None:
        self._raw = connected.makefile("rb", buffering=0)
        self._count = 0
        self._limit = (connected.gettimeout() or math.inf) * _WHOLE_ANSWER
        self._end = time.monotonic() + self._limit

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read into the buffer and return the number of bytes; raise OverLimit if a limit is exceeded."""
        if not self.is_unlimited:
            if time.monotonic() > self._end:
                raise AnswerTimeout(self._limit)
            if self._count >= MAX_ANSWER:
                raise _too_long()
        count = self._raw.readinto(buffer)
        self._count += count or 0
        return count

    def close(self) -> None:
        """Release the socket."""
        self._raw.close()
        super().close()


class TimedAnswer(HTTPResponse):
    """A response with a deadline. If its body ends early, this is an error."""

    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self._received = _TimedBytes(sock)
        self.fp = io.BufferedReader(self._received)

    def begin(self) -> None:
        """Read the headers; only gzip is decompressed, because other encodings may expand without limit."""
        super().begin()
        if [coding.lower() for coding in self.headers.get_all("Content-Encoding", [])] != ["gzip"]:
            del self.headers["Content-Encoding"]
        progress.is_content = progress.is_stream and self.status < HTTPStatus.MULTIPLE_CHOICES
        self._received.is_unlimited = progress.is_content

    def read(self, amt: int | None = None) -> bytes:
        """Read the body; raise IncompleteRead if it is truncated, which urllib3 before 2 accepts."""
        data = super().read(amt)
        if amt and not data and self.length:
            raise IncompleteRead(b"", self.length)
        return data


class _Progress(threading.local):
    """The progress of this thread's request, which shows whether the server may have executed the request.

    The connection records the progress, because urllib3's exceptions do not contain it.

    Attributes:
        sent: Whether any part of the request was written to a connected socket; None before connecting.
        read_timeout: The longest pause in seconds while a request is sent or a response is read; None: no
            limit.
        is_stream: Whether the request is for a file's content; the response may still be an error.
        is_content: Whether the response is a file's content.
    """

    sent: bool | None = None
    read_timeout: float | None = None
    is_stream: bool = False
    is_content: bool = False


progress = _Progress()


class TimedConnection(HTTPConnection):
    """A connection whose responses have a deadline, and which records the progress of requests."""

    response_class = TimedAnswer
    _connecting = False

    def connect(self) -> None:
        """Connect. Data sent to a proxy meanwhile does not count as part of the request."""
        if progress.sent is None:
            progress.sent = False
        self._connecting = True
        try:
            super().connect()
        finally:
            self._connecting = False

    def send(self, data: Any) -> None:
        """Send a part of a request. Set the read timeout first, because urllib3 sets it after sending."""
        if self.sock is not None and not self._connecting:
            self.sock.settimeout(progress.read_timeout)
        try:
            super().send(data)
        finally:
            if not self._connecting and self.sock is not None:
                progress.sent = True


class _TimedTlsConnection(TimedConnection, HTTPSConnection):
    pass


class _Pool(HTTPConnectionPool):
    ConnectionCls = TimedConnection


class _TlsPool(HTTPSConnectionPool):
    ConnectionCls = _TimedTlsConnection


_POOLS = {"http": _Pool, "https": _TlsPool}


class TimedAdapter(HTTPAdapter):
    """A ``requests`` adapter that uses TimedConnection."""

    def send(self, request: Any, **options: Any) -> requests.Response:  # type: ignore[override]
        """Send a request; ``timeout`` is a pair of limits in seconds: to connect, and for each pause."""
        progress.read_timeout = options["timeout"][1]
        progress.is_stream = options["stream"]
        return super().send(request, **options)

    def build_response(self, req: Any, resp: Any) -> requests.Response:
        """Return a response. Its size after decompression is also limited, unless it is a file's content."""
        if "Content-Encoding" in resp.headers and not progress.is_content:
            resp.stream = functools.partial(_bounded, resp, resp.stream)
        return super().build_response(req, resp)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Create the pools of direct connections."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = _POOLS

    def proxy_manager_for(self, *args: Any, **kwargs: Any) -> Any:
        """Return the pools of connections through a proxy."""
        manager = super().proxy_manager_for(*args, **kwargs)
        manager.pool_classes_by_scheme = _POOLS
        return manager


def _bounded(
    response: Any, stream: Callable[..., Iterator[bytes]], *args: Any, **options: Any
) -> Iterator[bytes]:
    """Yield the decompressed parts of a response's body; raise OverLimit if they exceed MAX_ANSWER."""
    size = 0
    for part in stream(*args, **options):
        size += len(part)
        if size > MAX_ANSWER:
            response.close()
            raise _too_long()
        yield part
