"""The places that the ``hdfs`` command copies between: WebHDFS and the local disk. Standard library only."""

from __future__ import annotations

import contextlib
import http.client
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlencode, urlsplit

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

CHUNK = 256 * 1024
_TIMEOUT = 60.0  # seconds to wait for a connection, and for each part of a response


class Fault(Exception):
    """An error with FsShell's message; ``exception`` is the name of Hadoop's exception, if any."""

    def __init__(self, message: str, exception: str = "") -> None:
        super().__init__(message)
        self.exception = exception


class Hdfs:
    """HDFS, accessed as one user through WebHDFS. Every method raises Fault if it fails.

    ``url`` is WebHDFS's ``http://HOST:PORT``. If there is no response, the error names ``setting``, the
    place where the URL was set. ``timeout``, in seconds, applies to the connection and to each part of a
    response. A FileStatus describes a file or folder.
    """

    def __init__(
        self, url: str, user: str, *, setting: str = "LUIGI_PAI_WEBHDFS_URL", timeout: float = _TIMEOUT
    ) -> None:
        self.user = user
        self._url = urlsplit(url)
        self._setting = setting
        self._timeout = timeout

    def status(self, path: str) -> dict[str, Any] | None:
        """Return a path's FileStatus, or None if the path does not exist."""
        try:
            found: dict[str, Any] = self._json("GET", path, "GETFILESTATUS")["FileStatus"]
        except Fault as fault:
            if fault.exception == "FileNotFoundException":
                return None
            raise
        return found

    def children(self, path: str) -> list[dict[str, Any]]:
        """Return each entry's FileStatus, in the NameNode's order; ``pathSuffix`` is the entry's name."""
        found: list[dict[str, Any]] = self._json("GET", path, "LISTSTATUS")["FileStatuses"]["FileStatus"]
        return found

    def summary(self, path: str) -> dict[str, int]:
        """Return a path's ContentSummary."""
        found: dict[str, int] = self._json("GET", path, "GETCONTENTSUMMARY")["ContentSummary"]
        return found

    def read(self, path: str) -> AbstractContextManager[Any]:
        """Return a file, open for reading."""
        return self._request("GET", self._datanode("GET", path, "OPEN"))

    def write(self, path: str, stream: Any) -> None:
        """Write a binary stream to a file, replacing an existing one; the file appears when complete."""
        incomplete = f"{path}._COPYING_"
        try:
            self._send("PUT", incomplete, "CREATE", stream, overwrite="true", permission="644")
            done = self._json("PUT", incomplete, "RENAME", destination=path, renameoptions="OVERWRITE")
        except BaseException:
            with contextlib.suppress(Fault):
                self.delete(incomplete, recursive=False)
            raise
        if done.get("boolean") is False:  # only servers that ignore renameoptions respond this way
            raise Fault(f"`{path}': Input/output error")

    def append(self, path: str, stream: Any) -> None:
        """Append a binary stream to a file."""
        self._send("POST", path, "APPEND", stream)

    def mkdir(self, path: str, permission: int = 0o755) -> None:
        """Make a folder and its missing parents."""
        self._json("PUT", path, "MKDIRS", permission=f"{permission:o}")

    def rename(self, path: str, destination: str) -> bool:
        """Rename a path, or move it into an existing folder, like HDFS; return whether HDFS did so."""
        return bool(self._json("PUT", path, "RENAME", destination=destination)["boolean"])

    def delete(self, path: str, *, recursive: bool) -> bool:
        """Delete a path permanently; return False if it did not exist."""
        return bool(self._json("DELETE", path, "DELETE", recursive=str(recursive).lower())["boolean"])

    def rpc_address(self) -> str | None:
        """Return the authority in this file system's ``hdfs://`` URIs; None if the server does not send it.

        A NameNode sends the authority (HOST:PORT, or its nameservice) when it redirects a CREATE request to
        a DataNode. This method does not follow the redirect, so it creates no file.
        """
        address = urlsplit(self._datanode("PUT", "/luigi-pai-looks-for-a-datanode", "CREATE"))
        named = parse_qs(address.query).get("namenoderpcaddress")
        return named[0] if named else None

    def _address(self, path: str, operation: str, parameters: dict[str, Any]) -> str:
        query = urlencode({"op": operation, "user.name": self.user, **parameters})
        base = f"{self._url.scheme}://{self._url.netloc}{self._url.path.rstrip('/')}"
        return f"{base}/webhdfs/v1{quote(path)}?{query}"

    def _json(self, method: str, path: str, operation: str, **parameters: Any) -> Any:
        with self._request(method, self._address(path, operation, parameters)) as response:
            body = response.read()
        return json.loads(body) if body else {}

    def _datanode(self, method: str, path: str, operation: str, **parameters: Any) -> str:
        """Send a request to the NameNode, and return the DataNode URL it redirects to."""
        with self._request(method, self._address(path, operation, parameters)) as response:
            address = response.headers.get("Location", "")
        if not urlsplit(address).netloc:
            raise Fault(f"{self._url.netloc} sent no DataNode URL, so it is not a WebHDFS")
        return address

    def _send(self, method: str, path: str, operation: str, stream: Any, **parameters: Any) -> None:
        with self._request(method, self._datanode(method, path, operation, **parameters), stream):
            pass

    @contextlib.contextmanager
    def _request(self, method: str, address: str, stream: Any = None) -> Iterator[_Response]:
        """Send a request with ``stream`` as its body, and yield the response; raise Fault if this fails."""
        where = urlsplit(address)
        kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
        with contextlib.closing(kind(where.netloc, timeout=self._timeout, blocksize=CHUNK)) as connection:
            connection.response_class = _Response
            target, headers = f"{where.path}?{where.query}", {"Content-Type": "application/octet-stream"}
            try:
                # a server may reject a request before it reads the body; the response below says why
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    connection.request(method, target, stream, headers)
                response: Any = connection.getresponse()
                response.path = where.path
            except (OSError, http.client.HTTPException) as error:
                why = getattr(error, "strerror", None) or str(error).strip() or type(error).__name__
                message = f"Call to {where.netloc} failed on connection exception: {why}"
                raise Fault(f"{message}; {self._setting} is the address of the cluster's WebHDFS") from error
            if response.status >= http.client.BAD_REQUEST:
                raise _refusal(response)
            yield response


