"""An HTTP server with a thread for each connection, all of which end with the server."""

from __future__ import annotations

import contextlib
import socket
from http.server import ThreadingHTTPServer
from typing import Any


class EndingServer(ThreadingHTTPServer):
    """Closes its connections when it is closed: a client keeps idle ones, each with a thread here."""

    daemon_threads = True

    def __init__(self, *args: Any) -> None:
        self._connections: set[socket.socket] = set()
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        self._connections.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        self._connections.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        for connection in list(self._connections):
            with contextlib.suppress(OSError):  # the client has closed it
                connection.shutdown(socket.SHUT_RDWR)
