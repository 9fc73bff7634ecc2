"""Operating system calls for a storage: atomic new names, complete writes, FileStatus."""

from __future__ import annotations

import contextlib
import errno
import functools
import grp
import io
import os
import posixpath
import pwd
import stat
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.files.volume import FileStatus

NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
"""Flags that create a file, and fail if the name is already in use."""
READ_BY_ALL, ENTERED_BY_ALL, SHARED = 0o644, 0o755, 0o1777
"""The modes for a file, for a folder, and for a folder in which all users create files."""

_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_NO_MODES = (errno.EPERM, errno.EACCES, errno.EOPNOTSUPP, errno.ENOSYS)
_PART = 4 * 1024 * 1024  # bytes per read when a whole file is read


class OpenedFile(io.FileIO):
    """A file on a storage, open for reading. Like a file on HDFS, it is closed when it is garbage-collected.

    Each read is passed to ``call``. The bytes are copied afterwards, because a read that hangs may still
    write to its buffer when the caller is no longer waiting.
    """

    def __init__(self, place: str, call: Callable[[Callable[[], bytes]], bytes]) -> None:
        super().__init__(place, opener=open_to_read)
        self._call = call

    def readinto(self, buffer: Any) -> int:
        """Read bytes into the buffer and return how many were read; 0 at the end of the file."""
        view = memoryview(buffer).cast("B")
        part = self._part(len(view))
        view[: len(part)] = part
        return len(part)

    def readall(self) -> bytes:
        """Return the rest of the file."""
        return b"".join(iter(lambda: self._part(_PART), b""))

    def _part(self, size: int) -> bytes:
        descriptor = self.fileno()
        return self._call(lambda: os.read(descriptor, size))

    # Python's own file objects emit a ResourceWarning when garbage-collected; these two methods avoid it.
    def _dealloc_warn(self, _source: object) -> None: ...

    def __del__(self) -> None:
        self.close()


def open_to_read(place: str, flags: int = 0) -> int:
    """Return a descriptor; raise OSError if it is not a regular file: a pipe could block readers."""
    descriptor = os.open(place, flags | os.O_RDONLY | os.O_NONBLOCK)
    kind = stat.S_IFMT(os.fstat(descriptor).st_mode)
    if kind != stat.S_IFREG:
        os.close(descriptor)
        if kind == stat.S_IFDIR:
            raise IsADirectoryError(errno.EISDIR, "it is a folder")
        raise OSError(errno.EINVAL, "it is neither a file nor a folder")
    return descriptor


def write_all(file: io.FileIO, data: bytes) -> None:
    """Write all bytes. A single ``write`` may write only some of them."""
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def allow(place: str | int, mode: int) -> None:
    """Add mode bits that the umask may have removed. Ignores other users' files and files without modes."""
    found = stat.S_IMODE(os.stat(place).st_mode)  # noqa: PTH116  it may be a descriptor
    if found & mode != mode:
        try:
            os.chmod(place, found | mode)  # noqa: PTH101
        except OSError as error:
            if error.errno not in _NO_MODES:
                raise


def look_again(folder: str, root: str) -> None:
    """Open a folder, so that an NFS client asks the server again about entries that seemed to be missing.

    Raises:
        OSError: The folder does not exist.
    """
    try:
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))
    except FileNotFoundError:
        if not folder.startswith(f"{root}/"):
            raise
        look_again(posixpath.dirname(folder), root)
        os.close(os.open(folder, os.O_RDONLY | os.O_DIRECTORY))


def is_in_circle(link: str) -> bool:
    """Return whether a link leads to a folder that contains it, before or after resolving the path."""
    target = f"{os.path.realpath(link)}/".replace("//", "/")
    folder = link
    while folder != "/":
        folder = posixpath.dirname(folder)
        if f"{os.path.realpath(folder)}/".startswith(target):
            return True
    return False


def rename_new(source: str, goal: str) -> bool:
    """Atomically rename to a path that does not exist; return False if it exists.

    If several empty folders are renamed to ``goal``, all of these renames may succeed.
    """
    found = os.lstat(source)
    if stat.S_ISDIR(found.st_mode):
        return _rename_folder(source, goal)
    done = _link(source, goal, found)
    if done:
        _sync(posixpath.dirname(goal))
    return done


def _rename_folder(source: str, goal: str) -> bool:
    if os.path.lexists(goal):
        return False
    try:
        os.rename(source, goal)  # noqa: PTH104  fails if ``goal`` is now a non-empty folder
    except OSError as error:
        if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR) and os.path.lexists(goal):
            return False
        raise
    return True


def _link(source: str, goal: str, before: os.stat_result) -> bool:
    try:
        os.link(source, goal, follow_symlinks=False)
    except FileExistsError:
        if not _has_linked(source, goal, before):
            return False
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        return _rename_without_links(source, goal)
    os.unlink(source)  # noqa: PTH108
    return True


def _has_linked(source: str, goal: str, before: os.stat_result) -> bool:
    """Return whether a link was created although the NFS client reports that it already exists.

    The client reports this if it sent the request twice. If the first request created the link, the file has
    an extra hard link. Open the file first, so that the client asks the server for the current link count.
    """
    with contextlib.suppress(OSError):
        descriptor = open_to_read(source, os.O_NOFOLLOW)
        try:
            now = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        return now.st_nlink == before.st_nlink + 1 and os.path.samestat(now, os.lstat(goal))
    return False


def _rename_without_links(source: str, goal: str) -> bool:
    try:
        os.close(os.open(goal, NEW, 0o666))
    except FileExistsError:
        return False
    try:
        os.replace(source, goal)  # noqa: PTH105
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(goal)  # noqa: PTH108
        raise
    return True


def _sync(folder: str) -> None:
    """Wait until a folder's entries are on the disk, if the file system supports this."""
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
        "owner": name_of(pwd.getpwuid, found.st_uid),
        "group": name_of(grp.getgrgid, found.st_gid),
        "permission": f"{stat.S_IMODE(found.st_mode):o}",
    }


@functools.cache
def name_of(look_up: Callable[[int], Any], number: int) -> str:
    """Return the name of a user or group, or the number if this machine has no such user or group."""
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)
