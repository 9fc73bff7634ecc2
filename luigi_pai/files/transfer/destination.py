"""The destination folder of an upload, and the manifest that uploads keep in it.

The checksum that HDFS has of a file (GETFILECHECKSUM) depends on how the file was written, and not every
server returns it. So an upload records the SHA-256 of each file, and its length and modification time on
HDFS. An entry describes one version of one file, so it is right even if two uploads write the manifest at
the same time. If an entry is lost, the only effect is that its file is sent again.
"""

from __future__ import annotations

import json
import logging
import posixpath
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.files.errors import HdfsError, HdfsUnreachable
from luigi_pai.outgoing.folder import OURS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from luigi_pai.files.transfer.local_tree import LocalFile
    from luigi_pai.files.transfer.pool import Tree, WorkerPool
    from luigi_pai.files.volume import Volume

logger = logging.getLogger("luigi-interface")

MANIFEST = f"{OURS}manifest.json"
_VERSION = 1
_LONGEST = 128 * 1024 * 1024  # bytes of a manifest, enough for a million files; a larger one is ignored


@dataclass(frozen=True)
class Entry:
    """One version of a file on the cluster.

    Attributes:
        length: in bytes.
        modificationTime: in milliseconds since 1970, as it is there.
        sha256: of its content, in hex.
    """

    length: int
    modificationTime: int
    sha256: str

    def is_of(self, status: Mapping[str, Any] | None) -> bool:
        """Return whether a FileStatus describes this version of the file."""
        version = {"type": "FILE", "length": self.length, "modificationTime": self.modificationTime}
        return status is not None and version.items() <= status.items()


@dataclass(frozen=True)
class Destination:
    """The state of a folder on the cluster when it was looked up.

    Attributes:
        path: of the folder, absolute.
        exists: whether the folder exists.
        statuses: the FileStatus of each entry that was looked up, by the name of the entry.
        manifest: the entries for files that earlier uploads sent, by the files' names in the folder.
    """

    path: str
    exists: bool
    statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    manifest: Mapping[str, Entry] = field(default_factory=dict)

    def has_folder(self, name: str) -> bool:
        """Return whether the destination has a folder of this name."""
        return name in self.statuses and is_folder(self.statuses[name])

    def of(self, name: str) -> str:
        """Return the path of an entry."""
        return f"{self.path.rstrip('/')}/{name}"

    def lacks(self, folders: Iterable[str]) -> set[str]:
        """Return the names of missing folders; ``""`` is the destination itself."""
        missing = {name for name in folders if not self.has_folder(name)}
        return missing if self.exists else missing | {""}

    def conflicts_with(self, tree: Tree[LocalFile]) -> list[str]:
        """Return the names that are a file in ``tree`` and a folder at the destination, or the reverse."""
        files = [name for name in tree.files if self.has_folder(name)]
        folders = [name for name in tree.folders if name in self.statuses and not self.has_folder(name)]
        return sorted(files + folders)


def file_destination(volume: Volume, path: str) -> Destination:
    """Return the destination folder of a file; in the folder, only the file itself is looked up."""
    folder, name = posixpath.split(path)
    status = volume.status(path)
    statuses = {} if status is None else {name: status}
    return Destination(folder, exists=True, statuses=statuses, manifest=_read_manifest(volume, folder))


def folder_destination(volume: Volume, path: str, folders: Iterable[str], pool: WorkerPool) -> Destination:
    """Return a folder, its entries and the entries of some subfolders; NotADirectory if ``path`` is a file.

    Args:
        volume: the file system.
        path: of the folder.
        folders: names of the subfolders, at any depth, that are listed if they exist.
        pool: the threads that list the folders.
    """
    try:
        statuses = list_tree(volume, path, pool, {*folders}.__contains__)
    except HdfsError as error:
        if error.exception == "FileNotFoundException":
            return Destination(path, exists=False)
        raise
    manifest = _read_manifest(volume, path) if MANIFEST in statuses else {}
    return Destination(path, exists=True, statuses=statuses, manifest=manifest)


def list_tree(
    volume: Volume, path: str, pool: WorkerPool, descend: Callable[[str], bool]
) -> dict[str, dict[str, Any]]:
    """Return, by name, the FileStatus of each entry of a folder and of subfolders that ``descend`` accepts.

    Names in subfolders are paths with ``/``; a subfolder comes before its entries.
    """
    found = level = {entry["pathSuffix"]: entry for entry in volume.list_folder(path)}
    while folders := [name for name, status in level.items() if is_folder(status) and descend(name)]:
        listings = pool.map(lambda name: volume.list_folder(posixpath.join(path, name)), folders)
        level = {
            posixpath.join(folder, entry["pathSuffix"]): entry
            for folder, listing in zip(folders, listings, strict=True)
            for entry in listing
        }
        found = found | level
    return found


def is_folder(status: Mapping[str, Any]) -> bool:
    """Return whether a FileStatus belongs to a folder."""
    return bool(status["type"] == "DIRECTORY")


def manifest_json(entries: Mapping[str, Entry]) -> bytes:
    """Return the content of a manifest."""
    files = {name: asdict(entry) for name, entry in sorted(entries.items())}
    return json.dumps({"version": _VERSION, "files": files}, ensure_ascii=False, indent=0).encode()


def _read_manifest(volume: Volume, folder: str) -> dict[str, Entry]:
    """Return the entries of a folder's manifest; empty if it is missing or cannot be read.

    Raises:
        HdfsUnreachable: the file system does not answer.
    """
    try:
        text = volume.read_part(posixpath.join(folder, MANIFEST), 0, _LONGEST + 1)
    except HdfsUnreachable:
        raise
    except HdfsError as error:
        if error.exception != "FileNotFoundException":
            logger.warning(
                "The manifest of earlier uploads cannot be read; all files are sent again: %s", error
            )
        return {}
    try:
        document = json.loads(text if len(text) <= _LONGEST else b"")
        if document["version"] != _VERSION:
            return {}
        return {str(name): Entry(**entry) for name, entry in document["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return {}
