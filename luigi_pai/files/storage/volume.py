"""MountedVolume: the files on a storage that is mounted on this machine."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import itertools
import os
import posixpath
import pwd
import shutil
import stat
from typing import TYPE_CHECKING, Any

from luigi_pai.files.errors import FileAlreadyExists, HdfsError, missing_ok
from luigi_pai.files.storage.mount_point import MountPoint
from luigi_pai.files.storage.posix import (
    ENTERED_BY_ALL,
    NEW,
    READ_BY_ALL,
    SHARED,
    OpenedFile,
    allow,
    file_status_of,
    is_in_circle,
    name_of,
    open_to_read,
    rename_new,
    write_all,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from luigi_pai.files.volume import FileStatus

_BUFFER = 256 * 1024  # bytes
_TRIES = 50  # to create the folder for temporary files, which others remove as soon as it is empty
_SYNC_AFTER = 32  # parts of a file, of 1 MiB each: sending the unsynced parts must take less than ``timeout``


class MountedVolume(MountPoint):
    """A cluster storage, accessed through its mount on this machine.

    Names are created with ``link`` and ``rename``. An NFS or SMB server executes these atomically, and for
    only one of several clients. If the file system does not support links, the name is created exclusively
    and then replaced, so the file is empty for a moment. When a method returns, the data is on the server.
    """

    keeps_modes = True

    @functools.cached_property
    def owner(self) -> str:
        """The user who runs this process."""
        return name_of(pwd.getpwuid, os.geteuid())

    # looking up

    def file_status(self, path: str) -> FileStatus:
        """Return the FileStatus of a file or folder."""
        return self._look("GETFILESTATUS", path, lambda place: file_status_of("", os.stat(place)))  # noqa: PTH116

    def list_status(self, path: str) -> list[FileStatus]:
        """Return the FileStatus of each entry of a folder; for a file, its FileStatus with an empty name.

        For a link, returns its target's FileStatus. If the target does not exist, is outside the storage, or
        is a folder that contains the link, the type is ``SYMLINK``.
        """

        def list_all(place: str) -> list[FileStatus]:
            try:
                with os.scandir(place) as entries:
                    found = [status for entry in entries if (status := self._listed(entry))]
                return sorted(found, key=lambda each: str(each["pathSuffix"]))
            except NotADirectoryError:
                return [file_status_of("", os.stat(place))]  # noqa: PTH116

        return self._look("LISTSTATUS", path, list_all)

    def count(self, path: str) -> tuple[int, int, int]:
        """Return the number of bytes, folders and files at and below a path; a folder counts itself."""
        top = self.file_status(path)
        found = [top, *(status for _, status in self.walk(path))] if top["type"] == "DIRECTORY" else [top]
        folders = sum(status["type"] == "DIRECTORY" for status in found)
        return sum(status["length"] for status in found), folders, len(found) - folders

    # reading and writing

    def open_reader(self, path: str) -> io.BufferedReader:
        """Open a file for reading."""
        call: Callable[[Callable[[], bytes]], bytes] = functools.partial(self._do, "OPEN", path)
        return self._look("OPEN", path, lambda place: io.BufferedReader(OpenedFile(place, call), _BUFFER))

    def read_part(self, path: str, offset: int, most: int) -> bytes:
        """Return at most ``most`` bytes of a file, starting at ``offset``."""

        def read(place: str) -> bytes:
            with open(place, "rb", opener=open_to_read) as file:
                file.seek(offset)
                return file.read(most)

        return self._look("OPEN", path, read)

    def create_file(self, path: str, data: bytes | Iterable[bytes]) -> None:
        """Write a new file; create its folder if it is missing; raise an error if the file exists."""
        if isinstance(data, bytes):  # in one call, which may still complete after its timeout
            self._do("CREATE", path, lambda: self._write(path, [data], lambda step: step()))
        else:  # one call per part, because reading the parts may take long
            self._write(path, data, functools.partial(self._do, "CREATE", path))

    def _write(self, path: str, parts: Iterable[bytes], call: Callable[[Callable[[], Any]], Any]) -> None:
        """Write a new file; ``call`` executes each step that accesses the mount."""
        file = call(lambda: self._create(path))
        numbers = itertools.count(1)

        def write(part: bytes) -> None:
            write_all(file, part)
            if next(numbers) % _SYNC_AFTER == 0:
                os.fdatasync(file.fileno())

        def discard() -> None:
            with contextlib.suppress(OSError):
                file.close()
            os.unlink(self._inside(path, is_new=True))  # noqa: PTH108

        try:
            for part in parts:
                call(functools.partial(write, part))
            call(lambda: _finish(file))
        except BaseException:  # also Ctrl-C
            with contextlib.suppress(HdfsError, OSError):
                call(discard)
            raise

    def _create(self, path: str) -> io.FileIO:
        """Create a file. If the caller is no longer waiting for it, close the file."""

        def opened(place: str, _flags: int) -> int:
            for _ in range(_TRIES):
                with contextlib.suppress(FileNotFoundError):
                    return os.open(place, NEW, 0o666)
                self._make_all(posixpath.dirname(path))
            return os.open(place, NEW, 0o666)

        return io.FileIO(self._inside(path, is_new=True), "wb", opener=opened)

    def append(self, path: str, data: bytes) -> None:
        """Append data to a file."""

        def add() -> None:
            descriptor = os.open(self._inside(path), os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK)
            with io.FileIO(descriptor, "wb") as file:
                write_all(file, data)
                os.fsync(descriptor)

        self._do("APPEND", path, add)

    # changes

    def make_folders(self, path: str) -> None:
        """Create a folder and its parents; raise NotADirectory if the path or a parent is a file."""
        self._do("MKDIRS", path, lambda: self._make_all(path))

    def share_folder(self, path: str) -> None:
        """Create a folder in which all users may create files but not remove other users' files.

        Containers run as root, which an NFS server may map to the user ``nobody``.
        """

        def share() -> None:
            self._make_all(path)
            allow(self._inside(path), SHARED)

        self._do("MKDIRS", path, share)

    def remove(self, path: str, *, recursive: bool) -> bool:
        """Delete a path; return False if it did not exist. For a link, the target is not deleted.

        With ``recursive``, a separate call deletes each entry, because deleting all of them may take long.
        """

        def delete() -> bool:
            place = self._inside(path, is_new=True)
            try:
                remove = os.rmdir if stat.S_ISDIR(os.lstat(place).st_mode) else os.unlink
                remove(place)
            except FileNotFoundError:
                return False
            return True

        try:
            return self._do("DELETE", path, delete)
        except HdfsError as error:
            if not recursive or error.exception != "PathIsNotEmptyDirectoryException":
                raise
        with missing_ok():
            for name in self._do("DELETE", path, lambda: os.listdir(self._inside(path))):  # noqa: PTH208
                self.remove(posixpath.join(path, name), recursive=True)
        self._do("DELETE", path, delete)
        return True

    def rename_to(self, path: str, destination: str, options: str | None = None) -> bool | None:
        """Rename a path; see ``Volume.rename_to``."""

        def rename() -> bool | None:
            source, goal = self._inside(path, is_new=True), self._inside(destination, is_new=True)
            if options == "OVERWRITE":
                _replace(source, goal)
                return None
            if options is None and os.path.isdir(goal):  # noqa: PTH112
                goal = posixpath.join(goal, posixpath.basename(source))
            try:
                return rename_new(source, goal)
            except FileNotFoundError:
                if options is None:
                    return False
                raise

        done = self._do("RENAME", path, rename)
        if done is False and options == "NONE":
            reason = f"{self.local_path(destination)} exists"
            raise self.failed("RENAME", path, reason, kind=FileAlreadyExists)
        return None if options else done

    def set_mode(self, path: str, mode: str) -> None:
        """Set the mode bits, in octal."""
        self._do("SETPERMISSION", path, lambda: os.chmod(self._inside(path), int(mode, 8)))  # noqa: PTH101

    def set_owner(self, path: str, owner: str | None, group: str | None) -> None:
        """Set owner, group or both."""
        change: Any = shutil.chown
        self._do("SETOWNER", path, lambda: change(self._inside(path), owner, group))

    def _listed(self, entry: os.DirEntry[str]) -> FileStatus | None:
        """Return an entry's FileStatus; None if another process has just removed the entry."""
        try:
            found = entry.stat(follow_symlinks=False)
        except FileNotFoundError:
            return None
        if stat.S_ISLNK(found.st_mode):
            with contextlib.suppress(OSError):  # its target does not exist, or is outside the storage
                self._inside(entry.path[len(self.root) :])
                target = entry.stat()
                found = found if is_in_circle(entry.path) else target
        return file_status_of(entry.name, found)

    def _make_all(self, path: str) -> None:
        for _ in range(_TRIES):
            with contextlib.suppress(FileNotFoundError):
                self._make_each(path)
                return
        self._make_each(path)

    def _make_each(self, path: str) -> None:
        place = self._inside(path, is_new=True)
        if os.path.isdir(self._inside(path)):  # noqa: PTH112
            return
        if path != "/":
            self._make_each(posixpath.dirname(path))
        try:
            os.mkdir(place)  # noqa: PTH102
        except FileExistsError:
            if not stat.S_ISDIR(os.stat(place).st_mode):  # noqa: PTH116  FileNotFoundError: removed meanwhile
                raise NotADirectoryError(errno.ENOTDIR, f"{place} is a file") from None
        else:
            allow(place, ENTERED_BY_ALL)


def _finish(file: io.FileIO) -> None:
    """Allow other users to read a new file, and wait until its data is on the server."""
    allow(file.fileno(), READ_BY_ALL)
    os.fsync(file.fileno())
    file.close()


def _replace(source: str, goal: str) -> None:
    """Rename, replacing a file. Never replaces a folder, not even an empty one with another folder."""
    if os.path.isdir(goal) and not os.path.islink(goal):  # noqa: PTH112, PTH114
        raise OSError(errno.EINVAL, f"{goal} is a folder")
    os.replace(source, goal)  # noqa: PTH105
