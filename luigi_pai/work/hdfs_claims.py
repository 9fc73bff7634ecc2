"""HdfsClaimFolder: the claims in a job's output folder on HDFS."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from luigi_pai.hdfs.connection import missing_ok
from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError
from luigi_pai.hdfs.small_files import (
    create_once,
    is_temporary,
    read_small,
    remove_once,
    tidy_beside,
    written_again,
)
from luigi_pai.work.claim_folder import LARGEST

if TYPE_CHECKING:
    from luigi_pai.hdfs.client import WebHdfs

_FOLDER = "_luigi_pai"  # Hadoop's own readers skip names that begin with an underscore
_CHECK = "check that the NameNode of webhdfs_url in [OpenPai] works, and run the task again"


class HdfsClaimFolder:
    """The folder ``OUTPUT_DIR/_luigi_pai``.

    A new file is written under another name and renamed. HDFS renames only one of several files to a name.

    Args:
        fs: The file system.
        output_dir: The output folder.
    """

    def __init__(self, fs: WebHdfs, output_dir: str) -> None:
        self._fs = fs
        self.where = f"{output_dir.rstrip('/')}/{_FOLDER}"

    def names(self) -> list[str]:
        """Return the names of the files; an empty list if the folder does not exist."""
        server, place = self._fs.at(self.where)
        with missing_ok():
            entries = server.list_status(place)
            tidy_beside(server, place, entries)
            names = [entry["pathSuffix"] for entry in entries]
            return [name for name in names if not is_temporary(name)]
        return []

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist."""
        return read_small(self._fs, self._path(name), LARGEST)

    def create_once(self, name: str, data: bytes) -> bool:
        """Create a file; return False if it exists, or was not created."""
        return create_once(self._fs, self._path(name), data)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file, and replace it in one step if it exists."""
        with self._fs.open_writer(self._path(name)) as file:
            file.write(data)

    def add(self, name: str) -> None:
        """Create an empty file, unless it exists."""
        server, place = self._fs.at(self._path(name))
        try:
            written_again(lambda: server.create_file(place, b""))
        except FileAlreadyExists:
            pass
        except HdfsError as error:
            if error.exception != "FileAlreadyExistsException":
                raise

    def remove(self, name: str) -> None:
        """Remove a file if it exists, and the folder if it is then empty."""
        remove_once(self._fs, self._path(name))
        with contextlib.suppress(HdfsError):  # the folder contains other claims
            self._fs.remove(self.where, recursive=False)

    def failed(self, name: str, problem: str, step: str = _CHECK) -> HdfsError:
        """Return an error about a file; see ``ClaimFolder``."""
        path = self._path(name)
        return HdfsError(f"{path} {problem}; {step}", operation="claim", path=path)

    def _path(self, name: str) -> str:
        return f"{self.where}/{name}"
