"""Copies to a path on HDFS where nothing is: from here, and within HDFS."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.hdfs.errors import FileAlreadyExists
from luigi_pai.hdfs.renames import rename_exactly
from luigi_pai.hdfs.transfer.destination import Destination
from luigi_pai.hdfs.transfer.pool import JOBS, WorkerPool
from luigi_pai.hdfs.transfer.staging import Stage
from luigi_pai.hdfs.writer import HdfsWriter

if TYPE_CHECKING:
    from luigi_pai.hdfs.connection import Connection
    from luigi_pai.hdfs.transfer.local_tree import LocalFile, LocalTree
    from luigi_pai.hdfs.transfer.remote_tree import RemoteFile, RemoteTree

__all__ = ["send_new"]


def send_new(tree: LocalTree | RemoteTree, server: Connection, goal: str) -> None:
    """Send a file or folder to a path on HDFS where nothing is."""
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
