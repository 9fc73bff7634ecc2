"""Who may do what in an HDFS namespace: the permission checks of Hadoop 2.7.4's ``FSPermissionChecker``."""

from __future__ import annotations

import os
import stat
from typing import TYPE_CHECKING

from luigi_pai.local.hdfs.webhdfs.refusals import RemoteFault

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from luigi_pai.local.hdfs.webhdfs.inodes import Inode, Inodes

__all__ = ["ALL", "EXECUTE", "READ", "READ_EXECUTE", "WRITE", "Access"]

EXECUTE, WRITE, READ, READ_EXECUTE, ALL = 1, 2, 4, 5, 7
_NAMES = {EXECUTE: "EXECUTE", WRITE: "WRITE", READ: "READ", READ_EXECUTE: "READ_EXECUTE", ALL: "ALL"}
_KEPT_BITS = 0o1777
_STICKY = 0o1000
_OTHERS = 0o7


class Access:
    """The permissions of one namespace.

    The superuser may do everything. Anybody else is the owner of what is his, and
    one of the others everywhere else: Hadoop asks the NameNode's machine for the
    groups of a user, and this server keeps no such list.
    """

    def __init__(self, root: Path, inodes: Inodes) -> None:
        self._root = root
        self._inodes = inodes

    def mode(self, place: Path) -> int:
        """Return the mode bits that a file or folder has on HDFS."""
        return self._facts(place)[1]

    def check_way(self, user: str, place: Path) -> None:
        """Refuse who may not pass through all the folders above a place."""
        if user != self._inodes.superuser:
            for folder in self._above(place):
                self._check(user, folder, EXECUTE)

    def check(self, user: str, place: Path, wanted: int) -> None:
        """Refuse who may not get to a place that exists, or not do there what is wanted."""
        self.check_way(user, place)
        if user != self._inodes.superuser:
            self._check(user, place, wanted)

    def check_make(self, user: str, place: Path) -> None:
        """Refuse who may not make something in the nearest folder above a place."""
        if user == self._inodes.superuser:
            return
        nearest = self._root
        for nearest in self._above(place):
            self._check(user, nearest, EXECUTE)
        self._check(user, nearest, WRITE)

    def check_take(self, user: str, place: Path) -> None:
        """Refuse who may not take something out of its folder, to delete it or to move it."""
        self.check_make(user, place)
        if user == self._inodes.superuser:
            return
        (above, mode), (found, _) = self._facts(place.parent), self._facts(place)
        if mode & _STICKY and user not in (above.owner, found.owner):
            paths = f"path={self._path(place)!r}, parent={self._path(place.parent)!r}"
            raise _denied(f"Permission denied by sticky bit: user={user}, {paths}")

    def check_below(self, user: str, place: Path, wanted: int, *, full_only: bool) -> None:
        """Refuse who may not do something in each folder of a tree (``full_only``: not empty)."""
        if user == self._inodes.superuser or place.is_symlink():
            return
        for folder, folders, files in os.walk(place):
            if folders or files or not full_only:
                self._check(user, place.__class__(folder), wanted)

    def check_owner(self, user: str, place: Path) -> None:
        """Refuse who does not own a file or folder."""
        self.check_way(user, place)
        if user not in (self._inodes.superuser, self._facts(place)[0].owner):
            raise _denied(f"Permission denied. user={user} is not the owner of inode={place.name}")

    def check_give(self, user: str, place: Path, owner: str, group: str) -> None:
        """Refuse a user who may not change owner or group."""
        self.check_owner(user, place)
        if user == self._inodes.superuser:
            return
        if owner and owner != user:
            raise _denied(f"User {owner} is not a super user (non-super user cannot change owner).")
        if group:
            raise _denied(f"User does not belong to {group}")

    def _check(self, user: str, place: Path, wanted: int) -> None:
        inode, mode = self._facts(place)
        bits = mode >> 6 if user == inode.owner else mode
        if bits & _OTHERS & wanted != wanted:
            kind = "d" if place.is_dir() else "-"
            shown = f"{inode.owner}:{inode.group}:{kind}{stat.filemode(mode)[1:]}"
            raise _denied(
                f"Permission denied: user={user}, access={_NAMES[wanted]}, "
                f'inode="{self._path(place)}":{shown}'
            )

    def _facts(self, place: Path) -> tuple[Inode, int]:
        found = place.stat()
        inode = self._inodes.of(found.st_ino)
        disk_mode = stat.S_IMODE(found.st_mode) & _KEPT_BITS
        return inode, disk_mode if inode.mode is None or inode.disk_mode != disk_mode else inode.mode

    def _above(self, place: Path) -> Iterator[Path]:
        """Yield the folders above a place that exist, from the root on; the root is above itself."""
        folder = self._root
        yield folder
        for name in place.relative_to(folder).parts[:-1]:
            folder /= name
            if not folder.is_dir():
                return
            yield folder

    def _path(self, place: Path) -> str:
        return "/" + "/".join(place.relative_to(self._root).parts)


def _denied(text: str) -> RemoteFault:
    return RemoteFault("AccessControlException", text)
