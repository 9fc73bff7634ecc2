"""The guard of the tests: no other machine, not the default port, nothing of the user's folders."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path
from typing import Any

__all__ = ["guard_connections", "guard_home", "guard_processes"]

DEFAULT_PORT = 9186  # of pai_url: whatever a user serves there is none of the tests' business
_LOOPBACK = ("127.", "::1", "localhost", "::ffff:127.")
_FOLDERS = ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME")
_OF_TOOLS = {"XDG_CACHE_HOME": ".cache", "PIP_CONFIG_FILE": ".config/pip/pip.conf", "PYENV_ROOT": ".pyenv"}
"""What pip, pyright, pyenv and a real HDFS need; no test looks at it."""


def guard_connections() -> None:
    """Let connections of this process to another machine fail, and refuse those to the default port."""
    sys.addaudithook(_check)


def guard_processes() -> None:
    """Guard the connections of the Python processes that this one starts, by their ``sitecustomize``."""
    folders = [str(Path(__file__).parent / "guarded"), os.environ.get("PYTHONPATH")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, folders))


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


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    """Judge the event ``socket.connect``, whose arguments are the socket and the address."""
    if event != "socket.connect" or not isinstance(arguments[1], tuple):
        return
    host, port = str(arguments[1][0]), arguments[1][1]
    if port == DEFAULT_PORT:
        raise ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
    if not host.startswith(_LOOPBACK):
        raise AssertionError(f"a test connects to {host}:{port}, which is not on this machine")
