"""CompletionFlag: the ``_SUCCESS`` file in an output folder, which Hadoop also uses to mark success."""

from __future__ import annotations

import posixpath
import re
from typing import TYPE_CHECKING

from luigi_pai.files.errors import HdfsError, missing_ok
from luigi_pai.files.small_files import create_once, read_small, tidy_beside

if TYPE_CHECKING:
    from luigi_pai.files.file_system import FileSystem

_NAME = re.compile(r"[A-Za-z0-9._~-]+")
_LARGEST = 1_000_000  # bytes


class CompletionFlag:
    """A folder's completion flag.

    It contains the name of the first job that completed. If the file is empty (written by Spark, by Hadoop,
    or by hand), it counts for all jobs that were submitted with this folder. Each additional job that
    completes gets a ``_SUCCESS.NAME`` file. Adding a job therefore rewrites no file, and jobs that finish at
    the same time do not overwrite each other's flag.

    Args:
        fs: The file system.
        directory: The output folder.
        name: The file's name.
    """

    def __init__(self, fs: FileSystem, directory: str, name: str = "_SUCCESS") -> None:
        self._fs = fs
        self.path = f"{directory.rstrip('/')}/{name}"

    def holds(self, job: str, *, submitted_here: bool = False) -> bool:
        """Return whether the flag marks a job as completed.

        Args:
            job: The job's name.
            submitted_here: Whether the job was submitted with this folder, so an empty flag counts for it.
        """
        names = self._names()
        if names is not None and (job in names or (submitted_here and not names)):
            return True
        return self._fs.exists(self._path_of(job))

    def add(self, job: str, *, submitted_here: bool) -> None:
        """Add a job; create missing folders, and keep other jobs' flags. For the arguments, see ``holds``."""
        if create_once(self._fs, self.path, f"{job}\n".encode()):
            return
        if not self.holds(job, submitted_here=submitted_here):
            create_once(self._fs, self._path_of(job), b"")

    def tidy(self) -> None:
        """Remove temporary files that finished processes left next to the flag."""
        volume, place = self._fs.at(posixpath.dirname(self.path))
        with missing_ok():
            tidy_beside(volume, place, volume.list_status(place))

    def discard(self, job: str) -> None:
        """Remove a job; delete ``_SUCCESS`` if it names no other job, even if it is empty."""
        own = self._path_of(job)
        if self._fs.exists(own):
            self._fs.remove(own, recursive=False)
        names = self._names()
        if names is None:
            return
        others = [name for name in names if name != job]
        if not others:
            self._fs.remove(self.path, recursive=False)
        elif len(others) < len(names):
            with self._fs.open_writer(self.path) as file:
                file.write("".join(f"{name}\n" for name in others).encode())

    def _path_of(self, job: str) -> str:
        return f"{self.path}.{job}"

    def _names(self) -> list[str] | None:
        """Return the job names in the ``_SUCCESS`` file; None if this file does not exist.

        Raises:
            HdfsError: the file system failed, or the content is not a list of names but, for example, a
                proxy's HTML page.
        """
        data = read_small(self._fs, self.path, _LARGEST)
        if data is None:
            return None
        names = data.decode("utf-8", "replace").split()
        odd = [name for name in names if not _NAME.fullmatch(name)]
        if odd:
            raise HdfsError(
                f"{self.path} contains {odd[0][:50]!r}, not a job name; remove the file if only a "
                "completion flag belongs there",
                operation="read",
                path=self.path,
            )
        return names
