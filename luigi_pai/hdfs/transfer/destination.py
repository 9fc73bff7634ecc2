"""A folder on HDFS that files are uploaded to, as it was found."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.hdfs.errors import HdfsError
from luigi_pai.hdfs.paths import child_of
from luigi_pai.hdfs.transfer.manifest import MANIFEST, Manifest, read_manifest

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from luigi_pai.hdfs.connection import Connection
    from luigi_pai.hdfs.transfer.local_tree import LocalTree
    from luigi_pai.hdfs.transfer.pool import WorkerPool

__all__ = ["Destination", "file_destination", "folder_destination", "is_folder", "list_folders"]


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
    manifest = read_manifest(server, posixpath.join(folder, MANIFEST))
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
        manifest = read_manifest(server, posixpath.join(path, MANIFEST))
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
