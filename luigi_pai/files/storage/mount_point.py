"""The folder where this machine mounts a storage. Calls time out, and links cannot lead out of it."""

from __future__ import annotations

import contextlib
import errno
import os
import posixpath
import stat
import threading
from concurrent.futures import Future, wait
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.files.errors import HdfsError, HdfsUnreachable, failed
from luigi_pai.files.storage.mounts import mount_of
from luigi_pai.files.storage.posix import look_again
from luigi_pai.files.volume import Volume

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.files.storage.mounts import Mount

T = TypeVar("T")

_MOST = 256
"""Maximum number of concurrent calls, including calls that hang. Beyond it, no threads are started."""
_AWAY = (
    errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOTCONN, errno.ECONNREFUSED, errno.ECONNRESET,
    errno.ECONNABORTED, errno.EHOSTDOWN, errno.EHOSTUNREACH, errno.ENETDOWN, errno.ENETUNREACH, errno.ENODEV,
    errno.ENXIO,
)  # fmt: skip
"""Errors from a mount whose server is down."""
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EAGAIN, errno.EBUSY, errno.ENOLCK)
"""Other errors after which the same call may soon succeed."""
_NAMES = {  # error -> its name on HDFS
    errno.ENOENT: "FileNotFoundException",
    errno.EEXIST: "FileAlreadyExistsException",
    errno.ENOTDIR: "ParentNotDirectoryException",
    errno.ENOTEMPTY: "PathIsNotEmptyDirectoryException",
    errno.EACCES: "AccessControlException",
    errno.EPERM: "AccessControlException",
    errno.EXDEV: "AccessControlException",
    errno.EISDIR: "FileNotFoundException",
}
_NO_RIGHT = "ask for permission; files that containers wrote belong to root or nobody, see docs/storages.md"
_NEXT_STEPS = {
    errno.EACCES: _NO_RIGHT,
    errno.EPERM: _NO_RIGHT,
    errno.ENOSPC: "the storage is full; make room",
    errno.EDQUOT: "your quota there is used up; make room, or ask for more",
    errno.EROFS: "mount the storage on this machine with write access",
    errno.EXDEV: "use a path that stays in the storage when its links are followed",
    errno.EISDIR: 'open a file in it, (target / "NAME").open()',
    errno.ELOOP: "remove the circular link",
    errno.ENAMETOOLONG: "choose a shorter name",
}


class _Room:
    """How many more concurrent calls this process may make."""

    def __init__(self) -> None:
        self.renew()
        os.register_at_fork(after_in_child=self.renew)  # the parent's calls do not run in the child

    def renew(self) -> None:
        self.left = threading.Semaphore(_MOST)


_room = _Room()


def within(timeout: float, work: Callable[[], T]) -> T:
    """Return the result of a function, or raise its error.

    Nothing can interrupt a call to a mount whose server is down, not even Ctrl-C. The function therefore runs
    in a separate thread. After a TimeoutError, it may still be running and may change files.

    Raises:
        TimeoutError: The function takes longer than ``timeout`` seconds, or too many other calls hang.
    """
    room = _room.left
    if not room.acquire(timeout=timeout):
        raise TimeoutError(errno.ETIMEDOUT, f"no response to {_MOST} earlier calls")
    result: Future[T] = Future()

    result.add_done_callback(lambda _result: room.release())

    def call() -> None:
        try:
            result.set_result(work())
        except BaseException as error:  # noqa: BLE001  raised by ``result``
            result.set_exception(error)

    try:
        # a daemon thread, so that it does not prevent the process from exiting
        threading.Thread(target=call, name="storage", daemon=True).start()
    except BaseException:
        room.release()
        raise
    if not wait((result,), timeout).done:
        raise TimeoutError(errno.ETIMEDOUT, f"no response within {timeout:g} s (read_timeout)")
    return result.result()


