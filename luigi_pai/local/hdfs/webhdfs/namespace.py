"""A folder on disk that follows the rules of an HDFS namespace (Hadoop 2.7.4).

The ``NAME`` folder stays a plain tree. Next to it, ``NAME.webhdfs`` contains the folders ``incoming``
(unfinished uploads) and ``deleted`` (files and folders that are being removed). ``NAME.webhdfs`` is on the
same file system, so publishing and deleting each take one ``rename``. Only one process at a time may serve a
tree.

A file's or folder's mode is its mode on disk, which always gives this server's user access. No request fails
because of missing permissions.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import stat
import threading
import uuid
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path
    from typing import BinaryIO

_BLOCK_SIZE = 128 * 1024 * 1024
_USABLE_FILE, _USABLE_FOLDER = stat.S_IRUSR | stat.S_IWUSR, stat.S_IRWXU
_STATUS = {
    "FileNotFoundException": 404,
    "IllegalArgumentException": 400,
    "InvalidPathException": 400,
}
_EXCEPTIONS = {
    errno.ENOENT: "FileNotFoundException",
    errno.ENAMETOOLONG: "PathComponentTooLongException",
    **dict.fromkeys((errno.EACCES, errno.EPERM, errno.ENOTDIR), "AccessControlException"),
}


class RemoteFault(Exception):
    """An error response: the short name of Hadoop's Java exception, a message, and the HTTP status."""

    def __init__(self, exception: str, message: str) -> None:
        super().__init__(message)
        self.exception = exception
        self.status = _STATUS.get(exception, 403)

    @classmethod
    def from_os_error(cls, error: OSError, path: str) -> RemoteFault:
        """Convert a disk error to HDFS's error. Luigi recognises a missing file by this error's message."""
        number = error.errno or errno.EIO
        missing = f"File does not exist: {path}"
        message = missing if number == errno.ENOENT else f"{path}: {os.strerror(number)}"
        return cls(_EXCEPTIONS.get(number, "IOException"), message)


