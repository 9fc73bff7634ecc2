"""A file on the cluster, open for writing: gathered on this machine, sent and published at the end."""

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

from luigi_pai.files.errors import HdfsError, not_kept
from luigi_pai.files.renames import replace
from luigi_pai.files.temporary import temporary_path, tidy

if TYPE_CHECKING:
    from luigi_pai.files.volume import Volume

logger = logging.getLogger("luigi-interface")

_PART = 1024 * 1024  # maximum number of bytes in memory; a larger file is sent in parts of this size
_LATE = 0.5  # seconds after a broken connection in which a DataNode may still create the file


class HdfsWriter(io.BufferedIOBase):
    """A file on the cluster, open for writing. At ``close()``, the complete file appears in one step.

    Until then, the data are gathered in memory or, if they have more than 1 MiB, in a file in this machine's
    temporary folder. ``close()`` sends them to a temporary file in a hidden folder beside the destination,
    checks the length of this file and renames it. After ``abort()``, or an exception inside ``with``, nothing
    is sent. If sending fails, the temporary file is deleted; after a killed process, ``tidy`` deletes it.

    Args:
        volume: the file system.
        path: the absolute path of the file on it. The constructor makes the file's folder.
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
        """Add bytes to the file; OSError if the disk of this machine is full."""
        if self.closed:
            raise ValueError(f"write to closed file {self.name}")
        if self._is_shared:
            self._file.seek(0, os.SEEK_END)  # the process that has the descriptor may have written to it
        return self._file.write(data)

    def fileno(self) -> int:
        """Return the descriptor of the local file, for a process to write to."""
        self._is_shared = True
        descriptor = self._file.fileno()
        self._file.flush()
        return descriptor

    def close(self) -> None:
        """Send the file and publish it.

        Raises:
            HdfsError: the file could not be written or renamed, so it is not published.
        """
        if self.closed:
            return
        try:
            self._send()
        finally:
            self.abort()

    def abort(self) -> None:
        """Discard the data, and publish nothing. After ``close()``, this does nothing."""
        self._file.close()
        super().close()

    def __exit__(self, kind: object, *about: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        """Publish nothing, because the file of a writer that was not closed is not complete."""
        with contextlib.suppress(AttributeError):  # if the constructor has failed
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
            _check_length(volume, temporary, self.name, length)
            replace(volume, temporary, self.name)
        except BaseException:  # also Ctrl-C
            _remove(volume, temporary)
            raise
        finally:
            tidy(volume, posixpath.dirname(temporary))


def _check_length(volume: Volume, temporary: str, path: str, length: int) -> None:
    there = volume.file_status(temporary)["length"]
    if there != length:  # although the server reported success
        raise not_kept(path, volume.server, length, there)


def _remove(volume: Volume, temporary: str) -> None:
    try:
        if not volume.remove(temporary, recursive=False):
            time.sleep(_LATE)  # a DataNode may still create it after a broken connection
            volume.remove(temporary, recursive=False)
    except HdfsError as error:
        logger.warning("The temporary file %s may be left behind: %s", temporary, error)
