"""Stage: sends files to a temporary folder on the cluster, and publishes them from there."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import logging
import posixpath
from typing import TYPE_CHECKING

from luigi_pai.files.errors import FileAlreadyExists, HdfsError, not_kept
from luigi_pai.files.renames import rename_exactly, replace
from luigi_pai.files.temporary import temporary_path, tidy
from luigi_pai.files.transfer.destination import MANIFEST, Destination, Entry, manifest_json
from luigi_pai.files.transfer.pool import JOBS, READ_AT_ONCE, WorkerPool

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from typing_extensions import Self

    from luigi_pai.files.transfer.local_tree import LocalFile
    from luigi_pai.files.transfer.pool import Tree
    from luigi_pai.files.transfer.remote_tree import RemoteFile
    from luigi_pai.files.volume import Volume

logger = logging.getLogger("luigi-interface")


class Stage:
    """The temporary folder of an upload or a copy; if it still exists at the end of ``with``, it is removed.

    If the destination is new, the folder is made beside it, and becomes the destination by one rename. If
    the destination exists, the folder is made in the destination, and each file is renamed to its place.

    Attributes:
        sent: name of each file that was sent completely -> its length and SHA-256.
    """

    def __init__(self, volume: Volume, there: Destination, pool: WorkerPool) -> None:
        self._volume = volume
        self._there = there
        self._pool = pool
        self._numbers = itertools.count()
        self._places: dict[str, str] = {}
        self.sent: dict[str, tuple[int, str]] = {}
        self._path = temporary_path(there.of("upload") if there.exists else there.path, volume.owner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_about: object) -> None:
        try:
            self._remove()
        except KeyboardInterrupt:  # it may have interrupted the removal
            self._remove()
            raise

    def _remove(self) -> None:
        with contextlib.suppress(HdfsError):  # if this fails, the next upload removes the folder
            self._volume.remove(self._path, recursive=True)
        tidy(self._volume, posixpath.dirname(self._path))

    def send(self, file: LocalFile | RemoteFile) -> None:
        """Send a file, without publishing it.

        Raises:
            TransferError: the local file cannot be read, or it was changed while it was read.
            HdfsError: an operation was refused or not answered.
            CancelledError: other work of the same pool has failed.
        """
        digest = hashlib.sha256()
        length = 0

        def parts() -> Iterator[bytes]:
            nonlocal length
            for part in file.parts():
                self._pool.advance(len(part))
                digest.update(part)
                length += len(part)
                yield part

        self._pool.advance(1)
        inside = str(next(self._numbers)) if self._there.exists else file.name
        place = self._places[file.name] = posixpath.join(self._path, inside)
        self._volume.create_file(place, parts() if file.size > READ_AT_ONCE else b"".join(parts()))
        if self._volume.keeps_modes:
            with contextlib.suppress(HdfsError, OSError):  # it has been sent, though as a file like any other
                if file.is_executable():
                    self._volume.set_mode(place, "755")
        self.sent[file.name] = (length, digest.hexdigest())

    def publish(self, folders: Iterable[str], *, is_upload: bool = True) -> None:
        """Publish the files that were sent completely, and folders.

        Args:
            folders: names of the folders that the destination needs.
            is_upload: replace existing files, and write the manifest.

        Raises:
            FileAlreadyExists: another process has made the destination, or a file that must not be replaced.
            HdfsError: an operation was refused or not answered.
        """
        there = self._there
        begun = [self._places[name] for name in self._places.keys() - self.sent.keys()]
        self._pool.map(lambda place: self._volume.remove(place, recursive=False), begun)
        entries = self._entries()
        self._make_folders(there.lacks(folders))
        if there.exists:
            rename = replace if is_upload else rename_exactly
            self._pool.map(lambda name: rename(self._volume, self._places[name], there.of(name)), self.sent)
        if is_upload:
            self._write_manifest({**there.manifest, **entries})
        if not there.exists:
            rename_exactly(self._volume, self._path, there.path)

    def _write_manifest(self, entries: Mapping[str, Entry]) -> None:
        place, content = posixpath.join(self._path, MANIFEST), manifest_json(entries)
        # in a thread, so that Ctrl-C waits for the answer, and no DataNode creates the file after ``_remove``
        self._pool.map(lambda path: self._volume.create_file(path, content), [place])
        if self._there.exists:
            try:
                replace(self._volume, place, self._there.of(MANIFEST))
            except HdfsError as error:
                logger.warning("The manifest cannot be written; these files will be sent again: %s", error)

    def _entries(self) -> dict[str, Entry]:
        """Check the lengths of the files that were sent, and return their manifest entries."""
        folders = sorted({posixpath.dirname(self._places[name]) for name in self.sent})
        listings = self._pool.map(self._volume.list_status, folders)
        found = {
            posixpath.join(folder, status["pathSuffix"]): status
            for folder, listing in zip(folders, listings, strict=True)
            for status in listing
        }
        entries = {}
        for name, (length, sha256) in self.sent.items():
            place = self._places[name]
            there = found.get(place, {}).get("length")
            if there != length:
                raise not_kept(place, self._volume.server, length, there)
            entries[name] = Entry(length, found[place]["modificationTime"], sha256)
        return entries

    def _make_folders(self, missing: set[str]) -> None:
        """Make the missing folders that stay empty; the others are made when something in them is made."""
        is_new = not self._there.exists
        root = self._path if is_new else self._there.path
        filled = {posixpath.dirname(name) for name in (*missing, *(self.sent if is_new else ())) if name}
        empty = [posixpath.join(root, name).rstrip("/") for name in missing - filled]
        self._pool.map(self._volume.make_folders, empty)


def send_new(tree: Tree[LocalFile] | Tree[RemoteFile], volume: Volume, goal: str) -> None:
    """Send a file or folder to a new path on the cluster."""
    if volume.status(goal):
        raise volume.failed("CREATE", goal, "it exists", kind=FileAlreadyExists)
    pool = WorkerPool(JOBS)
    files: list[LocalFile | RemoteFile] = list(tree.files.values())
    there = Destination(goal, exists=False)
    if tree.is_file:
        files = [dataclasses.replace(file, name=posixpath.basename(goal)) for file in files]
        there = Destination(posixpath.dirname(goal), exists=True)
    with Stage(volume, there, pool) as stage:
        pool.map(stage.send, files)
        stage.publish(tree.folders, is_upload=False)
