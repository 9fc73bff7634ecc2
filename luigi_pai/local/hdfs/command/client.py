"""The two file systems that ``hdfs dfs`` copies between: WebHDFS and the local disk."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CHUNK", "Disk", "Fault", "Hdfs", "Status"]

CHUNK = 256 * 1024
_TIMEOUT = 60.0  # seconds without an answer


class Fault(Exception):
    """One thing that did not work, in FsShell's words; ``exception`` is Hadoop's name of it, or empty."""

    def __init__(self, message: str, exception: str = "") -> None:
        super().__init__(message)
        self.exception = exception


@dataclass(frozen=True)
class Status:
    """What is known of a file or folder: its length in bytes; on HDFS its FileStatus as ``facts``."""

    name: str
    is_folder: bool
    length: int
    facts: dict[str, Any]


class Disk:
    """The disk of this machine."""

    def status(self, path: str) -> Status | None:
        """Return what is at a path, None where there is nothing."""
        place = Path(path)
        return Status(place.name, place.is_dir(), place.stat().st_size, {}) if place.exists() else None

    def children(self, path: str) -> list[Status]:
        """Return what is in a folder, sorted by name."""
        found = (self.status(str(place)) for place in sorted(Path(path).iterdir()))
        return [status for status in found if status]

    def read(self, path: str) -> IO[bytes]:
        """Return a file, open for reading."""
        return Path(path).open("rb")

    def write(self, path: str, stream: Any) -> None:
        """Make a file of a binary stream; it appears when it is complete."""
        incomplete = Path(f"{path}._COPYING_")
        try:
            with incomplete.open("wb") as file:
                shutil.copyfileobj(stream, file, CHUNK)
            incomplete.replace(path)
        finally:
            incomplete.unlink(missing_ok=True)

    def mkdir(self, path: str) -> None:
        """Make a folder, and those above it."""
        Path(path).mkdir(parents=True, exist_ok=True)


class Hdfs:
    """HDFS, over WebHDFS at ``http://HOST:PORT``, as a user. Every method raises Fault.

    ``setting`` has the address, for the message when it does not answer; ``timeout`` is in seconds, for a
    connection and for each part of an answer.
    """

    def __init__(
        self, url: str, user: str, *, setting: str = "LUIGI_PAI_WEBHDFS_URL", timeout: float = _TIMEOUT
    ) -> None:
        self.user = user
        self._url = urlsplit(url)
        self._setting = setting
        self._timeout = timeout
        self._connection = self._connect(self._url.scheme, self._url.netloc)

    def close(self) -> None:
        """Close the connection to the NameNode."""
        self._connection.close()

    def status(self, path: str) -> Status | None:
        """Return what is at a path, None where there is nothing."""
        try:
            facts = self._json("GET", path, "GETFILESTATUS")["FileStatus"]
        except Fault as fault:
            if fault.exception == "FileNotFoundException":
                return None
            raise
        return _status(facts, path.rstrip("/").rpartition("/")[2])

    def children(self, path: str) -> list[Status]:
        """Return what is in a folder, sorted as the NameNode does."""
        found = self._json("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        return [_status(facts, facts["pathSuffix"]) for facts in found]

    def summary(self, path: str) -> dict[str, int]:
        """Return the ContentSummary of a path."""
        found: dict[str, int] = self._json("GET", path, "GETCONTENTSUMMARY")["ContentSummary"]
        return found

    @contextlib.contextmanager
    def read(self, path: str) -> Iterator[io.BufferedReader]:
        """Yield a file, open for reading."""
        address = self._two_steps("GET", path, "OPEN")
        with contextlib.closing(self._connect(address.scheme, address.netloc)) as connection:
            with self._reached(address.netloc):
                connection.request("GET", f"{address.path}?{address.query}")
                response = _checked(connection.getresponse())
            yield io.BufferedReader(_Whole(response, path), CHUNK)

    def write(self, path: str, stream: Any) -> None:
        """Make a file of a binary stream, replacing the one that is there; it appears when it is complete."""
        incomplete = f"{path}._COPYING_"
        try:
            self._send("PUT", incomplete, "CREATE", stream, overwrite="true", permission="644")
            done = self._json("PUT", incomplete, "RENAME", destination=path, renameoptions="OVERWRITE")
        except BaseException:
            with contextlib.suppress(Fault):
                self.delete(incomplete, recursive=False)
            raise
        if done.get("boolean") is False:  # of a server that does not know the option
            raise Fault(f"`{path}': Input/output error")

    def append(self, path: str, stream: Any) -> None:
        """Add a binary stream to a file."""
        self._send("POST", path, "APPEND", stream)

    def mkdir(self, path: str, permission: int = 0o755) -> None:
        """Make a folder, and those above it."""
        self._json("PUT", path, "MKDIRS", permission=f"{permission:o}")

    def rename(self, path: str, destination: str) -> bool:
        """Rename as HDFS does: into a folder that exists; False where it was not done."""
        return bool(self._json("PUT", path, "RENAME", destination=destination)["boolean"])

    def delete(self, path: str, *, recursive: bool) -> bool:
        """Delete for good; False where there was nothing."""
        return bool(self._json("DELETE", path, "DELETE", recursive=str(recursive).lower())["boolean"])

    def rpc_address(self) -> str | None:
        """Return what stands behind ``hdfs://`` for this file system, or None where the server does not say.

        A NameNode names itself (HOST:PORT, or its nameservice) when it sends a
        writer to a DataNode; nothing is written.
        """
        address = self._two_steps("PUT", "/luigi-pai-looks-for-a-datanode", "CREATE")
        named = parse_qs(address.query).get("namenoderpcaddress")
        return named[0] if named else None

    def _connect(self, scheme: str, netloc: str) -> http.client.HTTPConnection:
        kind = http.client.HTTPSConnection if scheme == "https" else http.client.HTTPConnection
        return kind(netloc, timeout=self._timeout, blocksize=CHUNK)

    def _ask(self, method: str, path: str, operation: str, **parameters: Any) -> http.client.HTTPResponse:
        query = urlencode({"op": operation, "user.name": self.user, **parameters})
        with self._reached(self._url.netloc):
            target = f"{self._url.path.rstrip('/')}/webhdfs/v1{quote(path)}?{query}"
            self._connection.request(method, target)
            return _checked(self._connection.getresponse())

    def _json(self, method: str, path: str, operation: str, **parameters: Any) -> Any:
        text = self._ask(method, path, operation, **parameters).read()
        return json.loads(text) if text else {}

    def _two_steps(self, method: str, path: str, operation: str, **parameters: Any) -> Any:
        """Ask the NameNode, and return the address of the DataNode that it names."""
        response = self._ask(method, path, operation, **parameters)
        response.read()
        self._connection.close()  # a copy may outlast it; it opens again by itself
        address = urlsplit(response.headers.get("Location", ""))
        if not address.netloc:
            raise Fault(f"{self._url.netloc} does not say where to go, as a WebHDFS does")
        return address

    def _send(self, method: str, path: str, operation: str, stream: Any, **parameters: Any) -> None:
        address = self._two_steps(method, path, operation, **parameters)
        connection = self._connect(address.scheme, address.netloc)
        with contextlib.closing(connection), self._reached(address.netloc):
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused: the answer says why
                connection.request(
                    method,
                    f"{address.path}?{address.query}",
                    body=iter(lambda: stream.read(CHUNK), b""),
                    headers={"Content-Type": "application/octet-stream", "Transfer-Encoding": "chunked"},
                    encode_chunked=True,
                )
            _checked(connection.getresponse()).read()

    @contextlib.contextmanager
    def _reached(self, netloc: str) -> Iterator[None]:
        try:
            yield
        except (OSError, http.client.HTTPException) as error:
            why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).strip()
            step = f"{self._setting} says where the WebHDFS of this cluster is"
            if netloc != self._url.netloc:
                step = f"{self._url.netloc} names this DataNode, which this machine must be able to reach"
            text = f"Call to {netloc} failed on connection exception: {why or type(error).__name__}; {step}"
            raise Fault(text) from error


class _Whole(io.RawIOBase):
    """A reply's body, which must arrive whole."""

    def __init__(self, response: http.client.HTTPResponse, path: str) -> None:
        super().__init__()
        self._response = response
        self._path = path

    def readable(self) -> bool:
        """Say that it can be read."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read into a buffer, and return how many bytes; none at the end."""
        try:
            count = self._response.readinto(buffer)
        except (OSError, http.client.HTTPException) as error:
            raise Fault(f"{self._path}: the connection broke while it was read: {error}") from error
        if not count and self._response.length:
            raise Fault(f"{self._path}: the connection ended {self._response.length} bytes early")
        return count


def _status(facts: dict[str, Any], name: str) -> Status:
    return Status(name, facts["type"] == "DIRECTORY", facts["length"], facts)


def _checked(response: http.client.HTTPResponse) -> http.client.HTTPResponse:
    """Return a reply; raise the RemoteException that it may be."""
    if response.status < http.client.BAD_REQUEST:
        return response
    text = response.read()
    if response.status == http.client.UNAUTHORIZED:
        raise Fault("HTTP 401: this WebHDFS wants to know who you are; Kerberos is not spoken here")
    try:
        remote = json.loads(text)["RemoteException"]
    except (ValueError, KeyError, TypeError):
        raise Fault(f"HTTP {response.status} {response.reason}, not from a WebHDFS") from None
    raise Fault(str(remote["message"]).split("\n", 1)[0], remote["exception"])
