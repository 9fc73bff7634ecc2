"""The temporary folders of `luigi-pai local -- COMMAND`.

A folder in use holds an exclusive lock on the file ``lock`` in it. One whose file has no lock belongs to a
server that was killed: the next run ends the tasks that it left, and removes the folder. One without the
file is kept.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from pathlib import Path

from luigi_pai.local.container.processes import kill_all_under

_PREFIX = "luigi-pai-local-run-"


class Scratch:
    """A new temporary folder, which only this user can read, with the data folder ``data`` in it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.data = self.folder / "data"
        self._lock = (self.folder / "new").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        (self.folder / "new").rename(self.folder / "lock")

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    def keep(self) -> None:
        """Keep the data folder; remove all else."""
        for entry in self.folder.iterdir():
            if entry != self.data:
                entry.unlink()
        self._lock.close()


def sweep() -> None:
    """Remove this user's folders that a killed server left."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            found = folder.lstat()
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():
                with (folder / "lock").open() as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                kill_all_under(folder / "data")
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:  # it is kept or in use, or another process removes it
            continue
