"""Parallel uploads to the cluster. Unchanged files are skipped; no file appears incomplete."""

from __future__ import annotations

import contextlib
import logging
import os
import posixpath
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import Problem
from luigi_pai.files.errors import FileAlreadyExists, HdfsError, TransferError
from luigi_pai.files.temporary import is_temporary, tidy
from luigi_pai.files.transfer.destination import file_destination, folder_destination
from luigi_pai.files.transfer.local_tree import local_tree
from luigi_pai.files.transfer.pool import JOBS, WorkerPool
from luigi_pai.files.transfer.staging import Stage
from luigi_pai.files.transfer.summary import Transfer
from luigi_pai.outgoing.folder import shown
from luigi_pai.private_folder import one_at_a_time

if TYPE_CHECKING:
    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.files.transfer.destination import Destination
    from luigi_pai.files.transfer.local_tree import LocalFile
    from luigi_pai.files.transfer.pool import Tree

__all__ = ["Upload", "upload"]

logger = logging.getLogger("luigi-interface")

_TRIES = 3  # number of retries if uploads from other machines create the destination meanwhile


def upload(fs: FileSystem, local: str | os.PathLike[str], destination: str, *, jobs: int = JOBS) -> Transfer:
    """Send a local file, or the content of a folder, to the cluster; only new and changed files are sent.

    It takes the arguments of ``Upload``, and raises the errors of ``Upload`` and of ``Upload.send()``.
    """
    return Upload(fs, local, destination, jobs=jobs).send()


class Upload:
    """An upload of a local file or folder. The constructor makes no network requests.

    Args:
        fs: the file system.
        local: the file or folder.
        destination: a path in any form that ``hdfs_path`` accepts. If ``local`` is a folder, its content is
            sent to the folder of this path. If ``local`` is a file, this is the path of the new file, or
            of a folder for it; if this folder does not exist, the path must end with ``/``.
        jobs: maximum number of files that are sent at the same time.

    Raises:
        TransferError: some files cannot be sent; ``problems`` of the error name all of these files.
    """

    def __init__(
        self,
        fs: FileSystem,
        local: str | os.PathLike[str],
        destination: str,
        *,
        jobs: int = JOBS,
    ) -> None:
        self._local = Path(local)
        self._destination = destination
        self._pool = WorkerPool(jobs)
        self._volume, self._path = fs.at(destination)
        if destination.endswith("/") and not os.path.isdir(local):  # noqa: PTH112  it never raises
            self._path = posixpath.join(self._path, self._local.name)
        self._tree = self._read_tree()

    def goals(self) -> dict[tuple[str, str], LocalFile]:
        """Return the files to send by server and absolute path there."""
        folder = posixpath.dirname(self._path) if self._tree.is_file else self._path
        files = self._tree.files.items()
        return {(self._volume.server, posixpath.join(folder, name)): file for name, file in files}

    def send(self) -> Transfer:
        """Send the new and changed files.

        Raises:
            HdfsError: an operation was refused or not answered. Files that were sent completely before the
                error are published if possible, and the next upload sends the others.
            TransferError: a local file could not be read to its end, or a name is a file on this machine
                and a folder on the cluster, or the reverse.
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
            what = f"nothing of {self._local} was sent to {self._destination}"
            raise TransferError(what, [Problem(name, why) for name in conflicts])
        files = list(self._tree.files.values())
        if not files:
            logger.warning("%s has no file to send: it is empty, or all of it is left out", self._local)
        same = self._pool.map(lambda file: _is_same(file, there), files)
        changed = [file for file, is_same in zip(files, same, strict=True) if not is_same]
        for file in changed:
            if file.name.endswith(".sh") and b"\r\n" in next(file.parts(), b""):
                text = (
                    "%s has lines that end with CR LF, as on Windows: a shell fails at them; save it with LF"
                )
                logger.warning(text, shown(str(file.place)))
        size = sum(file.size for file in changed)
        if changed or there.lacks(self._tree.folders):
            with self._pool.progress(self._local.name or str(self._local), size + len(changed)):
                self._send_files(changed, there)
        for name in filter(is_temporary, there.statuses):
            tidy(self._volume, there.of(name))
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
        """Send files and publish them. If one file fails, publish the files that were sent completely."""
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
    if entry is None or entry.length != file.size or not entry.is_of(there.statuses.get(file.name)):
        return False
    return file.sha256() == entry.sha256
