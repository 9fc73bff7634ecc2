"""Parallel downloads from the cluster. Unchanged files are skipped; no file appears incomplete."""

from __future__ import annotations

import contextlib
import logging
import os
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import Problem
from luigi_pai.files.errors import TransferError
from luigi_pai.files.temporary import local_temporary, tidy_local
from luigi_pai.files.transfer.pool import JOBS, WorkerPool
from luigi_pai.files.transfer.remote_tree import remote_tree
from luigi_pai.files.transfer.summary import Transfer

if TYPE_CHECKING:
    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.files.transfer.remote_tree import RemoteFile

__all__ = ["download"]

logger = logging.getLogger("luigi-interface")

_NS_PER_MS = 1_000_000


def download(fs: FileSystem, path: str, local: str | os.PathLike[str], *, jobs: int = JOBS) -> Transfer:
    """Fetch a file, or the content of a folder, from the cluster; only new and changed files are fetched.

    Fetched files get the modification time that they have there, because the next download compares size
    and time. Files that are only on this machine are not removed.

    Args:
        fs: the file system.
        path: in any form that ``hdfs_path`` accepts.
        local: if ``path`` is a folder, the folder that gets its content. If ``path`` is a file, the path of
            the new file, or of a folder for it; if this folder does not exist, the path must end with ``/``.
        jobs: maximum number of files that are fetched at the same time.

    Raises:
        HdfsError: there is no such file or folder, or an operation was refused or not answered.
        TransferError: files cannot be written. Files that were fetched before are not removed.
    """
    volume, place = fs.at(path)
    pool, goal = WorkerPool(jobs), Path(local)
    tree = remote_tree(volume, place, pool)
    if tree.is_file and (os.fspath(local).endswith("/") or os.path.isdir(goal)):  # noqa: PTH112  never raises
        goal /= posixpath.basename(place)
    places = {name: goal if tree.is_file else goal / name for name in tree.files}
    folders = [goal.parent] if tree.is_file else [goal, *(goal / name for name in tree.folders)]
    wrong = [
        Problem(str(place), "is not a file here")
        for place in places.values()
        if os.path.exists(place) and not os.path.isfile(place)  # noqa: PTH110, PTH113  they never raise
    ]
    if wrong:
        raise TransferError(f"nothing of {path} was fetched", wrong)
    changed = [file for name, file in tree.files.items() if not _is_here(file, places[name])]
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(folder, error) from error
    size = sum(file.size for file in changed)
    with pool.progress(posixpath.basename(path), size + len(changed)):
        pool.map(lambda file: _fetch(file, places[file.name], pool), changed)
    for folder in folders:
        tidy_local(folder)
    done = Transfer("downloaded", os.fspath(local), len(changed), len(tree.files), size)
    logger.info("%s", done)
    return done


def _is_here(file: RemoteFile, place: Path) -> bool:
    """Return whether a local file has the size and modification time of a file on the cluster."""
    try:
        found = place.lstat()
    except OSError:
        return False
    same_time = found.st_mtime_ns // _NS_PER_MS == file.time
    return place.is_file() and found.st_size == file.size and same_time


def _fetch(file: RemoteFile, place: Path, pool: WorkerPool) -> None:
    """Fetch one file; it appears under its name when it is complete."""
    pool.advance(1)
    incomplete = local_temporary(place)
    try:
        with incomplete.open("wb") as written, contextlib.closing(file.parts()) as parts:
            for part in parts:
                pool.advance(len(part))
                written.write(part)
        os.utime(incomplete, ns=(file.time * _NS_PER_MS, file.time * _NS_PER_MS))
        incomplete.replace(place)
    except OSError as error:
        raise _cannot_write(place, error) from error
    finally:
        with contextlib.suppress(OSError):  # OSError: it was renamed already, or the disk has failed
            incomplete.unlink()


def _cannot_write(place: Path, error: OSError) -> TransferError:
    return TransferError("not everything was fetched", [Problem(str(place), error.strerror or str(error))])
