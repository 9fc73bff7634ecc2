"""Kills the process that imports it at one of its requests; counts them over all of its forks.

A change of a file on a storage counts as a request.
"""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from urllib3.connectionpool import HTTPConnectionPool

from luigi_pai.files.storage import posix, volume
from luigi_pai.sweep.journal import files as journal

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

__all__ = ["kill_at_request"]

_CHANGES = ("chmod", "fchmod", "fsync", "link", "mkdir", "rename", "replace", "rmdir", "unlink")


def kill_at_request(number: int, file: Path) -> None:
    """Let the process group be killed before its request of a number, or after the reply to it.

    A write to a file is killed in its middle, or after it.

    Args:
        number: from 1; negative: after the reply to that request; 0: no kill.
        file: that counts the requests.
    """
    counts = os.open(file, os.O_CREAT | os.O_APPEND | os.O_RDWR)

    def counted(
        send: Callable[..., Any], half: Callable[..., Any] = lambda *_, **__: None
    ) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            os.write(counts, b".")
            is_it = 0 < abs(number) <= os.fstat(counts).st_size  # forks may have counted together
            if is_it and number > 0:
                half(*arguments, **options)
                os.killpg(0, signal.SIGKILL)
            try:
                return send(*arguments, **options)
            finally:
                if is_it:
                    os.killpg(0, signal.SIGKILL)

        return call

    HTTPConnectionPool._make_request = counted(HTTPConnectionPool._make_request)  # type: ignore[method-assign]
    changes = {name: counted(getattr(os, name)) for name in _CHANGES}
    changes["open"] = _open(counted(os.open))
    system = SimpleNamespace(**{**vars(os), **changes})
    write_all = counted(posix.write_all, lambda file, data: file.write(data[: len(data) // 2]))
    for module in (posix, volume):
        module.os = system  # type: ignore[attr-defined]
    volume.write_all = write_all
    append = journal.LocalFile.append

    def half_of_the_lines(self: Any, data: bytes) -> None:
        with self.locked():
            self._held.write(data[: len(data) // 2])
            self._held.flush()

    journal.LocalFile.append = counted(append, half_of_the_lines)  # type: ignore[method-assign]


def _open(counted: Callable[..., int]) -> Callable[..., int]:
    """Return ``os.open`` that counts files which are made."""

    def call(path: str, flags: int, *arguments: Any, **options: Any) -> int:
        to_open = counted if flags & os.O_CREAT else os.open
        return to_open(path, flags, *arguments, **options)

    return call
