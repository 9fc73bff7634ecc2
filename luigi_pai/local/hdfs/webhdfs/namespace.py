"""A folder on disk with the rules of an HDFS namespace (Hadoop 2.7.4).

The folder stays a plain tree. Beside it lies ``NAME.webhdfs``, on the same file
system so that publishing and deleting are one ``rename``: ``incoming`` (uploads
that are not complete), ``deleted`` (what is being removed), ``inodes.sqlite``.
One process at a time serves a tree.

Permissions are those of HDFS (`permissions`). Everybody may write into ``/``: an OpenPAI sets
its HDFS up so (``hdfs dfs -chmod 777 /``).
"""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import uuid
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.local.hdfs.webhdfs.inodes import Inode, Inodes
from luigi_pai.local.hdfs.webhdfs.permissions import ALL, READ, READ_EXECUTE, WRITE, Access
from luigi_pai.local.hdfs.webhdfs.places import Places, is_there
from luigi_pai.local.hdfs.webhdfs.refusals import RemoteFault, disk_faults
from luigi_pai.local.hdfs.webhdfs.renames import Renames

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Tree"]

_CHUNK = 256 * 1024
_ROOT_MODE = 0o777
_SERVERS_BITS = {True: 0o700, False: 0o600}  # of a folder, and a file, on disk: else we could not serve it


