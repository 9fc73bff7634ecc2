"""WebHDFS as the ``hdfs`` command speaks it, with the standard library only."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CHUNK", "Fault", "Hdfs"]

CHUNK = 256 * 1024
_TIMEOUT = 60.0  # seconds without an answer


class Fault(Exception):
    """One thing that did not work, in FsShell's words; ``exception`` is Hadoop's name of it, or empty."""

    def __init__(self, message: str, exception: str = "") -> None:
        super().__init__(message)
        self.exception = exception


class Hdfs:
    """HDFS, over WebHDFS at ``http://HOST:PORT``, as a user. Every method raises Fault.

    ``setting`` has the address, for the message when it does not answer; ``timeout`` is in seconds, for a
    connection and for each part of an answer. A file or folder is described by its FileStatus.
    """

    def __init__(
        self, url: str, user: str, *, setting: str = "LUIGI_PAI_WEBHDFS_URL", timeout: float = _TIMEOUT
    ) -> None:
        self.user = user
        self._url = urlsplit(url)
        self._setting = setting
        self._timeout = timeout

    def status(self, path: str) -> dict[str, Any] | None:
        """Return what is at a path, None where there is nothing."""
        try:
            found: dict[str, Any] = self._json("GET", path, "GETFILESTATUS")["FileStatus"]
        except Fault as fault:
            if fault.exception == "FileNotFoundException":
                return None
            raise
        return found

    def children(self, path: str) -> list[dict[str, Any]]:
        """Return what is in a folder, sorted as the NameNode does; its name is the ``pathSuffix``."""
        found: list[dict[str, Any]] = self._json("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        return found

    def summary(self, path: str) -> dict[str, int]:
        """Return the ContentSummary of a path."""
        found: dict[str, int] = self._json("GET", path, "GETCONTENTSUMMARY")["ContentSummary"]
        return found

    @contextlib.contextmanager
    def read(self, path: str) -> Iterator[io.BufferedReader]:
        """Yield a file, open for reading."""
        with self._answer("GET", self._datanode("GET", path, "OPEN")) as response:
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
        address = urlsplit(self._datanode("PUT", "/luigi-pai-looks-for-a-datanode", "CREATE"))
        named = parse_qs(address.query).get("namenoderpcaddress")
        return named[0] if named else None

    def _address(self, path: str, operation: str, parameters: dict[str, Any]) -> str:
        query = urlencode({"op": operation, "user.name": self.user, **parameters})
        base = f"{self._url.scheme}://{self._url.netloc}{self._url.path.rstrip('/')}"
        return f"{base}/webhdfs/v1{quote(path)}?{query}"

    def _json(self, method: str, path: str, operation: str, **parameters: Any) -> Any:
        with self._answer(method, self._address(path, operation, parameters)) as response:
            text = response.read()
        return json.loads(text) if text else {}

    def _datanode(self, method: str, path: str, operation: str, **parameters: Any) -> str:
        """Ask the NameNode, and return the address at the DataNode that it names."""
        with self._answer(method, self._address(path, operation, parameters)) as response:
            address = response.headers.get("Location", "")
        if not urlsplit(address).netloc:
            raise Fault(f"{self._url.netloc} does not say where to go, as a WebHDFS does")
        return address

    def _send(self, method: str, path: str, operation: str, stream: Any, **parameters: Any) -> None:
        with self._answer(method, self._datanode(method, path, operation, **parameters), stream):
            pass

    @contextlib.contextmanager
    def _answer(self, method: str, address: str, stream: Any = None) -> Iterator[http.client.HTTPResponse]:
        """Send a request, with a stream as its body, and yield the answer; raise the error that it may be."""
        where = urlsplit(address)
        kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
        with contextlib.closing(kind(where.netloc, timeout=self._timeout, blocksize=CHUNK)) as connection:
            try:
                with contextlib.suppress(
                    BrokenPipeError, ConnectionResetError
                ):  # refused: the answer says why
                    body = iter(lambda: stream.read(CHUNK), b"") if stream else None
                    headers = {"Transfer-Encoding": "chunked"} if stream else {}
                    connection.request(
                        method,
                        f"{where.path}?{where.query}",
                        body,
                        {"Content-Type": "application/octet-stream", **headers},
                        encode_chunked=stream is not None,
                    )
                response = connection.getresponse()
            except (OSError, http.client.HTTPException) as error:
                raise self._unreachable(where.netloc, error) from error
            if response.status >= http.client.BAD_REQUEST:
                raise _refusal(response)
            yield response

    def _unreachable(self, netloc: str, error: Exception) -> Fault:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error).strip()
        step = f"{self._setting} says where the WebHDFS of this cluster is"
        if netloc != self._url.netloc:
            step = f"{self._url.netloc} names this DataNode, which this machine must be able to reach"
        return Fault(
            f"Call to {netloc} failed on connection exception: {why or type(error).__name__}; {step}"
        )


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


def _refusal(response: http.client.HTTPResponse) -> Fault:
    """Return the RemoteException of a reply."""
    if response.status == http.client.UNAUTHORIZED:
        return Fault("HTTP 401: this WebHDFS wants to know who you are; Kerberos is not spoken here")
    try:
        remote = json.loads(response.read())["RemoteException"]
        return Fault(str(remote["message"]).split("\n", 1)[0], remote["exception"])
    except (ValueError, KeyError, TypeError):
        return Fault(f"HTTP {response.status} {response.reason}, not from a WebHDFS")
