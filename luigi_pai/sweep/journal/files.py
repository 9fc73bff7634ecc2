"""The files of a journal, on HDFS, on a storage or local. Several processes may add lines at once."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from luigi_pai.errors import PaiError
from luigi_pai.files.errors import FileAlreadyExists, HdfsError
from luigi_pai.sweep.results import is_on_cluster

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

_LARGEST = 500_000_000  # bytes
_MOST_FILES = 1000  # maximum number of files of a journal, because a faulty server could report any number
_HOMES = "/user/"  # has the default folders of sweeps
_TAKEN = ("AlreadyBeingCreatedException", "FileAlreadyExistsException", "RecoveryInProgressException")


class Lines(NamedTuple):
    """Whole lines of a journal's file.

    Attributes:
        path: The path of the file.
        first: The number of the first line, from 1.
        data: The lines.
    """

    path: str
    first: int
    data: bytes


def journal_files(folder: str) -> HdfsFiles | LocalFile:
    """Return the journal's files in a folder on HDFS, or its file in another folder."""
    if not is_on_cluster(folder):
        return LocalFile(folder)
    from luigi_pai.files import Storage, cluster_files  # noqa: PLC0415  costs what only files need

    files = cluster_files(path=folder)
    if not isinstance(files, Storage):
        return HdfsFiles(folder)
    volume, place = files.at(folder)
    if place.startswith(_HOMES):  # other users also need the folder that the first user creates
        volume.share_folder(_HOMES.rstrip("/"))
    return LocalFile(volume.local_path(place), functools.partial(volume.guarded, "APPEND", place))


class LocalFile:
    """``journal.jsonl`` in a local folder or on a storage, appended to under a lock.

    NFS and SMB lock a file for one of several machines, which then sees the current content.

    Args:
        folder: The folder.
        guard: Returns a context in which the file is used, and which may raise errors other than OSError.
    """

    def __init__(self, folder: str, guard: Callable[[], AbstractContextManager[None]] | None = None) -> None:
        self.path = f"{folder.rstrip('/')}/journal.jsonl"
        self._guard = guard or functools.partial(_naming, folder)
        self._offset = self._lines = 0  # number of bytes that were read or written, and of the lines in them
        self._held: Any = None  # the file, while it is locked

    def read(self) -> list[Lines]:
        """Return the whole lines that were added since the last call."""
        data = b""
        with self._guard(), contextlib.suppress(FileNotFoundError), Path(self.path).open("rb") as file:
            file.seek(self._offset)
            data = file.read()
        whole = Lines(self.path, self._lines + 1, data[: data.rfind(b"\n") + 1])  # the last may be incomplete
        self._offset += len(whole.data)
        self._lines += whole.data.count(b"\n")
        return [whole]

    def append(self, data: bytes) -> list[Lines]:
        """Append data, and return when it is on the disk, so that it survives a failure of the machine.

        The result is the lines that other processes have added since the last read or append. After an error,
        a part of the data may be in the file. It is safe to repeat the call.
        """
        with self.locked() as others:
            self._held.write(data)
            self._held.flush()
            os.fsync(self._held.fileno())
            self._offset = self._held.tell()
            self._lines += data.count(b"\n")
        return others

    @contextlib.contextmanager
    def locked(self) -> Iterator[list[Lines]]:
        """Lock out other processes. Yield the lines that they added since the last read or append."""
        if self._held is not None:
            yield []
            return
        path = Path(self.path)
        with self._guard(), contextlib.ExitStack() as stack:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = stack.enter_context(path.open("ab"))
            fcntl.flock(file, fcntl.LOCK_EX)  # until it is closed
            self._held = file
            try:
                yield self.read()
            finally:
                self._held = None


@contextlib.contextmanager
def _naming(folder: str) -> Iterator[None]:
    """Add the folder to an OSError that names no file, for example on a full disk."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or folder
        raise


class HdfsFiles:
    """``journal.jsonl``, ``journal.2.jsonl``, ... in a folder on HDFS.

    HDFS allows only one writer per file at a time, so a process that cannot append to the last file starts
    the next one. The lines of two processes are therefore not in chronological order.
    """

    def __init__(self, folder: str) -> None:
        self._stem = f"{folder.rstrip('/')}/journal"
        self.path = self._path(1)
        self._number = 1  # number of the file to append to
        self._read: dict[int, tuple[int, int]] = {}  # file number -> bytes and lines read so far

    def read(self) -> list[Lines]:
        """Return the complete lines added since the last call, including this process's own."""
        from luigi_pai.files.small_files import read_small  # noqa: PLC0415  costs what only files need

        parts = []
        for number in range(1, _MOST_FILES):
            known, lines = self._read.get(number, (0, 0))
            before = min(known, 1)  # read a known byte again, because HDFS rejects an offset at a file's end
            data = read_small(self._fs, self._path(number), _LARGEST, known - before)
            if data is None:
                break
            whole = data[before : data.rfind(b"\n") + 1]
            parts.append(Lines(self._path(number), lines + 1, whole))
            self._read[number] = known + len(whole), lines + whole.count(b"\n")
            self._number = max(self._number, number)
        return parts

    def append(self, data: bytes) -> list[Lines]:
        """Append data. The result is empty, because only ``read`` returns the data of other processes.

        After an error, HDFS may have appended the data, or may do so later. It is safe to repeat the call.
        """
        for _ in range(_MOST_FILES):
            path = self._path(self._number)
            volume, place = self._fs.at(path)
            try:
                if self._number in self._read:
                    volume.append(place, data)
                else:
                    volume.create_file(place, data)
                    self._read[self._number] = 0, 0
            except HdfsError as error:
                if not isinstance(error, FileAlreadyExists) and error.exception not in _TAKEN:
                    raise
                self._number += 1
            else:
                return []
        raise PaiError(
            f"{self._stem}.jsonl has more than {_MOST_FILES} parts; remove the folder, or choose another"
        )

    @contextlib.contextmanager
    def locked(self) -> Iterator[list[Lines]]:
        """Do nothing: HDFS has no locks. A claim on HDFS is a file that only one process can create."""
        yield []

    @property
    def _fs(self) -> Any:
        from luigi_pai.files import WebHdfs  # noqa: PLC0415  as above

        return WebHdfs.from_config()

    def _path(self, number: int) -> str:
        return f"{self._stem}.jsonl" if number == 1 else f"{self._stem}.{number}.jsonl"