class Disk:
    """The local disk, with those of `Hdfs`'s methods that copying needs; they raise OSError."""

    def status(self, path: str) -> dict[str, Any] | None:
        """Return whether a path is a file or a folder, or None if it does not exist."""
        place = Path(path)
        return {"type": "DIRECTORY" if place.is_dir() else "FILE"} if place.exists() else None

    def children(self, path: str) -> list[dict[str, Any]]:
        """Return the name of each entry in a folder as ``pathSuffix``."""
        return [{"pathSuffix": place.name} for place in sorted(Path(path).iterdir())]

    def read(self, path: str) -> AbstractContextManager[Any]:
        """Return a file, open for reading."""
        return Path(path).open("rb")

    def write(self, path: str, stream: Any) -> None:
        """Write a binary stream to a file, replacing an existing one; the file appears when complete."""
        incomplete = Path(f"{path}._COPYING_")
        try:
            with incomplete.open("wb") as file:
                shutil.copyfileobj(stream, file, CHUNK)
            incomplete.replace(path)
        finally:
            incomplete.unlink(missing_ok=True)

    def mkdir(self, path: str) -> None:
        """Make a folder and its missing parents."""
        Path(path).mkdir(parents=True, exist_ok=True)


class _Response(http.client.HTTPResponse):
    """A response whose body must arrive completely."""

    path = ""

    def read(self, amt: int | None = None) -> bytes:
        """Return the next bytes; raises Fault if the connection ends before the body is complete."""
        try:
            data = super().read(amt)
        except (OSError, http.client.HTTPException) as error:
            raise Fault(f"{self.path}: the connection broke while the response was read: {error}") from error
        if not data and amt and self.length:
            raise Fault(f"{self.path}: the connection ended {self.length} bytes early")
        return data


def _refusal(response: _Response) -> Fault:
    """Convert a response's RemoteException to a Fault."""
    try:
        remote = json.loads(response.read())["RemoteException"]
        return Fault(str(remote["message"]).split("\n", 1)[0], remote["exception"])
    except (ValueError, KeyError, TypeError):
        status = f"HTTP {response.status} {response.reason}"
        return Fault(f"{status}, not a valid WebHDFS response (Kerberos is not supported here)")
