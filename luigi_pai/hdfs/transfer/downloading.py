"""Fetching a file or folder from HDFS: in parallel, only what changed, whole files only."""

from __future__ import annotations

import contextlib
import logging
import os
import posixpath
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import Problem
from luigi_pai.hdfs.errors import FileAlreadyExists, TransferError
from luigi_pai.hdfs.temporary import local_temporary, tidy_local
from luigi_pai.hdfs.transfer.pool import JOBS, WorkerPool
from luigi_pai.hdfs.transfer.remote_tree import RemoteTree
from luigi_pai.hdfs.transfer.summary import Transfer

if TYPE_CHECKING:
    from luigi_pai.hdfs.client import WebHdfs
    from luigi_pai.hdfs.connection import Connection
    from luigi_pai.hdfs.transfer.remote_tree import RemoteFile

__all__ = ["download", "fetch_new"]

logger = logging.getLogger("luigi-interface")

_NS_PER_MS = 1_000_000


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
    pool, goal = WorkerPool(jobs), Path(local)
    tree = RemoteTree.of(server, place, pool)
    if tree.is_file and (os.fspath(local).endswith("/") or _is_folder_here(goal)):
        goal /= posixpath.basename(place)
    changed = _fetch_tree(path, tree, goal, pool)
    size = sum(file.size for file in changed)
    done = Transfer("downloaded", os.fspath(local), len(changed), len(tree.files), size)
    logger.info("%s", done)
    return done


def fetch_new(server: Connection, path: str, local: str | os.PathLike[str]) -> None:
    """Fetch a file or folder to a path where nothing is, or into a folder, see ``WebHdfs.get``."""
    goal, pool = Path(local), WorkerPool(JOBS)
    goal = goal / posixpath.basename(path) if goal.is_dir() else goal
    tree = RemoteTree.of(server, path, pool)
    if os.path.lexists(goal):
        raise server.failed("OPEN", path, f"{goal} exists", kind=FileAlreadyExists)
    _fetch_tree(path, tree, goal, pool)


def _fetch_tree(path: str, tree: RemoteTree, goal: Path, pool: WorkerPool) -> list[RemoteFile]:
    """Fetch what is new or changed of a file or folder to ``goal``; return those files.

    ``path`` is what errors call it. They are those of ``download``.
    """
    places = {name: goal if tree.is_file else goal / name for name in tree.files}
    folders = [goal.parent] if tree.is_file else [goal, *(goal / name for name in tree.folders)]
    _check(path, list(places.values()), folders)
    changed = [file for name, file in tree.files.items() if not _is_here(file, places[name])]
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(folder, error) from error
    with pool.progress(posixpath.basename(path), sum(file.size + 1 for file in changed)):
        pool.map(lambda file: _fetch(file, places[file.name], pool), changed)
    for folder in folders:
        tidy_local(folder)
    return changed


def _is_here(file: RemoteFile, place: Path) -> bool:
    """Return whether this version of a file is here already."""
    try:
        found = place.lstat()
    except OSError:
        return False
    same_time = found.st_mtime_ns // _NS_PER_MS == file.time
    return place.is_file() and found.st_size == file.size and same_time


def _check(path: str, files: list[Path], folders: list[Path]) -> None:
    """Refuse what is a file on one side and a folder, a device or a pipe on the other."""
    wrong = [
        Problem(str(file), "is a folder here and a file on HDFS") for file in files if _is_folder_here(file)
    ]
    wrong += [
        Problem(str(folder), "is a file here and a folder on HDFS")
        for folder in folders
        if os.path.exists(folder) and not _is_folder_here(folder)  # noqa: PTH110  as below
    ]
    wrong += [Problem(str(file), "is a device, pipe or socket") for file in files if _is_special(file)]
    if wrong:
        raise TransferError(f"nothing of {path} was fetched", wrong)


def _is_folder_here(place: Path) -> bool:
    return os.path.isdir(place)  # noqa: PTH112  False where it cannot be looked at, no error


def _is_special(place: Path) -> bool:
    try:
        mode = place.stat().st_mode
    except OSError:  # it is not there, mostly
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _fetch(file: RemoteFile, place: Path, pool: WorkerPool) -> None:
    """Fetch one file; it appears when it is whole."""
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
        with contextlib.suppress(OSError):  # it is not there, or the disk is what failed
            incomplete.unlink()


def _cannot_write(place: Path, error: OSError) -> TransferError:
    return TransferError("not everything was fetched", [Problem(str(place), error.strerror or str(error))])
