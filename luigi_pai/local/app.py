"""The local server's routes, and the clients it rejects: other users, and pages from other sites.

If the server accepted other users, they could run commands as this user (by submitting jobs) and replace code
that jobs run (in HDFS). The server looks up a connection's user when it accepts the connection, not for each
request. On Linux, it asks sock_diag(7), which takes 0.04 ms regardless of the number of sockets. On other
systems, it searches the sockets of this user's processes.
"""

from __future__ import annotations

import contextlib
import functools
import os
import socket
import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

import psutil
from tornado.httputil import HTTPServerConnectionDelegate
from tornado.web import Application, StaticFileHandler

from luigi_pai.local.config.rules import CONTENTS_PATH, FAULTS_PATH, JOB_SCRIPTS_PATH
from luigi_pai.local.config.settings import is_loopback
from luigi_pai.local.faults import ContentsControl, FaultControl, JobScriptControl
from luigi_pai.local.json_http import ApiError, RestHandler, logged_path, no_api
from luigi_pai.local.pages.handlers import JobListPage, JobPage, StopJob
from luigi_pai.local.rest.v1 import V1Handler
from luigi_pai.local.rest.v2 import V2Handler
from luigi_pai.local.views.log_files import LogFile, LogPage

if TYPE_CHECKING:
    import logging

    from tornado.httputil import HTTPConnection, HTTPHeaders, HTTPMessageDelegate, HTTPServerRequest
    from tornado.web import RequestHandler

    from luigi_pai.local.rest.base import Api

_ASSETS = str(Path(__file__).parent / "pages" / "assets")

_REST = {"v1": V1Handler, "v2": V2Handler}
_CONTAINER = r"(container_\d+_\d+_\d+_\d+|[0-9a-f-]{36})"


def make_app(api: Api, log: logging.Logger) -> _LocalApplication:
    """Return the application, which logs one line per request, without the query, body or headers."""
    return _LocalApplication(
        [
            (r"(?i:(?:/rest-server)?/api(?:/.*)?)", _REST[api.release.api]),
            *api.files.routes(),
            (r"/", JobListPage),
            (r"/(?:job-detail|view)\.html", JobPage),  # view.html is the page in OpenPAI up to 0.10
            (r"/stop-job", StopJob),
            (r"/assets/(page\.(?:css|js))", StaticFileHandler, {"path": _ASSETS}),
            (rf"/node/containerlogs/{_CONTAINER}/([\w.-]+)/(?:(stdout|stderr|runtime)/?)?", LogPage),
            (FAULTS_PATH, FaultControl),
            (JOB_SCRIPTS_PATH, JobScriptControl),
            (CONTENTS_PATH, ContentsControl),
            (r"/log-manager/[^/]+/api/v1/logs/([a-z.-]+)", LogFile),
        ],
        default_handler_class=_Refusal,
        log_function=_log_request,
        log=log,
        api=api,
    )


_NOT_OWN = "The local server serves only the user who started it: its jobs run with that user's rights."
_FOREIGN = (
    "The local server answers to requests for localhost or a loopback address only, not to pages of other "
    'sites. A proxy in front of it must send "Host: {}", and remove the Origin header, which names the proxy.'
)


class _Refusal(RestHandler):
    """Rejects every request after reading its body: with ``error``, or because its path is unknown."""

    def initialize(self, error: ApiError | None = None) -> None:
        self._error = error

    def _refuse(self) -> None:
        raise self._error or no_api(self.request.uri or "")

    get = head = post = put = delete = patch = options = _refuse