class MountPoint(Volume):
    """A storage's folder on this machine. A link that leads out of the folder raises HdfsError.

    An operation takes at most ``timeout`` seconds. If the mount does not respond, HdfsUnreachable is raised;
    the operation may still be executed later.

    Args:
        name: The storage's name.
        root: The storage's folder on this machine.
        timeout: How long an operation may take, in seconds.

    Attributes:
        root: The storage's folder on this machine; empty for ``/``.
    """

    def __init__(self, name: str, root: str, timeout: float) -> None:
        self._name = name
        self.root = root.rstrip("/")
        self._timeout = timeout
        self._device: int | None = None  # the root's device when the root was first used
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
        """Return the error for a failed operation; see ``Volume``."""
        return failed(operation, self.local_path(path), self.server, reason, prefix="", **about)

    def is_there(self) -> bool:
        """Return whether the folder exists or existed before. If it is gone, operations raise HdfsError."""

        def look() -> bool:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                return stat.S_ISDIR(os.stat(f"{self.root}/.").st_mode)  # noqa: PTH116
            return False

        return self._device is not None or self._call("GETFILESTATUS", "/", look)

    def is_read_only(self) -> bool:
        """Return whether the storage is mounted read-only on this machine."""
        return bool(
            self._do("GETFILESTATUS", "/", lambda: os.statvfs(self.root or "/").f_flag & os.ST_RDONLY)
        )

    @contextlib.contextmanager
    def guarded(self, operation: str, path: str) -> Iterator[None]:
        """Raise HdfsError for an OSError that occurs inside ``with`` at ``local_path(path)``."""
        self._do(operation, path, lambda: None)
        try:
            yield
        except OSError as error:
            failure = self._failure(error, operation, path)
        else:
            return
        raise failure

    def _do(self, operation: str, path: str, work: Callable[[], T]) -> T:
        """Return the result of a function that accesses the mount; raise HdfsError for its OSError."""

        def work_on_mount() -> T:
            self._check_mounted()
            return work()

        return self._call(operation, path, work_on_mount)

    def _call(self, operation: str, path: str, work: Callable[[], T]) -> T:
        try:
            return within(self._timeout, work)
        except (OSError, LookupError, ValueError) as error:
            failure = self._failure(error, operation, path)
        raise failure

    def _failure(self, error: Exception, operation: str, path: str) -> HdfsError:
        # an error other than OSError: an invalid mode or path, or a user that does not exist on this machine
        number = (error.errno or errno.EIO) if isinstance(error, OSError) else errno.EINVAL
        name = _NAMES.get(number) if isinstance(error, OSError) else "IllegalArgumentException"
        reason = getattr(error, "strerror", None) or str(error)
        is_away = number in _AWAY
        failure = self.failed(
            operation,
            path,
            f"{name}: {reason}" if name else reason,
            next_step="check its mount on this machine" if is_away else _NEXT_STEPS.get(number, ""),
            exception=name,
            kind=HdfsUnreachable if is_away else None,
        )
        failure.transient = is_away or number in _PASSING
        return failure

    def _look(self, operation: str, path: str, work: Callable[[str], T]) -> T:
        """Like ``_do``, but pass the path on this machine, and try twice if the path does not seem to exist.

        For a minute, an NFS client may remember that a file was missing. Opening the file's folder makes the
        client ask the server again.
        """

        def look() -> T:
            try:
                return work(self._inside(path))
            except FileNotFoundError:
                look_again(posixpath.dirname(self.local_path(path)), self.root)
            return work(self._inside(path))

        return self._do(operation, path, look)

    def _check_mounted(self) -> None:
        """Raise OSError if the storage is no longer mounted: its folder is missing or an ordinary folder."""
        try:
            device = os.stat(f"{self.root}/.").st_dev  # noqa: PTH116  with the dot, autofs mounts it
        except (FileNotFoundError, NotADirectoryError):
            raise OSError(errno.ENOTCONN, f"there is no folder {self.root or '/'}") from None
        if self._device == device:
            return
        mount = mount_of(self.root or "/")
        if self._device is not None and _place_of(mount) != _place_of(self._mount):
            raise OSError(errno.ENOTCONN, f"it is no longer mounted at {self.root}")
        self._real_root = os.path.realpath(self.root or "/").rstrip("/")
        self._device, self._mount = device, mount

    def _inside(self, path: str, *, is_new: bool = False) -> str:
        """Return the path on this machine; raise OSError if a link leads out of the storage.

        If ``is_new``, a link at the end of the path is not followed.
        """
        place = self.local_path(path)
        seen = posixpath.dirname(place) if is_new and path != "/" else place
        if not f"{os.path.realpath(seen)}/".startswith(f"{self._real_root}/"):
            raise OSError(errno.EXDEV, "a link leads out of the storage")
        return place


def _place_of(mount: Mount | None) -> tuple[str, str] | None:
    return None if mount is None else (mount.source, mount.folder)
