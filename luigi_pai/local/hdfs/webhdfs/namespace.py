"""A folder on disk with the rules of an HDFS namespace (Hadoop 2.7.4).

The folder stays a plain tree. Beside it lies ``NAME.webhdfs``, on the same file
system so that publishing and deleting are one ``rename``: ``incoming`` (uploads
that are not complete), ``deleted`` (what is being removed), ``inodes.sqlite``.
One process at a time serves a tree.

Permissions are those of HDFS (``webhdfs_access``). Everybody may write into ``/``: an OpenPAI sets
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
from luigi_pai.local.hdfs.webhdfs.refusals import RemoteFault, disk_faults

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Tree"]

_CHUNK = 256 * 1024
_ROOT_MODE = 0o777
_SERVERS_BITS = {True: 0o700, False: 0o600}  # of a folder, and a file, on disk: else we could not serve it
_LONGEST_NAME = 255  # bytes
_LONGEST_PATH = 4095  # bytes, on this machine; Hadoop has 8000 characters
_TOO_LONG = ("PathComponentTooLongException", "IOException")  # of a name, of a path


class Tree:
    """The namespace over one folder.

    Every path is absolute, as HDFS writes it (``/a/b``); ``user`` is who asks. Every
    method raises RemoteFault where HDFS refuses.

    Args:
        root: the folder that is ``/``; created where it is missing. ``NAME.webhdfs``
            beside it is for the server's own use.

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
        if self._inodes.known(self._root.stat().st_ino) is None:
            self._keep(self._root, Inode(self._inodes.superuser), _ROOT_MODE, on_disk=False)

    @property
    def superuser(self) -> str:
        """The user whom no permission stops: who runs the server."""
        return self._inodes.superuser

    # looking

    def status(self, path: str, user: str) -> dict[str, Any]:
        """Return the ``FileStatus`` of a file or folder."""
        place = self._existing(path, "File does not exist: {}", user)
        return self._status(place, "")

    def children(self, path: str, user: str) -> list[dict[str, Any]]:
        """Return the ``FileStatus`` of each entry of a folder, or of a file itself."""
        place = self._existing(path, "File {} does not exist.", user)
        if not place.is_dir():
            return [self._status(place, "")]
        self._access.check(user, place, READ_EXECUTE)
        found = []
        with disk_faults(path):
            for name in self._names(place):
                entry = place / name
                with contextlib.suppress(OSError):  # removed since it was listed; a link to nothing or itself
                    if not entry.is_symlink() or self._is_inside(entry):
                        found.append(self._status(entry, name))
        # the NameNode compares Java's signed bytes
        return sorted(found, key=lambda status: bytes(b ^ 0x80 for b in status["pathSuffix"].encode()))

    def file(self, path: str, user: str) -> Path:
        """Return where on disk a file lies, to be read; a folder is refused."""
        place = self._existing(path, "File does not exist: {}", user)
        if place.is_dir():
            raise RemoteFault("FileNotFoundException", f"Path is not a file: {path}")
        self._access.check(user, place, READ)
        return place

    def length(self, path: str, user: str) -> int | None:
        """Return the length of a file in bytes, None for a folder."""
        place = self._existing(path, "File {} not found.", user)
        return None if place.is_dir() else place.stat().st_size

    def summary(self, path: str, user: str) -> dict[str, int]:
        """Return the ``ContentSummary``. Walks the whole folder; callable from any thread."""
        folders = files = length = consumed = 0
        with disk_faults(path):
            place = self._existing(path, "File does not exist: {}", user)
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
        place = self._goal(path, user)
        if place.is_dir():
            return
        if _is_there(place):
            raise RemoteFault("FileAlreadyExistsException", f"Path is not a directory: {path}")
        self._access.check_make(user, place)
        with disk_faults(path):
            self._mkdirs(place, permission, user)

    def may_create(self, path: str, user: str, *, overwrite: bool, client: str) -> None:
        """Refuse a path where no file can be created.

        Args:
            path: of the file.
            user: who asks.
            overwrite: a file that exists may be replaced.
            client: address that asks, for the message.
        """
        place = self._goal(path, user, "RemoteException")
        if place.is_dir():
            raise RemoteFault("FileAlreadyExistsException", f"{path} already exists as a directory")
        self._access.check_make(user, place)
        if _is_there(place) and overwrite:
            self._access.check(user, place, WRITE)
        if _is_there(place) and not overwrite:
            raise RemoteFault("FileAlreadyExistsException", f"{path} for client {client} already exists")

    def may_append(self, path: str, user: str) -> None:
        """Refuse a path that nothing can be appended to."""
        place = self._existing(path, "File {} not found.", user)
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
        place = self._goal(path, inode.owner)
        with disk_faults(path):
            self._mkdirs(place.parent, 0o755, inode.owner)
            group = self._inodes.of(place.parent.stat().st_ino).group
            self._keep(upload, replace(inode, group=group), permission)
            upload.replace(place)

    def append(self, upload: Path, path: str, user: str) -> None:
        """Add a complete upload to a file; callable from any thread, one at a time."""
        self.may_append(path, user)
        place = self._existing(path, "File {} not found.", user)
        with disk_faults(path), upload.open("rb") as new, place.open("ab") as file:
            shutil.copyfileobj(new, file, _CHUNK)

    def delete(self, path: str, user: str, *, recursive: bool) -> Path | None:
        """Take a file or folder out of the tree, in one step.

        Returns:
            Where it now lies, for ``purge``; None where there was nothing to delete.
        """
        try:
            place = self._place(path)
        except RemoteFault as fault:
            if fault.exception in ("InvalidPathException", "IOException"):
                return None  # such a path cannot be there
            raise
        self._access.check_way(user, place)
        if place == self._root or not _is_there(place):
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
            place = self._existing(path, "Directory/File does not exist {}", user)
            self._access.check_owner(user, place)
            self._keep(place, self._inodes.of(place.stat().st_ino), permission)

    def set_owner(self, path: str, user: str, owner: str, group: str) -> None:
        """Set owner and group of a file or folder; an empty one stays."""
        with disk_faults(path):
            place = self._existing(path, "Directory/File does not exist {}", user)
            self._access.check_give(user, place, owner, group)
            number = place.stat().st_ino
            inode = self._inodes.of(number)
            given = replace(inode, owner=owner or inode.owner, group=group or inode.group)
            if given != inode:
                self._inodes.keep(number, given)

    def rename(self, path: str, destination: str, user: str) -> bool:
        """Rename as HDFS's first ``rename`` does: into a folder that exists, never onto a file.

        Returns:
            False where it was not done.
        """
        place, goal = self._place(path), self._goal(destination, user)
        self._access.check_way(user, place)
        if place == self._root or not _is_there(place):
            return False
        self._check_rename(place, goal, user)
        if place == goal:
            return not place.is_dir()
        if goal.is_dir():
            goal = goal.resolve() / place.name
        if _is_there(goal) or place in goal.parents or not goal.parent.is_dir():
            return False
        with disk_faults(path):
            place.rename(goal)
        return True

    def rename2(self, path: str, destination: str, user: str, *, overwrite: bool) -> None:
        """Rename as HDFS's ``rename2`` does: exactly to the destination, in one step."""
        place, goal = self._place(path), self._goal(destination, user)
        self._access.check_way(user, place)
        if place == self._root:
            raise RemoteFault("IOException", "rename source cannot be the root")
        if not _is_there(place):
            raise RemoteFault("FileNotFoundException", f"rename source {path} is not found.")
        self._check_rename(place, goal, user)
        if goal == self._root:
            raise RemoteFault("IOException", "rename destination cannot be the root")
        if place == goal:
            text = f"The source {path} and destination {destination} are the same"
            raise RemoteFault("FileAlreadyExistsException", text)
        if place in goal.parents:
            text = f"Rename destination {destination} is a directory or file under source {path}"
            raise RemoteFault("IOException", text)
        if not goal.parent.is_dir():
            text = f"rename destination parent {destination} not found."
            raise RemoteFault("FileNotFoundException", text)
        with disk_faults(path):
            if _is_there(goal):
                self._check_replaced(place, goal, (path, destination), overwrite=overwrite)
            place.rename(goal)

    def _check_rename(self, place: Path, goal: Path, user: str) -> None:
        """Refuse who may not move something."""
        self._access.check_take(user, place)
        if goal != self._root:
            self._access.check_make(user, goal / place.name if goal.is_dir() else goal)

    @staticmethod
    def _check_replaced(place: Path, goal: Path, paths: tuple[str, str], *, overwrite: bool) -> None:
        """Refuse to rename onto what may not be replaced."""
        source, destination = paths
        if goal.is_dir() != place.is_dir():
            text = f"Source {source} and destination {destination} must both be directories"
            raise RemoteFault("IOException", text)
        if not overwrite:
            text = f"rename destination {destination} already exists"
            raise RemoteFault("FileAlreadyExistsException", text)
        if goal.is_dir() and any(goal.iterdir()):
            text = f"rename destination directory is not empty: {destination}"
            raise RemoteFault("IOException", text)

    # from names to places on disk

    def _place(
        self,
        path: str,
        invalid: str = "Invalid path name Invalid file name: {}",
        exception: str = "InvalidPathException",
    ) -> Path:
        """Return where on disk a path lies; what is above it is inside the root."""
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
                if not place.is_dir() and _is_there(place):
                    raise RemoteFault("AccessControlException", f"{above} (is not a directory)")
            place = place / name
        return place

    def _existing(self, path: str, missing: str, user: str) -> Path:
        """Return where a path lies that exists and that the user can get to, links followed."""
        try:
            place = self._resolved(self._place(path), path)
            self._access.check_way(user, place)
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

    def _goal(self, path: str, user: str, exception: str = "InvalidPathException") -> Path:
        """Return where something is to be made; a link there that leads out is refused."""
        place = self._place(path, "Invalid path name {}", exception)
        self._resolved(place, path)
        self._access.check_way(user, place)
        return place

    def _resolved(self, place: Path, path: str) -> Path:
        """Return a place with its own link followed; its folder has none. One that leads out is refused."""
        if not place.is_symlink():
            return place
        if not self._is_inside(place):
            raise RemoteFault("AccessControlException", f"{path} leads out of the file system")
        return place.resolve()

    def _is_inside(self, place: Path) -> bool:
        try:
            place = place.resolve()
        except (OSError, RuntimeError):  # a link to itself
            return False
        return place == self._root or self._root in place.parents

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
        """Yield the names in a folder that can be said on the wire."""
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


def _is_there(place: Path) -> bool:
    return place.is_symlink() or place.exists()


def _is_folder(place: Path) -> bool:
    return place.is_dir() and not place.is_symlink()


def _walk(place: Path) -> Iterator[Path]:
    """Yield a file, or a folder and all that is under it; links are not followed."""
    yield place
    if _is_folder(place):
        for above, folders, files in os.walk(place):
            for name in (*folders, *files):
                yield Path(above, name)
