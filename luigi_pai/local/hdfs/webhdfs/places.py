"""From the paths of HDFS to places on disk, within one folder."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from luigi_pai.local.hdfs.webhdfs.refusals import RemoteFault, disk_faults

__all__ = ["Places", "is_there"]


class Places:
    """The places of paths below a root; every method raises RemoteFault for a path that HDFS refuses."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def place(self, path: str, exception: str = "InvalidPathException") -> Path:
        """Return the place of a path on disk; its folder is inside the root."""
        names = path[1:].rstrip("/").split("/") if path.strip("/") else []
        bad = any(name in ("", ".", "..") or ":" in name or "\0" in name for name in names)
        if bad or not path.startswith("/"):
            raise RemoteFault(exception, f"Invalid path name: {path}")
        if not names:
            return self._root
        place = self._inside(self._root.joinpath(*names[:-1]), path) / names[-1]
        with disk_faults(path), contextlib.suppress(FileNotFoundError):
            place.lstat()  # a name that is too long, a file in place of a folder
        return place

    def existing(self, path: str) -> Path:
        """Return the place of a path that exists, links followed."""
        try:
            place = self._inside(self.place(path), path)
        except RemoteFault as fault:
            if fault.exception != "PathComponentTooLongException":
                raise
            raise RemoteFault("FileNotFoundException", f"File {path} does not exist.") from fault
        with disk_faults(path):
            place.stat()
        return place

    def goal(self, path: str, exception: str = "InvalidPathException") -> Path:
        """Return the place of a path that is to be created; a link there that leads out is refused."""
        place = self.place(path, exception)
        self._inside(place, path)
        return place

    def is_inside(self, place: Path) -> bool:
        """Say whether a place is below the root when links are followed."""
        real = Path(os.path.realpath(place))
        return real == self._root or self._root in real.parents

    def _inside(self, place: Path, path: str) -> Path:
        """Return a place with links followed; one that leads out is refused."""
        if not self.is_inside(place):
            raise RemoteFault("AccessControlException", f"{path} leads out of the file system")
        return Path(os.path.realpath(place))


def is_there(place: Path) -> bool:
    """Say whether a place exists, be it as a link that leads nowhere."""
    return os.path.lexists(place)
