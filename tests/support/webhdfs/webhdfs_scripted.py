"""A server whose responses a test scripts."""

from __future__ import annotations

import contextlib
import http.server
import json
import threading
from typing import TYPE_CHECKING, Any

from ending_server import EndingServer

from luigi_pai.files import WebHdfs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


def file_status(**facts: Any) -> dict[str, Any]:
    """Return the FileStatus of a file of 4 bytes, with other facts where they are given."""
    status = {"type": "FILE", "length": 4, "modificationTime": 1, "fileId": 1, "pathSuffix": ""}
    return {**status, "owner": "alice", "group": "users", "permission": "644", **facts}


def document(**fields: Any) -> bytes:
    """Return a JSON document."""
    return json.dumps(fields).encode()


def looked_up(answer: Callable[[Any], None], **facts: Any) -> Callable[[Any], None]:
    """Return a script that sends the FileStatus of a file, and calls a function for other requests."""

    def script(handler: Any) -> None:
        if "GETFILESTATUS" in handler.path:
            handler.respond(200, document(FileStatus=file_status(**facts)))
        else:
            answer(handler)

    return script


class Scripted(http.server.BaseHTTPRequestHandler):
    """A request, handed to a script: a function of the handler."""

    protocol_version = "HTTP/1.1"
    script: Callable[[Any], None]

    def do_GET(self) -> None:
        type(self).script(self)

    do_PUT = do_POST = do_DELETE = do_GET

    def body(self) -> bytes:
        """Read the body of the request, of whichever encoding."""
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length") or 0))
        parts = []
        while size := int(self.rfile.readline() or b"0", 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def send_on(self, query: str) -> None:
        """Redirect to ``/webhdfs/v1/p`` on this server, as to a DataNode."""
        url = f"http://{self.headers['Host']}/webhdfs/v1/p?{query}"
        self.respond(307, Location=url)

    def respond(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Send a response; ``_`` in the name of a header stands for ``-``."""
        self.send_response(status)
        for name, value in {"Content-Length": str(len(body)), **headers}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(body)

    def hang_up(self) -> None:
        """Close the connection."""
        self.close_connection = True
        self.connection.close()

    def refuse(self, exception: str, message: str = "", status: int = 403) -> None:
        """Send a RemoteException, as WebHDFS does."""
        remote = {"exception": exception, "message": message, "javaClassName": f"org.{exception}"}
        self.respond(status, document(RemoteException=remote), Content_Type="application/json")

    def log_message(self, *_args: object) -> None:
        pass


class _Server(EndingServer):
    request_queue_size = 128  # connections at once


@contextlib.contextmanager
def scripted(script: Callable[[Any], None], context: Any = None) -> Iterator[str]:
    """Yield the address of a server with a script, over TLS if there is a context for it."""
    handler = type("Handler", (Scripted,), {"script": staticmethod(script)})
    server = _Server(("127.0.0.1", 0), handler)
    if context:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield f"http{'s' if context else ''}://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()


@contextlib.contextmanager
def scripted_fs(script: Callable[[Any], None], **options: Any) -> Iterator[WebHdfs]:
    """Yield a file system whose server has a script."""
    with scripted(script) as url:
        yield WebHdfs(url, "alice", **{"read_timeout": 60, **options})
