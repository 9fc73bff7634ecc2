"""OutputClaimFolder: the claims in a job's output folder on the cluster's file system."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from luigi_pai.api.wire.repeats import SMALL_FILE, Tries
from luigi_pai.files.errors import FileAlreadyExists, HdfsError, missing_ok
from luigi_pai.files.small_files import create_once, is_temporary, read_small, remove_once, tidy_beside
from luigi_pai.work.claims import LARGEST

if TYPE_CHECKING:
    from luigi_pai.files.file_system import FileSystem

_FOLDER = "_luigi_pai"  # Hadoop's own readers skip names that start with an underscore
_PAUSES = (0.01, 0.05, 0.2)  # seconds
_CHECK = "check that its file system works, and run the task again"


class OutputClaimFolder:
    """The ``OUTPUT_DIR/_luigi_pai`` folder.

    A new file is written under another name and then renamed. If several processes do this, the file system
    renames only one of the files.

    Args:
        fs: The file system.
        output_dir: The output folder.
    """

    def __init__(self, fs: FileSystem, output_dir: str) -> None:
        self._fs = fs
        self.where = f"{output_dir.rstrip('/')}/{_FOLDER}"

    def names(self) -> list[str]:
        """Return the names of the files; an empty list if the folder does not exist."""
        volume, place = self._fs.at(self.where)
        with missing_ok():
            entries = volume.list_status(place)
            tidy_beside(volume, place, entries)
            names = [entry["pathSuffix"] for entry in entries]
            return [name for name in names if not is_temporary(name)]
        return []

    def read(self, name: str) -> bytes | None:
        """Return the content of a file; None if it does not exist.

        On a storage that does not support links, a new file is empty at first, so an empty file is read
        again.
        """
        for pause in _PAUSES:
            data = read_small(self._fs, self._path(name), LARGEST)
            if data != b"":
                return data
            time.sleep(pause)
        return read_small(self._fs, self._path(name), LARGEST)

    def create_once(self, name: str, data: bytes, *, is_needed: bool = True) -> bool:  # noqa: ARG002
        """Create a file if it does not exist; return whether this call created it."""
        return create_once(self._fs, self._path(name), data)

    def replace(self, name: str, data: bytes) -> None:
        """Write a file; if it exists, replace it atomically."""
        with self._fs.open_writer(self._path(name)) as file:
            file.write(data)

    def add(self, name: str) -> None:
        """Create an empty file, unless it exists."""
        volume, place = self._fs.at(self._path(name))
        try:
            Tries(SMALL_FILE).call(lambda: volume.create_file(place, b""))
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
