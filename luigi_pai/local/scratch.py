"""The temporary folders of `luigi-pai local -- COMMAND`.

A folder in use holds an exclusive lock on the file ``lock`` in it. One without a lock belongs to a server
that was killed: the next run ends the tasks that it left, and removes the folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from pathlib import Path

from luigi_pai.local.container.processes import kill_all_under

__all__ = ["KEPT_FOLDERS", "Scratch", "sweep"]

KEPT_FOLDERS = 3
"""Folders of failed runs that `sweep` leaves, the newest ones."""

_PREFIX = "luigi-pai-local-run-"
_KEPT = "kept"
_JUST_MADE = 60.0
"""Seconds for which a folder may not have its lock yet."""


class Scratch:
    """A new temporary folder, which only this user can read, with the data folder ``data`` in it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.data = self.folder / "data"
        self._lock = (self.folder / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    def keep(self) -> None:
        """Keep the data folder, until `KEPT_FOLDERS` later runs have kept theirs; remove all else."""
        for entry in self.folder.iterdir():
            if entry != self.data:
                entry.unlink()
        (self.folder / _KEPT).touch()
        self._lock.close()


def _remove(folder: Path) -> None:
    """End the tasks that a server which was killed left in a temporary folder, and remove it."""
    kill_all_under(folder / "data")
    shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove this user's folders that a killed server left, and all but the newest of those kept."""
    kept: list[tuple[float, Path]] = []
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            if (folder / _KEPT).exists():
                kept.append((found.st_mtime, folder))
            elif time.time() - found.st_mtime > _JUST_MADE and _is_free(folder / "lock"):
                _remove(folder)
        except OSError:  # another process removes it
            continue
    for _, folder in sorted(kept, reverse=True)[KEPT_FOLDERS:]:
        if _is_free(folder / "data" / "lock"):
            _remove(folder)


def _is_free(lock: Path) -> bool:
    try:
        with lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
