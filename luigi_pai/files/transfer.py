"""Parallel uploads and downloads. Skips unchanged files; files become visible only when complete."""

from __future__ import annotations

import contextlib
import logging
import os
import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import Problem
from luigi_pai.files.errors import FileAlreadyExists, HdfsError, TransferError
from luigi_pai.files.pool import JOBS, WorkerPool
from luigi_pai.files.staging import Stage, file_destination, folder_destination
from luigi_pai.files.temporary import is_temporary, local_temporary, tidy, tidy_local
from luigi_pai.files.trees import local_tree, remote_tree
from luigi_pai.outgoing.folder import shown
from luigi_pai.outgoing.never_sent import summary_of_left_out
from luigi_pai.private_folder import one_at_a_time

if TYPE_CHECKING:
    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.files.staging import Destination
    from luigi_pai.files.trees import LocalFile, RemoteFile, Tree

__all__ = ["Transfer", "Upload", "download", "readable", "upload"]

logger = logging.getLogger("luigi-interface")

_STEP = 1024
_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_TRIES = 3  # in case uploads from other machines create the destination in the meantime
_NS_PER_MS = 1_000_000


@dataclass(frozen=True)
class Transfer:
    """The summary of an upload or a download. ``str()`` returns it as one line.

    Attributes:
        done: ``uploaded`` or ``downloaded``.
        destination: The destination as you passed it.
        moved: The number of new and changed files, which were sent or fetched.
        files: The total number of files.
        size: The number of bytes that were sent or fetched.
        left_out: The names of the files and folders that an upload left out because they may contain
            credentials.
    """

    done: str
    destination: str
    moved: int
    files: int
    size: int
    left_out: tuple[str, ...] = ()

    def __str__(self) -> str:
        files = "file" if self.files == 1 else "files"
        summary = (
            f"{self.done} {self.moved:,} of {self.files:,} {files}, {readable(self.size)}, "
            f"to {self.destination}"
        )
        return "; ".join(filter(None, (summary, summary_of_left_out(self.left_out))))


def readable(size: float) -> str:
    """Format a number of bytes: ``512 B``, ``12 KiB`` or ``1.5 GiB``."""
    units = iter(_UNITS)
    unit = next(units)
    while round(size) >= _STEP and unit != _UNITS[-1]:
        size, unit = size / _STEP, next(units)
    digits = 1 if size < 10 and size != round(size) else 0  # noqa: PLR2004 - two digits are enough
    return f"{size:.{digits}f} {unit}"


def upload(fs: FileSystem, local: str | os.PathLike[str], destination: str, *, jobs: int = JOBS) -> Transfer:
    """Send a local file or the content of a folder to the cluster. Only new and changed files are sent.

    Takes the same arguments as ``Upload``, and raises the same errors as ``Upload`` and ``Upload.send()``.
    """
    return Upload(fs, local, destination, jobs=jobs).send()


class Upload:
    """An upload of a local file or folder. The constructor makes no network requests.

    Args:
        fs: The file system.
        local: The file or folder to send.
        destination: A path in any form that ``hdfs_path`` accepts. If ``local`` is a folder, its content is
            sent to the folder at this path. If ``local`` is a file, this is the path of the new file or of a
            folder for it. If this folder does not exist, the path must end with ``/``.
        jobs: The maximum number of files to send at the same time.

    Raises:
        TransferError: Some files cannot be sent. The error's ``problems`` list all of them.
    """

    def __init__(
        self, fs: FileSystem, local: str | os.PathLike[str], destination: str, *, jobs: int = JOBS
    ) -> None:
        self._local = Path(local)
        self._destination = destination
        self._pool = WorkerPool(jobs)
        self._volume, self._path = fs.at(destination)
        if destination.endswith("/") and not os.path.isdir(local):  # noqa: PTH112  it never raises
            self._path = posixpath.join(self._path, self._local.name)
        self._tree = self._read_tree()

    def goals(self) -> dict[tuple[str, str], LocalFile]:
        """Return a dict from (server, absolute path there) to the file to send."""
        folder = posixpath.dirname(self._path) if self._tree.is_file else self._path
        files = self._tree.files.items()
        return {(self._volume.server, posixpath.join(folder, name)): file for name, file in files}

    def send(self) -> Transfer:
        """Send the new and changed files.

        Raises:
            HdfsError: The server rejected an operation or did not respond. Files that were sent completely
                before the error are published if possible, and the next upload sends the others.
            TransferError: A local file could not be read to its end, or a name is a file on this machine but
                a folder on the cluster, or vice versa.
        """
        with one_at_a_time("upload", f"{self._volume.server}{self._path}"):
            for _try in range(_TRIES):
                with contextlib.suppress(FileAlreadyExists):
                    return self._send()
            return self._send()

    def _send(self) -> Transfer:
        there = self._look_up()
        conflicts = there.conflicts_with(self._tree)
        if conflicts:
            why = "is a folder on one side and a file on the other; remove one of them"
            summary = f"nothing was sent from {self._local} to {self._destination}"
            raise TransferError(summary, [Problem(name, why) for name in conflicts])
        files = list(self._tree.files.values())
        if not files:
            logger.warning("%s has no files to send: it is empty, or all its files are left out", self._local)
        same = self._pool.map(lambda file: _is_same(file, there), files)
        changed = [file for file, is_same in zip(files, same, strict=True) if not is_same]
        for file in changed:
            if file.name.endswith(".sh") and b"\r\n" in next(file.parts(), b""):
                logger.warning(
                    "%s has lines that end with CR LF, as on Windows: shells fail on them; save it with LF",
                    shown(str(file.place)),
                )
        size = sum(file.size for file in changed)
        if changed or there.missing(self._tree.folders):
            with self._pool.progress(self._local.name or str(self._local), size + len(changed)):
                self._send_files(changed, there)
        for name in filter(is_temporary, there.statuses):
            tidy(self._volume, there.path_of(name))
        left_out = self._tree.left_out
        done = Transfer("uploaded", self._destination, len(changed), len(files), size, left_out)
        logger.log(logging.INFO if changed else logging.DEBUG, "%s", done)
        return done

    def _look_up(self) -> Destination:
        if not self._tree.is_file:
            return folder_destination(self._volume, self._path, self._tree.folders, self._pool)
        if self._volume.is_folder(self._path):
            self._path = posixpath.join(self._path, self._local.name)
            self._tree = self._read_tree()
        return file_destination(self._volume, self._path)

    def _read_tree(self) -> Tree[LocalFile]:
        name = posixpath.basename(self._path) or self._local.name
        return local_tree(self._local, name, self._volume.refused)

    def _send_files(self, files: list[LocalFile], there: Destination) -> None:
        """Send files and publish them. If one fails, publish the files that were sent completely."""
        with Stage(self._volume, there, self._pool) as stage:
            try:
                self._pool.map(stage.send, files)
            except BaseException:  # also Ctrl-C
                if stage.sent:
                    with contextlib.suppress(HdfsError):  # the first failure is raised instead
                        stage.publish(self._tree.folders)
                raise
            stage.publish(self._tree.folders)


