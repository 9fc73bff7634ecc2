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
    """Fetch a file, or the content of a folder, from HDFS; only new and changed files are fetched.

    Fetched files get the modification time that they have on HDFS; the next download compares size and time.
    Nothing is removed on this machine.

    Args:
        fs: the file system.
        path: in any form that ``hdfs_path`` accepts.
        local: for a folder, the folder that gets its content; for a file, its path, or the folder for it (an
            existing one, or one that ends with ``/``).
        jobs: files fetched at once.

    Raises:
        HdfsError: there is no such file or folder, or HDFS refused a request or did not answer.
        TransferError: files cannot be written. Files that were fetched before stay.
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
    """Fetch a file or folder to a new path or into a folder, see ``WebHdfs.get``."""
    goal, pool = Path(local), WorkerPool(JOBS)
    goal = goal / posixpath.basename(path) if goal.is_dir() else goal
    tree = RemoteTree.of(server, path, pool)
    if os.path.lexists(goal):
        raise server.failed("OPEN", path, f"{goal} exists", kind=FileAlreadyExists)
    _fetch_tree(path, tree, goal, pool)


def _fetch_tree(path: str, tree: RemoteTree, goal: Path, pool: WorkerPool) -> list[RemoteFile]:
    """Fetch the new and changed files of a tree to ``goal``, and return them.

    ``path`` is the name of the tree in errors, which are those of ``download``.
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
    """Return whether a local file is the same version of a file."""
    try:
        found = place.lstat()
    except OSError:
        return False
    same_time = found.st_mtime_ns // _NS_PER_MS == file.time
    return place.is_file() and found.st_size == file.size and same_time


def _check(path: str, files: list[Path], folders: list[Path]) -> None:
    """Refuse files that are folders, devices or pipes on this machine, and folders that are files."""
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
    return os.path.isdir(place)  # noqa: PTH112  returns False where is_dir() may raise


def _is_special(place: Path) -> bool:
    try:
        mode = place.stat().st_mode
    except OSError:  # mostly because it does not exist
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


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
        with contextlib.suppress(OSError):  # it was renamed, or the disk has failed
            incomplete.unlink()


def _cannot_write(place: Path, error: OSError) -> TransferError:
    return TransferError("not everything was fetched", [Problem(str(place), error.strerror or str(error))])
