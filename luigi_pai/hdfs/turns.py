"""Uploads of one user on one machine to one place: one after the other."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["one_at_a_time"]


@contextlib.contextmanager
def one_at_a_time(place: str) -> Iterator[None]:
    """Wait until no other process or thread is inside for the same place.

    The tasks of a sweep begin at once and upload the same code: the first sends
    it, the others then find nothing to send. What is right does not hang on it:
    where no lock can be had, and for other machines, uploads go on side by side.
    """
    try:
        lock = _lock_file(place)
    except OSError:
        yield
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)  # the system frees it when the process ends, however it ends
        yield
    finally:
        os.close(lock)


def _lock_file(place: str) -> int:
    folder = Path(tempfile.gettempdir(), f"luigi-pai-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not ours")
    name = hashlib.sha256(place.encode()).hexdigest()[:32]
    return os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
