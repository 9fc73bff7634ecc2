"""Performs operations on one HDFS and reads its files. Each process has one connection per account."""

from __future__ import annotations

import atexit
import contextlib
import functools
import io
import logging
import os
import posixpath
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import urllib3

from luigi_pai.api.wire.repeats import OTHER_DATANODE, REST_OF_FILE, Tries
from luigi_pai.files.errors import HdfsError, HdfsUnreachable, NotADirectory, failed
from luigi_pai.files.hdfs.transport import Transport
from luigi_pai.files.volume import Volume
from luigi_pai.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterable

    import requests

    from luigi_pai.files.hdfs.transport import Account

logger = logging.getLogger("luigi-interface")

_BUFFER = 1024 * 1024  # bytes
_PIECE = 64 * 1024  # maximum bytes per read; larger reads make the system map new pages each time
_PROGRESS = 1024 * 1024  # the retry count restarts at 0 after this many bytes
_LENGTH = re.compile("[0-9]{1,18}")
_SAME = ("fileId", "modificationTime", "length")  # fields of a FileStatus that distinguish versions of a file
_MAYBE_BELOW_A_FILE = ("AccessControlException", "FileAlreadyExistsException", "ParentNotDirectoryException")


class HdfsReader(io.RawIOBase):
    """A file on HDFS, open for reading.

    If you read to the end, you get the whole file in a single version, or an error. If a connection breaks,
    the reader asks the NameNode for a DataNode again and requests the rest from it. There are up to ten such
    retries, with pauses of 3.5 s in total. After a MiB without a retry, counting restarts at 0.

    Raises:
        HdfsError: The file does not exist, the rest cannot be read after a broken connection, or the file
            was replaced in the meantime.
    """

    def __init__(self, connection: Connection, path: str) -> None:
        super().__init__()
        self._response: requests.Response | None = None
        self._connection = connection
        self._path = path
        self._position = self._end = 0
        self._tries = Tries(REST_OF_FILE)
        self._retried_at = 0
        self._status = connection.file_status(path)
        try:
            self._open()
        except HdfsError as error:
            if error.exception or error.server == connection.server:
                raise
            self._open_again(error)  # the DataNode does not respond; it may have just died

    def readable(self) -> bool:
        """Return True."""
        return True

    def fileno(self) -> int:
        """Raise AttributeError, which makes Luigi's process formats (gzip) first copy the file locally.

        Before Luigi 3.4, only this type of error makes them do so.
        """
        raise AttributeError("a file on HDFS has no descriptor")

    @property
    def size(self) -> int:
        """The size of the file in bytes."""
        return self._end

    def tell(self) -> int:
        """Return the number of bytes read so far."""
        return self._position

    def readinto(self, buffer: Any) -> int:
        """Read bytes into the buffer and return how many were read; 0 at the end of the file."""
        part = self.part(min(len(buffer), _PIECE))
        buffer[: len(part)] = part
        return len(part)

    def part(self, size: int) -> bytes:
        """Return at most ``size`` bytes without copying them; returns nothing at the end of the file."""
        while True:
            try:
                part: bytes = self._raw.read(min(size, self._end - self._position))
                reason = f"{self._end - self._position} bytes are missing"
            except (urllib3.exceptions.HTTPError, OSError) as error:
                part, reason = b"", redact(str(error)) or type(error).__name__
            else:
                if part or self._position == self._end or not size:
                    break
            server = urlsplit(self._response.url).netloc if self._response else self._connection.server
            self._open_again(self._failed(f"the connection broke: {reason}", server))
        self._position += len(part)
        return part

    def close(self) -> None:
        """Release the connection."""
        if self._response is not None:
            self._response.close()
        super().close()

    def _open(self) -> bool:
        """Request the file from the current position; return False if its length has changed."""
        response = self._connection.open_file(self._path, self._position)
        length = response.headers.get("Content-Length", "")
        # HttpFS sends no Content-Length, so use the length in the FileStatus; a smaller length is checked
        end = self._position + int(length) if _LENGTH.fullmatch(length) else int(self._status["length"])
        if not self._position and end < self._status["length"]:
            self._status = self._connection.file_status(self._path)
            if end != self._status["length"]:  # not shortened, so the DataNode's length is incorrect
                response.close()
                reason = f"the DataNode sends {end:,} bytes of {self._status['length']:,}"
                raise self._failed(reason, urlsplit(response.url).netloc)
        if self._position and end != self._end:
            response.close()
            return False
        self._response, self._end = response, end
        self._raw: Any = response.raw
        return True

    def _open_again(self, error: HdfsError) -> None:
        """Request the rest of the file, with up to ten retries; raise the last error if all fail."""
        if self._response is not None:
            self._response.close()
        if self._position >= self._retried_at + _PROGRESS:
            self._tries.succeeded()
        while True:
            self._tries.wait_after(error)
            self._retried_at = self._position
            logger.info("Resuming %s at byte %d after: %s", self._path, self._position, error)
            try:
                status = self._connection.file_status(self._path)
                is_same = all(status.get(fact) == self._status.get(fact) for fact in _SAME) and self._open()
            except HdfsError as again:
                error = again
                continue
            if is_same:
                return
            reason = "the connection broke, and the file was replaced since it was opened"
            raise self._failed(reason, self._connection.server)

    def _failed(self, reason: str, server: str) -> HdfsError:
        return failed("OPEN", self._path, server, reason, next_step="try again")


