"""A user's claims on this machine, for work without an output folder on the cluster.

They are in ``$XDG_STATE_HOME/luigi_pai/claims``. They decide which of one user's processes submits a job,
on one machine or on several machines that share the folder. They do not prove that a job succeeded.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import logging
import os
import random
import re
import time
import uuid
from typing import TYPE_CHECKING

from luigi_pai.errors import PaiError
from luigi_pai.private_folder import one_at_a_time, state_folder
from luigi_pai.work.claims import LARGEST, NotClaimed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

logger = logging.getLogger("luigi-interface")

_HASH = 32  # characters in the name of a folder of claims
_UNTOUCHED = 90 * 24 * 3600  # age in seconds at which a folder of claims is removed
_TIDIED = 300  # how many folders of claims a process checks for old ones to remove
_LONGEST_STEM = 200  # how many characters of a file's name its temporary name may contain
_TEMPORARY = re.compile(r"\.[0-9a-f]{12}\..+", re.DOTALL)
_ABANDONED = 6 * 3600  # age in seconds at which a temporary file counts as abandoned
_TRIES = 3
_PASSING = (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE)
_MAKE_ROOM = "make room there, or set XDG_STATE_HOME to another folder"
_CHECK = "check the file system of that folder, and run the task again"

_roots: dict[tuple[str, str], Path | None] = {}  # by XDG_STATE_HOME and HOME; None: it cannot be used
_warned: set[str] = set()  # values of XDG_STATE_HOME


def local_claims(
    cluster: str, user: str, place: str, retention: float, now: Callable[[], float] = time.time
) -> LocalClaimFolder | None:
    """Return the folder for some work's claims; None, after one warning, if it cannot be used.

    Args:
        cluster: The URL of the rest-server.
        user: The user who submits.
        place: The work's output folder, or the work's name if it has no output folder.
        retention: A submission's claim is ignored after this many seconds without a new file.
        now: Returns seconds since 1970 UTC.
    """
    about = os.environ.get("XDG_STATE_HOME", ""), os.environ.get("HOME", "")
    if about not in _roots:
        _roots[about] = _root(max(_UNTOUCHED, retention), now)
    root = _roots[about]
    if root is None:
        return None
    key = json.dumps([cluster, user, place])
    return LocalClaimFolder(root / hashlib.sha256(key.encode()).hexdigest()[:_HASH], retention, now)


def _root(age: float, now: Callable[[], float]) -> Path | None:
    """Return the folder with all folders of claims, after removing those older than ``age`` seconds."""
    try:
        root = state_folder() / "claims"
        root.mkdir(mode=0o700, exist_ok=True)
        folders = [*root.iterdir()]
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home folder
        warn_once(error)
        return None
    oldest = now() - age
    for folder in random.sample(folders, min(len(folders), _TIDIED)):
        with contextlib.suppress(OSError):  # another process is doing the same, or there are new files
            if folder.lstat().st_mtime < oldest:
                _remove(folder, oldest)
    return root


def _remove(folder: Path, oldest: float) -> None:
    """Remove a folder of claims, unless another process has just touched a file in it."""
    with only_remover(folder):
        for file in folder.iterdir():
            if file.lstat().st_mtime < oldest:
                file.unlink()
        folder.rmdir()


class LocalClaimFolder:
    """A folder of claims on this machine; see ``ClaimFolder``.

    A file is written under another name and then linked, which succeeds for only one process. Other
    processes therefore see a file only when it is complete and on the disk. If the file system fails, each
    process logs one warning, and work continues without claims. Only points that share jobs wait while the
    disk is full or failing.

    Args:
        folder: The path. Only the user has access to its parents.
        retention: A submission's claim is ignored after this many seconds without a new file; the next
            listing of the folder then removes it.
        now: Returns seconds since 1970 UTC.
    """

    def __init__(self, folder: Path, retention: float, now: Callable[[], float]) -> None:
        self._folder = folder
        self._retention = retention
        self._now = now
        self.where = str(folder)

    def names(self) -> list[str]:
        """Return the names of the files; an empty list if the folder does not exist."""
        times: dict[str, float] = {}
        try:
            times = self._times()
            if self._expired(times):
                with only_remover(self._folder):
                    times = self._times()
                    for name in self._expired(times):
                        self._path(name).unlink(missing_ok=True)
                        del times[name]
        except OSError as error:
            warn_once(error)
        return [name for name in times if not _TEMPORARY.fullmatch(name)]

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        data = None
        try:
            descriptor = os.open(self._path(name), os.O_RDONLY | os.O_NOFOLLOW)
            with os.fdopen(descriptor, "rb") as file:
                data = file.read(LARGEST + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            warn_once(error)
        if data is not None and len(data) > LARGEST:
            raise self.failed(name, f"has more than {LARGEST:,} bytes", "remove the file")
        return data

    def create_once(self, name: str, data: bytes, *, is_needed: bool = False) -> bool:
        """Create a file; return False if it exists.

        If the file system fails, return True, or raise NotClaimed if the file is needed and the error may
        pass.
        """
        for _ in range(_TRIES):
            exists = False
            try:
                with self._written(name, data) as temporary:
                    exists = not self._linked(temporary, name)
            except OSError as error:
                if is_needed and error.errno in _PASSING:
                    problem = f"cannot be written ({error.strerror}), so its job was not submitted"
                    raise NotClaimed(self.failed(name, problem, _MAKE_ROOM)) from error
                warn_once(error)
            if not exists:
                return True
            if name in self.names():  # else it has expired
                break
        return False

    def replace(self, name: str, data: bytes) -> None:
        """Write a file; if it exists, replace it atomically."""
        try:
            with only_remover(self._folder), self._written(name, data) as temporary:
                temporary.replace(self._path(name))
                self._sync()
        except OSError as error:
            warn_once(error)

    def add(self, name: str) -> None:
        """Create an empty file, unless it exists."""
        try:
            self._make()
            descriptor = os.open(self._path(name), os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
            try:
                os.utime(descriptor, (self._now(), self._now()))
            finally:
                os.close(descriptor)
        except OSError as error:
            warn_once(error)

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        try:
            with only_remover(self._folder):
                self._path(name).unlink(missing_ok=True)
        except OSError as error:
            warn_once(error)

    def failed(self, name: str, problem: str, step: str = _CHECK) -> PaiError:
        """Return an error about a file; see ``ClaimFolder``."""
        return PaiError(f"{self._path(name)} {problem}; {step}")

    def _path(self, name: str) -> Path:
        return self._folder / name

    def _linked(self, temporary: Path, name: str) -> bool:
        """Link a complete file to its name; return False if the name exists."""
        try:
            os.link(temporary, self._path(name))
        except FileExistsError:  # NFS also raises this if it linked the file and then repeats the request
            return temporary.stat().st_nlink > 1
        self._sync()
        return True

    def _times(self) -> dict[str, float]:
        """Return name -> modification time for each file, in seconds since 1970 UTC."""
        times = {}
        with contextlib.suppress(FileNotFoundError), os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another process has just removed it
                    times[entry.name] = entry.stat(follow_symlinks=False).st_mtime
        return times

    def _expired(self, times: dict[str, float]) -> list[str]:
        """Return abandoned files and expired submissions' files; claims come after event files."""
        newest: dict[str, float] = {}
        for name, changed in times.items():
            submission = name.rpartition(".")[0]
            newest[submission] = max(newest.get(submission, 0.0), changed)
        expired = self._now() - self._retention
        abandoned = time.time() - _ABANDONED  # the file system's time, until the file is complete
        found = [
            name
            for name, changed in times.items()
            if (
                changed < abandoned
                if _TEMPORARY.fullmatch(name)
                else newest[name.rpartition(".")[0]] < expired
            )
        ]
        return sorted(found, key=lambda name: name.endswith(".json"))

    @contextlib.contextmanager
    def _written(self, name: str, data: bytes) -> Iterator[Path]:
        """Write a file under another name, and remove that name afterwards if it still exists."""
        temporary = self._path(f".{uuid.uuid4().hex[:12]}.{name[-_LONGEST_STEM:]}")
        for tries_left in reversed(range(_TRIES)):
            self._make()
            try:
                descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileNotFoundError:  # another process has just removed the folder, because it was old
                if not tries_left:
                    raise
            else:
                break
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                file.flush()
                os.utime(descriptor, (self._now(), self._now()))
                os.fsync(descriptor)
            yield temporary
        finally:
            temporary.unlink(missing_ok=True)

    def _make(self) -> None:
        """Create the folder, including its parents if they were removed while this process ran."""
        for folder in (*reversed(self._folder.parents[:2]), self._folder):
            folder.mkdir(mode=0o700, exist_ok=True)

    def _sync(self) -> None:
        """Write the folder's entries to the disk."""
        descriptor = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def only_remover(folder: Path) -> contextlib.AbstractContextManager[None]:
    """Return the lock that a process needs to remove or replace files in a folder of claims.

    Without it, a process that found an expired claim could remove the new claim that replaced it.
    """
    return one_at_a_time("claims", str(folder))


def warn_once(error: Exception) -> None:
    """Warn, once per process, that claims cannot be kept."""
    place = os.environ.get("XDG_STATE_HOME", "")
    if place not in _warned:
        _warned.add(place)
        logger.warning(
            "Claims cannot be kept on this machine (%s). Work continues without them: if two runs submit the "
            "same work at once, it may run twice. Set XDG_STATE_HOME to a folder of yours to keep them",
            error,
        )
