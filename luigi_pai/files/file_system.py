"""FileSystem: makes a cluster's file system (HDFS or a storage) usable as a Luigi file system."""

from __future__ import annotations

import abc
import os
import posixpath
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from luigi.contrib.hdfs.abstract_client import HdfsFileSystem

from luigi_pai.files import writer
from luigi_pai.files.errors import FileAlreadyExists, HdfsError, MissingParentDirectory, missing_ok
from luigi_pai.files.paths import hdfs_path
from luigi_pai.files.pool import JOBS, WorkerPool
from luigi_pai.files.staging import send_new
from luigi_pai.files.transfer import download
from luigi_pai.files.trees import local_tree, remote_tree
from luigi_pai.files.writer import HdfsWriter
from luigi_pai.outgoing.never_sent import log_left_out

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from luigi_pai.files.volume import Volume

__all__ = ["FileSystem"]


class FileSystem(HdfsFileSystem, abc.ABC):
    """A cluster's file system: its HDFS (``WebHdfs``) or a storage (``Storage``).

    Methods raise HdfsError if the file system rejects an operation or does not respond. You can write paths
    in any form that ``hdfs_path`` accepts.
    """

    is_mounted = False
    """Whether containers mount the file system and see its files at plain paths."""

    @abc.abstractmethod
    def at(self, path: str) -> tuple[Volume, str]:
        """Return a path's volume and its absolute path on that volume.

        Raises:
            HdfsError: The path is not on this file system.
            ConfigError: Settings are missing.
        """

    def check_path(self, path: str) -> None:
        """Raise HdfsError if a path is not on this file system. Does not check whether the file exists."""
        self.at(path)

    def check_writable(self, path: str) -> Sequence[str]:  # noqa: ARG002
        """Raise ConfigError if no user's jobs can write to a path; return warnings."""
        return ()

    def is_same(self, one: str, other: str) -> bool:
        """Return whether two paths point to the same file on this file system, ignoring hosts."""
        try:
            return self._place(one) == self._place(other)
        except HdfsError:
            return one == other

    def _place(self, path: str) -> str:
        """Return the absolute path for comparisons. It is the same on every file system of this kind."""
        return hdfs_path(path, None)

    def local_path(self, path: str) -> str:
        """Return the path of a file or folder on this machine. The file or folder does not have to exist.

        Raises:
            HdfsError: The file system is not mounted on this machine.
        """
        volume, place = self.at(path)
        return volume.local_path(place)

    # looking up

    def exists(self, path: str) -> bool:
        """Return whether a file or folder exists."""
        volume, place = self.at(path)
        return volume.status(place) is not None

    def isdir(self, path: str) -> bool:
        """Return whether a path is a folder."""
        volume, place = self.at(path)
        return volume.is_folder(place)

    def listdir(
        self,
        path: str,
        ignore_directories: bool = False,  # noqa: FBT001, FBT002 - Luigi's signature
        ignore_files: bool = False,  # noqa: FBT001, FBT002
        include_size: bool = False,  # noqa: FBT001, FBT002
        include_type: bool = False,  # noqa: FBT001, FBT002
        include_time: bool = False,  # noqa: FBT001, FBT002
        recursive: bool = False,  # noqa: FBT001, FBT002
    ) -> Iterator[Any]:
        """Yield the entries of a folder, like Luigi's hadoop client.

        Yields:
            The path of each entry, which starts with ``path`` exactly as you pass it. With ``include_``
            arguments, a tuple of the path and the requested values: size in bytes, type (``d`` or ``-``),
            modification time (a naive datetime in local time).
        """
        volume, place = self.at(path)
        for below, status in volume.walk(place, recursive=recursive):
            entry = path.rstrip("/") + below[len(place.rstrip("/")) :] if below != place else path
            is_folder = status["type"] == "DIRECTORY"
            if ignore_directories if is_folder else ignore_files:
                continue
            when = datetime.fromtimestamp(status["modificationTime"] / 1000, timezone.utc)
            facts = (
                (include_size, status["length"]),
                (include_type, "d" if is_folder else "-"),
                (include_time, when.astimezone().replace(tzinfo=None)),
            )
            wanted = tuple(fact for include, fact in facts if include)
            yield (entry, *wanted) if wanted else entry

    def count(self, path: str) -> dict[str, int]:
        """Return ``content_size`` (bytes), ``dir_count`` and ``file_count`` of a path and its descendants."""
        volume, place = self.at(path)
        return dict(zip(("content_size", "dir_count", "file_count"), volume.count(place), strict=True))

    # reading and writing

    def open_reader(self, path: str) -> BinaryIO:
        """Open a file for reading."""
        volume, place = self.at(path)
        return volume.open_reader(place)

    def open_writer(self, path: str) -> HdfsWriter:
        """Open a file for writing; ``close()`` publishes the file and replaces an existing one.

        A missing parent folder is created.
        """
        return HdfsWriter(*self.at(path))

    def touchz(self, path: str) -> None:
        """Create an empty file; raise FileAlreadyExists if the path exists."""
        volume, place = self.at(path)
        volume.create_file(place, b"")

    def put(self, local_path: str | os.PathLike[str], destination: str) -> None:
        """Copy a local file or folder to a new path on the cluster or into an existing folder there.

        Skips the files that ``upload`` leaves out.

        Raises:
            FileAlreadyExists: The new path already exists.
            TransferError: Some files cannot be sent, so no file was published.
        """
        volume, goal = self._goal(destination, os.path.basename(os.path.abspath(local_path)))  # noqa: PTH100, PTH119
        tree = local_tree(Path(local_path), posixpath.basename(goal), volume.refused)
        send_new(tree, volume, goal)
        if tree.left_out:
            log_left_out(os.fspath(local_path), tree.left_out)

    def get(self, path: str, local_destination: str | os.PathLike[str]) -> None:
        """Copy a file or folder to a new local path or into an existing local folder.

        Raises:
            FileAlreadyExists: The new local path already exists.
            TransferError: A file cannot be written.
        """
        volume, place = self.at(path)
        goal = Path(local_destination)
        goal = goal / posixpath.basename(place) if goal.is_dir() else goal
        if os.path.lexists(goal):
            raise volume.failed("OPEN", place, f"{goal} exists", kind=FileAlreadyExists)
        download(self, path, goal)

    def copy(self, path: str, destination: str) -> None:
        """Copy a file or folder to a new path on the cluster or into an existing folder there.

        The data passes through this machine.

        Raises:
            FileAlreadyExists: The new path already exists.
            HdfsError: ``path`` is a folder that contains the new path.
        """
        source, place = self.at(path)
        volume, goal = self._goal(destination, posixpath.basename(place))
        if source is volume and goal.startswith(f"{place.rstrip('/')}/"):
            step = "copy it to a folder that is not in it"
            raise volume.failed(
                "COPY", place, f"a folder cannot be copied into itself, and {goal} is in it", next_step=step
            )
        send_new(remote_tree(source, place, WorkerPool(JOBS)), volume, goal)

    # changes

    def mkdir(self, path: str, parents: bool = True, raise_if_exists: bool = False) -> None:  # noqa: FBT001, FBT002
        """Create a folder.

        Args:
            path: The folder's path.
            parents: Whether to create missing parents.
            raise_if_exists: Whether to raise FileAlreadyExists if the path is already a folder or a file.

        Raises:
            MissingParentDirectory: ``parents`` is False, and the parent is missing or is a file.
            NotADirectory: The path is a file, or ``parents`` is True and a parent is a file.
        """
        volume, place = self.at(path)
        if raise_if_exists and volume.status(place):
            raise volume.failed("MKDIRS", place, "it exists", kind=FileAlreadyExists)
        if not parents and not volume.is_folder(posixpath.dirname(place)):
            reason = f"{posixpath.dirname(place)} does not exist"
            raise volume.failed("MKDIRS", place, reason, kind=MissingParentDirectory)
        volume.make_folders(place)

    def move(self, path: str, dest: str) -> None:
        """Rename a path or move it into an existing folder. Replaces nothing; creates missing folders."""
        volume, place, goal = self._both(path, dest)
        volume.make_folders(posixpath.dirname(goal))
        if not volume.rename_to(place, goal):
            raise writer.not_renamed(volume, place, goal)

    def rename_dont_move(self, path: str, dest: str) -> None:
        """Atomically rename to exactly ``dest``; raise FileAlreadyExists if it exists.

        Missing parent folders are created.
        """
        volume, place, goal = self._both(path, dest)
        volume.make_folders(posixpath.dirname(goal))
        writer.rename_exactly(volume, place, goal)

    def replace(self, path: str, dest: str) -> None:
        """Atomically rename to exactly ``dest``, replacing an existing file.

        If a server cannot do this (HttpFS), the existing file is first renamed to a temporary name. After an
        error, it is renamed back.
        """
        writer.replace(*self._both(path, dest))

    def remove(self, path: str, recursive: bool = True, skip_trash: bool = True) -> None:  # noqa: FBT001, FBT002
        """Delete a file or folder.

        Args:
            path: The path of the file or folder.
            recursive: Whether to delete a folder that is not empty. If False, such a folder is not deleted.
            skip_trash: Must be True, because there is no trash.

        Raises:
            HdfsError: The path does not exist or is the root folder, the folder is not empty but
                ``recursive`` is False, or ``skip_trash`` is False.
        """
        volume, place = self.at(path)
        if not place.strip("/"):
            step = "delete its entries by name; is a variable in the path not set?"
            raise volume.failed(
                "DELETE", place, "this is the root folder, with everyone's files", next_step=step
            )
        if not skip_trash:
            step = "delete it for good with skip_trash=True, or move it to another folder"
            raise volume.failed("DELETE", place, "WebHDFS has no trash", next_step=step)
        if not volume.remove(place, recursive=recursive):
            raise volume.failed("DELETE", place, "nothing is there", exception="FileNotFoundException")

    def chmod(self, path: str, permissions: str | int, recursive: bool = False) -> None:  # noqa: FBT001, FBT002
        """Set the mode bits, given as an octal string (``"755"``) or as a number (``0o755``)."""
        mode = f"{permissions:o}" if isinstance(permissions, int) else permissions
        self._each(path, lambda volume, place: volume.set_mode(place, mode), below=recursive)

    def chown(self, path: str, owner: str | None, group: str | None, recursive: bool = False) -> None:  # noqa: FBT001, FBT002
        """Set owner, group or both. On HDFS, the owner can set the group; only a superuser sets the owner."""
        self._each(path, lambda volume, place: volume.set_owner(place, owner, group), below=recursive)

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern with ``*``, ``?``, ``[a-c]``, ``[^a]`` or ``{a,b}``."""
        volume, place = self.at(pattern)
        return [path for path, _status in volume.glob(place)]

    def _goal(self, destination: str, name: str) -> tuple[Volume, str]:
        """Return a copy's volume and path. If ``destination`` is a folder, ``/name`` is appended."""
        volume, goal = self.at(destination)
        return volume, posixpath.join(goal, name) if volume.is_folder(goal) else goal

    def _both(self, path: str, dest: str) -> tuple[Volume, str, str]:
        volume, place = self.at(path)
        other, goal = self.at(dest)
        if other is not volume:
            raise volume.failed("RENAME", place, f"{dest!r} is on {other.server}")
        return volume, place, goal

    def _each(self, path: str, work: Callable[[Volume, str], object], *, below: bool) -> None:
        """Call a function for a path and, if ``below``, for each path below it."""
        volume, place = self.at(path)
        work(volume, place)
        if below and volume.is_folder(place):
            for entry, _status in volume.walk(place):
                with missing_ok():
                    work(volume, entry)
