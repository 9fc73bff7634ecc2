"""The flag in an output folder that says which jobs completed into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.hdfs.errors import HdfsError

if TYPE_CHECKING:
    from luigi_pai.hdfs.client import WebHdfs

__all__ = ["CompletionFlag"]


class CompletionFlag:
    """The file ``_SUCCESS`` in an output folder, Hadoop's convention.

    It lists the names of the jobs that completed into this folder, one a line.
    An empty one, as Spark, Hadoop or a person write it, counts for every job.
    Changes replace the file in one step; two at the same moment may lose one.

    Args:
        fs: the file system.
        directory: the output folder.
        name: of the file.
    """

    def __init__(self, fs: WebHdfs, directory: str, name: str = "_SUCCESS") -> None:
        self._fs = fs
        self.path = f"{directory.rstrip('/')}/{name}"

    def holds(self, job: str) -> bool:
        """Return whether the flag counts for a job."""
        names = self._names()
        return names is not None and (not names or job in names)

    def add(self, job: str) -> None:
        """Add a job; folders are made where they are missing, other jobs stay."""
        names = self._names()
        if names is None or (names and job not in names):
            self._write([*(names or ()), job])

    def discard(self, job: str) -> None:
        """Take a job out; the flag is deleted when it names no other, also an empty one."""
        names = self._names()
        if names is None:
            return
        others = [name for name in names if name != job]
        if others and len(others) < len(names):
            self._write(others)
        elif not others:
            self._fs.remove(self.path, recursive=False)

    def _names(self) -> list[str] | None:
        """Return the names in the file, None where there is no file."""
        try:
            with self._fs.open_reader(self.path) as file:
                lines = file.read().decode("utf-8", "replace").splitlines()
        except HdfsError as error:
            if error.exception == "FileNotFoundException":
                return None
            raise
        return [line.strip() for line in lines if line.strip()]

    def _write(self, names: list[str]) -> None:
        with self._fs.open_writer(self.path) as file:
            file.write("".join(f"{name}\n" for name in names).encode())
