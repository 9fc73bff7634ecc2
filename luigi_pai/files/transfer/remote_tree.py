"""The files of a folder on the cluster, or one file, to fetch or to copy."""

from __future__ import annotations

import logging
import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.files.temporary import is_temporary
from luigi_pai.files.transfer.destination import MANIFEST, is_folder, list_tree
from luigi_pai.files.transfer.pool import READ_AT_ONCE, Tree

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from luigi_pai.files.transfer.pool import WorkerPool
    from luigi_pai.files.volume import Volume


logger = logging.getLogger("luigi-interface")


@dataclass(frozen=True)
class RemoteFile:
    """A file on the cluster.

    Attributes:
        volume: the file system.
        path: its absolute path.
        name: its path relative to the tree's folder, with ``/``; its file name if the tree is this one file.
        size: its size in bytes.
        time: the time of its last change, in ms since 1970.
    """

    volume: Volume
    path: str
    name: str
    size: int
    time: int

    def is_executable(self) -> bool:
        """Return False: copies have the modes of new files."""
        return False

    def parts(self) -> Generator[bytes, None, None]:
        """Yield the content in parts; HdfsError if it cannot be read to its end."""
        with self.volume.open_reader(self.path) as reader:
            while part := reader.read(READ_AT_ONCE):
                yield part


def remote_tree(volume: Volume, path: str, pool: WorkerPool) -> Tree[RemoteFile]:
    """Return the tree at a path, without the manifest and temporary files of uploads."""
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


def _file(volume: Volume, path: str, name: str, status: Mapping[str, Any]) -> RemoteFile:
    return RemoteFile(volume, path, name, status["length"], status["modificationTime"])


def _is_content(name: str) -> bool:
    """Return whether a name belongs to a file or folder that is neither a manifest nor temporary."""
    own = posixpath.basename(name)
    return own != MANIFEST and not is_temporary(own)
