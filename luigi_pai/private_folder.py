"""The user's locks and private folders on this machine. Standard library only."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import math
import os
import stat
import tempfile
import time
from pathlib import Path
from typing import IO, TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

_POLLED = 0.02  # seconds between two attempts to take a lock


def private_folder() -> Path:
    """Return the folder ``luigi-pai-UID`` in the temporary folder; create it if it does not exist.

    Every user may write to the temporary folder, so ``luigi-pai-UID`` is checked. It must be a folder
    (not a link) that belongs to this user, and no other user may have any access to it.

    Raises:
        PermissionError: The folder fails one of these checks.
        OSError: The folder cannot be made.
    """
    return make_private(Path(tempfile.gettempdir(), f"luigi-pai-{os.getuid()}"))


def state_folder() -> Path:
    """Return the folder ``luigi_pai`` in XDG_STATE_HOME or, if unset, in ~/.local/state; create it.

    The checks are the same as in ``private_folder``. The home folder must belong to this user, so that a
    process run by root leaves no files in another user's home.

    Raises:
        PermissionError: A folder fails one of these checks.
        OSError: The folder cannot be created.
        RuntimeError: This user has no home folder.
    """
    base = Path(os.environ.get("XDG_STATE_HOME", ""))
    if not base.is_absolute():
        home = Path.home()
        check_owner(home, home.stat())
        base = home / ".local" / "state"
    base.mkdir(mode=0o700, parents=True, exist_ok=True)
    return make_private(base / "luigi_pai")


def make_private(folder: Path) -> Path:
    """Create a folder that only this user can access, unless it exists; check it and return it.

    Raises:
        PermissionError: The path is not a folder (but a link, for example), belongs to another user, or is
            accessible to other users.
        OSError: The folder cannot be created.
    """
    folder.mkdir(mode=0o700, exist_ok=True)
    about = folder.lstat()
    if not stat.S_ISDIR(about.st_mode):
        raise PermissionError(f"{folder} is not a folder")
    check_owner(folder, about)
    if about.st_mode & 0o077:
        raise PermissionError(f"{folder} is open to other users")
    return folder


@contextlib.contextmanager
def one_at_a_time(kind: str, key: str, patience: float = math.inf) -> Iterator[None]:
    """Hold a lock shared by all of this user's processes and threads on this machine; others wait for it.

    If locking is not possible (the folder fails its checks, the file system does not support locks), continue
    without a lock. If the process is killed, the system releases the lock.

    Args:
        kind: The kind of work, such as ``upload``.
        key: What the work is for. There are 256 lock files per ``kind``, so two keys may share one.
        patience: Seconds to wait for another holder before continuing without the lock.
    """
    number = hashlib.sha256(key.encode(errors="replace")).hexdigest()[:2]
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            file = held.enter_context((private_folder() / f"{kind}-{number}.lock").open("w"))
            _lock(file, patience)
            # unlock, because closing the file frees no lock while a forked process has the file open
            held.callback(fcntl.flock, file, fcntl.LOCK_UN)
        yield


def _lock(file: IO[str], patience: float) -> None:
    end = time.monotonic() + patience
    while True:
        try:
            return fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= end:
                raise
        time.sleep(_POLLED)


def check_owner(path: Path, about: os.stat_result) -> None:
    """Raise PermissionError if a file or folder belongs to another user, even if this user is root."""
    if about.st_uid != os.getuid():
        raise PermissionError(f"{path} belongs to another user")
