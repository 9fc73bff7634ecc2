"""Renames on HDFS: into a folder, to an exact name, or over a file that is there."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError

if TYPE_CHECKING:
    from luigi_pai.hdfs.connection import Connection

__all__ = ["move", "rename_exactly", "replace"]

_MAYBE_EXISTS = ("FileNotFoundException", "IOException")  # of rename2, also where the destination exists


def move(server: Connection, path: str, goal: str) -> None:
    """Rename, or move into an existing folder; nothing is replaced. HdfsError has the reason of a failure."""
    if not server.rename_to(path, goal):
        raise _not_renamed(server, path, goal)


def rename_exactly(server: Connection, path: str, goal: str) -> None:
    """Rename to exactly ``goal`` in one step; FileAlreadyExists if it is a file or a folder."""
    try:
        done = server.rename_to(path, goal, "NONE")
    except HdfsError as error:
        if error.exception in _MAYBE_EXISTS and server.status(goal):
            raise _exists(server, path, goal) from error
        raise
    _check_exact(server, path, goal, done=done)


def replace(server: Connection, path: str, goal: str) -> None:
    """Rename to exactly ``goal`` in one step, replacing an existing file.

    On a server without this rename (HttpFS) the existing file is deleted first.
    """
    done = server.rename_to(path, goal, "OVERWRITE")
    if done is False:
        old = server.status(goal)
        if old and old["type"] == "FILE" and server.status(path):
            server.remove(goal, recursive=False)
            done = server.rename_to(path, goal)
    _check_exact(server, path, goal, done=done)


def _check_exact(server: Connection, path: str, goal: str, *, done: bool | None) -> None:
    """Check that a rename has not moved into a folder; servers with rename2 (``done`` None) never do."""
    if done is False:
        raise _not_renamed(server, path, goal)
    inside = posixpath.join(goal, posixpath.basename(path))
    if done and server.is_folder(goal) and server.status(inside):
        server.rename_to(inside, path)  # the server moved it into a folder: back
        raise _exists(server, path, goal)


def _not_renamed(server: Connection, path: str, goal: str) -> HdfsError:
    """Return the error of a rename that the server answered with false."""
    if not server.status(path):
        return server.failed("RENAME", path, "nothing is there", exception="FileNotFoundException")
    if server.status(goal):
        return _exists(server, path, goal)
    return server.failed("RENAME", path, f"the server did not rename it to {goal}, and gives no reason")


def _exists(server: Connection, path: str, goal: str) -> HdfsError:
    return server.failed("RENAME", path, f"{goal} exists", kind=FileAlreadyExists)
