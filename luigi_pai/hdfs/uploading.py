"""Sending a local file or folder to HDFS: in parallel, only what changed, whole files only."""

from __future__ import annotations

import contextlib
import hashlib
import logging
import posixpath
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import Problem
from luigi_pai.hdfs.destination import is_folder, look_at_file, look_at_folder, status_or_none
from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError, TransferError
from luigi_pai.hdfs.local_tree import LocalTree
from luigi_pai.hdfs.manifest import OURS, Manifest
from luigi_pai.hdfs.parallel import Threads
from luigi_pai.hdfs.progress import progress
from luigi_pai.hdfs.small_files import SmallFiles
from luigi_pai.hdfs.staging import Stage
from luigi_pai.hdfs.transfer import JOBS, Transfer
from luigi_pai.hdfs.turns import one_at_a_time

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    from luigi_pai.hdfs.client import WebHdfs
    from luigi_pai.hdfs.destination import Destination
    from luigi_pai.hdfs.local_tree import LocalFile
    from luigi_pai.hdfs.manifest import Entry

__all__ = ["Upload", "upload"]

logger = logging.getLogger("luigi-interface")

_BATCH = 256 * 1024 * 1024  # bytes that are published together
_READ_AT_ONCE = 1024 * 1024  # bytes
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
        TransferError: files that cannot be sent, all of them; nothing was sent.
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
        self._small_files = SmallFiles(self._server)
        if not self._local.exists():
            raise TransferError("nothing was sent", [Problem(str(local), "there is no such file or folder")])
        self._is_folder = self._local.is_dir()
        self._delete = delete and self._is_folder
        if not self._is_folder:
            name = self._local.name
            self._path = posixpath.join(self._path, name) if destination.endswith("/") else self._path
            self._tree = LocalTree.of_file(self._local, posixpath.basename(self._path) or name)
        else:
            self._tree = LocalTree.of_folder(self._local)

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
        size = sum(file.size for file in changed)
        with progress(
            f"{self._local.name or self._local}", sum(file.size + 1 for file in changed)
        ) as advance:
            batches = [*_batches(changed)]
            if not batches and self._missing_folders(there):
                batches = [[]]
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
        name = posixpath.basename(self._path)
        self._tree = LocalTree.of_file(self._local, name)
        return look_at_file(self._server, self._path)

    def _missing_folders(self, there: Destination) -> set[str]:
        missing = {name for name in self._tree.folders if not there.has_folder(name)}
        return missing if there.exists else missing | {""}

    def _send_batch(
        self, files: list[LocalFile], there: Destination, advance: Callable[[int], None]
    ) -> Destination:
        """Send files and publish them; what is whole is published also if others fail."""
        stage = Stage(self._server, there, self._threads)
        sent: dict[str, tuple[int, str]] = {}

        def send(file: LocalFile) -> None:
            sent[file.name] = self._send_file(file, stage.place(file.name), advance)

        def publish() -> Destination:
            entries = stage.entries(sent)
            folders = self._missing_folders(there)
            manifest = Manifest(
                {**_still_true(there), **entries}, there.manifest.folders | self._tree.folders
            )
            stage.publish(sent, folders, manifest)
            statuses = {name: entry.as_status() for name, entry in entries.items()}
            made = {name: {"type": "DIRECTORY"} for name in self._tree.folders}
            return replace(
                there, exists=True, statuses={**made, **there.statuses, **statuses}, manifest=manifest
            )

        try:
            self._threads.map(send, files)
            return publish()
        except BaseException:
            if sent and len(sent) < len(files):
                with contextlib.suppress(HdfsError):  # the first failure is the one to tell
                    stage.discard({file.name for file in files} - sent.keys())
                    publish()
            raise
        finally:
            with contextlib.suppress(HdfsError):  # it is in nobody's way, and the next upload removes it
                stage.remove()

    def _send_file(self, file: LocalFile, path: str, advance: Callable[[int], None]) -> tuple[int, str]:
        """Send one file; return its length and its SHA-256, as it was sent."""
        digest = hashlib.sha256()
        length = 0

        def parts() -> Iterator[bytes]:
            nonlocal length
            for part in _parts(file):
                self._threads.check()
                digest.update(part)
                length += len(part)
                yield part
                advance(len(part))

        self._threads.check()
        if file.size > _READ_AT_ONCE:
            self._server.create_file(path, parts(), overwrite=False)
        else:
            self._small_files.write(path, b"".join(parts()))
        advance(1)
        return length, digest.hexdigest()

    def _remove_gone(self, there: Destination) -> int:
        """Remove what earlier uploads have put there and is gone here; return how many files."""
        known = there.manifest
        gone = known.files.keys() - self._tree.files.keys()
        ours = sorted(name for name in gone if known.files[name].is_of(there.statuses.get(name)))
        others = sorted(name for name in gone & there.statuses.keys() if name not in ours)
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
            stage = Stage(self._server, there, self._threads)
            try:
                stage.publish((), (), Manifest(rest, known.folders - folders))
            finally:
                stage.remove()
        return len(ours)

    def _clear_away(self, there: Destination) -> None:
        """Remove what uploads that were killed have left behind in the destination."""
        oldest = (time.time() - _LEFT_BEHIND) * 1000
        for name, status in there.statuses.items():
            if OURS.match(name) and is_folder(status) and status["modificationTime"] < oldest:
                with contextlib.suppress(HdfsError):
                    self._server.remove(there.of(name), recursive=True)


def _is_same(file: LocalFile, there: Destination) -> bool:
    """Return whether a file is on HDFS as it is here."""
    entry = there.manifest.files.get(file.name)
    if entry is None or entry.length != file.size or not entry.is_of(there.statuses.get(file.name)):
        return False
    digest = hashlib.sha256()
    for part in _parts(file):
        digest.update(part)
    return digest.hexdigest() == entry.sha256


def _parts(file: LocalFile) -> Iterator[bytes]:
    try:
        with file.place.open("rb") as opened:
            while part := opened.read(_READ_AT_ONCE):
                yield part
    except OSError as error:
        reason = error.strerror or str(error)
        raise TransferError(f"{file.place} cannot be read", [Problem(file.name, reason)]) from error


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


def _still_true(there: Destination) -> dict[str, Entry]:
    """Return what the manifest says, without what was found to be otherwise."""
    return {
        name: entry
        for name, entry in there.manifest.files.items()
        if posixpath.dirname(name) not in there.looked_at or entry.is_of(there.statuses.get(name))
    }
