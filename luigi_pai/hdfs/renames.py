"""Renaming on HDFS: into a folder, to an exact name, over a file that is there, or into the trash.

WebHDFS knows no trash: it is what Hadoop's own clients make of it (``TrashPolicyDefault``).
"""

from __future__ import annotations

import contextlib
import posixpath
import time
from typing import TYPE_CHECKING

from luigi_pai.hdfs.errors import FileAlreadyExists, HdfsError, NotADirectory
from luigi_pai.hdfs.temporary import kept_path, tidy

if TYPE_CHECKING:
    from luigi_pai.hdfs.connection import Connection

__all__ = ["move", "move_to_trash", "rename_exactly", "replace"]

_MAYBE_EXISTS = ("FileNotFoundException", "IOException")  # of rename2, also where the destination exists
_TRASH_MODE = "700"
_FOR_GOOD = "to delete it for good, remove it with skip_trash=True"


def move(server: Connection, path: str, goal: str) -> None:
    """Rename, or move into a folder that exists; nothing is replaced. HdfsError says why it was not done."""
    if not server.rename_to(path, goal):
        raise _not_renamed(server, path, goal)


def rename_exactly(server: Connection, path: str, goal: str) -> None:
    """Rename to exactly ``goal``, in one step; FileAlreadyExists where anything is there, also a folder."""
    try:
        done = server.rename_to(path, goal, "NONE")
    except HdfsError as error:
        if error.exception in _MAYBE_EXISTS and server.status(goal):
            raise _exists(server, path, goal) from error
        raise
    _check_exact(server, path, goal, done=done)


def replace(server: Connection, path: str, goal: str) -> None:
    """Rename to exactly ``goal``, replacing a file that is there, in one step.

    A server without this rename (HttpFS) is asked in two: the old file is renamed away first, and back
    where the second step fails. Whoever is killed in between leaves it to ``tidy``.
    """
    done = server.rename_to(path, goal, "OVERWRITE")
    if done is False:
        old = server.status(goal)
        if old and old["type"] == "FILE" and server.status(path):
            done = _replace_in_two_steps(server, path, goal)
    _check_exact(server, path, goal, done=done)


def _replace_in_two_steps(server: Connection, path: str, goal: str) -> bool:
    kept = kept_path(goal, server.owner)
    place, folder = posixpath.dirname(kept), posixpath.dirname(posixpath.dirname(kept))
    server.make_folders(place)
    done = False
    try:
        done = bool(server.rename_to(goal, kept) and server.rename_to(path, goal))
    finally:
        if not done:  # perhaps the first step was: what is there stays, for it is not replaced
            with contextlib.suppress(HdfsError):
                server.rename_to(kept, goal)
        with contextlib.suppress(HdfsError):
            server.remove(place, recursive=done)
            tidy(server, folder)
    return done


def _check_exact(server: Connection, path: str, goal: str, *, done: bool | None) -> None:
    """Check a rename that must not move into a folder; a server that knows such renames answers None."""
    if done is False:
        raise _not_renamed(server, path, goal)
    inside = posixpath.join(goal, posixpath.basename(path))
    if done and server.is_folder(goal) and server.status(inside):
        server.rename_to(inside, path)  # the server moved it into a folder: back
        raise _exists(server, path, goal)


def _not_renamed(server: Connection, path: str, goal: str) -> HdfsError:
    """Return the error for a rename that the server answered with false."""
    if not server.status(path):
        return server.failed("RENAME", path, "nothing is there", exception="FileNotFoundException")
    if server.status(goal):
        return _exists(server, path, goal)
    return server.failed("RENAME", path, f"the server did not rename it to {goal}, and gives no reason")


def _exists(server: Connection, path: str, goal: str) -> HdfsError:
    return server.failed("RENAME", path, f"{goal} exists", kind=FileAlreadyExists)


def move_to_trash(server: Connection, path: str, *, recursive: bool) -> bool:
    """Move a file or folder to ``/user/NAME/.Trash/Current``, under the path it had.

    Something of that path that is there already stays; the new one has the time, in ms, behind its name. The
    trash is emptied by a NameNode that has ``fs.trash.interval``; any other keeps it. Returns False, and does
    nothing, where it is in the trash already.

    Raises:
        HdfsError: it stays where it is, and why.
    """
    trash = f"{server.home()}/.Trash"
    if path == trash or path.startswith(f"{trash}/"):
        return False
    if f"{trash}/".startswith(f"{path.rstrip('/')}/"):
        reason = "it cannot be moved to the trash, which is in it"
        raise server.failed("DELETE", path, reason, next_step=_FOR_GOOD)
    if not server.status(path):
        raise server.failed("DELETE", path, "nothing is there", exception="FileNotFoundException")
    if not recursive and any(entry["pathSuffix"] for entry in server.list_status(path)):
        exception = "PathIsNotEmptyDirectoryException"
        reason = f"{exception}: the folder is not empty"
        raise server.failed("DELETE", path, reason, exception=exception)
    try:
        rename_exactly(server, path, _free_place(server, f"{trash}/Current", path))
    except HdfsError as error:
        reason = f"it cannot be moved to the trash ({error.reason})"
        raise server.failed("DELETE", path, reason, next_step=_FOR_GOOD, exception=error.exception) from error
    return True


def _free_place(server: Connection, trash: str, path: str) -> str:
    """Return where nothing is yet, in a folder that is."""
    now = int(time.time() * 1000)
    folder = f"{trash}{posixpath.dirname(path)}".rstrip("/")
    try:
        server.make_folders(folder, _TRASH_MODE)
    except NotADirectory:
        folder = f"{trash}/{now}{posixpath.dirname(path)}".rstrip("/")  # a file was there once
        server.make_folders(folder, _TRASH_MODE)
    place = f"{folder}/{posixpath.basename(path)}"
    return f"{place}{now}" if server.status(place) else place
