"""The local files and folders that an upload sends."""

from __future__ import annotations

import hashlib
import os
import stat
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import Problem
from luigi_pai.files.errors import TransferError
from luigi_pai.files.transfer.pool import READ_AT_ONCE, Tree
from luigi_pai.outgoing.folder import folder_contents, shown
from luigi_pai.outgoing.never_sent import NeverSent

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class LocalFile:
    """A local file to send.

    Attributes:
        name: its path in the folder that is sent, with ``/``; its new name if only this file is sent.
        place: its path on this machine.
        size: in bytes.
    """

    name: str
    place: Path
    size: int

    def parts(self) -> Iterator[bytes]:
        """Yield the content in parts.

        Raises:
            TransferError: the file cannot be read, or was changed while it was read, so that the parts may be
                of different versions.
        """
        try:
            with self.place.open("rb") as opened:
                before = os.fstat(opened.fileno())
                while part := opened.read(READ_AT_ONCE):
                    yield part
                after = os.fstat(opened.fileno())
        except OSError as error:
            raise self._wrong(error.strerror or str(error)) from error
        if (before.st_size, before.st_mtime_ns) != (after.st_size, after.st_mtime_ns):
            raise self._wrong("it was changed while it was read; send it when no program writes to it")

    def is_executable(self) -> bool:
        """Return whether its owner may execute it."""
        return bool(self.place.stat().st_mode & stat.S_IXUSR)

    def sha256(self) -> str:
        """Return the checksum of the content in hex; raises what ``parts()`` raises."""
        digest = hashlib.sha256()
        for part in self.parts():
            digest.update(part)
        return digest.hexdigest()

    def _wrong(self, reason: str) -> TransferError:
        return TransferError("not everything was sent", [Problem(shown(str(self.place)), reason)])


def local_tree(place: Path, name: str, refused: str = "") -> Tree[LocalFile]:
    """Return the tree of a local file or folder; a file gets the name ``name``.

    Args:
        place: the path of the file or folder.
        name: the file's name in the tree.
        refused: ``Volume.refused`` of the file system to which the tree is sent.

    Raises:
        TransferError: some files cannot be sent; its ``problems`` have all of them.
    """
    try:
        found = place.stat()
    except OSError as error:
        missing = isinstance(error, FileNotFoundError)
        why = "there is no such file or folder" if missing else f"it cannot be read ({error.strerror})"
        raise TransferError("nothing was sent", [Problem(shown(str(place)), why)]) from None
    if place.is_dir():
        return folder_tree(place, refused)
    problems = [Problem(shown(name), why) for why in _wrong_with(name, refused)]
    if why := NeverSent().problem(place):
        problems.append(Problem(shown(str(place)), why))
    _check(place, problems)
    return Tree({name: LocalFile(name, place, found.st_size)}, [], is_file=True)


def folder_tree(folder: Path, refused: str = "") -> Tree[LocalFile]:
    """Return the tree of a folder without ignored files; raises as ``local_tree``."""
    found = folder_contents(folder, check_name=partial(_wrong_with, refused=refused))
    _check(folder, found.problems)
    files = {
        name: LocalFile(name, Path(entry.path), entry.stat().st_size) for name, entry in found.files.items()
    }
    return Tree(files, found.folders, left_out=tuple(found.left_out))


def _wrong_with(name: str, refused: str) -> Iterator[str]:
    """Yield the reasons why HDFS rejects a name."""
    for letter in refused:
        if letter in name:
            yield f"HDFS takes no {letter!r} in a name"


def _check(place: Path, problems: list[Problem]) -> None:
    if problems:
        raise TransferError(f"nothing of {shown(str(place))} was sent", problems)
