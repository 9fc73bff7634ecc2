"""Renames on HDFS: into a folder, to an exact name, or over a file that is there."""

from __future__ import annotations

import contextlib
import posixpath
from typing import TYPE_CHECKING

from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError
from luigi_pai.hdfs.temporary import temporary_path, tidy

if TYPE_CHECKING:
    from luigi_pai.hdfs.connection import Connection

_MAYBE_EXISTS = ("FileNotFoundException", "IOException")  # HDFS may send these if the destination exists


def move(server: Connection, path: str, goal: str) -> None:
    """Rename a path to ``goal``, or move it into the folder ``goal``; HdfsError if the new path exists."""
    if not server.rename_to(path, goal):
        raise _not_renamed(server, path, goal)


def rename_exactly(server: Connection, path: str, goal: str) -> None:
    """Rename to exactly ``goal`` in one step; FileAlreadyExists if ``goal`` is a file or a folder."""
    try:
        done = server.rename_to(path, goal, "NONE")
    except HdfsError as error:
        if error.exception in _MAYBE_EXISTS and server.status(goal):
            raise _exists(server, path, goal) from error
        raise
    _check_exact(server, path, goal, done=done)


def replace(server: Connection, path: str, goal: str) -> None:
    """Rename to exactly ``goal`` in one step, replacing an existing file.

    On a server without rename2 (HttpFS), the existing file is first renamed aside, and back after an error.
    """
    done = server.rename_to(path, goal, "OVERWRITE")
    if done is False:
        old = server.status(goal)
        if old and old["type"] == "FILE" and server.status(path):
            done = _replace_in_two_steps(server, path, goal)
    _check_exact(server, path, goal, done=done)


def _replace_in_two_steps(server: Connection, path: str, goal: str) -> bool:
    aside = temporary_path(goal, server.owner)
    server.make_folders(posixpath.dirname(aside))
    done = False
    try:
        done = bool(server.rename_to(goal, aside) and server.rename_to(path, goal))
    finally:
        with contextlib.suppress(HdfsError):
            if done:
                server.remove(aside, recursive=False)
            else:  # restore the old file; HDFS refuses if both renames succeeded and a reply was lost
                server.rename_to(aside, goal)
            tidy(server, posixpath.dirname(aside))
    return done


def _check_exact(server: Connection, path: str, goal: str, *, done: bool | None) -> None:
    """Raise HdfsError if the older rename (``done`` is not None) failed or moved ``path`` into a folder."""
    if done is False:
        raise _not_renamed(server, path, goal)
    inside = posixpath.join(goal, posixpath.basename(path))
    if done and server.is_folder(goal) and server.status(inside):
        server.rename_to(inside, path)  # undo this rename, which moved the path into a folder
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
