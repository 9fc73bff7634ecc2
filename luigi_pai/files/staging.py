"""Sends files to a temporary folder on the cluster, publishes them, and records them in a manifest.

HDFS's own file checksum (GETFILECHECKSUM) depends on how the file was written, and not every server returns
it. Therefore, an upload records each file's SHA-256, and its length and modification time on HDFS. An entry
describes one version of one file, so it is correct even if two uploads write the manifest at the same time.
If an entry is lost, the only effect is that its file is sent again.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import itertools
import json
import logging
import posixpath
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.files.errors import FileAlreadyExists, HdfsError, HdfsUnreachable, check_kept
from luigi_pai.files.pool import JOBS, WorkerPool
from luigi_pai.files.temporary import discard, temporary_path
from luigi_pai.files.trees import MANIFEST, READ_AT_ONCE, is_folder, list_folders, list_tree
from luigi_pai.files.writer import rename_exactly, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from typing_extensions import Self

    from luigi_pai.files.trees import LocalFile, RemoteFile, Tree
    from luigi_pai.files.volume import Volume

logger = logging.getLogger("luigi-interface")

_VERSION = 1
_LONGEST = 128 * 1024 * 1024  # bytes, enough for a manifest of a million files; a larger one is ignored


@dataclass(frozen=True)
class Entry:
    """One version of a file on the cluster.

    Attributes:
        length: The length in bytes.
        modificationTime: The modification time on the cluster, in milliseconds since 1970.
        sha256: The SHA-256 of the content, in hex.
    """

    length: int
    modificationTime: int
    sha256: str

    def describes(self, status: Mapping[str, Any] | None) -> bool:
        """Return whether a FileStatus describes this version of the file."""
        version = {"type": "FILE", "length": self.length, "modificationTime": self.modificationTime}
        return status is not None and version.items() <= status.items()


@dataclass(frozen=True)
class Destination:
    """The state of a folder on the cluster at the time of a lookup.

    Attributes:
        path: The folder's absolute path.
        exists: Whether the folder exists.
        statuses: Entry name -> FileStatus, for each entry that was looked up.
        manifest: Name of a file in the folder -> its entry in the manifest of earlier uploads.
    """

    path: str
    exists: bool
    statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    manifest: Mapping[str, Entry] = field(default_factory=dict)

    def has_folder(self, name: str) -> bool:
        """Return whether the destination contains a folder with this name."""
        return name in self.statuses and is_folder(self.statuses[name])

    def path_of(self, name: str) -> str:
        """Return the path of an entry."""
        return f"{self.path.rstrip('/')}/{name}"

    def missing(self, folders: Iterable[str]) -> set[str]:
        """Return the names of missing folders; ``""`` is the destination itself."""
        missing = {name for name in folders if not self.has_folder(name)}
        return missing if self.exists else missing | {""}

    def conflicts_with(self, tree: Tree[LocalFile]) -> list[str]:
        """Return the names that are a file in ``tree`` but a folder at the destination, or vice versa."""
        files = [name for name in tree.files if self.has_folder(name)]
        folders = [name for name in tree.folders if name in self.statuses and not self.has_folder(name)]
        return sorted(files + folders)


def file_destination(volume: Volume, path: str) -> Destination:
    """Return a file's destination folder, looking up only the file itself in it."""
    folder, name = posixpath.split(path)
    status = volume.status(path)
    statuses = {} if status is None else {name: status}
    return Destination(folder, exists=True, statuses=statuses, manifest=_read_manifest(volume, folder))


def folder_destination(volume: Volume, path: str, folders: Iterable[str], pool: WorkerPool) -> Destination:
    """Return a folder with its entries and the entries of some subfolders.

    Args:
        volume: The file system.
        path: The folder's path.
        folders: The names of the subfolders, at any depth, to list if they exist.
        pool: The threads that list the folders.

    Raises:
        NotADirectory: ``path`` is a file.
    """
    try:
        statuses = list_tree(volume, path, pool, {*folders}.__contains__)
    except HdfsError as error:
        if error.exception == "FileNotFoundException":
            return Destination(path, exists=False)
        raise
    manifest = _read_manifest(volume, path) if MANIFEST in statuses else {}
    return Destination(path, exists=True, statuses=statuses, manifest=manifest)


