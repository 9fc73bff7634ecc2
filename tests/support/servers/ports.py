"""Ports of this machine."""

from __future__ import annotations

import random
import socket


def refused_port() -> int:
    """Return a port that refuses connections."""
    with socket.create_server(("127.0.0.1", 0)) as sock:
        return sock.getsockname()[1]


def own_port() -> int:
    """Return a free port that no server gets that asks for any: for one that is stopped and started again."""
    while True:
        port = random.SystemRandom().randrange(10_000, 32_768)
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        return port
