"""A folder on disk with the rules of an HDFS namespace (Hadoop 2.7.4).

The folder stays a plain tree. Beside it lies ``NAME.webhdfs``, on the same file
system so that publishing and deleting are one ``rename``: ``incoming`` (uploads
that are not complete), ``deleted`` (what is being removed), ``inodes.sqlite``.
One process at a time serves a tree.

Owners and modes are kept and shown, and nothing is refused by them.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import shutil
import sqlite3
import stat
import threading
import uuid
from dataclasses import astuple, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.local.hdfs.webhdfs.places import Places, RemoteFault, disk_faults, is_there

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

__all__ = ["BLOCK_SIZE", "Inode", "Inodes", "Tree"]

BLOCK_SIZE = 128 * 1024 * 1024
_START = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS inode (
    id INTEGER PRIMARY KEY, owner TEXT NOT NULL, block_size INTEGER NOT NULL, replication INTEGER NOT NULL,
    grp TEXT NOT NULL, mode INTEGER
)
"""


@dataclass(frozen=True)
class Inode:
    """The facts of one file or folder.

    Attributes:
        owner: the ``user.name`` that created it.
        block_size: in bytes.
        replication: the number of copies asked for; one is kept.
        group: whose it is, too.
        mode: the mode bits on HDFS, None: those on disk.
    """

    owner: str
    block_size: int = BLOCK_SIZE
    replication: int = 1
    group: str = "supergroup"
    mode: int | None = None


