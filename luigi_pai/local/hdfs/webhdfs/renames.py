"""The two renames of HDFS: into a folder, as Unix's ``mv``, and onto an exact path."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.hdfs.webhdfs.places import Places, is_there
from luigi_pai.local.hdfs.webhdfs.refusals import RemoteFault, disk_faults

if TYPE_CHECKING:
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
        if place == self._root:
            raise RemoteFault("IOException", "rename source cannot be the root")
        if not is_there(place):
            raise RemoteFault("FileNotFoundException", f"rename source {path} is not found.")
        if goal == self._root:
            raise RemoteFault("IOException", "rename destination cannot be the root")
        if place == goal:
            text = f"The source {path} and destination {destination} are the same"
            raise RemoteFault("FileAlreadyExistsException", text)
        if place in goal.parents:
            text = f"Rename destination {destination} is a directory or file under source {path}"
            raise RemoteFault("IOException", text)
        if not goal.parent.is_dir():
            text = f"rename destination parent {destination} not found."
            raise RemoteFault("FileNotFoundException", text)
        with disk_faults(path):
            if is_there(goal):
                self._check_replaced(place, goal, (path, destination), overwrite=overwrite)
            place.rename(goal)

    @staticmethod
    def _check_replaced(place: Path, goal: Path, paths: tuple[str, str], *, overwrite: bool) -> None:
        source, destination = paths
        if goal.is_dir() != place.is_dir():
            text = f"Source {source} and destination {destination} must both be directories"
            raise RemoteFault("IOException", text)
        if not overwrite:
            text = f"rename destination {destination} already exists"
            raise RemoteFault("FileAlreadyExistsException", text)
        if goal.is_dir() and any(goal.iterdir()):
            text = f"rename destination directory is not empty: {destination}"
            raise RemoteFault("IOException", text)
