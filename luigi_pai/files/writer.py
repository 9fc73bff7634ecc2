"""Writes a file on the cluster: collects the data on this machine, sends it and renames the file."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import posixpath
import tempfile
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from luigi_pai.files.errors import FileAlreadyExists, HdfsError, check_kept
from luigi_pai.files.temporary import temporary_path, tidy

if TYPE_CHECKING:
    from luigi_pai.files.volume import Volume

logger = logging.getLogger("luigi-interface")

_MAYBE_EXISTS = ("FileNotFoundException", "IOException")  # HDFS may send these if the destination exists
_PART = 1024 * 1024  # maximum number of bytes in memory; a larger file is sent in parts of this size
_LATE = 0.5  # seconds during which a DataNode may still create the file after a broken connection


def rename_exactly(volume: Volume, path: str, goal: str) -> None:
    """Atomically rename to exactly ``goal``; raise FileAlreadyExists if ``goal`` is a file or a folder."""
    try:
        done = volume.rename_to(path, goal, "NONE")
    except HdfsError as error:
        if error.exception in _MAYBE_EXISTS and volume.status(goal):
            raise _exists(volume, path, goal) from error
        raise
    _check_exact(volume, path, goal, done=done)


def replace(volume: Volume, path: str, goal: str) -> None:
    """Atomically rename to exactly ``goal``, replacing an existing file.

    On a server without rename2 (HttpFS), the existing file is first renamed to a temporary name. After an
    error, it is renamed back.
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
            else:  # restore the old file; HDFS rejects this if both renames succeeded and a response was lost
                volume.rename_to(aside, goal)
            tidy(volume, posixpath.dirname(aside))
    return done


def _check_exact(volume: Volume, path: str, goal: str, *, done: bool | None) -> None:
    """Raise HdfsError if the older rename (``done`` is not None) failed or moved ``path`` into a folder."""
    if done is False:
        raise not_renamed(volume, path, goal)
    inside = posixpath.join(goal, posixpath.basename(path))
    if done and volume.is_folder(goal) and volume.status(inside):
        volume.rename_to(inside, path)  # undo this rename, which moved the path into a folder
        raise _exists(volume, path, goal)


def not_renamed(volume: Volume, path: str, goal: str) -> HdfsError:
    """Return the error for a rename to which the server responded with false."""
    if not volume.status(path):
        return volume.failed("RENAME", path, "nothing is there", exception="FileNotFoundException")
    if volume.status(goal):
        return _exists(volume, path, goal)
    return volume.failed("RENAME", path, f"the server did not rename it to {goal} and gave no reason")


def _exists(volume: Volume, path: str, goal: str) -> HdfsError:
    return volume.failed("RENAME", path, f"{goal} exists", kind=FileAlreadyExists)


class HdfsWriter(io.BufferedIOBase):
    """A file on the cluster, open for writing. The complete file becomes visible atomically at ``close()``.

    Until then, the data is collected in memory or, if there is more than 1 MiB, in a file in this machine's
    temporary folder. ``close()`` sends the data to a temporary file in a hidden folder next to the
    destination, checks the temporary file's length and renames it. After ``abort()`` or an exception inside
    ``with``, nothing is sent. If sending fails, the temporary file is deleted. If the process is killed,
    ``tidy`` deletes it.

    Args:
        volume: The file system.
        path: The file's absolute path on the volume. The constructor creates the file's folder.
    """

    def __init__(self, volume: Volume, path: str) -> None:
        super().__init__()
        self.name = path
        self._volume = volume
        self._is_shared = False
        self._file = tempfile.SpooledTemporaryFile(_PART)  # noqa: SIM115  closed by abort()
        volume.make_folders(posixpath.dirname(path))

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Write bytes to the file; raise OSError if this machine's disk is full."""
        if self.closed:
            raise ValueError(f"write to closed file {self.name}")
        if self._is_shared:
            self._file.seek(0, os.SEEK_END)  # a process with the descriptor may have written to it
        return self._file.write(data)

    def fileno(self) -> int:
        """Return the descriptor of the local file, so that a process can write to it."""
        self._is_shared = True
        descriptor = self._file.fileno()
        self._file.flush()
        return descriptor

    def close(self) -> None:
        """Send the file and publish it.

        Raises:
            HdfsError: The file could not be written or renamed, so it was not published.
        """
        if self.closed:
            return
        try:
            self._send()
        finally:
            self.abort()

    def abort(self) -> None:
        """Discard the data and publish nothing. After ``close()``, this does nothing."""
        self._file.close()
        super().close()

    def __exit__(self, kind: object, *about: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        """Publish nothing: if the writer was not closed, the file is incomplete."""
        with contextlib.suppress(AttributeError):  # if the constructor failed
            self.abort()

    def _send(self) -> None:
        self._file.seek(0, os.SEEK_END)
        length = self._file.tell()
        self._file.seek(0)
        parts = iter(partial(self._file.read, _PART), b"")
        volume = self._volume
        temporary = temporary_path(self.name, volume.owner)
        try:
            data = parts if length > _PART else b"".join(parts)
            volume.create_file(temporary, data)
            check_kept(volume, self.name, length, volume.file_status(temporary)["length"])
            replace(volume, temporary, self.name)
        except BaseException:  # also Ctrl-C
            _remove(volume, temporary)
            raise
        finally:
            tidy(volume, posixpath.dirname(temporary))


def _remove(volume: Volume, temporary: str) -> None:
    try:
        if not volume.remove(temporary, recursive=False):
            time.sleep(_LATE)  # a DataNode may still create it after a broken connection
            volume.remove(temporary, recursive=False)
    except HdfsError as error:
        logger.warning("The temporary file %s may be left behind: %s", temporary, error)
