"""The files of a folder on HDFS, or one file, to fetch or to copy."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.hdfs.reader import HdfsReader
from luigi_pai.hdfs.temporary import is_temporary
from luigi_pai.hdfs.transfer.destination import MANIFEST, is_folder, list_tree
from luigi_pai.hdfs.transfer.pool import READ_AT_ONCE, Tree

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from luigi_pai.hdfs.connection import Connection
    from luigi_pai.hdfs.transfer.pool import WorkerPool


@dataclass(frozen=True)
class RemoteFile:
    """A file on HDFS.

    Attributes:
        server: the connection to the HDFS.
        path: its absolute path.
        name: its path relative to the tree's folder, with ``/``; its file name if the tree is this one file.
        size: its size in bytes.
        time: the time of its last change, in ms since 1970.
    """

    server: Connection
    path: str
    name: str
    size: int
    time: int

    def parts(self) -> Generator[bytes, None, None]:
        """Yield the content in parts; HdfsError if it cannot be read to its end."""
        with HdfsReader(self.server, self.path) as reader:
            while part := reader.read(READ_AT_ONCE):
                yield part


def remote_tree(server: Connection, path: str, pool: WorkerPool) -> Tree[RemoteFile]:
    """Return the tree at a path, without the manifest and temporary files of uploads."""
    status = server.file_status(path)
    if not is_folder(status):
        name = posixpath.basename(path)
        return Tree({name: _file(server, path, name, status)}, [], is_file=True)
    found = list_tree(server, path, pool, _is_content)
    entries = {name: entry for name, entry in found.items() if _is_content(name)}
    files = {
        name: _file(server, posixpath.join(path, name), name, entry)
        for name, entry in entries.items()
        if not is_folder(entry)
    }
    return Tree(files, [name for name in entries if name not in files])


def _file(server: Connection, path: str, name: str, status: Mapping[str, Any]) -> RemoteFile:
    return RemoteFile(server, path, name, status["length"], status["modificationTime"])


def _is_content(name: str) -> bool:
    """Return whether a name belongs to a file or folder that is neither a manifest nor temporary."""
    own = posixpath.basename(name)
    return own != MANIFEST and not is_temporary(own)
