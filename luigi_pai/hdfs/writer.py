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

_PART = 1024 * 1024  # bytes that are sent at once
_PARTS = 8  # that wait for the server at most
_POLL = 200  # ms between two checks whether the writer has ended
_LATE = 0.5  # seconds after which what a broken connection began is surely there


class HdfsWriter(io.BufferedIOBase):
    """A file on HDFS, open for writing: it appears at ``close()``, whole, in one step.

    Parts go, through a queue and a thread, into one upload to a hidden temporary file beside the destination;
    at most some 10 MiB are in memory. A file of less than 1 MiB is uploaded at ``close()`` by one request,
    without thread. An exception inside ``with``, an upload that fails and ``abort()`` delete the temporary
    file. That of a killed process, or of a writer that is dropped, is left to ``tidy``.

    Args:
        connection: returns this process's connection.
        path: of the file on HDFS, absolute; its folder is made at once.
        publish: renames the complete temporary file (second argument) to ``path`` (third).
    """

    def __init__(
        self,
        connection: Callable[[], Connection],
        path: str,
        publish: Callable[[Connection, str, str], None],
    ) -> None:
        super().__init__()
        self.name = path
        self._connection = connection
        self._publish = publish
        self._part = bytearray()
        self._upload: _Upload | None = None
        self._sent = False
        self._failure: HdfsError | None = None
        self._process = os.getpid()
        self._done = True  # until there is something to abort
        self._temporary = temporary_path(path, connection().owner)
        connection().make_folders(posixpath.dirname(path))
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
        with memoryview(data) as view:
            if not view.nbytes:
                return 0
            with view.cast("B") as taken:
                try:
                    if len(self._part) + len(taken) < _PART:
                        self._part += taken
                    else:
                        upload = self._send()
                        for at in range(0, len(taken), _PART):
                            is_one = isinstance(data, bytes) and len(taken) <= _PART  # which is not copied
                            upload.write(data if is_one else bytes(taken[at : at + _PART]))
                except HdfsError as error:
                    self._failure = error
                    self.abort()
                    raise
                return len(taken)

    def fileno(self) -> int:
        """Return a pipe into the upload, for a process to write to."""
        return self._send().pipe()

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
            server = self._connection()
            if self._upload:
                length = self._send().end()
            else:
                self._sent, length = True, len(self._part)
                server.create_file(self._temporary, bytes(self._part), overwrite=False)
            there = server.file_status(self._temporary)["length"]
            if there != length:  # though the server said that it had it
                raise not_kept(self.name, server.server, length, there)
            self._publish(server, self._temporary, self.name)
            self._done = True
            tidy(server, posixpath.dirname(self._temporary))
        finally:
            self.abort()

    def abort(self) -> None:
        """Publish nothing and delete the temporary file. After ``close()`` it does nothing."""
        done, self._done = self._done, True
        self._part.clear()
        super().close()
        if done or not self._sent or self._process != os.getpid():  # a forked process has no part in it
            return
        if self._upload:
            with contextlib.suppress(HdfsError):
                self._upload.end()
        try:
            server = self._connection()
            if not server.remove(self._temporary, recursive=False):
                time.sleep(_LATE)  # a DataNode whose connection broke may just be making it
                server.remove(self._temporary, recursive=False)
            tidy(server, posixpath.dirname(self._temporary))
        except HdfsError as error:
            logger.warning("The temporary file %s may be left behind: %s", self._temporary, error)

    def __exit__(self, kind: object, *about: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abort()

    def __del__(self) -> None:
        """End the upload, without a request: this may run in any thread."""
        if self._upload and self._process == os.getpid():
            self._upload.stop()

    def _send(self) -> _Upload:
        """Return the upload, after what was gathered is on its way."""
        if self._upload is None:
            self._sent = True
            self._upload = _Upload(self._connection(), self._temporary)
        if self._part:
            self._upload.write(bytes(self._part))
            self._part.clear()
        return self._upload


class _Upload:
    """One upload in a thread, fed through a queue, and from ``pipe()`` on through a pipe."""

    def __init__(self, connection: Connection, path: str) -> None:
        self._connection = connection
        self._path = path
        self._error: BaseException | None = None
        self._ended = threading.Event()
        self._taken = 0  # bytes
        self._queue: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._room = threading.Semaphore(_PARTS)
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
            self._room.acquire()
            self._queue.put(data)
            return
        at = 0
        while at < len(data):
            at += os.write(self._pipe[1], memoryview(data)[at:])
            self._check()

    def pipe(self) -> int:
        """Return the file descriptor of a pipe into the upload, behind what was written so far."""
        if self._pipe is None:
            self._pipe = os.pipe()
            self._queue.put(None)
        return self._pipe[1]

    def stop(self) -> None:
        """Send nothing more; does not wait."""
        if self._ended.is_set():
            return
        self._ended.set()
        if self._pipe is None:
            self._queue.put(None)
        else:
            os.close(self._pipe[1])

    def end(self) -> int:
        """Wait until the server has everything, and return how many bytes that is.

        Raises:
            HdfsError: the upload has failed.
        """
        self.stop()
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
            if self._pipe:
                os.close(self._pipe[0])

    def _come(self) -> Iterator[bytes]:
        """Yield what comes through the queue, then what comes through the pipe."""
        while (part := self._queue.get()) is not None:
            self._room.release()
            self._taken += len(part)
            yield part
        for part in self._piped(self._pipe[0]) if self._pipe else ():
            self._taken += len(part)
            yield part

    def _piped(self, read_end: int) -> Iterator[bytes]:
        """Yield what comes through the pipe, to its end.

        A process that was forked meanwhile has a copy of the pipe, so that its
        end may never be seen: after ``stop()``, empty is the end.
        """
        poll = select.poll()
        poll.register(read_end, select.POLLIN)
        while True:
            if poll.poll(_POLL):
                part = os.read(read_end, _PART)
                if not part:
                    return
                yield part
            elif self._ended.is_set():
                return
