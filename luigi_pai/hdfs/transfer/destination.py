"""A folder on HDFS that files are uploaded to, as it was found, and its manifest of what uploads put there.

WebHDFS's own checksum of a file (GETFILECHECKSUM) depends on how it was written, and not every server has
it. So an upload notes the SHA-256 of what it sent, and the length and the time of change that the file has
had on HDFS from then on. An entry is a statement about one version of one file: it does not get wrong when
two uploads write the manifest at once. The one that is lost costs a file sent again.
"""

from __future__ import annotations

import json
import logging
import posixpath
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.hdfs.errors import HdfsError, HdfsUnreachable
from luigi_pai.hdfs.paths import child_of
from luigi_pai.hdfs.reader import HdfsReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from luigi_pai.hdfs.connection import Connection
    from luigi_pai.hdfs.transfer.local_tree import LocalTree
    from luigi_pai.hdfs.transfer.pool import WorkerPool

__all__ = [
    "MANIFEST",
    "Destination",
    "Entry",
    "Manifest",
    "file_destination",
    "folder_destination",
    "is_folder",
    "list_folders",
]

logger = logging.getLogger("luigi-interface")

MANIFEST = ".luigi-pai-manifest.json"
_VERSION = 1
_LONGEST = 128 * 1024 * 1024  # bytes; of a million files


@dataclass(frozen=True)
class Entry:
    """What is known of one version of a file on HDFS.

    Attributes:
        length: in bytes.
        modificationTime: in milliseconds since 1970, as HDFS has it.
        sha256: of its content, in hex.
    """

    length: int
    modificationTime: int
    sha256: str

    def is_of(self, status: Mapping[str, Any] | None) -> bool:
        """Return whether it is about the version that a FileStatus shows."""
        version = {"type": "FILE", "length": self.length, "modificationTime": self.modificationTime}
        return status is not None and version.items() <= status.items()


@dataclass(frozen=True)
class Manifest:
    """What uploads have put into a folder.

    Attributes:
        files: what is known of each, by its name in the folder.
        folders: those that uploads have made.
    """

    files: Mapping[str, Entry]
    folders: frozenset[str] = frozenset()

    @classmethod
    def from_json(cls, text: bytes) -> Manifest:
        """Read a manifest; what cannot be read is empty, so that everything is sent."""
        try:
            document = json.loads(text)
            if document["version"] != _VERSION:
                return cls({})
            files = {str(name): Entry(**entry) for name, entry in document["files"].items()}
            return cls(files, frozenset(map(str, document["folders"])))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            return cls({})

    def to_json(self) -> bytes:
        """Return it as it lies on HDFS."""
        files = {name: asdict(entry) for name, entry in sorted(self.files.items())}
        document = {"version": _VERSION, "files": files, "folders": sorted(self.folders)}
        return json.dumps(document, ensure_ascii=False, indent=0).encode()


@dataclass(frozen=True)
class Destination:
    """A folder on HDFS, as it was found.

    Attributes:
        path: of the folder, absolute.
        exists: whether it is there.
        statuses: the FileStatus of what is in it, by name, as far as it was looked up.
        manifest: what uploads have noted there.
    """

    path: str
    exists: bool
    statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    manifest: Manifest = field(default_factory=lambda: Manifest({}))

    def has_folder(self, name: str) -> bool:
        """Return whether a folder of this name is in it."""
        return name in self.statuses and is_folder(self.statuses[name])

    def of(self, name: str) -> str:
        """Return the path of what has this name in it."""
        return f"{self.path.rstrip('/')}/{name}"

    def lacks(self, folders: Iterable[str]) -> set[str]:
        """Return which folders are not in it; ``""`` is itself."""
        missing = {name for name in folders if not self.has_folder(name)}
        return missing if self.exists else missing | {""}

    def conflicts_with(self, tree: LocalTree) -> list[str]:
        """Return the names that are a file on one side and a folder on the other."""
        files = [name for name in tree.files if self.has_folder(name)]
        folders = [name for name in tree.folders if name in self.statuses and not self.has_folder(name)]
        return sorted(files + folders)


def file_destination(server: Connection, path: str) -> Destination:
    """Return the folder of a file; of what is in it, only the file is looked up."""
    folder, name = posixpath.split(path)
    status = server.status(path)
    statuses = {} if status is None else {name: status}
    manifest = _read_manifest(server, posixpath.join(folder, MANIFEST))
    return Destination(folder, exists=True, statuses=statuses, manifest=manifest)


def folder_destination(
    server: Connection, path: str, folders: Iterable[str], pool: WorkerPool, *, also_known: bool
) -> Destination:
    """Return a folder, and what is in it and in some of its folders; NotADirectory where a file is there.

    Args:
        server: that it is on.
        path: of the folder.
        folders: that are listed where they exist, at any depth.
        pool: that lists them.
        also_known: also list the folders that the manifest knows.
    """
    try:
        entries = server.list_folder(path)
    except HdfsError as error:
        if error.exception == "FileNotFoundException":
            return Destination(path, exists=False)
        raise
    statuses: dict[str, Mapping[str, Any]] = {entry["pathSuffix"]: entry for entry in entries}
    manifest = Manifest({})
    if MANIFEST in statuses:
        manifest = _read_manifest(server, posixpath.join(path, MANIFEST))
    wanted = {*folders} | (manifest.folders if also_known else frozenset())
    level = [name for name in statuses if name in wanted]
    while level := [name for name in level if is_folder(statuses[name])]:
        below = dict(list_folders(server, path, level, pool))
        statuses |= below
        level = [name for name in below if name in wanted]
    return Destination(path, exists=True, statuses=statuses, manifest=manifest)


def list_folders(
    server: Connection, path: str, names: list[str], pool: WorkerPool
) -> list[tuple[str, dict[str, Any]]]:
    """Return name and FileStatus of each entry of some folders in a folder."""
    listings = pool.map(lambda name: server.list_folder(child_of(path, name)), names)
    pairs = zip(names, listings, strict=True)
    return [
        (posixpath.join(name, entry["pathSuffix"]), entry) for name, listing in pairs for entry in listing
    ]


def is_folder(status: Mapping[str, Any]) -> bool:
    """Return whether a FileStatus is one of a folder."""
    return bool(status["type"] == "DIRECTORY")


def _read_manifest(server: Connection, path: str) -> Manifest:
    """Return the manifest at a path; an empty one where there is none, or none that can be read."""
    try:
        with HdfsReader(server, path) as file:
            text = file.readall() if file.size <= _LONGEST else b""
    except HdfsUnreachable:
        raise
    except HdfsError as error:
        if error.exception != "FileNotFoundException":
            logger.warning("The notes of earlier uploads cannot be read; all is sent again: %s", error)
        return Manifest({})
    return Manifest.from_json(text)
