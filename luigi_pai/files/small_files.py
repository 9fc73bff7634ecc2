"""Reads small files with few requests, and creates them exclusively."""

from __future__ import annotations

import contextlib
import logging
import posixpath
import re
from typing import TYPE_CHECKING

from luigi_pai.api.wire.repeats import SMALL_FILE, Tries
from luigi_pai.files.errors import HdfsError, HdfsUnreachable, missing_ok
from luigi_pai.files.temporary import remove_abandoned, unique
from luigi_pai.files.temporary import tidy as tidy_folder

if TYPE_CHECKING:
    from collections.abc import Iterable

    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.files.volume import FileStatus, Volume

logger = logging.getLogger("luigi-interface")

_SMALL = 64 * 1024  # bytes
_LONGEST_STEM = 200  # how many characters of a file's name its temporary name may contain
_TEMPORARY = re.compile(r"\.[0-9a-f]{12}(?:-[0-9]{1,9}-[0-9a-f]{12})?\..+", re.DOTALL)
_ABANDONED = 6 * 3600  # age in seconds at which a temporary file counts as abandoned, whoever wrote it


def read_small(fs: FileSystem, path: str, most: int, offset: int = 0) -> bytes | None:
    """Return a small file's content, starting at an offset; None if the file does not exist.

    The offset must be before the end of the file.

    Raises:
        HdfsError: The file cannot be read, or contains more than ``most`` bytes after the offset.
    """
    volume, place = fs.at(path)
    with missing_ok():
        return volume.read_rest(place, offset, most)
    return None


def create_once(fs: FileSystem, path: str, data: bytes) -> bool:
    """Create a small file atomically if it does not exist; return whether this call created it.

    If several processes create the file at the same time, one of them gets True (or none, if responses are
    lost). Two requests write a temporary file. A third renames it, which succeeds for only one process.

    Raises:
        HdfsError: The file could not be written.
    """
    volume, place = fs.at(path)
    temporary = Tries(SMALL_FILE).call(lambda: _write_beside(volume, place, data))
    failure: HdfsError | None = None
    try:
        if volume.rename_to(temporary, place):
            return True
    except HdfsError as error:
        failure = error
    if not volume.remove(temporary, recursive=False):
        # it was renamed but the response was lost, or another process removed it as abandoned
        return read_small(fs, path, _SMALL) == data
    if failure is not None and volume.status(place) is None:
        raise failure
    return False


def remove_once(fs: FileSystem, path: str) -> None:
    """Remove a file, but never a new file that another process creates at the same path in the meantime.

    A DELETE that gets no response is sent again, and the second DELETE could remove the new file. To avoid
    this, the file is renamed first.

    Raises:
        HdfsError: A request failed. The file may still exist, or may already have been removed.
    """
    volume, place = fs.at(path)
    aside = _beside(place)
    if volume.rename_to(place, aside):
        volume.remove(aside, recursive=False)


def tidy_beside(volume: Volume, folder: str, entries: Iterable[FileStatus]) -> None:
    """Remove the temporary files that this user's killed processes left in a folder; only log errors.

    Such files belong to processes on this machine that are no longer running, or are older than six hours.
    ``entries`` contains the FileStatus of each file in the folder.
    """
    for entry in entries:
        place = f"{folder}/{entry['pathSuffix']}"
        tidy_folder(volume, place)
        if is_temporary(entry["pathSuffix"]):
            try:
                remove_abandoned(volume, folder, entry, _ABANDONED, ".")
            except HdfsError as error:
                logger.info("%s may be left behind: %s", place, error)


def is_temporary(name: str) -> bool:
    """Return whether a name is a temporary one. A file keeps its temporary name until it is complete."""
    return _TEMPORARY.fullmatch(name) is not None


def _beside(place: str) -> str:
    """Return a new temporary name beside a path."""
    folder, name = posixpath.split(place)
    return f"{folder}/.{unique()}.{name[-_LONGEST_STEM:]}"


def _write_beside(volume: Volume, place: str, data: bytes) -> str:
    """Write a file with a new temporary name; return its path."""
    temporary = _beside(place)
    try:
        volume.create_file(temporary, data)
    except HdfsUnreachable as error:
        if not error.unsent:  # it may be there
            with contextlib.suppress(HdfsError):
                volume.remove(temporary, recursive=False)
        raise
    return temporary
