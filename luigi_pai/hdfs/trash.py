"""The user's trash. WebHDFS knows none: this is what Hadoop's own clients do (``TrashPolicyDefault``)."""

from __future__ import annotations

import posixpath
import time
from typing import TYPE_CHECKING

from luigi_pai.hdfs.errors import HdfsError, NotADirectory

if TYPE_CHECKING:
    from luigi_pai.hdfs.connection import Connection

__all__ = ["move_to_trash"]

_MODE = "700"
_FOR_GOOD = "to delete it for good, remove it with skip_trash=True"


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
        place = _free_place(server, f"{trash}/Current", path)
        done = server.rename_to(path, place, "NONE")
    except HdfsError as error:
        reason = f"it cannot be moved to the trash ({error.reason})"
        raise server.failed("DELETE", path, reason, next_step=_FOR_GOOD, exception=error.exception) from error
    if done is False:
        reason = f"the server did not move it to {place}, and gives no reason"
        raise server.failed("DELETE", path, reason, next_step=_FOR_GOOD)
    return True


def _free_place(server: Connection, trash: str, path: str) -> str:
    """Return where nothing is yet, in a folder that is."""
    now = int(time.time() * 1000)
    folder = f"{trash}{posixpath.dirname(path)}".rstrip("/")
    try:
        server.make_folders(folder, _MODE)
    except NotADirectory:
        folder = f"{trash}/{now}{posixpath.dirname(path)}".rstrip("/")  # a file was there once
        server.make_folders(folder, _MODE)
    place = f"{folder}/{posixpath.basename(path)}"
    return f"{place}{now}" if server.status(place) else place
