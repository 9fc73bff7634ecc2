"""The two renames of HDFS: into a folder, as Unix's ``mv``, and onto an exact path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.hdfs.webhdfs.places import Places, is_there
from luigi_pai.local.hdfs.webhdfs.refusals import RemoteFault, disk_faults

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["Renames"]


class Renames:
    """Moves files and folders of a namespace; every method raises RemoteFault where HDFS refuses."""

    def __init__(self, root: Path, places: Places) -> None:
        self._root = root
        self._places = places

    def into(self, path: str, destination: str) -> bool:
        """Rename as HDFS's first ``rename`` does: into a folder, never onto a file; False if not done."""
        place, goal = self._places.place(path), self._places.goal(destination)
        if place == self._root or not is_there(place):
            return False
        if place == goal:
            return not place.is_dir()
        if goal.is_dir():
            goal = goal.resolve() / place.name
        if is_there(goal) or place in goal.parents or not goal.parent.is_dir():
            return False
        with disk_faults(path):
            place.rename(goal)
        return True

    def onto(self, path: str, destination: str, *, overwrite: bool) -> None:
        """Rename as HDFS's ``rename2`` does: exactly to the destination, in one step."""
        place, goal = self._places.place(path), self._places.goal(destination)
        for exception, text in self._why_not(place, goal, overwrite=overwrite):
            raise RemoteFault(exception, text.format(path, destination))
        with disk_faults(path):
            place.rename(goal)

    def _why_not(self, place: Path, goal: Path, *, overwrite: bool) -> Iterator[tuple[str, str]]:
        """Yield the exception and the text of what keeps a rename from being done."""
        if place == self._root:
            yield "IOException", "rename source cannot be the root"
        if not is_there(place):
            yield "FileNotFoundException", "rename source {0} is not found."
        if goal == self._root:
            yield "IOException", "rename destination cannot be the root"
        if place == goal:
            yield "FileAlreadyExistsException", "The source {0} and destination {1} are the same"
        if place in goal.parents:
            yield "IOException", "Rename destination {1} is a directory or file under source {0}"
        if not goal.parent.is_dir():
            yield "FileNotFoundException", "rename destination parent {1} not found."
        if is_there(goal) and goal.is_dir() != place.is_dir():
            yield "IOException", "Source {0} and destination {1} must both be directories"
        if is_there(goal) and not overwrite:
            yield "FileAlreadyExistsException", "rename destination {1} already exists"
        if goal.is_dir() and any(goal.iterdir()):
            yield "IOException", "rename destination directory is not empty: {1}"