class Tree:
    """The namespace over one folder, created where it is missing.

    Every path is absolute, as HDFS writes it (``/a/b``); ``user`` sends the request. Every method raises
    RemoteFault where HDFS refuses. ``NAME.webhdfs`` beside the folder is for the server's own use.

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
        self._access = Access(self._root, self._inodes)
        self._places = Places(self._root, self._access)
        self.renames = Renames(self._root, self._places, self._access)
        if self._inodes.known(self._root.stat().st_ino) is None:
            self._keep(self._root, Inode(self._inodes.superuser), _ROOT_MODE, on_disk=False)

    @property
    def superuser(self) -> str:
        """The user who runs the server; permissions do not apply to them."""
        return self._inodes.superuser

    # reading

    def status(self, path: str, user: str) -> dict[str, Any]:
        """Return the ``FileStatus`` of a file or folder."""
        place = self._places.existing(path, "File does not exist: {}", user)
        return self._status(place, "")

    def children(self, path: str, user: str) -> list[dict[str, Any]]:
        """Return the ``FileStatus`` of each entry of a folder, or of a file itself."""
        place = self._places.existing(path, "File {} does not exist.", user)
        if not place.is_dir():
            return [self._status(place, "")]
        self._access.check(user, place, READ_EXECUTE)
        found = []
        with disk_faults(path):
            for name in self._names(place):
                entry = place / name
                with contextlib.suppress(OSError):  # removed since it was listed; a link to nothing or itself
                    if not entry.is_symlink() or self._places.is_inside(entry):
                        found.append(self._status(entry, name))
        # the NameNode compares Java's signed bytes
        return sorted(found, key=lambda status: bytes(b ^ 0x80 for b in status["pathSuffix"].encode()))

    def file(self, path: str, user: str) -> Path:
        """Return where on disk a file lies, to be read; a folder is refused."""
        place = self._places.existing(path, "File does not exist: {}", user)
        if place.is_dir():
            raise RemoteFault("FileNotFoundException", f"Path is not a file: {path}")
        self._access.check(user, place, READ)
        return place

    def length(self, path: str, user: str) -> int | None:
        """Return the length of a file in bytes, None for a folder."""
        place = self._places.existing(path, "File {} not found.", user)
        return None if place.is_dir() else place.stat().st_size

    def summary(self, path: str, user: str) -> dict[str, int]:
        """Return the ``ContentSummary``. Walks the whole folder; callable from any thread."""
        folders = files = length = consumed = 0
        with disk_faults(path):
            place = self._places.existing(path, "File does not exist: {}", user)
            self._access.check_below(user, place, READ_EXECUTE, full_only=False)
            for entry in _walk(place):
                try:
                    found = entry.lstat()
                except FileNotFoundError:
                    continue
                if stat.S_ISDIR(found.st_mode):
                    folders += 1
                elif stat.S_ISREG(found.st_mode):
                    files += 1
                    length += found.st_size
                    consumed += found.st_size * self._inodes.of(found.st_ino).replication
        return {
            "directoryCount": folders,
            "fileCount": files,
            "length": length,
            "quota": -1,
            "spaceConsumed": consumed,
            "spaceQuota": -1,
        }

    # changing

    def mkdirs(self, path: str, permission: int, user: str) -> None:
        """Create a folder and the missing ones above it."""
        place = self._places.goal(path, user)
        if place.is_dir():
            return
        if is_there(place):
            raise RemoteFault("FileAlreadyExistsException", f"Path is not a directory: {path}")
        self._access.check_make(user, place)
        with disk_faults(path):
            self._mkdirs(place, permission, user)

    def may_create(self, path: str, user: str, *, overwrite: bool, client: str) -> None:
        """Refuse a path where no file can be created; the message names the address of the client."""
        place = self._places.goal(path, user, "RemoteException")
        if place.is_dir():
            raise RemoteFault("FileAlreadyExistsException", f"{path} already exists as a directory")
        self._access.check_make(user, place)
        if is_there(place) and overwrite:
            self._access.check(user, place, WRITE)
        if is_there(place) and not overwrite:
            raise RemoteFault("FileAlreadyExistsException", f"{path} for client {client} already exists")

    def may_append(self, path: str, user: str) -> None:
        """Refuse a path that nothing can be appended to."""
        place = self._places.existing(path, "File {} not found.", user)
        if place.is_dir():
            raise RemoteFault(
                "FileAlreadyExistsException",
                f"Cannot append to directory {path}; already exists as a directory.",
            )
        self._access.check(user, place, WRITE)

    def incoming(self) -> Path:
        """Return a new place on disk for an upload."""
        return self._incoming / uuid.uuid4().hex

    def publish(self, upload: Path, path: str, permission: int, inode: Inode) -> None:
        """Move a complete upload to its path, in one step, replacing what is there."""
        place = self._places.goal(path, inode.owner)
        with disk_faults(path):
            self._mkdirs(place.parent, 0o755, inode.owner)
            group = self._inodes.of(place.parent.stat().st_ino).group
            self._keep(upload, replace(inode, group=group), permission)
            upload.replace(place)

    def append(self, upload: Path, path: str, user: str) -> None:
        """Add a complete upload to a file; callable from any thread, one at a time."""
        self.may_append(path, user)
        place = self._places.existing(path, "File {} not found.", user)
        with disk_faults(path), upload.open("rb") as new, place.open("ab") as file:
            shutil.copyfileobj(new, file, _CHUNK)

    def delete(self, path: str, user: str, *, recursive: bool) -> Path | None:
        """Take a file or folder out of the tree, in one step; return where it lies now, to purge."""
        try:
            place = self._places.place(path)
        except RemoteFault as fault:
            if fault.exception in ("InvalidPathException", "IOException"):
                return None  # such a path cannot be there
            raise
        self._access.check_way(user, place)
        if place == self._root or not is_there(place):
            return None
        with disk_faults(path):
            self._access.check_take(user, place)
            if recursive:
                self._access.check_below(user, place, ALL, full_only=True)
            if not recursive and _is_folder(place) and any(place.iterdir()):
                raise RemoteFault(
                    "PathIsNotEmptyDirectoryException", f"`{path} is non empty': Directory is not empty"
                )
            return place.rename(self._deleted / uuid.uuid4().hex)

    def purge(self, gone: Path) -> None:
        """Free the disk of what ``delete`` returned; callable from any thread."""
        self._inodes.forget([entry.lstat().st_ino for entry in _walk(gone)])
        if _is_folder(gone):
            shutil.rmtree(gone, ignore_errors=True)
        else:
            gone.unlink()

    def set_permission(self, path: str, user: str, permission: int) -> None:
        """Set the mode bits of a file or folder."""
        with disk_faults(path):
            place = self._places.existing(path, "Directory/File does not exist {}", user)
            self._access.check_owner(user, place)
            self._keep(place, self._inodes.of(place.stat().st_ino), permission)

    def set_owner(self, path: str, user: str, owner: str, group: str) -> None:
        """Set owner and group of a file or folder; an empty one stays."""
        with disk_faults(path):
            place = self._places.existing(path, "Directory/File does not exist {}", user)
            self._access.check_give(user, place, owner, group)
            number = place.stat().st_ino
            inode = self._inodes.of(number)
            given = replace(inode, owner=owner or inode.owner, group=group or inode.group)
            if given != inode:
                self._inodes.keep(number, given)

    # on disk

    def _mkdirs(self, place: Path, permission: int, user: str) -> None:
        if place.is_dir():
            return
        self._mkdirs(place.parent, permission | stat.S_IWUSR | stat.S_IXUSR, user)
        place.mkdir()
        self._keep(place, Inode(user, group=self._inodes.of(place.parent.stat().st_ino).group), permission)

    def _keep(self, place: Path, inode: Inode, mode: int, *, on_disk: bool = True) -> None:
        """Keep the facts of a file or folder and set its mode bits, as far as we can still serve it."""
        if on_disk:
            place.chmod(mode | _SERVERS_BITS[place.is_dir()])
        found = place.stat()
        kept = replace(inode, mode=mode, disk_mode=stat.S_IMODE(found.st_mode))
        self._inodes.keep(found.st_ino, kept)

    def _status(self, place: Path, suffix: str) -> dict[str, Any]:
        found = place.stat()
        is_folder = stat.S_ISDIR(found.st_mode)
        inode = self._inodes.of(found.st_ino)
        return {
            "accessTime": 0 if is_folder else int(found.st_atime * 1000),
            "blockSize": 0 if is_folder else inode.block_size,
            "childrenNum": _count(self._names(place)) if is_folder else 0,
            "fileId": found.st_ino,
            "group": inode.group,
            "length": 0 if is_folder else found.st_size,
            "modificationTime": int(found.st_mtime * 1000),
            "owner": inode.owner,
            "pathSuffix": suffix,
            "permission": f"{self._access.mode(place):o}",
            "replication": 0 if is_folder else inode.replication,
            "storagePolicy": 0,
            "type": "DIRECTORY" if is_folder else "FILE",
        }

    @staticmethod
    def _names(place: Path) -> Iterator[str]:
        """Yield the names in a folder that can be written as UTF-8."""
        with os.scandir(place) as entries:
            for entry in entries:
                if _is_text(entry.name):
                    yield entry.name


def _count(names: Iterator[str]) -> int:
    with contextlib.suppress(PermissionError):
        return sum(1 for _ in names)
    return 0


def _is_text(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()


def _walk(place: Path) -> Iterator[Path]:
    """Yield a file, or a folder and all that is under it; links are not followed."""
    yield place
    if _is_folder(place):
        for above, folders, files in os.walk(place):
            for name in (*folders, *files):
                yield Path(above, name)
