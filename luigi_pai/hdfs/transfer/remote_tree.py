"""The files of a folder on HDFS, or one file, to fetch or to copy."""

from __future__ import annotations

import posixpath
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.hdfs.paths import child_of
from luigi_pai.hdfs.reader import HdfsReader
from luigi_pai.hdfs.temporary import is_temporary
from luigi_pai.hdfs.transfer.destination import MANIFEST, is_folder, list_folders
from luigi_pai.hdfs.transfer.pool import READ_AT_ONCE

if TYPE_CHECKING:
    from collections.abc import Generator, Mapping

    from luigi_pai.hdfs.connection import Connection
    from luigi_pai.hdfs.transfer.pool import WorkerPool


@dataclass(frozen=True)
class RemoteFile:
    """A file on HDFS.

    Attributes:
        server: the HDFS.
        path: absolute.
        name: its path in the folder, with ``/``; of a single file its name.
        size: in bytes.
        time: of the last change, in ms since 1970.
    """

    server: Connection
    path: str
    name: str
    size: int
    time: int

    @classmethod
    def of(cls, server: Connection, path: str, name: str, status: Mapping[str, Any]) -> RemoteFile:
        """Return the file of a FileStatus."""
        return cls(server, path, name, status["length"], status["modificationTime"])

    def parts(self) -> Generator[bytes, None, None]:
        """Yield the content in parts; HdfsError if it cannot be read to its end."""
        with HdfsReader(self.server, self.path) as reader:
            while part := reader.read(READ_AT_ONCE):
                yield part


@dataclass(frozen=True)
class RemoteTree:
    """The files of a folder on HDFS, or one file.

    Attributes:
        files: by name.
        folders: names of all folders below the folder, parents first.
        is_file: whether it is one file.
    """

    files: dict[str, RemoteFile]
    folders: list[str]
    is_file: bool = False

    @classmethod
    def of(cls, server: Connection, path: str, pool: WorkerPool) -> RemoteTree:
        """Return the tree at a path, without the manifest and temporary files of uploads."""
        status = server.file_status(path)
        if not is_folder(status):
            name = posixpath.basename(path)
            return cls({name: RemoteFile.of(server, path, name, status)}, [], is_file=True)
        files: dict[str, RemoteFile] = {}
        folders: list[str] = []
        level = [""]
        while level:
            above, level = level, []
            for name, entry in list_folders(server, path, above, pool):
                if entry["pathSuffix"] == MANIFEST or is_temporary(entry["pathSuffix"]):
                    continue
                if is_folder(entry):
                    level.append(name)
                else:
                    files[name] = RemoteFile.of(server, child_of(path, name), name, entry)
            folders += level
        return cls(files, folders)
