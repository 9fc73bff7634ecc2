"""From the paths of HDFS to places on disk, within one folder; and how WebHDFS refuses (Hadoop 2.7.4)."""

from __future__ import annotations

import contextlib
import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Places", "RemoteFault", "disk_faults", "is_there"]

# exception -> (where Java keeps it, status that WebHDFS gives it)
_FAULTS = {
    "AccessControlException": ("org.apache.hadoop.security.", 403),
    "FileAlreadyExistsException": ("org.apache.hadoop.fs.", 403),
    "FileNotFoundException": ("java.io.", 404),
    "IOException": ("java.io.", 403),
    "IllegalArgumentException": ("java.lang.", 400),
    "InvalidPathException": ("org.apache.hadoop.fs.", 400),
    "PathComponentTooLongException": ("org.apache.hadoop.hdfs.protocol.FSLimitException$", 403),
    "PathIsNotEmptyDirectoryException": ("org.apache.hadoop.fs.", 403),
    "RemoteException": ("org.apache.hadoop.ipc.", 403),
    "UnsupportedOperationException": ("java.lang.", 400),
}
_MISSING = "File does not exist: {}"
_OF_DISK = {
    errno.ENOENT: "FileNotFoundException",
    errno.ENAMETOOLONG: "PathComponentTooLongException",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.ENOTDIR), "AccessControlException"),
}


class RemoteFault(Exception):
    """A request that is refused, by Java's name without its package; it has HTTP status and JSON body."""

    def __init__(self, exception: str, message: str) -> None:
        super().__init__(message)
        self.exception = exception
        prefix, self.status = _FAULTS[exception]
        found = {"exception": exception, "javaClassName": prefix + exception, "message": message}
        self.body = {"RemoteException": found}


@contextlib.contextmanager
def disk_faults(path: str, missing: str = _MISSING) -> Iterator[None]:
    """Raise a RemoteFault about a path on HDFS in place of any OSError.

    Luigi's own webhdfs client and the hdfs library know a missing file by HDFS's words.
    """
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        text = missing.format(path) if number == errno.ENOENT else f"{path}: {os.strerror(number)}"
        raise RemoteFault(_OF_DISK.get(number, "IOException"), text) from error


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

    def existing(self, path: str, missing: str = _MISSING) -> Path:
        """Return the place of a path that exists, links followed."""
        try:
            place = self._inside(self.place(path), path)
        except RemoteFault as fault:
            if fault.exception != "PathComponentTooLongException":
                raise
            raise RemoteFault("FileNotFoundException", missing.format(path)) from fault
        with disk_faults(path, missing):
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
