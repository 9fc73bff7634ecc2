"""A folder on HDFS that files are uploaded to: what is there, and what uploads have noted of it.

WebHDFS's own checksum of a file (GETFILECHECKSUM) cannot be compared with a local
file without knowing block size, bytes per CRC and the kind of CRC that it was
written with, and not every server has it. So an upload itself notes what it sent,
in a manifest in the folder: the SHA-256, and the length and the time of change that
the file has had on HDFS from then on. A file that somebody else changes has another time.

An entry is a statement about one version of one file. It does not get wrong when
two uploads write the manifest at once: the one that is lost costs a file sent again.
"""

from __future__ import annotations

import json
import posixpath
import re
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.hdfs.errors import HdfsError, NotADirectory, failed
from luigi_pai.hdfs.reader import HdfsReader

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from luigi_pai.hdfs.connection import Connection
    from luigi_pai.hdfs.local_tree import LocalTree
    from luigi_pai.hdfs.transfer import Threads

__all__ = [
    "MANIFEST",
    "OURS",
    "Destination",
    "Entry",
    "Manifest",
    "is_folder",
    "look_at_file",
    "look_at_folder",
    "status_or_none",
]

MANIFEST = ".luigi-pai-manifest.json"
OURS = re.compile(r"\.luigi-(?:pai-)?tmp-[0-9a-f]+$")
"""Finds the names of what is not complete: of an upload, a download or a HdfsWriter."""

_VERSION = 1


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
        return (
            status is not None
            and status["length"] == self.length
            and status["modificationTime"] == self.modificationTime
        )

    def as_status(self) -> dict[str, Any]:
        """Return the FileStatus of that version, as far as it is known."""
        return {"type": "FILE", "length": self.length, "modificationTime": self.modificationTime}


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
        except (ValueError, KeyError, TypeError, AttributeError):
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
        statuses: the FileStatus of what is in it, by its name in the folder, as
            far as it was looked at.
        looked_at: the names of the folders in it that were listed; ``""`` is itself.
        manifest: what uploads have noted there.
    """

    path: str
    exists: bool
    statuses: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    looked_at: frozenset[str] = frozenset()
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

    def noted(self) -> dict[str, Entry]:
        """Return what the manifest says of files, without what was found to be otherwise."""
        return {
            name: entry
            for name, entry in self.manifest.files.items()
            if posixpath.dirname(name) not in self.looked_at or entry.is_of(self.statuses.get(name))
        }

    def conflicts_with(self, tree: LocalTree) -> list[str]:
        """Return the names that are a file on one side and a folder on the other."""
        files = [name for name in tree.files if self.has_folder(name)]
        folders = [name for name in tree.folders if name in self.statuses and not self.has_folder(name)]
        return sorted(files + folders)


def look_at_file(server: Connection, path: str) -> Destination:
    """Return the folder of a file; of what is in it, only the file is looked at."""
    folder, name = posixpath.split(path)
    status = status_or_none(server, path)
    statuses = {} if status is None else {name: status}
    there = Destination(folder, exists=True, statuses=statuses)
    return Destination(folder, exists=True, statuses=statuses, manifest=_manifest(server, there.of(MANIFEST)))


def look_at_folder(
    server: Connection, path: str, folders: Iterable[str], threads: Threads, *, also_known: bool
) -> Destination:
    """Return a folder, and what is in it and in some of its folders.

    Args:
        server: that it is on.
        path: of the folder.
        folders: that are looked into where they exist, at any depth.
        threads: that look.
        also_known: also look into the folders that the manifest knows.

    Raises:
        NotADirectory: a file is there.
    """
    try:
        entries = server.list_status(path)
    except HdfsError as error:
        if error.exception == "FileNotFoundException":
            return Destination(path, exists=False)
        raise
    if [entry["pathSuffix"] for entry in entries] == [""]:
        step = "name another folder, or remove the file"
        raise failed(
            "LISTSTATUS",
            path,
            server.server,
            "a file is there, no folder",
            next_step=step,
            kind=NotADirectory,
        )
    statuses: dict[str, Mapping[str, Any]] = {entry["pathSuffix"]: entry for entry in entries}
    manifest = Manifest({})
    if MANIFEST in statuses:
        manifest = _manifest(server, posixpath.join(path, MANIFEST))
    wanted = {*folders}
    if also_known:
        wanted |= manifest.folders
    looked_at = {""}
    level = [name for name in statuses if name in wanted]
    while level := [name for name in level if is_folder(statuses[name])]:
        listings = threads.map(lambda name: server.list_status(posixpath.join(path, name)), level)
        looked_at |= {*level}
        below = {
            f"{name}/{entry['pathSuffix']}": entry
            for name, listing in zip(level, listings, strict=True)
            for entry in listing
        }
        statuses |= below
        level = [name for name in below if name in wanted]
    return Destination(
        path, exists=True, statuses=statuses, looked_at=frozenset(looked_at), manifest=manifest
    )


def is_folder(status: Mapping[str, Any]) -> bool:
    """Return whether a FileStatus is one of a folder."""
    return bool(status["type"] == "DIRECTORY")


def status_or_none(server: Connection, path: str) -> Mapping[str, Any] | None:
    """Return the FileStatus of a file or folder, None where nothing is there."""
    try:
        return server.file_status(path)
    except HdfsError as error:
        if error.exception == "FileNotFoundException":
            return None
        raise


def _manifest(server: Connection, path: str) -> Manifest:
    try:
        with HdfsReader(server, path) as file:
            return Manifest.from_json(file.readall())
    except HdfsError as error:
        if error.exception == "FileNotFoundException":
            return Manifest({})
        raise
