"""From the paths of HDFS to places on disk, within one folder."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from luigi_pai.local.hdfs.webhdfs.refusals import RemoteFault, disk_faults

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["Places", "is_there"]

_LONGEST_NAME = 255  # bytes
_LONGEST_PATH = 4095  # bytes, on this machine; Hadoop has 8000 characters
_TOO_LONG = ("PathComponentTooLongException", "IOException")  # of a name, of a path


class Places:
    """The places of paths below a root; every method raises RemoteFault for a path that HDFS refuses."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def place(
        self,
        path: str,
        invalid: str = "Invalid path name Invalid file name: {}",
        exception: str = "InvalidPathException",
    ) -> Path:
        """Return the place of a path on disk; its folder is inside the root."""
        names = path[1:].rstrip("/").split("/") if path.strip("/") else []
        if not path.startswith("/") or any(
            name in ("", ".", "..") or ":" in name or "\0" in name for name in names
        ):
            raise RemoteFault(exception, invalid.format(path))
        for number, name in enumerate(names):
            if len(name.encode()) > _LONGEST_NAME:
                raise RemoteFault(
                    "PathComponentTooLongException",
                    f"The maximum path component name limit of {name} in directory "
                    f"/{'/'.join(names[:number])} is exceeded: limit={_LONGEST_NAME} length={len(name)}",
                )
        left = _LONGEST_PATH - len(os.fsencode(self._root))
        if len(path.encode()) > left:
            raise RemoteFault("IOException", f"Pathname too long.  Limit {left} characters, 1000 levels.")
        place = self._root
        for number, name in enumerate(names):
            if number:
                above = "/" + "/".join(names[:number])
                place = self._resolved(place, above)
                if not place.is_dir() and is_there(place):
                    raise RemoteFault("AccessControlException", f"{above} (is not a directory)")
            place = place / name
        return place

    def existing(self, path: str, missing: str) -> Path:
        """Return the place of a path that exists, links followed."""
        try:
            place = self._resolved(self.place(path), path)
        except RemoteFault as fault:
            if fault.exception not in _TOO_LONG:
                raise
            raise RemoteFault("FileNotFoundException", missing.format(path)) from fault
        with disk_faults(path):
            try:
                place.stat()
            except FileNotFoundError:
                raise RemoteFault("FileNotFoundException", missing.format(path)) from None
        return place

    def goal(self, path: str, exception: str = "InvalidPathException") -> Path:
        """Return the place of a path that is to be created; a link there that leads out is refused."""
        place = self.place(path, "Invalid path name {}", exception)
        self._resolved(place, path)
        return place

    def _resolved(self, place: Path, path: str) -> Path:
        """Return a place with its own link followed; its folder has none. One that leads out is refused."""
        if not place.is_symlink():
            return place
        if not self.is_inside(place):
            raise RemoteFault("AccessControlException", f"{path} leads out of the file system")
        return place.resolve()

    def is_inside(self, place: Path) -> bool:
        """Say whether a place is below the root when links are followed."""
        try:
            place = place.resolve()
        except (OSError, RuntimeError):  # a link to itself
            return False
        return place == self._root or self._root in place.parents


def is_there(place: Path) -> bool:
    """Say whether a place exists, be it as a link that leads nowhere."""
    return place.is_symlink() or place.exists()
