"""The flag in an output folder that says which jobs completed into it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError

if TYPE_CHECKING:
    from luigi_pai.hdfs.client import WebHdfs

__all__ = ["CompletionFlag"]


class CompletionFlag:
    """The file ``_SUCCESS`` in an output folder, Hadoop's convention.

    It holds the name of the job that completed into this folder. An empty one,
    as Spark, Hadoop or a person write it, counts for every job. Jobs that share
    a folder get a file each beside it, ``_SUCCESS.NAME``: nothing is read and
    rewritten, so jobs that end at the same moment do not lose each other's flag.

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
        if names is not None and (not names or job in names):
            return True
        return self._fs.exists(self._path_of(job))

    def add(self, job: str) -> None:
        """Add a job; folders are made where they are missing, the flags of other jobs stay."""
        if self.holds(job):
            return
        try:
            self._write(self.path, [job], overwrite=False)
        except FileAlreadyExists:
            self._write(self._path_of(job), [], overwrite=True)

    def discard(self, job: str) -> None:
        """Take a job out; ``_SUCCESS`` is deleted when it names no other, also an empty one."""
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
            self._write(self.path, others, overwrite=True)

    def _path_of(self, job: str) -> str:
        return f"{self.path}.{job}"

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

    def _write(self, path: str, names: list[str], *, overwrite: bool) -> None:
        with self._fs.open_writer(path, overwrite=overwrite) as file:
            file.write("".join(f"{name}\n" for name in names).encode())
