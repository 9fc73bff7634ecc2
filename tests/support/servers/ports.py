"""A port without a server."""

from __future__ import annotations

import socket


def refused_port() -> int:
    """Return a port that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]