class _LocalApplication(Application):
    """An application that rejects requests that a page from another site makes a browser send.

    `Door` only rejects connections from other users. It accepts connections from such a browser, because
    the browser runs as this user. The requests carry the page's Origin or, after DNS rebinding, a foreign
    Host. Requests for embedded images, scripts and frames carry no Origin, but their Sec-Fetch headers
    show whether another site made them, and for what purpose.
    """

    def find_handler(self, request: HTTPServerRequest, **kwargs: Any) -> Any:
        """Return a request's handler: `_Refusal` if a page from another site caused the request."""
        if self.is_foreign(request.headers):
            message = _FOREIGN.format(self.settings["api"].address.netloc)
            error = ApiError(403, "ForbiddenOriginError", message)
            return self.get_handler_delegate(request, _Refusal, {"error": error})
        return super().find_handler(request, **kwargs)

    def is_foreign(self, headers: HTTPHeaders) -> bool:
        """Return whether a page from another site made a browser send a request with these headers."""
        origin, host = headers.get("Origin"), headers.get("Host") or "127.0.0.1"  # browsers always send Host
        foreign = origin is not None and _split(origin).netloc != host
        return foreign or _is_embedded(headers) or not is_loopback(_split(f"//{host}").hostname or "")


def _is_embedded(headers: HTTPHeaders) -> bool:
    """Return whether a page from another site requests an image, script or frame to embed."""
    site, *rest = [headers.get(f"Sec-Fetch-{name}") for name in ("Site", "Mode", "Dest")]
    return site in ("cross-site", "same-site") and rest != ["navigate", "document"]


def _split(url: str) -> SplitResult:
    """Return the parts of a URL; all are empty if the URL is invalid."""
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 else urlsplit("")
    except ValueError:  # for example, the port is not a number
        return urlsplit("")


def _log_request(handler: RequestHandler) -> None:
    request = handler.request
    handler.application.settings["log"].info(
        "%s %d %s %s %.1f ms",
        request.remote_ip,
        handler.get_status(),
        request.method,
        logged_path(request.path),
        request.request_time() * 1000,
    )


_ROOT = 0
_SOCK_DIAG = 4  # NETLINK_SOCK_DIAG
_BY_FAMILY = 20  # SOCK_DIAG_BY_FAMILY, also the type of a successful response
_HEADER = struct.Struct("=IHHII")  # nlmsghdr
_FOUND = struct.Struct("=BBBB48xIIII")  # inet_diag_msg; state is the second number, uid the last
_ESTABLISHED = 1


class Door(HTTPServerConnectionDelegate):
    """Passes this user's connections on to ``inside``; rejects others with a 403 and one line in the log."""

    def __init__(self, inside: HTTPServerConnectionDelegate, log: logging.Logger) -> None:
        self._inside = inside
        self._log = log
        self._refusing = Application(
            default_handler_class=_Refusal,
            default_handler_args={"error": ApiError(403, "ForbiddenUserError", _NOT_OWN)},
            log_function=lambda _: None,
        )
        self._own: dict[object, bool] = {}

    def start_request(self, server_conn: object, request_conn: HTTPConnection) -> HTTPMessageDelegate:
        """Start a request. The first request starts when a connection is accepted: check the user then."""
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


def is_own_connection(connection: socket.socket) -> bool:
    """Return whether this user, or root on Linux, owns the other end of an accepted TCP connection."""
    try:
        theirs, ours = connection.getpeername(), connection.getsockname()
        if not _kernel_tells():
            return _has_process(theirs[:2], ours[:2])
        return _owner(connection.family, theirs, ours) in (os.geteuid(), _ROOT)
    except OSError:  # the connection is gone
        return False


@functools.cache
def _kernel_tells() -> bool:
    """Return whether the kernel reports a connection's owner, as Linux does."""
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
        response = kernel.recv(4096)
    if _HEADER.unpack_from(response)[1] != _BY_FAMILY:
        return None
    _, state, *_, uid = _FOUND.unpack_from(response, _HEADER.size)
    return int(uid) if state == _ESTABLISHED else None


def _has_process(end: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    """Return whether one of this user's processes has a connection. Slower than `_owner`, but portable."""
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.uids().effective != os.geteuid():
                continue
            for connection in process.net_connections("tcp"):
                ends = [(found.ip.removeprefix("::ffff:"), found.port) for found in connection[3:5] if found]
                if ends == [end, other]:
                    return True
    return False
