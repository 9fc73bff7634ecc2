"""The guard of the tests: no other machine, not the default port, nothing of the user's folders."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

__all__ = ["guard_connections", "guard_home"]

DEFAULT_PORT = 9186  # of pai_url: whatever a user serves there is none of the tests' business
_LOOPBACK = ("127.", "::1", "localhost", "::ffff:127.")
_FOLDERS = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
_OF_TOOLS = {"XDG_CACHE_HOME": ".cache", "PIP_CONFIG_FILE": ".config/pip/pip.conf", "PYENV_ROOT": ".pyenv"}
"""What pip, pyright, pyenv and a real HDFS need; no test looks at it."""


def guard_connections() -> None:
    """Let connections of this process to another machine fail, and refuse those to the default port."""
    original = socket.socket.connect, socket.socket.connect_ex

    def connect(self: socket.socket, address: Any) -> None:
        _check(self, address)
        original[0](self, address)

    def connect_ex(self: socket.socket, address: Any) -> int:
        _check(self, address)
        return original[1](self, address)

    socket.socket.connect, socket.socket.connect_ex = connect, connect_ex  # type: ignore[method-assign]


def guard_home(folder: Path) -> None:
    """Give this process, and those that it starts, an empty folder as home."""
    home = Path.home()
    for name, path in _OF_TOOLS.items():
        if (home / path).exists():
            os.environ.setdefault(name, str(home / path))
    for name in _FOLDERS:
        os.environ.pop(name, None)
    folder.mkdir(exist_ok=True)
    os.environ["HOME"] = str(folder)


def _check(own: socket.socket, address: Any) -> None:
    if own.family not in (socket.AF_INET, socket.AF_INET6):
        return
    host, port = str(address[0]), address[1]
    if port == DEFAULT_PORT:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    if not host.startswith(_LOOPBACK):
        raise AssertionError(f"a test connects to {host}:{port}, which is not on this machine")
