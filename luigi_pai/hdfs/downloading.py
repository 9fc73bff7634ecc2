"""Fetching a file or folder from HDFS: in parallel, only what changed, whole files only."""

from __future__ import annotations

import contextlib
import logging
import os
import posixpath
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Problem
from luigi_pai.hdfs.destination import MANIFEST, OURS, is_folder
from luigi_pai.hdfs.errors import TransferError, failed
from luigi_pai.hdfs.reader import HdfsReader
from luigi_pai.hdfs.transfer import JOBS, READ_AT_ONCE, Threads, Transfer, progress

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from luigi_pai.hdfs.client import WebHdfs
    from luigi_pai.hdfs.connection import Connection

__all__ = ["download"]

logger = logging.getLogger("luigi-interface")

_NS_PER_MS = 1_000_000
_LONGEST_STEM = 50  # characters of a file's name that its temporary name repeats


@dataclass(frozen=True)
class _RemoteFile:
    """A file on HDFS and the place that it goes to.

    Attributes:
        path: on HDFS.
        place: here.
        size: in bytes.
        time: of the last change, in ms since 1970.
    """

    path: str
    place: Path
    size: int
    time: int

    def is_here(self) -> bool:
        """Return whether this version is here already."""
        try:
            found = self.place.lstat()
        except OSError:
            return False
        same_time = found.st_mtime_ns // _NS_PER_MS == self.time
        return self.place.is_file() and found.st_size == self.size and same_time


def download(fs: WebHdfs, path: str, local: str | os.PathLike[str], *, jobs: int = JOBS) -> Transfer:
    """Fetch a file, or what is in a folder, from HDFS, as far as it is new or changed.

    A file that was fetched gets the time of change that it has on HDFS. Size and
    time are what the next download compares. Nothing is removed here.

    Args:
        fs: the file system.
        path: in any way that ``hdfs_path`` takes.
        local: for a folder, the folder here that gets what is in it; for a file,
            its path, or the folder that it goes into (one that exists, or ends with ``/``).
        jobs: files fetched at once.

    Raises:
        HdfsError: there is no such file or folder, or HDFS refused something or did not answer.
        TransferError: files that cannot be written here. What was fetched before is here.
    """
    server, place = fs.at(path)
    threads = Threads(jobs)
    files, folders = _find(server, place, Path(local), threads, into=os.fspath(local).endswith("/"))
    _check(path, files, folders)
    changed = [file for file in files if not file.is_here()]
    for folder in folders:
        _make_folder(folder)
    with progress(posixpath.basename(place), sum(file.size + 1 for file in changed)) as advance:
        threads.map(lambda file: _fetch(server, file, threads, advance), changed)
    size = sum(file.size for file in changed)
    done = Transfer("downloaded", os.fspath(local), len(changed), len(files), size)
    logger.info("%s", done)
    return done


def _find(
    server: Connection, path: str, local: Path, threads: Threads, *, into: bool
) -> tuple[list[_RemoteFile], list[Path]]:
    """Return the files to fetch, and the folders to make, those above first."""
    status = server.file_status(path)
    if not is_folder(status):
        goal = local / posixpath.basename(path) if into or _is_folder_here(local) else local
        return [_file(path, goal, status)], [goal.parent]
    files: list[_RemoteFile] = []
    folders = [local]
    level = [(path, local)]
    while level:
        listings = threads.map(server.list_status, [path for path, _goal in level])
        below = []
        for (above, goal), listing in zip(level, listings, strict=True):
            for entry in listing:
                name = entry["pathSuffix"]
                if name == MANIFEST or OURS.search(name):
                    continue
                if "/" in name or name in ("", ".", ".."):
                    reason = f"the server says that {name!r} is in it, which is no name"
                    raise failed("LISTSTATUS", above, server.server, reason)
                if is_folder(entry):
                    below.append((posixpath.join(above, name), goal / name))
                else:
                    files.append(_file(posixpath.join(above, name), goal / name, entry))
        folders += [goal for _path, goal in below]
        level = below
    return files, folders


def _file(path: str, place: Path, status: Mapping[str, Any]) -> _RemoteFile:
    return _RemoteFile(path, place, status["length"], status["modificationTime"])


def _check(path: str, files: list[_RemoteFile], folders: list[Path]) -> None:
    """Refuse what is a file on one side and a folder on the other."""
    wrong = [
        Problem(str(file.place), "is a folder here and a file on HDFS")
        for file in files
        if _is_folder_here(file.place)
    ]
    wrong += [
        Problem(str(folder), "is a file here and a folder on HDFS")
        for folder in folders
        if os.path.exists(folder) and not _is_folder_here(folder)  # noqa: PTH110  as below
    ]
    if wrong:
        raise TransferError(f"nothing of {path} was fetched", wrong)


def _is_folder_here(place: Path) -> bool:
    return os.path.isdir(place)  # noqa: PTH112  False where it cannot be looked at, no error


def _make_folder(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _cannot_write(folder, error) from error


def _fetch(server: Connection, file: _RemoteFile, threads: Threads, advance: Callable[[int], None]) -> None:
    """Fetch one file; it appears when it is whole."""
    threads.check()
    name = f".{file.place.name[:_LONGEST_STEM]}.luigi-pai-tmp-{uuid.uuid4().hex[:12]}"
    incomplete = file.place.with_name(name)
    try:
        with HdfsReader(server, file.path) as reader, incomplete.open("wb") as written:
            while part := reader.read(READ_AT_ONCE):
                threads.check()
                written.write(part)
                advance(len(part))
        os.utime(incomplete, ns=(file.time * _NS_PER_MS, file.time * _NS_PER_MS))
        incomplete.replace(file.place)
        advance(1)
    except OSError as error:
        raise _cannot_write(file.place, error) from error
    finally:
        with contextlib.suppress(OSError):  # it is not there, or the disk is what failed
            incomplete.unlink()


def _cannot_write(place: Path, error: OSError) -> TransferError:
    return TransferError("not everything was fetched", [Problem(str(place), error.strerror or str(error))])