class Inodes:
    """The facts of every inode; may be asked from any thread. The ``superuser`` is who runs the server."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self.superuser = getpass.getuser()
        self._database = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=10)
        self._database.executescript(_START)

    def __del__(self) -> None:
        if hasattr(self, "_database"):
            self._database.close()

    def of(self, number: int) -> Inode:
        """Return what is known of an inode; what a person laid into the folder is the superuser's."""
        query = "SELECT owner, block_size, replication, grp, mode FROM inode WHERE id = ?"
        with self._lock:
            row = self._database.execute(query, (number,)).fetchone()
        return Inode(*row) if row else Inode(self.superuser)

    def keep(self, number: int, inode: Inode) -> None:
        """Remember an inode that was created or changed."""
        query = "INSERT OR REPLACE INTO inode VALUES (?, ?, ?, ?, ?, ?)"
        with self._lock:
            self._database.execute(query, (number, *astuple(inode)))

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget inodes that are deleted."""
        with self._lock:
            self._database.execute("BEGIN")
            self._database.executemany("DELETE FROM inode WHERE id = ?", ((number,) for number in numbers))
            self._database.execute("COMMIT")


_CHUNK = 256 * 1024


class Tree:
    """The namespace over one folder, created where it is missing.

    Every path is absolute, as HDFS writes it (``/a/b``). Every method raises RemoteFault where HDFS refuses.
    ``NAME.webhdfs`` beside the folder is for the server's own use.

    Raises:
        ValueError: the folder is a mount point.
    """

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        self._root = root.resolve()
        beside = self._root.with_name(f"{self._root.name}.webhdfs")
        self._incoming = beside / "incoming"
        self._deleted = beside / "deleted"
        for folder in (self._incoming, self._deleted):
            shutil.rmtree(folder, ignore_errors=True)  # of a server that was killed
            folder.mkdir(parents=True)
        if beside.stat().st_dev != self._root.stat().st_dev:
            raise ValueError(f"{root} is a file system of its own; serve a folder in it")
        self._inodes = Inodes(beside / "inodes.sqlite")
        self._places = Places(self._root)

    @property
    def superuser(self) -> str:
        """The user who runs the server, who owns what was laid into the folder."""
        return self._inodes.superuser

    # reading

    def status(self, path: str) -> dict[str, Any]:
        """Return the ``FileStatus`` of a file or folder."""
        return self._status(self._places.existing(path), "")

    def children(self, path: str) -> list[dict[str, Any]]:
        """Return the ``FileStatus`` of each entry of a folder, or of a file itself."""
        place = self._places.existing(path, "File {} does not exist.")
        if not place.is_dir():
            return [self._status(place, "")]
        found = []
        with disk_faults(path):
            for name in _names(place):
                entry = place / name
                with contextlib.suppress(OSError):  # removed since it was listed; a link to nothing or itself
                    if not entry.is_symlink() or self._places.is_inside(entry):
                        found.append(self._status(entry, name))
        # the NameNode compares Java's signed bytes
        return sorted(found, key=lambda status: bytes(b ^ 0x80 for b in status["pathSuffix"].encode()))

    def file(self, path: str) -> Path:
        """Return where on disk a file lies, to be read; a folder is refused."""
        place = self._places.existing(path)
        if place.is_dir():
            raise RemoteFault("FileNotFoundException", f"Path is not a file: {path}")
        return place

    def length(self, path: str) -> int | None:
        """Return the length of a file in bytes, None for a folder."""
        place = self._places.existing(path)
        return None if place.is_dir() else place.stat().st_size

    def summary(self, path: str) -> dict[str, int]:
        """Return the ``ContentSummary``. Walks the whole folder; callable from any thread."""
        folders = files = length = consumed = 0
        with disk_faults(path):
            for entry in _walk(self._places.existing(path)):
                with contextlib.suppress(FileNotFoundError):
                    found = entry.lstat()
                    if stat.S_ISDIR(found.st_mode):
                        folders += 1
                    elif stat.S_ISREG(found.st_mode):
                        files += 1
                        length += found.st_size
                        consumed += found.st_size * self._inodes.of(found.st_ino).replication
        counts = {"directoryCount": folders, "fileCount": files, "length": length}
        return {**counts, "quota": -1, "spaceConsumed": consumed, "spaceQuota": -1}

    # changing

    def mkdirs(self, path: str, permission: int, user: str) -> None:
        """Create a folder and the missing ones above it, for their owner."""
        place = self._places.goal(path)
        if is_there(place) and not place.is_dir():
            raise RemoteFault("FileAlreadyExistsException", f"Path is not a directory: {path}")
        with disk_faults(path):
            self._mkdirs(place, permission, user)

    def may_create(self, path: str, *, overwrite: bool) -> None:
        """Refuse a path where no file can be created."""
        place = self._places.goal(path, "RemoteException")
        if place.is_dir():
            raise RemoteFault("FileAlreadyExistsException", f"{path} already exists as a directory")
        if is_there(place) and not overwrite:
            raise RemoteFault("FileAlreadyExistsException", f"{path} already exists")

    def may_append(self, path: str) -> Path:
        """Return where a file lies that can be appended to; refuse any other path."""
        place = self._places.existing(path)
        if place.is_dir():
            text = f"Cannot append to directory {path}; already exists as a directory."
            raise RemoteFault("FileAlreadyExistsException", text)
        return place

    def incoming(self) -> Path:
        """Return a new place on disk for an upload."""
        return self._incoming / uuid.uuid4().hex

    def publish(self, upload: Path, path: str, inode: Inode) -> None:
        """Move a complete upload to its path, in one step, replacing what is there."""
        place = self._places.goal(path)
        with disk_faults(path):
            self._mkdirs(place.parent, 0o755, inode.owner)
            group = self._inodes.of(place.parent.stat().st_ino).group
            self._keep(upload, replace(inode, group=group))
            upload.replace(place)

    def append(self, upload: Path, path: str) -> None:
        """Add a complete upload to a file; callable from any thread, one at a time."""
        place = self.may_append(path)
        with disk_faults(path), upload.open("rb") as new, place.open("ab") as file:
            shutil.copyfileobj(new, file, _CHUNK)

    def rename_into(self, path: str, destination: str) -> bool:
        """Rename as HDFS's first ``rename`` does: into a folder, never onto a file; False if not done."""
        place, goal = self._places.place(path), self._places.goal(destination)
        if place == goal:
            return is_there(place) and not place.is_dir()
        if goal.is_dir():
            goal = goal.resolve() / place.name
        not_there = place == self._root or not is_there(place) or not goal.parent.is_dir()
        if not_there or is_there(goal) or place in goal.parents:
            return False
        with disk_faults(path):
            place.rename(goal)
        return True

    def rename_onto(self, path: str, destination: str, *, overwrite: bool) -> None:
        """Rename as HDFS's ``rename2`` does: exactly to the destination, in one step."""
        place, goal = self._places.place(path), self._places.goal(destination)
        taken = is_there(goal)
        refusals = (
            (place == self._root, "IOException", "the source is the root"),
            (not is_there(place), "FileNotFoundException", "the source is not there"),
            (goal == self._root, "IOException", "the destination is the root"),
            (place == goal, "FileAlreadyExistsException", "source and destination are the same"),
            (place in goal.parents, "IOException", "the destination is under the source"),
            (not goal.parent.is_dir(), "FileNotFoundException", "the destination's folder is not there"),
            (taken and goal.is_dir() != place.is_dir(), "IOException", "must both be directories"),
            (taken and not overwrite, "FileAlreadyExistsException", "the destination already exists"),
            (goal.is_dir() and any(goal.iterdir()), "IOException", "the destination is not empty"),
        )
        for is_refused, exception, why in refusals:
            if is_refused:
                raise RemoteFault(exception, f"rename {path} to {destination}: {why}")
        with disk_faults(path):
            place.rename(goal)

    def delete(self, path: str, *, recursive: bool) -> Path | None:
        """Take a file or folder out of the tree, in one step; return where it lies now, to purge."""
        try:
            place = self._places.place(path)
        except RemoteFault as fault:
            if fault.exception in ("InvalidPathException", "PathComponentTooLongException"):
                return None  # such a path cannot be there
            raise
        if place == self._root or not is_there(place):
            return None
        with disk_faults(path):
            if not recursive and _is_folder(place) and any(place.iterdir()):
                raise RemoteFault("PathIsNotEmptyDirectoryException", f"Directory is not empty: {path}")
            return place.rename(self._deleted / uuid.uuid4().hex)

    def purge(self, gone: Path) -> None:
        """Free the disk of what ``delete`` returned; callable from any thread."""
        self._inodes.forget([entry.lstat().st_ino for entry in _walk(gone)])
        if _is_folder(gone):
            shutil.rmtree(gone, ignore_errors=True)
        else:
            gone.unlink()

    def set_permission(self, path: str, permission: int) -> None:
        """Set the mode bits of a file or folder."""
        self._change(path, mode=permission)

    def set_owner(self, path: str, owner: str, group: str) -> None:
        """Set owner and group of a file or folder; an empty one stays."""
        given = {"owner": owner, "group": group}
        self._change(path, **{key: name for key, name in given.items() if name})

    def set_times(self, path: str, modified: int, accessed: int) -> None:
        """Set the times of a file or folder in milliseconds; a negative one stays."""
        with disk_faults(path):
            place = self._places.existing(path)
            found = place.stat()
            times = (accessed, found.st_atime_ns), (modified, found.st_mtime_ns)
            atime, mtime = (new * 1_000_000 if new >= 0 else old for new, old in times)
            os.utime(place, ns=(atime, mtime))

    # on disk

    def _change(self, path: str, **facts: Any) -> None:
        with disk_faults(path):
            place = self._places.existing(path)
            self._keep(place, replace(self._inodes.of(place.stat().st_ino), **facts))

    def _mkdirs(self, place: Path, permission: int, user: str) -> None:
        if place.is_dir():
            return
        self._mkdirs(place.parent, permission | stat.S_IWUSR | stat.S_IXUSR, user)
        place.mkdir()
        group = self._inodes.of(place.parent.stat().st_ino).group
        self._keep(place, Inode(user, group=group, mode=permission))

    def _keep(self, place: Path, inode: Inode) -> None:
        self._inodes.keep(place.stat().st_ino, inode)

    def _status(self, place: Path, suffix: str) -> dict[str, Any]:
        found = place.stat()
        is_folder = stat.S_ISDIR(found.st_mode)
        inode = self._inodes.of(found.st_ino)
        mode = stat.S_IMODE(found.st_mode) & 0o1777 if inode.mode is None else inode.mode
        return {
            "accessTime": 0 if is_folder else int(found.st_atime * 1000),
            "blockSize": 0 if is_folder else inode.block_size,
            "childrenNum": _count(_names(place)) if is_folder else 0,
            "fileId": found.st_ino,
            "group": inode.group,
            "length": 0 if is_folder else found.st_size,
            "modificationTime": int(found.st_mtime * 1000),
            "owner": inode.owner,
            "pathSuffix": suffix,
            "permission": f"{mode:o}",
            "replication": 0 if is_folder else inode.replication,
            "storagePolicy": 0,
            "type": "DIRECTORY" if is_folder else "FILE",
        }


def _names(place: Path) -> Iterator[str]:
    """Yield the names in a folder that can be written as UTF-8."""
    with os.scandir(place) as entries:
        for entry in entries:
            with contextlib.suppress(UnicodeEncodeError):
                entry.name.encode()
                yield entry.name


def _count(names: Iterator[str]) -> int:
    with contextlib.suppress(PermissionError):
        return sum(1 for _ in names)
    return 0


def _is_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()


def _walk(place: Path) -> Iterator[Path]:
    """Yield a file, or a folder and all that is under it; links are not followed."""
    yield place
    if _is_folder(place):
        for above, folders, files in os.walk(place):
            for name in (*folders, *files):
                yield Path(above, name)
