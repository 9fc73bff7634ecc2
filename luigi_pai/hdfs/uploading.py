"""Sending a local file or folder to HDFS: in parallel, only what changed, whole files only."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import logging
import os
import posixpath
import stat
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import Problem
from luigi_pai.hdfs.destination import (
    OURS,
    Manifest,
    is_folder,
    look_at_file,
    look_at_folder,
    status_or_none,
)
from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError, TransferError
from luigi_pai.hdfs.local_tree import LocalTree
from luigi_pai.hdfs.staging import Stage
from luigi_pai.hdfs.transfer import JOBS, Threads, Transfer, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.hdfs.client import WebHdfs
    from luigi_pai.hdfs.destination import Destination
    from luigi_pai.hdfs.local_tree import LocalFile

__all__ = ["Upload", "upload"]

logger = logging.getLogger("luigi-interface")

_BATCH = 256 * 1024 * 1024  # bytes that are published together
_TRIES = 3  # when uploads from elsewhere make the destination at the same moment
_LEFT_BEHIND = 24 * 3600  # seconds after which an upload that published nothing is taken to be dead


def upload(
    fs: WebHdfs,
    local: str | os.PathLike[str],
    destination: str,
    *,
    delete: bool = False,
    jobs: int = JOBS,
) -> Transfer:
    """Send a local file, or what is in a local folder, to HDFS, as far as it is new or changed.

    Args:
        fs: the file system.
        local: the file or folder.
        destination: in any way that ``hdfs_path`` takes. For a folder, the
            folder on HDFS that gets what is in it; for a file, its path, or
            the folder that it goes into (one that exists, or ends with ``/``).
        delete: remove what an earlier upload has put there and is gone here.
        jobs: files sent at once.

    Raises:
        TransferError: files that cannot be sent, all of them, and nothing was sent; or
            one that could not be read to its end.
        HdfsError: HDFS refused something or did not answer. What was sent before is
            there, and the next upload goes on from it.
    """
    return Upload(fs, local, destination, delete=delete, jobs=jobs).send()


class Upload:
    """A local file or folder and its destination; making one sends nothing and asks nobody.

    The arguments are those of ``upload``.

    Raises:
        TransferError: files that cannot be sent, all of them.
    """

    def __init__(
        self,
        fs: WebHdfs,
        local: str | os.PathLike[str],
        destination: str,
        *,
        delete: bool = False,
        jobs: int = JOBS,
    ) -> None:
        self._local = Path(local)
        self._destination = destination
        self._threads = Threads(jobs)
        self._server, self._path = fs.at(destination)
        self._is_folder = _is_folder_here(self._local)
        self._delete = delete and self._is_folder
        if self._is_folder:
            self._tree = LocalTree.of_folder(self._local)
        else:
            if destination.endswith("/"):
                self._path = posixpath.join(self._path, self._local.name)
            self._tree = self._tree_of_file()

    def sizes_below(self, path: str) -> dict[str, int]:
        """Return the size in bytes of each file that goes to an absolute path on HDFS, or below it."""
        paths = {name: posixpath.join(self._path, name) for name in self._tree.files}
        if not self._is_folder:
            paths = dict.fromkeys(paths, self._path)
        inside = f"{path.rstrip('/')}/"
        return {
            name: file.size
            for name, file in self._tree.files.items()
            if paths[name] == path or paths[name].startswith(inside)
        }

    def send(self) -> Transfer:
        """Send what is new or changed.

        Raises:
            HdfsError: HDFS refused something or did not answer.
            TransferError: a local file could not be read, or is a folder on HDFS.
        """
        with one_at_a_time(f"{self._server.server}{self._path}"):
            for _try in range(_TRIES):
                with contextlib.suppress(FileAlreadyExists):
                    return self._send()
            return self._send()

    def _send(self) -> Transfer:
        there = self._look()
        conflicts = there.conflicts_with(self._tree)
        if conflicts:
            why = "is a folder on one side and a file on the other; remove one of them"
            raise TransferError(
                f"nothing of {self._local} was sent to {self._destination}",
                [Problem(name, why) for name in conflicts],
            )
        files = list(self._tree.files.values())
        same = self._threads.map(lambda file: _is_same(file, there), files)
        changed = [file for file, is_same in zip(files, same, strict=True) if not is_same]
        batches = list(_batches(changed))
        if not batches and there.lacks(self._tree.folders):
            batches = [[]]
        size = sum(file.size for file in changed)
        with progress(self._local.name or str(self._local), size + len(changed)) as advance:
            for batch in batches:
                there = self._send_batch(batch, there, advance)
        removed = self._remove_gone(there) if self._delete else 0
        self._clear_away(there)
        done = Transfer("uploaded", self._destination, len(changed), len(files), size, removed)
        logger.info("%s", done)
        return done

    def _look(self) -> Destination:
        if self._is_folder:
            return look_at_folder(
                self._server, self._path, self._tree.folders, self._threads, also_known=self._delete
            )
        status = status_or_none(self._server, self._path)
        if status is not None and is_folder(status):
            self._path = posixpath.join(self._path, self._local.name)
            self._tree = self._tree_of_file()
        return look_at_file(self._server, self._path)

    def _tree_of_file(self) -> LocalTree:
        return LocalTree.of_file(self._local, posixpath.basename(self._path) or self._local.name)

    def _send_batch(
        self, files: list[LocalFile], there: Destination, advance: Callable[[int], None]
    ) -> Destination:
        """Send files and publish them; what is whole is published also if others fail."""
        with Stage(self._server, there, self._threads) as stage:
            try:
                self._threads.map(lambda file: stage.send(file, advance), files)
            except BaseException:  # also Ctrl-C
                if not stage.is_empty:
                    with contextlib.suppress(HdfsError):  # the first failure is the one to tell
                        stage.publish(self._tree.folders)
                raise
            return stage.publish(self._tree.folders)

    def _remove_gone(self, there: Destination) -> int:
        """Remove what earlier uploads have put there and is gone here; return how many files."""
        known = there.manifest
        gone = known.files.keys() - self._tree.files.keys()
        ours = sorted(name for name in gone if known.files[name].is_of(there.statuses.get(name)))
        others = sorted(gone & there.statuses.keys() - set(ours))
        if others:
            logger.warning(
                "%s: not removed, because somebody else has changed them: %s",
                self._destination,
                ", ".join(others),
            )
        self._threads.map(lambda name: self._server.remove(there.of(name), recursive=False), ours)
        folders = known.folders - self._tree.folders
        for name in sorted(folders, reverse=True):  # what is in a folder comes before it
            if there.has_folder(name):
                with contextlib.suppress(HdfsError):  # something of others is in it
                    self._server.remove(there.of(name), recursive=False)
        if gone or folders:
            rest = {name: entry for name, entry in known.files.items() if name not in gone}
            with Stage(self._server, there, self._threads) as stage:
                stage.note(Manifest(rest, known.folders - folders))
        return len(ours)

    def _clear_away(self, there: Destination) -> None:
        """Remove what uploads that were killed have left behind in the destination."""
        oldest = (time.time() - _LEFT_BEHIND) * 1000
        for name, status in there.statuses.items():
            if OURS.match(name) and is_folder(status) and status["modificationTime"] < oldest:
                with contextlib.suppress(HdfsError):
                    self._server.remove(there.of(name), recursive=True)


@contextlib.contextmanager
def one_at_a_time(place: str) -> Iterator[None]:
    """Wait until no other process or thread of this user on this machine is inside for the same place.

    The tasks of a sweep begin at once and upload the same code: the first sends
    it, the others then find nothing to send. What is right does not hang on it:
    where no lock can be had, and for other machines, uploads go on side by side.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            lock = _lock_file(place)
            held.callback(os.close, lock)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                logger.info("Another upload from this machine to %s is under way: waiting for its end", place)
                fcntl.flock(lock, fcntl.LOCK_EX)  # freed by the system when that one ends, however it ends
        yield


def _lock_file(place: str) -> int:
    folder = Path(tempfile.gettempdir(), f"luigi-pai-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    found = folder.lstat()
    if found.st_uid != os.getuid():
        raise PermissionError(f"{folder} is not ours")
    name = hashlib.sha256(place.encode()).hexdigest()[:32]
    return os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _is_folder_here(place: Path) -> bool:
    try:
        return stat.S_ISDIR(place.stat().st_mode)
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        why = "there is no such file or folder" if missing else f"it cannot be read ({error.strerror})"
        raise TransferError("nothing was sent", [Problem(str(place), why)]) from None


def _is_same(file: LocalFile, there: Destination) -> bool:
    """Return whether a file is on HDFS as it is here."""
    entry = there.manifest.files.get(file.name)
    if entry is None or entry.length != file.size or not entry.is_of(there.statuses.get(file.name)):
        return False
    return file.sha256() == entry.sha256


def _batches(files: list[LocalFile]) -> Iterator[list[LocalFile]]:
    batch: list[LocalFile] = []
    size = 0
    for file in files:
        batch.append(file)
        size += file.size
        if size >= _BATCH:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch
