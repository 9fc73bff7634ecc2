"""A file on HDFS, open for reading: it arrives in parts, and a part that breaks off is asked for again."""

from __future__ import annotations

import io
import logging
import re
import time
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import urllib3

from luigi_pai.hdfs.errors import HdfsError, failed
from luigi_pai.redaction import redact
from luigi_pai.timed_http import OverLimit, chain

if TYPE_CHECKING:
    import requests

    from luigi_pai.hdfs.connection import Connection

__all__ = ["WAITS", "HdfsReader"]

logger = logging.getLogger("luigi-interface")

# seconds before each further try; of two DataNodes, NameNodes name the dead one every second time
WAITS = (0.0, 0.0, 0.0, 0.1, 0.1, 0.2, 0.3, 0.5, 0.8, 1.5)
_SLOW = 5  # tries that one counts for in which too little arrived
_PIECE = 64 * 1024  # bytes that are copied into a buffer at once: larger ones cost new pages of memory
_PROGRESS = 1024 * 1024  # bytes after which the tries are counted anew
_LENGTH = re.compile("[0-9]{1,18}")
_SAME = ("fileId", "modificationTime", "length")  # of a FileStatus, while the file is the same
# what a NameNode says while it has lost a DataNode, or is about to be another one
_PASSING = (
    "BlockMissingException",
    "IOException",
    "RetriableException",
    "SafeModeException",
    "StandbyException",
)


class HdfsReader(io.RawIOBase):
    """A file on HDFS, open for reading.

    What was read is the file, or there is an error: never a part of it, and never
    parts of two. When a connection breaks, the rest is asked for again, of
    whatever DataNode the NameNode now names, ten times within 3.5 s, and again
    so after each further MiB; if the file was replaced meanwhile, that is an error.

    Raises:
        HdfsError: there is no such file; or the connection broke and the rest cannot be had.
    """

    def __init__(self, connection: Connection, path: str) -> None:
        super().__init__()
        self._response: requests.Response | None = None
        self._connection = connection
        self._path = path
        self._at = self._end = 0
        self._tried = 0
        self._tried_at = 0
        self._status = connection.file_status(path)
        try:
            self._open()
        except HdfsError as error:
            if error.exception or error.server == connection.server:
                raise
            self._open_again(error)  # a DataNode that has just died

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Raise AttributeError: there is no file under it.

        Luigi's process formats (gzip) then copy to a local file first; those of
        Luigi before 3.4 know no other sign.
        """
        raise AttributeError("a file on HDFS has no descriptor")

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self._end

    def tell(self) -> int:
        """Return how many bytes were read."""
        return self._at

    def readinto(self, buffer: Any) -> int:
        """Read at most as many bytes as fit into the buffer; 0 at the end."""
        size = min(len(buffer), _PIECE, self._end - self._at)
        while True:
            try:
                part: bytes = self._raw.read(size)
                reason = f"{self._end - self._at} bytes are missing"
            except (urllib3.exceptions.HTTPError, OSError) as error:
                part, reason = b"", redact(str(error)) or type(error).__name__
                if any(isinstance(one, OverLimit) for one in chain(error)):
                    self._tried += _SLOW
            else:
                if part or not size:
                    break
            server = urlsplit(self._response.url).netloc if self._response else self._connection.server
            self._open_again(self._failed(f"the connection broke: {reason}", server))
        self._at += len(part)
        buffer[: len(part)] = part
        return len(part)

    def close(self) -> None:
        """Give the connection back."""
        if self._response is not None:
            self._response.close()
        super().close()

    def _open(self) -> bool:
        """Ask for the file from where we are; False if it has another length by now."""
        response = self._connection.open_file(self._path, self._at)
        length = response.headers.get("Content-Length", "")
        # a server that does not say how much it sends (HttpFS) could end early without a sign
        end = self._at + int(length) if _LENGTH.fullmatch(length) else int(self._status["length"])
        if not self._at and end < self._status["length"]:
            self._status = self._connection.file_status(self._path)
            if end != self._status["length"]:  # the file is not shorter by now
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
        """Ask for the rest, as long as there is hope; else raise the error."""
        if self._response is not None:
            self._response.close()
        if self._at >= self._tried_at + _PROGRESS:
            self._tried = 0
        patience = self._connection.account.patience
        while self._tried < len(WAITS) and sum(WAITS[: self._tried + 1]) <= patience:
            time.sleep(WAITS[self._tried])
            self._tried += 1
            self._tried_at = self._at
            logger.info("Reading %s on from byte %d, for: %s", self._path, self._at, error)
            try:
                is_same = self._is_same() and self._open()
            except HdfsError as again:
                if again.exception not in (None, *_PASSING) or again.retry_after:
                    raise
                error = again
                continue
            if is_same:
                return
            reason = "the connection broke, and the file was replaced since it was opened"
            raise self._failed(reason, self._connection.server)
        raise error

    def _is_same(self) -> bool:
        status = self._connection.file_status(self._path)
        return all(status.get(fact) == self._status.get(fact) for fact in _SAME)

    def _failed(self, reason: str, server: str) -> HdfsError:
        return failed("OPEN", self._path, server, reason, next_step="try again")
