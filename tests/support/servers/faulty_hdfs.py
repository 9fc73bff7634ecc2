"""A WebHDFS that does to a client what real life does."""

from __future__ import annotations

import http.client
import threading
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from fault_server import FaultServer, Reply, Request
from webhdfs_server import serving

if TYPE_CHECKING:
    import socket
    from pathlib import Path

_HOP_BY_HOP = ("connection", "content-length", "keep-alive", "transfer-encoding")


class FaultyHdfs(FaultServer):
    """NameNode and DataNode in one: each request goes on to the WebHDFS of luigi_pai.local.

    That sends clients on to the host that they asked, so that what they send and
    read passes here as well.

    Args:
        root: the folder that it serves.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._serving = serving(root)
        self._netloc = urlsplit(self._serving.__enter__()).netloc
        self._of_thread = threading.local()
        super().__init__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def answer(self, request: Request) -> Reply:
        upstream = self._upstream()
        headers = {k: v for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP}
        upstream.request(request.method, request.path, request.body or None, headers)
        response = upstream.getresponse()
        data = response.read()
        answered = {
            k: v for k, v in response.getheaders() if k.lower() not in (*_HOP_BY_HOP, "server", "date")
        }
        return Reply(response.status, data, answered)

    def _upstream(self) -> http.client.HTTPConnection:
        """Return the connection of this thread, which serves one of a client."""
        if not hasattr(self._of_thread, "upstream"):
            self._of_thread.upstream = http.client.HTTPConnection(self._netloc, timeout=30)
        found: http.client.HTTPConnection = self._of_thread.upstream
        return found

    def _serve(self, connection: socket.socket, address: Any) -> None:
        super()._serve(connection, address)
        if hasattr(self._of_thread, "upstream"):
            self._of_thread.upstream.close()

    def close(self) -> None:
        super().close()
        self._serving.__exit__(None, None, None)
