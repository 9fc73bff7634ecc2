"""Renames on the cluster: into a folder, to an exact name, or over a file that is there."""

from __future__ import annotations

import contextlib
import posixpath
from typing import TYPE_CHECKING

from luigi_pai.files.errors import FileAlreadyExists, HdfsError
from luigi_pai.files.temporary import temporary_path, tidy

if TYPE_CHECKING:
    from luigi_pai.files.volume import Volume

_MAYBE_EXISTS = ("FileNotFoundException", "IOException")  # HDFS may send these if the destination exists


def move(volume: Volume, path: str, goal: str) -> None:
    """Rename a path to ``goal``, or move it into the folder ``goal``; HdfsError if the new path exists."""
    if not volume.rename_to(path, goal):
        raise _not_renamed(volume, path, goal)


def rename_exactly(volume: Volume, path: str, goal: str) -> None:
    """Rename to exactly ``goal`` in one step; FileAlreadyExists if ``goal`` is a file or a folder."""
    try:
        done = volume.rename_to(path, goal, "NONE")
    except HdfsError as error:
        if error.exception in _MAYBE_EXISTS and volume.status(goal):
            raise _exists(volume, path, goal) from error
        raise
    _check_exact(volume, path, goal, done=done)


def replace(volume: Volume, path: str, goal: str) -> None:
    """Rename to exactly ``goal`` in one step, replacing an existing file.

    On a server without rename2 (HttpFS), the existing file is first renamed aside, and back after an error.
    """
    done = volume.rename_to(path, goal, "OVERWRITE")
    if done is False:
        old = volume.status(goal)
        if old and old["type"] == "FILE" and volume.status(path):
            done = _replace_in_two_steps(volume, path, goal)
    _check_exact(volume, path, goal, done=done)


def _replace_in_two_steps(volume: Volume, path: str, goal: str) -> bool:
    aside = temporary_path(goal, volume.owner)
    volume.make_folders(posixpath.dirname(aside))
    done = False
    try:
        done = bool(volume.rename_to(goal, aside) and volume.rename_to(path, goal))
    finally:
        with contextlib.suppress(HdfsError):
            if done:
                volume.remove(aside, recursive=False)
            else:  # restore the old file; HDFS refuses if both renames succeeded and a reply was lost
                volume.rename_to(aside, goal)
            tidy(volume, posixpath.dirname(aside))
    return done


def _check_exact(volume: Volume, path: str, goal: str, *, done: bool | None) -> None:
    """Raise HdfsError if the older rename (``done`` is not None) failed or moved ``path`` into a folder."""
    if done is False:
        raise _not_renamed(volume, path, goal)
    inside = posixpath.join(goal, posixpath.basename(path))
    if done and volume.is_folder(goal) and volume.status(inside):
        volume.rename_to(inside, path)  # undo this rename, which moved the path into a folder
        raise _exists(volume, path, goal)


def _not_renamed(volume: Volume, path: str, goal: str) -> HdfsError:
    """Return the error of a rename that the server answered with false."""
    if not volume.status(path):
        return volume.failed("RENAME", path, "nothing is there", exception="FileNotFoundException")
    if volume.status(goal):
        return _exists(volume, path, goal)
    return volume.failed("RENAME", path, f"the server did not rename it to {goal}, and gives no reason")


def _exists(volume: Volume, path: str, goal: str) -> HdfsError:
    return volume.failed("RENAME", path, f"{goal} exists", kind=FileAlreadyExists)
