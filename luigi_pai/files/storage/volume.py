"""MountedVolume: the files of a storage that this machine mounts."""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import posixpath
import shutil
import stat
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.files.errors import FileAlreadyExists, HdfsError, failed
from luigi_pai.files.storage.calls import within
from luigi_pai.files.storage.failures import failure_of
from luigi_pai.files.storage.mounts import mount_of
from luigi_pai.files.storage.posix import NEW, file_status_of, finish, rename_new, user_of, write_all
from luigi_pai.files.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from luigi_pai.files.storage.mounts import Mount
    from luigi_pai.files.volume import FileStatus

T = TypeVar("T")

_FOLDER_MODE, _SHARED_MODE = 0o755, 0o1777


class MountedVolume(Volume):
    """A storage of the cluster, by its mount on this machine.

    Names appear by ``link`` and ``rename``, which a server of NFS or SMB does in one step for one of several
    clients. Where the file system has no links, the name is created exclusively and then replaced, so that
    it is empty for a moment. Data are on the server when a method returns. No link in the storage leads to
    a file outside of it.

    An operation takes at most ``timeout`` seconds. If the mount does not answer, HdfsUnreachable is raised,
    and the operation may still be executed later.

    Args:
        name: of the storage.
        root: its folder on this machine.
        timeout: seconds.
    """

    def __init__(self, name: str, root: str, timeout: float) -> None:
        self._name = name
        self._root = root.rstrip("/")
        self._timeout = timeout
        self._device: int | None = None  # of the root, when it was first used
        self._mount: Mount | None = None

    @functools.cached_property
    def owner(self) -> str:
        """The user who runs this process."""
        return user_of(os.geteuid())

    @property
    def server(self) -> str:
        """``storage NAME``."""
        return f"storage {self._name}"

    def local_path(self, path: str) -> str:
        """Return the path on this machine."""
        return self._root + path.rstrip("/") or "/"

    def failed(self, operation: str, path: str, reason: str, **about: Any) -> HdfsError:
        """Return the error of an operation that failed; see ``Volume``."""
        return failed(operation, self.local_path(path), self.server, reason, what="", **about)

    # lookups

    def file_status(self, path: str) -> FileStatus:
        """Return the FileStatus of a file or folder.

        If it seems not to exist, its folder is opened and it is looked up again, because an NFS client may
        remember for a minute that a file was missing, and asks the server when a folder is opened.
        """

        def look_up() -> FileStatus:
            place = self._inside(path)
            try:
                found = os.stat(place)  # noqa: PTH116  faster
            except FileNotFoundError:
                os.close(os.open(posixpath.dirname(place), os.O_RDONLY | os.O_DIRECTORY))
                found = os.stat(place)  # noqa: PTH116
            return file_status_of("", found)

        return self._do("GETFILESTATUS", path, look_up)

    def list_status(self, path: str) -> list[FileStatus]:
        """Return the FileStatus of each entry of a folder; for a file, its FileStatus with an empty name."""

        def list_all() -> list[FileStatus]:
            place = self._inside(path)
            try:
                with os.scandir(place) as entries:
                    found = [status for entry in entries if (status := self._listed(entry))]
                return sorted(found, key=lambda each: str(each["pathSuffix"]))
            except NotADirectoryError:
                return [file_status_of("", os.stat(place))]  # noqa: PTH116

        return self._do("LISTSTATUS", path, list_all)

    def count(self, path: str) -> tuple[int, int, int]:
        """Return the bytes, folders and files of a path and all below it; a folder counts itself."""
        top = self.file_status(path)
        found = [top, *(status for _, status in self.walk(path))] if top["type"] == "DIRECTORY" else [top]
        folders = sum(status["type"] == "DIRECTORY" for status in found)
        return sum(status["length"] for status in found), folders, len(found) - folders

    # reading and writing

    def open_reader(self, path: str) -> io.BufferedReader:
        """Open a file for reading."""
        return io.BufferedReader(self._do("OPEN", path, lambda: _File(self, path, self._inside(path))))

    def read_part(self, path: str, offset: int, most: int) -> bytes:
        """Return at most ``most`` bytes of a file from ``offset`` on."""

        def read() -> bytes:
            with open(self._inside(path), "rb") as file:  # noqa: PTH123
                file.seek(offset)
                return file.read(most)

        return self._do("OPEN", path, read)

    def read_rest(self, path: str, offset: int, most: int) -> bytes:
        """Return a file from ``offset`` on; raise ``too_large`` if these are more than ``most`` bytes."""
        data = self.read_part(path, offset, most + 1)
        if len(data) > most:
            raise self.too_large(path, most)
        return data

    def create_file(self, path: str, data: bytes | Iterable[bytes]) -> None:
        """Write a new file, and make its folder if the folder is missing; an error if the file exists."""
        parts = iter([data]) if isinstance(data, bytes) else iter(data)

        def create() -> int:
            place = self._inside(path, is_new=True)
            with contextlib.suppress(FileNotFoundError):
                return os.open(place, NEW, 0o666)
            self._make_all(posixpath.dirname(path))
            return os.open(place, NEW, 0o666)

        descriptor = self._do("CREATE", path, create)
        try:
            with open(descriptor, "wb", buffering=0) as file:  # noqa: PTH123
                for part in parts:  # the parts are made here: it may take long to read them
                    self._do("CREATE", path, functools.partial(write_all, file, part))
                self._do("CREATE", path, lambda: finish(file.fileno()))
        except BaseException:  # also Ctrl-C
            with contextlib.suppress(HdfsError):
                self.remove(path, recursive=False)
            raise

    def append(self, path: str, data: bytes) -> None:
        """Add data to the end of a file."""

        def add() -> None:
            with open(self._inside(path), "r+b", buffering=0) as file:  # noqa: PTH123
                file.seek(0, os.SEEK_END)
                write_all(file, data)
                os.fsync(file.fileno())

        self._do("APPEND", path, add)

    # changes

    def make_folders(self, path: str) -> None:
        """Make a folder and its parents; NotADirectory if the path or a parent is a file."""
        self._do("MKDIRS", path, lambda: self._make_all(path))

    def share_folder(self, path: str) -> None:
        """Make a folder in which every user may create files, and nobody remove those of others.

        Containers run as root, which a server of NFS may take for nobody.
        """

        def share() -> None:
            self._make_all(path)
            place = self._inside(path)
            with contextlib.suppress(PermissionError):  # it is another user's, who has decided about it
                if os.stat(place).st_mode & _SHARED_MODE != _SHARED_MODE:  # noqa: PTH116
                    os.chmod(place, _SHARED_MODE)  # noqa: PTH101

        self._do("MKDIRS", path, share)

    def remove(self, path: str, *, recursive: bool) -> bool:
        """Delete a path; return False if it did not exist. A link is deleted, and not what it leads to."""

        def delete() -> bool:
            place = self._inside(path, is_new=True)
            try:
                mode = os.lstat(place).st_mode
                if not stat.S_ISDIR(mode):
                    os.unlink(place)  # noqa: PTH108
                elif recursive:
                    shutil.rmtree(place)
                else:
                    os.rmdir(place)  # noqa: PTH106
            except FileNotFoundError:
                return False
            return True

        return self._do("DELETE", path, delete)

    def rename_to(self, path: str, destination: str, options: str | None = None) -> bool | None:
        """Rename a path; see ``Volume``."""

        def rename() -> bool | None:
            source, goal = self._inside(path, is_new=True), self._inside(destination, is_new=True)
            if options == "OVERWRITE":
                os.replace(source, goal)  # noqa: PTH105
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

    @contextlib.contextmanager
    def guarded(self, operation: str, path: str) -> Iterator[None]:
        """Raise HdfsError for an OSError of what is done inside ``with`` at ``local_path(path)``."""
        try:
            self._check_mounted()
            yield
        except OSError as error:
            failure = failure_of(error, operation, self.local_path(path), self.server)
        else:
            return
        raise failure

    # how an operation is done

    def _do(self, operation: str, path: str, work: Callable[[], T]) -> T:
        """Return the result of a function that uses the mount; raise HdfsError for its OSError."""

        def work_on_mount() -> T:
            self._check_mounted()
            return work()

        try:
            return within(self._timeout, work_on_mount)
        except (OSError, LookupError, ValueError) as error:
            failure = failure_of(error, operation, self.local_path(path), self.server)
        raise failure

    def _check_mounted(self) -> None:
        """Raise OSError if the storage is not mounted any more, and its folder is an ordinary one."""
        device = os.stat(self._root or "/").st_dev  # noqa: PTH116
        if self._device == device:
            return
        mount = mount_of(self._root or "/")
        if self._device is not None and _place_of(mount) != _place_of(self._mount):
            raise OSError(errno.ENOTCONN, f"it is not mounted at {self._root} any more")
        self._device, self._mount = device, mount

    def _inside(self, path: str, *, is_new: bool = False) -> str:
        """Return the path on this machine.

        Args:
            path: on the storage.
            is_new: whether its last name is not followed if it is a link.

        Raises:
            PermissionError: a link leads out of the storage.
        """
        place = self.local_path(path)
        seen = posixpath.dirname(place) if is_new and path != "/" else place
        root = os.path.realpath(self._root or "/")
        if not f"{os.path.realpath(seen)}/".startswith(f"{root.rstrip('/')}/"):
            raise PermissionError(errno.EPERM, "a link leads out of the storage")
        return place

    def _listed(self, entry: os.DirEntry[str]) -> FileStatus | None:
        """Return the FileStatus of an entry; None if another process has just removed it."""
        try:
            found = entry.stat(follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                with contextlib.suppress(OSError):  # it leads nowhere, or out of the storage
                    self._inside(entry.path[len(self._root) :])
                    found = entry.stat()
        except FileNotFoundError:
            return None
        return file_status_of(entry.name, found)

    def _make_all(self, path: str) -> None:
        place = self._inside(path, is_new=True)
        if os.path.isdir(place):  # noqa: PTH112
            return
        if path == "/":
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        self._make_all(posixpath.dirname(path))
        try:
            os.mkdir(place)  # noqa: PTH102
        except FileExistsError:
            if not os.path.isdir(place):  # noqa: PTH112
                raise NotADirectoryError(errno.ENOTDIR, f"{place} is a file") from None
        else:  # containers read it as other users; a setgid bit stays
            os.chmod(place, os.stat(place).st_mode | _FOLDER_MODE)  # noqa: PTH101, PTH116


class _File(io.FileIO):
    """A file of a storage, open for reading."""

    def __init__(self, volume: MountedVolume, path: str, place: str) -> None:
        super().__init__(place)
        self._volume = volume
        self._path = path

    def readinto(self, buffer: Any) -> int:
        """Read bytes into the buffer, and return their number; 0 at the end of the file."""
        return self._volume._do("OPEN", self._path, lambda: super(_File, self).readinto(buffer) or 0)  # noqa: SLF001

    def readall(self) -> bytes:
        """Return the rest of the file."""
        return self._volume._do("OPEN", self._path, super().readall)  # noqa: SLF001


def _place_of(mount: Mount | None) -> tuple[str, str] | None:
    return None if mount is None else (mount.source, mount.folder)
