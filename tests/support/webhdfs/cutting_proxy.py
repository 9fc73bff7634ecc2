"""A TCP proxy that cuts connections in the middle, as a machine that dies does."""

from __future__ import annotations

import contextlib
import functools
import socket
import struct
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hdfs_backend import Backend

_CHUNK = 64 * 1024
_RESET = struct.pack("ii", 1, 0)  # SO_LINGER: closing sends RST


class CuttingProxy:
    """Passes connections on to one address.

    Attributes:
        url: of the proxy.
        cuts: how many connections are still to be cut.
        down: bytes to the client after which one is cut; None: not on that way.
        up: bytes from the client after which one is cut; None: not on that way.
        orderly: a cut looks like an end (FIN), not like a fault (RST).
        connections: how many there were.
    """

    def __init__(self, netloc: str) -> None:
        host, _, port = netloc.rpartition(":")
        self._target = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cuts = 0
        self.down: int | None = None
        self.up: int | None = None
        self.orderly = False
        self.connections = 0
        self._clients: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        """Close the connections, and take no more."""
        with contextlib.suppress(OSError):  # closed already
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for client in self._clients:
            with contextlib.suppress(OSError):  # as above
                client.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _address = self._listener.accept()
                self.connections += 1
                self._clients.append(client)
                cut = self.cuts > 0
                self.cuts -= cut
                work = functools.partial(self._serve, client, cut=cut)
                threading.Thread(target=work, daemon=True).start()

    def _serve(self, client: socket.socket, *, cut: bool) -> None:
        with client, contextlib.suppress(OSError), socket.create_connection(self._target) as server:
            ways = (
                (client, server, client, self.up if cut else None),
                (server, client, client, self.down if cut else None),
            )
            threads = [threading.Thread(target=self._pass, args=way, daemon=True) for way in ways]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

    def _pass(
        self, source: socket.socket, sink: socket.socket, client: socket.socket, limit: int | None
    ) -> None:
        passed = 0
        with contextlib.suppress(OSError):
            while chunk := source.recv(_CHUNK):
                if limit is not None and passed + len(chunk) >= limit:
                    sink.sendall(chunk[: limit - passed])
                    for one in (source, sink):
                        if not (self.orderly and one is client):
                            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
                        one.shutdown(socket.SHUT_RDWR)  # its other thread ends, and it is closed
                    return
                sink.sendall(chunk)
                passed += len(chunk)
            sink.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def before_datanodes(backend: Backend, file: str) -> Iterator[CuttingProxy]:
    """Yield a proxy before the DataNode of a backend that has one.

    Args:
        backend: to be used with ``redirect=proxy.url``.
        file: a file that is there.
    """
    query = {"op": "OPEN", "user.name": backend.user}
    reply = requests.get(f"{backend.url}/webhdfs/v1{file}", query, allow_redirects=False, timeout=10)
    proxy = CuttingProxy(urlsplit(reply.headers["Location"]).netloc)
    try:
        yield proxy
    finally:
        proxy.close()