def _read_manifest(volume: Volume, folder: str) -> dict[str, Entry]:
    """Return the entries in a folder's manifest; none if the manifest is missing or cannot be read.

    Raises:
        HdfsUnreachable: The file system does not respond.
    """
    try:
        content = volume.read_part(posixpath.join(folder, MANIFEST), 0, _LONGEST + 1)
    except HdfsUnreachable:
        raise
    except HdfsError as error:
        if error.exception != "FileNotFoundException":
            logger.warning("Cannot read the manifest of earlier uploads; sending all files again: %s", error)
        return {}
    try:
        document = json.loads(content if len(content) <= _LONGEST else b"")
        if document["version"] != _VERSION:
            return {}
        return {str(name): Entry(**entry) for name, entry in document["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}


class Stage:
    """The temporary folder for an upload or a copy. If it still exists at the end of ``with``, it is removed.

    If the destination is new, the folder is created next to it and then renamed to the destination. If the
    destination exists, the folder is created inside it, and each file is renamed to its final path.

    Attributes:
        sent: Name of each completely sent file -> its length and SHA-256.
    """

    def __init__(self, volume: Volume, there: Destination, pool: WorkerPool) -> None:
        self._volume = volume
        self._there = there
        self._pool = pool
        self._numbers = itertools.count()
        self._places: dict[str, str] = {}
        self.sent: dict[str, tuple[int, str]] = {}
        self._path = temporary_path(there.path_of("upload") if there.exists else there.path, volume.owner)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_about: object) -> None:
        try:
            discard(self._volume, self._path)  # if this fails, the next upload removes the folder
        except KeyboardInterrupt:  # it may have interrupted the removal
            discard(self._volume, self._path)
            raise

    def send(self, file: LocalFile | RemoteFile) -> None:
        """Send a file without publishing it.

        Raises:
            TransferError: The local file cannot be read, or changed while it was being read.
            HdfsError: The server rejected an operation or did not respond.
            CancelledError: Other work of the same pool has failed.
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
            with contextlib.suppress(HdfsError, OSError):  # sent, but without its executable bit
                if file.is_executable():
                    self._volume.set_mode(place, "755")
        self.sent[file.name] = (length, digest.hexdigest())

    def publish(self, folders: Iterable[str], *, is_upload: bool = True) -> None:
        """Publish the completely sent files, and create folders.

        Args:
            folders: The names of the folders that the destination needs.
            is_upload: Whether to replace existing files and write the manifest.

        Raises:
            FileAlreadyExists: Another process created the destination or a file that must not be replaced.
            HdfsError: The server rejected an operation or did not respond.
        """
        there = self._there
        incomplete = [self._places[name] for name in self._places.keys() - self.sent.keys()]
        self._pool.map(lambda place: self._volume.remove(place, recursive=False), incomplete)
        entries = self._entries()
        self._make_folders(there.missing(folders))
        if there.exists:
            rename = replace if is_upload else rename_exactly
            self._pool.map(
                lambda name: rename(self._volume, self._places[name], there.path_of(name)), self.sent
            )
        if is_upload:
            self._write_manifest({**there.manifest, **entries})
        if not there.exists:
            rename_exactly(self._volume, self._path, there.path)

    def _write_manifest(self, entries: Mapping[str, Entry]) -> None:
        files = {name: asdict(entry) for name, entry in sorted(entries.items())}
        content = json.dumps({"version": _VERSION, "files": files}, ensure_ascii=False, indent=0).encode()
        place = posixpath.join(self._path, MANIFEST)
        # in a thread: Ctrl-C waits for the response, so no DataNode creates the file after ``_remove``
        self._pool.map(lambda path: self._volume.create_file(path, content), [place])
        if self._there.exists:
            try:
                replace(self._volume, place, self._there.path_of(MANIFEST))
            except HdfsError as error:
                logger.warning("Cannot write the manifest; these files will be sent again: %s", error)

    def _entries(self) -> dict[str, Entry]:
        """Check the lengths of the sent files; return their manifest entries."""
        folders = sorted({posixpath.dirname(self._places[name]) for name in self.sent})
        found = list_folders(self._volume, "/", self._pool, folders)
        entries = {}
        for name, (length, sha256) in self.sent.items():
            place = self._places[name]
            there = found.get(place, {}).get("length")
            check_kept(self._volume, place, length, there)
            entries[name] = Entry(length, found[place]["modificationTime"], sha256)
        return entries

    def _make_folders(self, missing: set[str]) -> None:
        """Create the missing folders that stay empty. Other folders are created with their first entry."""
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