class BufferedHdfsReader(io.BufferedReader):
    """A file on HDFS with a buffer for small reads. Large reads bypass the buffer."""

    def __init__(self, file: HdfsReader) -> None:
        super().__init__(file, _BUFFER)
        self._file = file

    def read(self, size: int | None = -1) -> bytes:
        """Return ``size`` bytes (fewer only at the end of the file); if None or negative, all the rest."""
        if size is None or size < _BUFFER or self.closed or self.tell() != self._file.tell():
            return super().read(size)
        part = self._file.part(size)
        return part if len(part) in (0, size) else part + super().read(size - len(part))


class Connection(Transport, Volume):
    """Operations on one HDFS as one user. Paths are absolute and normalised."""

    refused = ":"

    @functools.cached_property
    def owner(self) -> str:
        """The owner of this account's files. With Kerberos, this is the name of the user's home folder."""
        return self._user or posixpath.basename(str(self.ask("GET", "/", "GETHOMEDIRECTORY").value))

    def file_status(self, path: str) -> dict[str, Any]:
        """Return the FileStatus of a file or folder."""
        found: dict[str, Any] = self.ask("GET", path, "GETFILESTATUS").value
        return found

    def list_status(self, path: str) -> list[dict[str, Any]]:
        """Return the FileStatus of each entry of a folder; for a file, its FileStatus with an empty name."""
        found: list[dict[str, Any]] = self.ask("GET", path, "LISTSTATUS").value["FileStatus"]
        return found

    def make_folders(self, path: str) -> None:
        """Create a folder and its parents; raise NotADirectory if the path or a parent is a file."""
        try:
            done = self.ask("PUT", path, "MKDIRS").value
        except HdfsError as error:
            file = self._file_at_or_above(path) if error.exception in _MAYBE_BELOW_A_FILE else None
            if not file:
                raise
            reason = "it is a file" if file == path else f"{file} is a file"
            raise self.failed("MKDIRS", path, reason, kind=NotADirectory) from error
        if not done:
            raise self.failed("MKDIRS", path, "the server did not create it and gave no reason")

    def share_folder(self, path: str) -> None:
        """Do nothing: OpenPAI's HDFS lets containers write, and creates missing folders."""

    def _file_at_or_above(self, path: str) -> str | None:
        while path != "/":
            # Hadoop 2.7.4 sends AccessControlException for a path below a file
            with contextlib.suppress(HdfsError):
                status = self.status(path)
                if status and status["type"] != "DIRECTORY":
                    return path
            path = posixpath.dirname(path)
        return None

    def remove(self, path: str, *, recursive: bool) -> bool:
        """Delete a path; return False if it did not exist."""
        return bool(self.ask("DELETE", path, "DELETE", recursive=str(recursive).lower()).value)

    def rename_to(self, path: str, destination: str, options: str | None = None) -> bool | None:
        """Rename a path, using rename2 if ``options`` is ``NONE`` or ``OVERWRITE``, else the older rename.

        Returns:
            None after rename2. After HDFS's older rename, whether the path was renamed. HttpFS ignores
            ``options`` and always uses the older rename.
        """
        done: bool | None = self.ask(
            "PUT", path, "RENAME", destination=destination, renameoptions=options
        ).value
        return done

    def open_file(self, path: str, offset: int = 0) -> requests.Response:
        """Return a response whose body is the file from an offset on. The caller closes the response."""
        return self.ask("GET", path, "OPEN", offset=offset or None).response

    def open_reader(self, path: str) -> BufferedHdfsReader:
        """Open a file for reading; its content arrives in parts."""
        return BufferedHdfsReader(HdfsReader(self, path))

    def read_part(self, path: str, offset: int, most: int) -> bytes:
        """Return at most ``most`` bytes of a file, starting at ``offset``, which must be before its end."""
        return self._read(path, offset, most, longest=None)

    def read_rest(self, path: str, offset: int, most: int) -> bytes:
        """Return a file from ``offset`` to its end; raise ``too_large`` for more than ``most`` bytes."""
        data = self._read(path, offset, most + 1, longest=most)
        if len(data) > most:
            raise self.too_large(path, most)
        return data

    def _read(self, path: str, offset: int, most: int, *, longest: int | None) -> bytes:
        """Return at most ``most`` bytes; raise ``too_large`` if the response is longer than ``longest``.

        This takes one request to the NameNode and one to a DataNode. If a response is incomplete or missing,
        it falls back to an ordinary HdfsReader.
        """
        with (
            contextlib.suppress(HdfsUnreachable, OSError, urllib3.exceptions.HTTPError),
            self.open_file(path, offset) as response,
        ):
            if longest is not None and (response.raw.length_remaining or 0) > longest:
                raise self.too_large(path, longest)
            return _start_of(response, most)
        with self.open_reader(path) as file:
            return file.read(offset + most)[offset:]

    def create_file(self, path: str, data: bytes | Iterable[bytes]) -> None:
        """Write a new file; create its folder if the folder is missing.

        If the DataNode cannot be reached, the NameNode is asked for another one.
        """
        create = functools.partial(self.send_file, "PUT", path, "CREATE", data, overwrite="false")
        Tries(OTHER_DATANODE).call(create)

    def append(self, path: str, data: bytes) -> None:
        """Append data to a file. After an error, HDFS may have appended the data, or may do so later."""
        self.send_file("POST", path, "APPEND", data)

    def count(self, path: str) -> tuple[int, int, int]:
        """Return the number of bytes, folders and files at and below a path; a folder counts itself."""
        summary = self.ask("GET", path, "GETCONTENTSUMMARY").value
        return summary["length"], summary["directoryCount"], summary["fileCount"]

    def set_mode(self, path: str, mode: str) -> None:
        """Set the mode bits, in octal."""
        self.ask("PUT", path, "SETPERMISSION", permission=mode)

    def set_owner(self, path: str, owner: str | None, group: str | None) -> None:
        """Set owner, group or both. On HDFS, the owner can set the group; only a superuser sets the owner."""
        self.ask("PUT", path, "SETOWNER", owner=owner, group=group)

    def local_path(self, path: str) -> str:
        """Raise HdfsError, because HDFS is never mounted on this machine."""
        step = 'open it, or copy it to this machine with "luigi-pai get"'
        raise self.failed("resolve", path, "a file on HDFS has no path on this machine", next_step=step)


def _start_of(response: requests.Response, most: int) -> bytes:
    """Return at most ``most`` bytes from the start of a body, even if its Content-Length differs."""
    data = bytearray()
    for part in response.iter_content(min(most, _PIECE)):
        data += part
        if len(data) >= most:
            break
    del data[most:]
    return bytes(data)


_connections: dict[tuple[int, Account], Connection] = {}


def connection(account: Account) -> Connection:
    """Return this process's connection for an account. A forked process opens a new connection."""
    key = (os.getpid(), account)
    # no lock, because a forked process could inherit it locked; at worst, two threads each open a connection
    return _connections.get(key) or _connections.setdefault(key, Connection(account))


@atexit.register
def _close_all() -> None:
    for (process, _account), opened in _connections.items():
        if process == os.getpid():
            opened.close()
