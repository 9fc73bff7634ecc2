"""A folder's files, or one file: on this machine to send, or on the cluster to fetch or copy."""

from __future__ import annotations

import hashlib
import logging
import os
import posixpath
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from luigi_pai.errors import Problem
from luigi_pai.files.errors import TransferError
from luigi_pai.files.temporary import is_temporary
from luigi_pai.outgoing.folder import OURS, folder_contents, shown
from luigi_pai.outgoing.never_sent import NeverSent

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from luigi_pai.files.pool import WorkerPool
    from luigi_pai.files.volume import FileStatus, Volume

logger = logging.getLogger("luigi-interface")

File = TypeVar("File")

READ_AT_ONCE = 1024 * 1024
"""How many bytes of a file each thread keeps in memory at most."""
MANIFEST = f"{OURS}manifest.json"


@dataclass(frozen=True)
class Tree(Generic[File]):
    """A folder's files, or one file.

    Attributes:
        files: Name -> file.
        folders: The names of all folders below the folder, parents first.
        is_file: Whether the tree is one file instead of a folder.
        left_out: The names of the files and folders that are never sent because they may contain credentials.
    """

    files: dict[str, File]
    folders: list[str]
    is_file: bool = False
    left_out: tuple[str, ...] = ()


@dataclass(frozen=True)
class LocalFile:
    """A local file to send.

    Attributes:
        name: Its path relative to the folder that is sent, with ``/``, or its new name if only this file is
            sent.
        place: Its path on this machine.
        size: Its size in bytes.
    """

    name: str
    place: Path
    size: int

    def parts(self) -> Iterator[bytes]:
        """Yield the content in parts.

        Raises:
            TransferError: The file cannot be read, or it changed while it was being read, so the parts may
                come from different versions.
        """
        try:
            with self.place.open("rb") as opened:
                before = os.fstat(opened.fileno())
                while part := opened.read(READ_AT_ONCE):
                    yield part
                after = os.fstat(opened.fileno())
        except OSError as error:
            raise self._failed(error.strerror or str(error)) from error
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise self._failed("it changed while it was being read; send it when no program is writing to it")

    def is_executable(self) -> bool:
        """Return whether the file's owner may execute it."""
        return bool(self.place.stat().st_mode & stat.S_IXUSR)

    def sha256(self) -> str:
        """Return the content's checksum in hex; raises the same errors as ``parts()``."""
        digest = hashlib.sha256()
        for part in self.parts():
            digest.update(part)
        return digest.hexdigest()

    def _failed(self, reason: str) -> TransferError:
        return TransferError("not everything was sent", [Problem(shown(str(self.place)), reason)])


def local_tree(place: Path, name: str, refused: str = "") -> Tree[LocalFile]:
    """Return the tree for a local file or folder. A file gets the name ``name``.

    Names must not contain characters in ``refused``, the destination's ``Volume.refused``.

    Raises:
        TransferError: Some files cannot be sent. The error's ``problems`` name all of them.
    """
    try:
        found = place.stat()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        why = "there is no such file or folder" if missing else f"it cannot be read ({error.strerror})"
        raise TransferError("nothing was sent", [Problem(shown(str(place)), why)]) from None
    if place.is_dir():
        return folder_tree(place, refused)
    problems = [Problem(shown(name), why) for why in _problems_of(name, refused)]
    if why := NeverSent().problem(place):
        problems.append(Problem(shown(str(place)), why))
    _check(place, problems)
    return Tree({name: LocalFile(name, place, found.st_size)}, [], is_file=True)


def folder_tree(folder: Path, refused: str = "") -> Tree[LocalFile]:
    """Return the tree for a folder without ignored files; raises the same errors as ``local_tree``."""
    found = folder_contents(folder, check_name=partial(_problems_of, refused=refused))
    _check(folder, found.problems)
    files = {
        name: LocalFile(name, Path(entry.path), entry.stat().st_size) for name, entry in found.files.items()
    }
    return Tree(files, found.folders, left_out=tuple(found.left_out))


def _problems_of(name: str, refused: str) -> Iterator[str]:
    """Yield the reasons why HDFS rejects a name."""
    for letter in refused:
        if letter in name:
            yield f"HDFS does not allow {letter!r} in a name"


def _check(place: Path, problems: list[Problem]) -> None:
    if problems:
        raise TransferError(f"nothing was sent from {shown(str(place))}", problems)


@dataclass(frozen=True)
class RemoteFile:
    """A file on the cluster.

    Attributes:
        volume: The file system.
        path: Its absolute path.
        name: Its path relative to the tree's folder, with ``/``, or its file name if the tree is one file.
        size: Its size in bytes.
        time: Its modification time, in ms since 1970.
    """

    volume: Volume
    path: str
    name: str
    size: int
    time: int

    def is_executable(self) -> bool:
        """Return False, because copies get the modes of new files."""
        return False

    def parts(self) -> Generator[bytes, None, None]:
        """Yield the content in parts; raise HdfsError if the file cannot be read to its end."""
        with self.volume.open_reader(self.path) as reader:
            while part := reader.read(READ_AT_ONCE):
                yield part


def remote_tree(volume: Volume, path: str, pool: WorkerPool) -> Tree[RemoteFile]:
    """Return the tree at a path, without the manifest and temporary files from uploads."""
    status = volume.file_status(path)
    if not is_folder(status):
        name = posixpath.basename(path)
        return Tree({name: _file(volume, path, name, status)}, [], is_file=True)
    found = list_tree(volume, path, pool, _is_content)
    entries = {name: entry for name, entry in found.items() if _is_content(name)}
    for name in [name for name, entry in entries.items() if entry["type"] == "SYMLINK"]:
        logger.warning("%s/%s is left out: it is a link that leads nowhere, in a circle or out", path, name)
        del entries[name]
    files = {
        name: _file(volume, posixpath.join(path, name), name, entry)
        for name, entry in entries.items()
        if not is_folder(entry)
    }
    return Tree(files, [name for name in entries if name not in files])


def list_tree(
    volume: Volume, path: str, pool: WorkerPool, descend: Callable[[str], bool]
) -> dict[str, FileStatus]:
    """Return a dict from name to FileStatus for the entries of a folder and its subfolders.

    Lists only subfolders that ``descend`` accepts. Names in subfolders are paths with ``/``; a subfolder
    comes before its entries.
    """
    found = level = list_folders(volume, path, pool, [""])
    while folders := [name for name, status in level.items() if is_folder(status) and descend(name)]:
        level = list_folders(volume, path, pool, folders)
        found = found | level
    return found


def list_folders(volume: Volume, path: str, pool: WorkerPool, names: list[str]) -> dict[str, FileStatus]:
    """Return a dict from name below ``path`` to FileStatus for each entry of some folders below it."""
    folders = [posixpath.join(path, name).rstrip("/") or "/" for name in names]
    return {
        posixpath.join(name, entry["pathSuffix"]): entry
        for name, listing in zip(names, pool.map(volume.list_folder, folders), strict=True)
        for entry in listing
    }


def is_folder(status: Mapping[str, Any]) -> bool:
    """Return whether a FileStatus describes a folder."""
    return bool(status["type"] == "DIRECTORY")


def _file(volume: Volume, path: str, name: str, status: Mapping[str, Any]) -> RemoteFile:
    return RemoteFile(volume, path, name, status["length"], status["modificationTime"])


def _is_content(name: str) -> bool:
    """Return whether the file or folder with this name is neither a manifest nor temporary."""
    base = posixpath.basename(name)
    return base != MANIFEST and not is_temporary(base)