class Tree:
    """An HDFS namespace whose files are in one folder on disk. The folder is created if it is missing.

    Every path is absolute, as HDFS writes it (``/a/b``). A ``FileStatus`` has no owner. Methods raise
    RemoteFault for requests that a real HDFS also rejects, and OSError for disk errors.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root.resolve()
        beside = self._root.with_name(f"{self._root.name}.webhdfs")
        self._incoming = beside / "incoming"
        self._deleted = beside / "deleted"
        for folder in (self._incoming, self._deleted):
            shutil.rmtree(folder, ignore_errors=True)  # left behind by a killed server
            folder.mkdir(parents=True)
        self._appending = threading.Lock()

    # reading

    def status(self, path: str) -> dict[str, Any]:
        """Return the ``FileStatus`` of a file or folder."""
        return self._status(self._existing(path), "")

    def children(self, path: str) -> list[dict[str, Any]]:
        """Return the ``FileStatus`` of each entry in a folder, sorted by name; for a file, only its own."""
        try:
            place = self._existing(path)
        except FileNotFoundError:
            raise RemoteFault("FileNotFoundException", f"File {path} does not exist.") from None
        if not place.is_dir():
            return [self._status(place, "")]
        found = []
        for entry in sorted(place.iterdir()):
            with contextlib.suppress(FileNotFoundError):  # removed since it was listed
                found.append(self._status(entry, entry.name))
        return found

    def open(self, path: str) -> BinaryIO:
        """Open a file for reading; raise an error for a folder."""
        place = self._existing(path)
        if place.is_dir():
            raise RemoteFault("FileNotFoundException", f"Path is not a file: {path}")
        return place.open("rb")

    def summary(self, path: str) -> dict[str, int]:
        """Return the ``ContentSummary``. This walks the whole folder; any thread may call it."""
        folders = files = length = 0
        place = self._existing(path)
        for entry in (place, *place.rglob("*")):
            with contextlib.suppress(FileNotFoundError):
                found = entry.lstat()
                folders += stat.S_ISDIR(found.st_mode)
                if stat.S_ISREG(found.st_mode):
                    files += 1
                    length += found.st_size
        return {"directoryCount": folders, "fileCount": files, "length": length, "spaceConsumed": length}

    # changing

    def mkdirs(self, path: str, permission: int) -> None:
        """Create a folder and all missing folders above it."""
        place = self._place(path)
        if place.exists() and not place.is_dir():
            raise RemoteFault("FileAlreadyExistsException", f"Path is not a directory: {path}")
        self._mkdirs(place, permission)

    def incoming(self) -> BinaryIO:
        """Return a new file on disk for an upload, open for writing."""
        return (self._incoming / uuid.uuid4().hex).open("wb")

    def publish(self, upload: Path, path: str, permission: int, *, overwrite: bool) -> None:
        """Move a complete upload to its path atomically."""
        place = self._place(path, "RemoteException")
        if place.is_dir():
            raise RemoteFault("FileAlreadyExistsException", f"{path} already exists as a directory")
        if place.exists() and not overwrite:
            raise RemoteFault("FileAlreadyExistsException", f"{path} already exists")
        self._mkdirs(place.parent, 0o755)
        upload.chmod(_mode(permission, _USABLE_FILE))
        upload.replace(place)

    def append(self, upload: Path, path: str) -> None:
        """Append a complete upload to a file; any thread may call this."""
        place = self._existing(path)
        if place.is_dir():
            message = f"Cannot append to directory {path}; already exists as a directory."
            raise RemoteFault("FileAlreadyExistsException", message)
        with self._appending, upload.open("rb") as new, place.open("ab") as file:
            shutil.copyfileobj(new, file)

    def rename_into(self, path: str, destination: str) -> bool:
        """Rename into a folder or to a new path, like HDFS's older ``rename``. Return whether it worked."""
        place, goal = self._place(path), self._place(destination)
        if place == goal:
            return place.is_file()
        if goal.is_dir():
            destination = f"{destination.rstrip('/')}/{place.name}"
        with contextlib.suppress(RemoteFault, OSError):
            self.rename_onto(path, destination, overwrite=False)
            return True
        return False

    def rename_onto(self, path: str, destination: str, *, overwrite: bool) -> None:
        """Rename atomically to exactly the given path, never into a folder, like HDFS's ``rename2``."""
        place, goal = self._existing(path), self._place(destination)
        is_taken = goal.exists()
        refusals = (
            (place == goal, "FileAlreadyExistsException", "source and destination are the same"),
            (is_taken and goal.is_dir() != place.is_dir(), "IOException", "must both be directories"),
            (is_taken and not overwrite, "FileAlreadyExistsException", "the destination already exists"),
        )
        for is_refused, exception, why in refusals:
            if is_refused:
                raise RemoteFault(exception, f"rename {path} to {destination}: {why}")
        place.rename(goal)

    def delete(self, path: str, *, recursive: bool) -> Path | None:
        """Move a path out of the tree atomically. Return its new path; None for ``/`` or a missing path."""
        place = self._place(path)
        if place == self._root or not place.exists():
            return None
        if not recursive and place.is_dir() and any(place.iterdir()):
            raise RemoteFault("PathIsNotEmptyDirectoryException", f"Directory is not empty: {path}")
        return place.rename(self._deleted / uuid.uuid4().hex)

    @staticmethod
    def purge(gone: Path) -> None:
        """Remove what ``delete`` returned from the disk; any thread may call this."""
        if gone.is_dir():
            shutil.rmtree(gone, ignore_errors=True)
        else:
            gone.unlink()

    def set_permission(self, path: str, permission: int) -> None:
        """Set a file's or folder's mode bits."""
        place = self._existing(path)
        place.chmod(_mode(permission, _USABLE_FOLDER if place.is_dir() else _USABLE_FILE))

    # on disk

    def _place(self, path: str, exception: str = "InvalidPathException") -> Path:
        """Return where a path is on disk, whether or not anything exists there."""
        if not path.startswith("/"):
            raise RemoteFault("IllegalArgumentException", f"{path!r} is not an absolute path")
        names = path.strip("/").split("/") if path.strip("/") else []
        if any(name in ("", ".", "..") or ":" in name or "\0" in name for name in names):
            raise RemoteFault(exception, f"Invalid path name: {path}")
        place = self._root.joinpath(*names)
        with contextlib.suppress(FileNotFoundError):
            place.lstat()  # raises OSError if the name is too long, or if a parent is a file
        return place

    def _existing(self, path: str) -> Path:
        try:
            place = self._place(path)
            place.stat()
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise FileNotFoundError(errno.ENOENT, path) from error
        return place

    def _mkdirs(self, place: Path, permission: int) -> None:
        if place.is_dir():
            return
        self._mkdirs(place.parent, permission)
        place.mkdir()
        place.chmod(_mode(permission, _USABLE_FOLDER))

    def _status(self, place: Path, suffix: str) -> dict[str, Any]:
        found = place.stat()
        is_folder = stat.S_ISDIR(found.st_mode)
        return {
            "accessTime": 0 if is_folder else int(found.st_atime * 1000),
            "blockSize": 0 if is_folder else _BLOCK_SIZE,
            "fileId": found.st_ino,
            "group": "supergroup",
            "length": 0 if is_folder else found.st_size,
            "modificationTime": int(found.st_mtime * 1000),
            "pathSuffix": suffix,
            "permission": f"{stat.S_IMODE(found.st_mode) & 0o1777:o}",
            "replication": 0 if is_folder else 1,
            "type": "DIRECTORY" if is_folder else "FILE",
        }


def _mode(permission: int, usable: int) -> int:
    """Return the mode to set on disk: never set-uid or set-gid, and always usable by this server."""
    return permission & 0o1777 | usable
