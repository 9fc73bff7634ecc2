"""A file on HDFS as a stream: read in parts, written in parts and published at the end."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import posixpath
import select
import threading
import uuid
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import urllib3

from luigi_pai.hdfs.errors import HdfsError, failed, unanswered

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import requests

    from luigi_pai.hdfs.connection import Connection

__all__ = ["HdfsReader", "HdfsWriter"]

logger = logging.getLogger("luigi-interface")

_PART = 1024 * 1024  # bytes that are written at once
_LOOK = 0.2  # seconds between two looks whether the writer has ended
_LONGEST_STEM = 50  # characters of a file's name that its temporary name repeats


class HdfsReader(io.RawIOBase):
    """A file on HDFS, open for reading.

    Raises:
        HdfsError: the connection broke or ended early: what was read is not the whole file.
    """

    def __init__(self, connection: Connection, path: str) -> None:
        super().__init__()
        self._response: requests.Response | None = None
        self._path = path
        self._response = connection.open_file(path)
        self._raw: Any = self._response.raw
        self._server = urlsplit(self._response.url).netloc
        length = self._response.headers.get("Content-Length")
        self._left = int(length) if length is not None and length.isdigit() else None

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Raise AttributeError: there is no file under it.

        Luigi's process formats (gzip) then copy to a local file first; those of
        Luigi before 3.4 know no other sign.
        """
        raise AttributeError("a file on HDFS has no descriptor")

    def readinto(self, buffer: Any) -> int:
        """Read at most as many bytes as fit into the buffer; 0 at the end."""
        try:
            part = self._raw.read(len(buffer))
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise unanswered("OPEN", self._path, self._server, OSError(str(error))) from error
        if self._left is not None:
            self._left -= len(part)
            if not part and self._left > 0:
                reason = f"the connection ended {self._left} bytes before the end of the file"
                raise failed("OPEN", self._path, self._server, reason, next_step="try again")
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """Give the connection back."""
        if self._response is not None:
            self._response.close()
        super().close()


class HdfsWriter(io.BufferedIOBase):
    """A file on HDFS, open for writing: it appears at ``close()``, whole, in one step.

    Parts go, through a pipe and a thread, into one upload to a hidden temporary
    file beside the destination; at most some MiB are in memory. An exception
    inside ``with``, ``abort()`` and being forgotten delete the temporary file. A
    process that is killed may leave it behind (``.NAME.luigi-tmp-...``), and publishes nothing.

    A file of less than 1 MiB is uploaded at ``close()`` by one request, without thread.
    """

    def __init__(
        self, connection: Callable[[], Connection], path: str, publish: Callable[[str, str], None]
    ) -> None:
        """Make the folder of the file; nothing else is sent yet.

        Args:
            connection: returns this process's connection.
            path: of the file on HDFS, absolute.
            publish: renames the complete temporary file (first argument) to ``path``.
        """
        super().__init__()
        self._done = True  # until there is something to abort
        folder, name = posixpath.split(path)
        self.name = path
        self._connection = connection
        self._publish = publish
        self._temporary = posixpath.join(folder, f".{name[:_LONGEST_STEM]}.luigi-tmp-{uuid.uuid4().hex[:12]}")
        self._part = bytearray()
        self._upload: _Upload | None = None
        self._process = os.getpid()
        connection().make_folders(folder, None)
        self._done = False

    def writable(self) -> bool:
        """Return True."""
        return True

    def write(self, data: Any) -> int:
        """Take bytes; they are sent when there is 1 MiB of them.

        Raises:
            HdfsError: the upload has failed.
        """
        if self.closed:
            raise ValueError(f"write to closed file {self.name}")
        with memoryview(data) as view:
            self._part += view
            size = view.nbytes
        if len(self._part) >= _PART:
            self._send()
        return size

    def fileno(self) -> int:
        """Return a pipe into the upload, for a process to write to."""
        self._send()
        return self._send_to().write_end

    def close(self) -> None:
        """End the upload and publish the file.

        Raises:
            HdfsError: it could not be written; nothing is published.
        """
        if self._done or self.closed:
            return
        try:
            if self._upload:
                self._send()
                self._upload.end()
            else:
                self._connection().create_file(self._temporary, bytes(self._part), overwrite=False)
            self._publish(self._temporary, self.name)
            self._done = True
        finally:
            self.abort()

    def abort(self) -> None:
        """Publish nothing and delete the temporary file. After ``close()`` it does nothing."""
        done, self._done = self._done, True
        self._part.clear()
        super().close()
        if done or self._process != os.getpid():  # a forked process has the writer, not the upload
            return
        try:
            if self._upload:
                with contextlib.suppress(HdfsError):
                    self._upload.end()
            self._connection().remove(self._temporary, recursive=False)
        except HdfsError as error:
            logger.warning("The temporary file %s may be left behind: %s", self._temporary, error)

    def __exit__(self, kind: object, *about: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        self.abort()

    def _send_to(self) -> _Upload:
        if self._upload is None:
            self._upload = _Upload(self._connection(), self._temporary)
        return self._upload

    def _send(self) -> None:
        if self._part:
            self._send_to().write(self._part)
            self._part.clear()


class _Upload:
    """One upload in a thread, fed through a pipe.

    Attributes:
        write_end: file descriptor of the pipe.
    """

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._read_end, self.write_end = os.pipe()
        self._thread = threading.Thread(target=self._run, name=f"upload {path}", daemon=True)
        self._thread.start()

    def write(self, data: bytearray) -> None:
        """Send bytes; waits while the server is slower.

        Raises:
            HdfsError: the upload has failed.
        """
        with memoryview(data) as view:
            at = 0
            while at < len(view):
                self._check()
                at += os.write(self.write_end, view[at:])

    def end(self) -> None:
        """Wait until the server has everything.

        Raises:
            HdfsError: the upload has failed.
        """
        if not self._ended.is_set():
            self._ended.set()
            os.close(self.write_end)
        self._thread.join()
        self._check()

    def _check(self) -> None:
        if self._error:
            raise self._error

    def _run(self) -> None:
        try:
            self._connection.create_file(self._path, self._parts(), overwrite=False)
        except BaseException as error:  # noqa: BLE001  raised again by the writer
            self._error = error
            for _part in self._parts():  # so that who writes to the pipe is not blocked
                pass
        finally:
            os.close(self._read_end)

    def _parts(self) -> Iterator[bytes]:
        """Yield what comes through the pipe, to its end.

        A process that was forked meanwhile has a copy of the pipe, so that its
        end may never be seen: after ``end()``, empty is the end.
        """
        poll = select.poll()
        poll.register(self._read_end, select.POLLIN)
        while True:
            if poll.poll(_LOOK * 1000):
                part = os.read(self._read_end, _PART)
                if not part:
                    return
                yield part
            elif self._ended.is_set():
                return
