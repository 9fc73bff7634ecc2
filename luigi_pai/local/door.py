"""Access control: the local server serves only the user who runs it and, on Linux, root.

Other users, if they were served, could run commands as this user (by jobs) and replace code that jobs run (in
HDFS). The server finds out the user of a connection when it accepts the connection, not for each request. On
Linux, it asks sock_diag(7), which takes 0.04 ms whatever the number of sockets. On other systems, it searches
the sockets of this user's processes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import struct
from typing import TYPE_CHECKING, Any

import psutil
from tornado.httputil import HTTPServerConnectionDelegate
from tornado.web import Application

from luigi_pai.local.json_http import ApiError, RestHandler

if TYPE_CHECKING:
    import logging

    from tornado.httputil import HTTPConnection, HTTPMessageDelegate

_ROOT = 0
_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY, also the type of a successful reply
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_FOUND = struct.Struct("=BBBB48xIIII")  # inet_diag_msg; state is the second number, uid the last
_ESTABLISHED = 1


class Door(HTTPServerConnectionDelegate):
    """Passes this user's connections on to ``inside``; refuses others with 403 and one line in the log."""

    def __init__(self, inside: HTTPServerConnectionDelegate, log: logging.Logger) -> None:
        self._inside = inside
        self._log = log
        self._refusing = Application(default_handler_class=_Refused, log_function=lambda _: None)
        self._own: dict[object, bool] = {}

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Begin a request. On accept, a connection's first request begins, and the user is checked."""
        if server_conn not in self._own:
            self._own[server_conn] = self._is_own(request_conn)
        if self._own[server_conn]:
            return self._inside.start_request(server_conn, request_conn)
        return self._refusing.start_request(server_conn, request_conn)

    def on_close(self, server_conn: object) -> None:
        """Forget a connection."""
        self._own.pop(server_conn, None)
        self._inside.on_close(server_conn)

    def _is_own(self, request_conn: Any) -> bool:
        connection = request_conn.stream.socket
        is_own = is_own_connection(connection)
        if not is_own:
            with contextlib.suppress(OSError):  # the connection is gone
                host, port = connection.getpeername()[:2]
                self._log.warning("refused the connection from %s port %d: not of this user", host, port)
        return is_own


class _Refused(RestHandler):
    """Answers every request with 403, after its body has been read."""

    def _refuse(self) -> None:
        raise ApiError(
            403,
            "ForbiddenUserError",
            "The local server serves only the user who started it: its jobs run with that user's rights.",
        )

    get = head = post = put = delete = patch = options = _refuse


def is_own_connection(connection: socket.socket) -> bool:
    """Return whether this user, or on Linux root, holds the other end of an accepted TCP connection."""
    try:
        theirs, ours = connection.getpeername(), connection.getsockname()
        if not _kernel_tells():
            return _has_process(theirs[:2], ours[:2])
        return _owner(connection.family, theirs, ours) in (os.geteuid(), _ROOT)
    except OSError:  # the connection is gone
        return False


@functools.cache
def _kernel_tells() -> bool:
    """Return whether the kernel reports the owner of a connection, as Linux does."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as there,
            socket.create_connection(there.getsockname()) as end,
        ):
            return _owner(end.family, end.getsockname(), end.getpeername()) == os.geteuid()
    except (OSError, AttributeError):  # no AF_NETLINK, or no sock_diag
        return False


def _owner(family: int, end: tuple[Any, ...], other: tuple[Any, ...]) -> int | None:
    """Return the uid that owns ``end`` of a connection, from sock_diag(7); raises OSError.

    Returns None if the connection is not established: for a closed socket, the kernel reports uid 0 (root).
    """
    addresses = (
        socket.inet_pton(family, host.partition("%")[0]).ljust(16, b"\0") for host, *_ in (end, other)
    )
    identity = struct.pack("!HH", end[1], other[1]) + b"".join(addresses) + struct.pack("=Iq", 0, -1)
    request = struct.pack("=BBHI", family, socket.IPPROTO_TCP, 0, 1 << _ESTABLISHED) + identity
    with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG) as kernel:
        kernel.send(_HEADER.pack(_HEADER.size + len(request), _BY_FAMILY, 1, 0, 0) + request)
        reply = kernel.recv(4096)
    if _HEADER.unpack_from(reply)[1] != _BY_FAMILY:
        return None
    _, state, *_, uid = _FOUND.unpack_from(reply, _HEADER.size)
    return int(uid) if state == _ESTABLISHED else None


def _has_process(end: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether a process of this user has a connection. Slower than `_owner`, but works on every OS."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().effective != os.geteuid():
                continue
            for connection in process.net_connections("tcp"):
                ends = [(found.ip.removeprefix("::ffff:"), found.port) for found in connection[3:5] if found]
                if ends == [end, other]:
                    return True
    return False
