"""A file on HDFS, open for writing: sent in parts, published at the end."""

from __future__ import annotations

import contextlib
import io
import logging
import os
import posixpath
import queue
import select
import threading
import time
from typing import TYPE_CHECKING, Any

from luigi_pai.hdfs.errors import HdfsError, not_kept
from luigi_pai.hdfs.temporary import temporary_path, tidy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from luigi_pai.hdfs.connection import Connection

__all__ = ["HdfsWriter"]

logger = logging.getLogger("luigi-interface")

_PART = 1024 * 1024  # bytes that are written at once
_DIRECT = 64 * 1024  # bytes from which on they are not gathered, which would be to copy them
_PARTS = 8  # that wait for the server at most
_LOOK = 0.2  # seconds between two looks whether the writer has ended
_LATE = 0.5  # seconds after which what a broken connection began is surely there


class HdfsWriter(io.BufferedIOBase):
    """A file on HDFS, open for writing: it appears at ``close()``, whole, in one step.

    Parts go, through a queue and a thread, into one upload to a hidden temporary
    file beside the destination; at most some 10 MiB are in memory. An exception
    inside ``with``, an upload that fails, ``abort()`` and being forgotten delete the temporary
    file. A process that is killed publishes nothing; what it leaves, the next one removes (``tidy``).

    A file of less than 1 MiB is uploaded at ``close()`` by one request, without thread.
    """

    def __init__(
        self,
        connection: Callable[[], Connection],
        path: str,
        publish: Callable[[Connection, str, str], None],
    ) -> None:
        """Make the folder of the file; nothing else is sent yet.

        Args:
            connection: returns this process's connection.
            path: of the file on HDFS, absolute.
            publish: renames the complete temporary file (first argument) to ``path``.
        """
        super().__init__()
        self._done = True  # until there is something to abort
        self._part = bytearray()
        self.name = path
        self._connection = connection
        self._publish = publish
        self._temporary = temporary_path(path, connection().owner)
        self._upload: _Upload | None = None
        self._sent = False
        self._failure: HdfsError | None = None
        self._process = os.getpid()
        connection().make_folders(posixpath.dirname(path), None)
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
            raise self._failure or ValueError(f"write to closed file {self.name}")
        try:
            return self._take(data)
        except HdfsError as error:
            self._failure = error
            self.abort()
            raise

    def _take(self, data: Any) -> int:
        if self._upload and not self._part and isinstance(data, bytes) and _DIRECT <= len(data) <= _PART:
            self._upload.write(data)
            return len(data)
        with memoryview(data) as view:
            if not view.nbytes:
                return 0
            with view.cast("B") as rest:
                at = 0
                while at < len(rest):
                    end = at + _PART - len(self._part)
                    self._part += rest[at:end]
                    at = end
                    if len(self._part) >= _PART:
                        self._send()
                return len(rest)

    def fileno(self) -> int:
        """Return a pipe into the upload, for a process to write to."""
        self._send()
        return self._send_to().pipe()

    def close(self) -> None:
        """End the upload and publish the file.

        Raises:
            HdfsError: it could not be written; nothing is published.
        """
        if self._done or self.closed:
            failure, self._failure = self._failure, None
            if failure:
                raise failure
            return
        try:
            if self._upload:
                self._send()
                length = self._upload.end()
            else:
                self._sent, length = True, len(self._part)
                self._connection().create_file(self._temporary, bytes(self._part), overwrite=False)
            self._check_length(length)
            self._publish(self._connection(), self._temporary, self.name)
            self._done = True
            tidy(self._connection(), posixpath.dirname(self._temporary))
        finally:
            self.abort()

    def abort(self) -> None:
        """Publish nothing and delete the temporary file. After ``close()`` it does nothing."""
        done, self._done = self._done, True
        self._part.clear()
        super().close()
        if done or not self._sent or self._process != os.getpid():  # a forked process has no part in it
            return
        try:
            if self._upload:
                with contextlib.suppress(HdfsError):
                    self._upload.end()
            if not self._remove_temporary():
                time.sleep(_LATE)  # a DataNode whose connection broke may just be making it
                self._remove_temporary()
            tidy(self._connection(), posixpath.dirname(self._temporary))
        except HdfsError as error:
            logger.warning("The temporary file %s may be left behind: %s", self._temporary, error)

    def _check_length(self, sent: int) -> None:
        """Refuse a file that is not what was sent, though the server said it had it."""
        server = self._connection()
        there = server.file_status(self._temporary)["length"]
        if there != sent:
            raise not_kept(self.name, server.server, sent, there)

    def _remove_temporary(self) -> bool:
        return self._connection().remove(self._temporary, recursive=False)

    def __exit__(self, kind: object, *about: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        self.abort()

    def _send_to(self) -> _Upload:
        if self._upload is None:
            self._sent = True
            self._upload = _Upload(self._connection(), self._temporary)
        return self._upload

    def _send(self) -> None:
        if self._part:
            self._send_to().write(bytes(self._part))
            self._part.clear()


class _Upload:
    """One upload in a thread, fed through a queue, and from the first ``pipe()`` on through a pipe."""

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._taken = 0  # bytes
        self._queue: queue.Queue[bytes | None] = queue.Queue(_PARTS)
        self._pipe: tuple[int, int] | None = None
        self._parts = self._come()  # one for all tries: what was taken is gone
        self._thread = threading.Thread(target=self._run, name=f"upload {path}", daemon=True)
        self._thread.start()

    def write(self, data: bytes) -> None:
        """Send bytes; waits while the server is slower.

        Raises:
            HdfsError: the upload has failed.
        """
        self._check()
        if self._pipe is None:
            self._queue.put(data)
            return
        with memoryview(data) as view:
            at = 0
            while at < len(view):
                self._check()
                at += os.write(self._pipe[1], view[at:])

    def pipe(self) -> int:
        """Return the file descriptor of a pipe into the upload, behind what was written so far."""
        if self._pipe is None:
            self._pipe = os.pipe()
            self._queue.put(None)
        return self._pipe[1]

    def end(self) -> int:
        """Wait until the server has everything, and return how many bytes that is.

        Raises:
            HdfsError: the upload has failed.
        """
        if not self._ended.is_set():
            self._ended.set()
            if self._pipe is None:
                self._queue.put(None)
            else:
                os.close(self._pipe[1])
        self._thread.join()
        self._check()
        return self._taken

    def _check(self) -> None:
        if self._error:
            raise self._error

    def _run(self) -> None:
        try:
            self._connection.create_file(self._path, self._parts, overwrite=False)
        except BaseException as error:  # noqa: BLE001  raised again by the writer
            self._error = error
            for _part in self._parts:  # so that who writes is not blocked
                pass
        finally:
            if self._pipe is not None:
                os.close(self._pipe[0])

    def _come(self) -> Iterator[bytes]:
        """Yield what comes through the queue, then what comes through the pipe."""
        while (part := self._queue.get()) is not None:
            self._taken += len(part)
            yield part
        if self._pipe is not None:
            for part in self._piped(self._pipe[0]):
                self._taken += len(part)
                yield part

    def _piped(self, read_end: int) -> Iterator[bytes]:
        """Yield what comes through the pipe, to its end.

        A process that was forked meanwhile has a copy of the pipe, so that its
        end may never be seen: after ``end()``, empty is the end.
        """
        poll = select.poll()
        poll.register(read_end, select.POLLIN)
        while True:
            if poll.poll(_LOOK * 1000):
                part = os.read(read_end, _PART)
                if not part:
                    return
                yield part
            elif self._ended.is_set():
                return
