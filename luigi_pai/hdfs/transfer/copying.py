"""Copies to a place where nothing is: from here to HDFS, from HDFS to here, and within HDFS."""

from __future__ import annotations

import os
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.hdfs.errors import FileAlreadyExists
from luigi_pai.hdfs.renames import rename_exactly
from luigi_pai.hdfs.transfer.destination import Destination
from luigi_pai.hdfs.transfer.downloading import fetch
from luigi_pai.hdfs.transfer.local_tree import LocalTree
from luigi_pai.hdfs.transfer.pool import JOBS, WorkerPool
from luigi_pai.hdfs.transfer.remote_tree import RemoteTree
from luigi_pai.hdfs.transfer.staging import Stage
from luigi_pai.hdfs.writer import HdfsWriter

if TYPE_CHECKING:
    from luigi_pai.hdfs.connection import Connection
    from luigi_pai.hdfs.transfer.local_tree import LocalFile
    from luigi_pai.hdfs.transfer.remote_tree import RemoteFile

__all__ = ["copy_local", "copy_remote", "fetch_new"]


def copy_local(local: str | os.PathLike[str], server: Connection, goal: str) -> None:
    """Send a local file or folder to a path on HDFS where nothing is, see ``WebHdfs.put``."""
    _send(LocalTree.of(Path(local), posixpath.basename(goal)), server, goal)


def copy_remote(source: Connection, path: str, server: Connection, goal: str) -> None:
    """Copy a file or folder on HDFS to a path where nothing is, see ``WebHdfs.copy``."""
    if source is server and goal.startswith(f"{path.rstrip('/')}/"):
        step = "copy it to a folder that is not in it"
        raise server.failed("COPY", path, f"it cannot be copied into itself, to {goal}", next_step=step)
    _send(RemoteTree.of(source, path, WorkerPool(JOBS)), server, goal)


def fetch_new(server: Connection, path: str, local: str | os.PathLike[str]) -> None:
    """Fetch a file or folder to a path where nothing is, or into a folder, see ``WebHdfs.get``."""
    goal = Path(local)
    goal = goal / posixpath.basename(path) if goal.is_dir() else goal
    pool = WorkerPool(JOBS)
    tree = RemoteTree.of(server, path, pool)
    if os.path.lexists(goal):
        raise server.failed("OPEN", path, f"{goal} exists", kind=FileAlreadyExists)
    fetch(path, tree, goal, pool)


def _send(tree: LocalTree | RemoteTree, server: Connection, goal: str) -> None:
    if server.status(goal):
        raise server.failed("CREATE", goal, "it exists", kind=FileAlreadyExists)
    if tree.is_file:
        (file,) = tree.files.values()
        with HdfsWriter(lambda: server, goal, rename_exactly) as writer:
            for part in file.parts():
                writer.write(part)
        return
    pool = WorkerPool(JOBS)
    files: list[LocalFile | RemoteFile] = list(tree.files.values())
    with Stage(server, Destination(goal, exists=False), pool) as stage:
        pool.map(stage.send, files)
        stage.publish(frozenset(tree.folders), noted=False)