def _is_same(file: LocalFile, there: Destination) -> bool:
    """Return whether the cluster has the same version of a file."""
    entry = there.manifest.get(file.name)
    if entry is None or entry.length != file.size or not entry.describes(there.statuses.get(file.name)):
        return False
    return file.sha256() == entry.sha256


def download(fs: FileSystem, path: str, local: str | os.PathLike[str], *, jobs: int = JOBS) -> Transfer:
    """Fetch a file or the content of a folder from the cluster. Only new and changed files are fetched.

    Fetched files keep their modification time from the cluster, because the next download compares size and
    time. Files that exist only on this machine are not removed.

    Args:
        fs: The file system.
        path: The path to fetch, in any form that ``hdfs_path`` accepts.
        local: If ``path`` is a folder, the local folder for its content. If ``path`` is a file, the path of
            the new file or of a folder for it. If this folder does not exist, the path must end with ``/``.
        jobs: The maximum number of files to fetch at the same time.

    Raises:
        HdfsError: The file or folder does not exist, or the server rejected an operation or did not respond.
        TransferError: Files cannot be written. Files that were already fetched are not removed.
    """
    volume, place = fs.at(path)
    pool, goal = WorkerPool(jobs), Path(local)
    tree = remote_tree(volume, place, pool)
    if tree.is_file and (os.fspath(local).endswith("/") or os.path.isdir(goal)):  # noqa: PTH112  never raises
        goal /= posixpath.basename(place)
    places = {name: goal if tree.is_file else goal / name for name in tree.files}
    folders = [goal.parent] if tree.is_file else [goal, *(goal / name for name in tree.folders)]
    problems = [
        Problem(str(place), "is not a file here")
        for place in places.values()
        if os.path.exists(place) and not os.path.isfile(place)  # noqa: PTH110, PTH113  they never raise
    ]
    if problems:
        raise TransferError(f"nothing was fetched from {path}", problems)
    changed = [file for name, file in tree.files.items() if not _is_here(file, places[name])]
    for folder in folders:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _cannot_write(folder, error) from error
    size = sum(file.size for file in changed)
    with pool.progress(posixpath.basename(path), size + len(changed)):
        pool.map(lambda file: _fetch(file, places[file.name], pool), changed)
    for folder in folders:
        tidy_local(folder)
    done = Transfer("downloaded", os.fspath(local), len(changed), len(tree.files), size)
    logger.info("%s", done)
    return done


def _is_here(file: RemoteFile, place: Path) -> bool:
    """Return whether a local file has the same size and modification time as a file on the cluster."""
    try:
        found = place.lstat()
    except OSError:
        return False
    same_time = found.st_mtime_ns // _NS_PER_MS == file.time
    return place.is_file() and found.st_size == file.size and same_time


def _fetch(file: RemoteFile, place: Path, pool: WorkerPool) -> None:
    """Fetch one file. It gets its final name once it is complete."""
    pool.advance(1)
    incomplete = local_temporary(place)
    try:
        with incomplete.open("wb") as written, contextlib.closing(file.parts()) as parts:
            for part in parts:
                pool.advance(len(part))
                written.write(part)
        os.utime(incomplete, ns=(file.time * _NS_PER_MS, file.time * _NS_PER_MS))
        incomplete.replace(place)
    except OSError as error:
        raise _cannot_write(place, error) from error
    finally:
        with contextlib.suppress(OSError):  # OSError: it has already been renamed, or the disk has failed
            incomplete.unlink()


def _cannot_write(place: Path, error: OSError) -> TransferError:
    return TransferError("not everything was fetched", [Problem(str(place), error.strerror or str(error))])
