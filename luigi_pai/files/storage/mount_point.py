"""The folder at which this machine mounts a storage: calls there end, and stay in it while it is mounted."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.files.errors import failed
from luigi_pai.files.storage.calls import within
from luigi_pai.files.storage.failures import failure_of
from luigi_pai.files.storage.mounts import mount_of
from luigi_pai.files.storage.posix import look_again
from luigi_pai.files.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.files.errors import HdfsError
    from luigi_pai.files.storage.mounts import Mount

T = TypeVar("T")


class MountPoint(Volume):
    """The folder of a storage on this machine. No link in it leads to a file outside of it.

    An operation takes at most ``timeout`` seconds. If the mount does not answer, HdfsUnreachable is raised,
    and the operation may still be executed later.

    Args:
        name: of the storage.
        root: its folder on this machine.
        timeout: seconds.

    Attributes:
        root: its folder on this machine, empty for ``/``.
    """

    def __init__(self, name: str, root: str, timeout: float) -> None:
        self._name = name
        self.root = root.rstrip("/")
        self._timeout = timeout
        self._device: int | None = None  # of the root, when it was first used
        self._mount: Mount | None = None
        self._real_root = self.root

    @property
    def server(self) -> str:
        """``storage NAME``."""
        return f"storage {self._name}"

    def local_path(self, path: str) -> str:
        """Return the path on this machine."""
        return self.root + path.rstrip("/") or "/"

    def failed(self, operation: str, path: str, reason: str, **about: Any) -> HdfsError:
        """Return the error of an operation that failed; see ``Volume``."""
        return failed(operation, self.local_path(path), self.server, reason, what="", **about)

    def is_there(self) -> bool:
        """Return whether its folder exists, or existed once: if it is gone, operations raise HdfsError."""

        def look() -> bool:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return stat.S_ISDIR(os.stat(f"{self.root}/.").st_mode)  # noqa: PTH116
            return False

        return self._device is not None or self._call("GETFILESTATUS", "/", look)

    def is_read_only(self) -> bool:
        """Return whether this machine can only read it."""
        return bool(
            self._do("GETFILESTATUS", "/", lambda: os.statvfs(self.root or "/").f_flag & os.ST_RDONLY)
        )

    @contextlib.contextmanager
    def guarded(self, operation: str, path: str) -> Iterator[None]:
        """Raise HdfsError for an OSError of what is done inside ``with`` at ``local_path(path)``."""
        self._do(operation, path, lambda: None)
        try:
            yield
        except OSError as error:
            failure = failure_of(error, operation, self.local_path(path), self.server)
        else:
            return
        raise failure

    def _do(self, operation: str, path: str, work: Callable[[], T]) -> T:
        """Return the result of a function that uses the mount; raise HdfsError for its OSError."""

        def work_on_mount() -> T:
            self._check_mounted()
            return work()

        return self._call(operation, path, work_on_mount)

    def _call(self, operation: str, path: str, work: Callable[[], T]) -> T:
        try:
            return within(self._timeout, work)
        except (OSError, LookupError, ValueError) as error:
            failure = failure_of(error, operation, self.local_path(path), self.server)
        raise failure

    def _look(self, operation: str, path: str, work: Callable[[str], T]) -> T:
        """Do as ``_do``, with the path on this machine, twice if it seems not to exist.

        An NFS client may remember for a minute that a file was missing, and asks the server when the folder
        of the file is opened.
        """

        def look() -> T:
            try:
                return work(self._inside(path))
            except FileNotFoundError:
                look_again(posixpath.dirname(self.local_path(path)), self.root)
            return work(self._inside(path))

        return self._do(operation, path, look)

    def _check_mounted(self) -> None:
        """Raise OSError if the storage is not mounted any more: its folder is an ordinary one, or missing."""
        try:
            device = os.stat(f"{self.root}/.").st_dev  # noqa: PTH116  with the dot, autofs mounts it
        except (FileNotFoundError, NotADirectoryError):
            raise OSError(errno.ENOTCONN, f"there is no folder {self.root or '/'}") from None
        if self._device == device:
            return
        mount = mount_of(self.root or "/")
        if self._device is not None and _place_of(mount) != _place_of(self._mount):
            raise OSError(errno.ENOTCONN, f"it is not mounted at {self.root} any more")
        self._real_root = os.path.realpath(self.root or "/").rstrip("/")
        self._device, self._mount = device, mount

    def _inside(self, path: str, *, is_new: bool = False) -> str:
        """Return the path on this machine.

        Args:
            path: on the storage.
            is_new: whether its last name is not followed if it is a link.

        Raises:
            OSError: a link leads out of the storage.
        """
        place = self.local_path(path)
        seen = posixpath.dirname(place) if is_new and path != "/" else place
        if not f"{os.path.realpath(seen)}/".startswith(f"{self._real_root}/"):
            raise OSError(errno.EXDEV, "a link leads out of the storage")
        return place


def _place_of(mount: Mount | None) -> tuple[str, str] | None:
    return None if mount is None else (mount.source, mount.folder)
