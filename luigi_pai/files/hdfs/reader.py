"""A file on HDFS, open for reading; after a broken connection the rest is requested again."""

from __future__ import annotations

import io
import logging
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import urllib3

from luigi_pai.api.wire.repeats import REST_OF_FILE, Tries
from luigi_pai.files.errors import HdfsError, failed
from luigi_pai.redaction import redact

if TYPE_CHECKING:
    import requests

    from luigi_pai.files.hdfs.connection import Connection

logger = logging.getLogger("luigi-interface")

_BUFFER = 1024 * 1024  # bytes
_PIECE = 64 * 1024  # maximum bytes of one readinto; for more, the system must map new pages each time
_PROGRESS = 1024 * 1024  # bytes after which the retries are counted from 0 again
_LENGTH = re.compile("[0-9]{1,18}")
_SAME = ("fileId", "modificationTime", "length")  # fields of a FileStatus that tell versions of a file apart


class HdfsReader(io.RawIOBase):
    """A file on HDFS, open for reading.

    Reading to the end returns the whole file, all of it from one version, or raises an error.
    When a connection breaks, the rest is requested from the DataNode that the NameNode then names. There are
    up to ten such retries, with pauses of 3.5 s in all. After a MiB without a retry, the count starts anew.

    Raises:
        HdfsError: there is no such file, or the rest cannot be read after a broken connection, or the file
            was replaced meanwhile.
    """

    def __init__(self, connection: Connection, path: str) -> None:
        super().__init__()
        self._response: requests.Response | None = None
        self._connection = connection
        self._path = path
        self._at = self._end = 0
        self._tries = Tries(REST_OF_FILE)
        self._tried_at = 0
        self._status = connection.file_status(path)
        try:
            self._open()
        except HdfsError as error:
            if error.exception or error.server == connection.server:
                raise
            self._open_again(error)  # the DataNode does not reply, so it may have just died

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Raise AttributeError, so that Luigi's process formats (gzip) copy the file to a local one first.

        Before Luigi 3.4, its formats do this only after an error of this type.
        """
        raise AttributeError("a file on HDFS has no descriptor")

    @property
    def size(self) -> int:
        """Size of the file in bytes."""
        return self._end

    def tell(self) -> int:
        """Return the number of bytes that were read."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read bytes into the buffer and return their number; 0 at the end of the file."""
        part = self.part(min(len(buffer), _PIECE))
        buffer[: len(part)] = part
        return len(part)

    def part(self, size: int) -> bytes:
        """Return at most ``size`` bytes without copying them; none at the end of the file."""
        while True:
            try:
                part: bytes = self._raw.read(min(size, self._end - self._at))
                reason = f"{self._end - self._at} bytes are missing"
            except (urllib3.exceptions.HTTPError, OSError) as error:
                part, reason = b"", redact(str(error)) or type(error).__name__
            else:
                if part or self._at == self._end or not size:
                    break
            server = urlsplit(self._response.url).netloc if self._response else self._connection.server
            self._open_again(self._failed(f"the connection broke: {reason}", server))
        self._at += len(part)
        return part

    def close(self) -> None:
        """Release the connection."""
        if self._response is not None:
            self._response.close()
        super().close()

    def _open(self) -> bool:
        """Request the file from the current position on; return False if its length has changed."""
        response = self._connection.open_file(self._path, self._at)
        length = response.headers.get("Content-Length", "")
        # HttpFS sends no Content-Length, so the FileStatus's length is used; a smaller length is checked
        end = self._at + int(length) if _LENGTH.fullmatch(length) else int(self._status["length"])
        if not self._at and end < self._status["length"]:
            self._status = self._connection.file_status(self._path)
            if end != self._status["length"]:  # the file was not shortened, so the DataNode is wrong
                response.close()
                reason = f"the DataNode sends {end:,} bytes of {self._status['length']:,}"
                raise self._failed(reason, urlsplit(response.url).netloc)
        if self._at and end != self._end:
            response.close()
            return False
        self._response, self._end = response, end
        self._raw: Any = response.raw
        return True

    def _open_again(self, error: HdfsError) -> None:
        """Request the rest of the file, in up to ten retries; raise the last error if all fail."""
        if self._response is not None:
            self._response.close()
        if self._at >= self._tried_at + _PROGRESS:
            self._tries.succeeded()
        while True:
            self._tries.wait_after(error)
            self._tried_at = self._at
            logger.info("Reading %s on from byte %d, for: %s", self._path, self._at, error)
            try:
                is_same = self._is_same() and self._open()
            except HdfsError as again:
                error = again
                continue
            if is_same:
                return
            reason = "the connection broke, and the file was replaced since it was opened"
            raise self._failed(reason, self._connection.server)

    def _is_same(self) -> bool:
        status = self._connection.file_status(self._path)
        return all(status.get(fact) == self._status.get(fact) for fact in _SAME)

    def _failed(self, reason: str, server: str) -> HdfsError:
        return failed("OPEN", self._path, server, reason, next_step="try again")


class BufferedHdfsReader(io.BufferedReader):
    """A file on HDFS with a buffer for small reads; large reads bypass it."""

    def __init__(self, file: HdfsReader) -> None:
        super().__init__(file, _BUFFER)
        self._file = file

    def read(self, size: int | None = -1) -> bytes:
        """Return ``size`` bytes (fewer only at the file's end); the rest if ``size`` is None or negative."""
        if size is None or size < _BUFFER or self.closed or self.tell() != self._file.tell():
            return super().read(size)
        part = self._file.part(size)
        return part if len(part) in (0, size) else part + super().read(size - len(part))
