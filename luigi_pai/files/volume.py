"""Volume: the file system operations on which this package's targets and transfers are built."""

from __future__ import annotations

import abc
import posixpath
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, BinaryIO

from luigi_pai.files.errors import NotADirectory, missing_ok
from luigi_pai.files.temporary import is_temporary

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from luigi_pai.files.errors import HdfsError

_BRACES = re.compile(r"\{([^{}]*)\}")
_WILDCARD = re.compile(r"[*?]|\[[!^]?[^\]]+\]", re.DOTALL)

FileStatus = dict[str, Any]
"""The description of a file or folder in WebHDFS's format.

``pathSuffix`` is its name in a listing, ``type`` is ``FILE``, ``DIRECTORY`` or ``SYMLINK``, ``length`` is in
bytes, ``modificationTime`` in ms since 1970, ``permission`` is octal; ``owner`` and ``group`` are names.
"""


class Volume(abc.ABC):
    """A cluster's file system: an HDFS, or a storage that is mounted on this machine.

    Paths are absolute and normalised. Methods raise HdfsError, whose ``exception`` is HDFS's name for the
    error. Two operations are atomic. If several ``create_file`` or ``rename_to`` calls (except with
    ``OVERWRITE``) have the same destination, at most one succeeds. Readers see the destination of
    ``rename_to`` either as it was before or as it is afterwards.
    """

    refused = ""
    """Characters, in addition to ``/``, that file and folder names must not contain."""
    keeps_modes = False
    """Whether uploads keep the executable bit. Containers do not see this bit on HDFS."""

    @property
    @abc.abstractmethod
    def owner(self) -> str:
        """The owner of the files that this process creates."""

    @property
    @abc.abstractmethod
    def server(self) -> str:
        """The file system's name in error messages."""

    @abc.abstractmethod
    def failed(self, operation: str, path: str, reason: str, **about: Any) -> HdfsError:
        """Return the error for a failed operation. ``about`` contains arguments for ``errors.failed``."""

    @abc.abstractmethod
    def local_path(self, path: str) -> str:
        """Return the path on this machine; raise HdfsError if the file system is not mounted on it."""

    # looking up

    @abc.abstractmethod
    def file_status(self, path: str) -> FileStatus:
        """Return the FileStatus of a file or folder."""

    @abc.abstractmethod
    def list_status(self, path: str) -> list[FileStatus]:
        """Return the FileStatus of each entry of a folder; for a file, its FileStatus with an empty name."""

    @abc.abstractmethod
    def count(self, path: str) -> tuple[int, int, int]:
        """Return the number of bytes, folders and files at and below a path; a folder counts itself."""

    def status(self, path: str) -> FileStatus | None:
        """Return the FileStatus of a file or folder; None if it does not exist."""
        with missing_ok():
            return self.file_status(path)
        return None

    def is_folder(self, path: str) -> bool:
        """Return whether a path is a folder."""
        status = self.status(path)
        return status is not None and status["type"] == "DIRECTORY"

    def list_folder(self, path: str) -> list[FileStatus]:
        """Return the FileStatus of each entry of a folder; raise NotADirectory if it is a file."""
        found = self.list_status(path)
        if [status["pathSuffix"] for status in found] == [""]:
            step, reason = "choose another folder, or remove the file", "it is a file, not a folder"
            raise self.failed("LISTSTATUS", path, reason, next_step=step, kind=NotADirectory)
        return found

    def walk(self, path: str, *, recursive: bool = True) -> Iterator[tuple[str, FileStatus]]:
        """Yield the path and FileStatus of a file, or of each entry in a folder.

        With ``recursive``, also yields the content of subfolders. Skips subfolders that are removed in the
        meantime, such as folders for temporary files.
        """
        for status in self.list_status(path):
            below = posixpath.join(path, name) if (name := status["pathSuffix"]) else path
            yield below, status
            if recursive and status["type"] == "DIRECTORY":
                with missing_ok():
                    yield from self.walk(below)

    def glob(self, pattern: str) -> list[tuple[str, FileStatus]]:
        """Return the path and FileStatus of everything that matches a pattern, sorted by path.

        Patterns may contain ``*``, ``?``, ``[a-c]``, ``[^a]`` and ``{a,b}``, as in Hadoop's commands. No
        wildcard matches a temporary folder.
        """
        found: dict[str, FileStatus] = {}
        for plain in _without_braces(pattern):
            level: dict[str, FileStatus | None] = {"/": None}
            for part in filter(None, plain.split("/")):
                level = dict(self._matching(level, part))
            for path, known in level.items():
                if status := known or self.status(path):
                    found[path] = status
        return sorted(found.items())

    def _matching(
        self, folders: dict[str, FileStatus | None], part: str
    ) -> Iterator[tuple[str, FileStatus | None]]:
        """Yield the path and FileStatus of each entry in ``folders`` whose name matches ``part``.

        If ``part`` has no wildcard, the paths are yielded without a lookup, and each FileStatus is None.
        """
        if not _WILDCARD.search(part):
            yield from ((posixpath.join(folder, part), None) for folder in folders)
            return
        part = part.replace("[^", "[!")
        for folder, known in folders.items():
            found = known or self.status(folder)
            for status in self.list_folder(folder) if found and found["type"] == "DIRECTORY" else ():
                name = status["pathSuffix"]
                if fnmatchcase(name, part) and not is_temporary(name):
                    yield posixpath.join(folder, name), status

    # reading and writing

    @abc.abstractmethod
    def open_reader(self, path: str) -> BinaryIO:
        """Open a file for reading. All its content comes from a single version of the file."""

    @abc.abstractmethod
    def read_part(self, path: str, offset: int, most: int) -> bytes:
        """Return at most ``most`` bytes of a file, starting at ``offset``, which must be before its end."""

    def read_rest(self, path: str, offset: int, most: int) -> bytes:
        """Return a file from ``offset`` to its end; raise ``too_large`` for more than ``most`` bytes."""
        data = self.read_part(path, offset, most + 1)
        if len(data) > most:
            raise self.too_large(path, most)
        return data

    def too_large(self, path: str, most: int) -> HdfsError:
        """Return the error for a file that is too large."""
        return self.failed("OPEN", path, f"it has more than {most:,} bytes", next_step="remove the file")

    @abc.abstractmethod
    def create_file(self, path: str, data: bytes | Iterable[bytes]) -> None:
        """Write a new file; create its folder if it is missing; raise an error if the file exists."""

    @abc.abstractmethod
    def append(self, path: str, data: bytes) -> None:
        """Append data to a file."""

    # changes

    @abc.abstractmethod
    def make_folders(self, path: str) -> None:
        """Create a folder and its parents; raise NotADirectory if the path or a parent is a file."""

    @abc.abstractmethod
    def share_folder(self, path: str) -> None:
        """Create a folder that any user's containers can write to. On HDFS, this does nothing."""

    @abc.abstractmethod
    def remove(self, path: str, *, recursive: bool) -> bool:
        """Delete a path; return False if it did not exist."""

    @abc.abstractmethod
    def rename_to(self, path: str, destination: str, options: str | None = None) -> bool | None:
        """Rename a path.

        Args:
            path: The path to rename.
            destination: The new path. Without ``options``, if this is an existing folder, ``path`` is moved
                into it.
            options: ``NONE`` to rename to exactly ``destination`` and raise an error if it exists;
                ``OVERWRITE`` to replace an existing file.

        Returns:
            None if the path was renamed to exactly ``destination``; otherwise, whether it was renamed.
            Without ``options``, False if ``destination`` exists or ``path`` does not.
        """

    @abc.abstractmethod
    def set_mode(self, path: str, mode: str) -> None:
        """Set the mode bits, in octal."""

    @abc.abstractmethod
    def set_owner(self, path: str, owner: str | None, group: str | None) -> None:
        """Set owner, group or both."""


def _without_braces(pattern: str) -> Iterator[str]:
    """Expand the braces in a pattern: ``a{b,c}`` yields ``ab`` and ``ac``."""
    braces = _BRACES.search(pattern)
    if not braces:
        yield pattern
        return
    for choice in braces[1].split(","):
        yield from _without_braces(pattern[: braces.start()] + choice + pattern[braces.end() :])
