"""What a storage needs of the operating system: new names in one step, whole writes, and FileStatus."""

from __future__ import annotations

import contextlib
import errno
import functools
import grp
import os
import posixpath
import pwd
import stat
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import io

    from luigi_pai.files.volume import FileStatus

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
"""Flags to create a file, and to fail if anything has its name."""

_FILE_MODE = 0o644
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def write_all(file: io.FileIO, data: bytes) -> None:
    """Write all bytes, as one ``write`` may write only a part of them."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def finish(descriptor: int) -> None:
    """Let other users read a new file, and wait until its data are on the server."""
    os.fchmod(descriptor, os.fstat(descriptor).st_mode | _FILE_MODE)
    os.fsync(descriptor)


def rename_new(source: str, goal: str) -> bool:
    """Rename to a path that does not exist, in one step; return False if it exists."""
    if stat.S_ISDIR(os.lstat(source).st_mode):
        if os.path.lexists(goal):
            return False
        try:
            os.rename(source, goal)  # noqa: PTH104  it fails if there is a folder with entries now
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                return False
            raise
        return True
    done = _link(source, goal)
    if done:
        _sync(posixpath.dirname(goal))
    return done


def _link(source: str, goal: str) -> bool:
    try:
        os.link(source, goal, follow_symlinks=False)
    except FileExistsError:  # also if an NFS client repeats a request whose reply was lost
        if not os.path.samefile(source, goal):  # noqa: PTH121
            return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        try:
            os.close(os.open(goal, NEW, 0o666))
        except FileExistsError:
            return False
        os.replace(source, goal)  # noqa: PTH105
        return True
    os.unlink(source)  # noqa: PTH108
    return True


def _sync(folder: str) -> None:
    """Wait until the names in a folder are on the disk, if the file system can."""
    with contextlib.suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def file_status_of(name: str, found: os.stat_result) -> FileStatus:
    """Return the FileStatus of a file or folder."""
    kinds = {stat.S_IFDIR: "DIRECTORY", stat.S_IFLNK: "SYMLINK"}
    kind = kinds.get(stat.S_IFMT(found.st_mode), "FILE")
    return {
        "pathSuffix": name,
        "type": kind,
        "length": 0 if kind == "DIRECTORY" else found.st_size,
        "modificationTime": found.st_mtime_ns // 1_000_000,
        "owner": user_of(found.st_uid),
        "group": _group_of(found.st_gid),
        "permission": f"{stat.S_IMODE(found.st_mode):o}",
    }


@functools.cache
def user_of(number: int) -> str:
    """Return the name of a user on this machine, or the number if it has no such user."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


@functools.cache
def _group_of(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
