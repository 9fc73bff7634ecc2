"""WebHDFS over a folder on this machine, as in Hadoop 2.7.4.

Requests to create, append to or open a file get a NameNode's response: a 307 to this same server, with the
``namenoderpcaddress`` parameter added. Requests with that parameter get a DataNode's response. In both
directions, bodies are streamed in chunks. A file becomes visible when its upload is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tornado.iostream import StreamClosedError
from tornado.routing import URLSpec
from tornado.web import HTTPError, RequestHandler, stream_request_body

from luigi_pai.local.hdfs.webhdfs.namespace import RemoteFault

if TYPE_CHECKING:
    from typing import BinaryIO

    from luigi_pai.local.hdfs.webhdfs.namespace import Tree

_LOG = logging.getLogger("luigi_pai.local")
_CHUNK = 256 * 1024
_NO_LIMIT = 2**62  # bytes, more than the size of any request body or file
_NOBODY = "dr.who"  # Hadoop's name for a request that names no user


def webhdfs_routes(tree: Tree) -> list[URLSpec]:
    """Return the routes of ``/webhdfs/v1`` for a tornado Application."""
    return [URLSpec(r"/webhdfs/v1(/.*)?", WebHdfsHandler, {"tree": tree})]


@stream_request_body
class WebHdfsHandler(RequestHandler):
    """One WebHDFS request."""

    def initialize(self, tree: Tree) -> None:
        """Store the tree, which all requests share, and set this request's defaults."""
        self.tree = tree
        self.operation = ""
        self.hdfs_path = "/"
        self.upload: BinaryIO | None = None
        self.upload_error: OSError | None = None

    def set_default_headers(self) -> None:
        """Forbid browsers from guessing content types, because a file may look like a script."""
        self.set_header("Content-Type", "application/octet-stream")
        self.set_header("X-Content-Type-Options", "nosniff")

    # before and after every request

    def prepare(self) -> None:
        """Open a file for an upload's body."""
        self.operation = self.parameter("op").upper()
        self.hdfs_path = self.path_args[0] or "/"
        connection: Any = self.request.connection
        connection.set_max_body_size(_NO_LIMIT)  # even for the NameNode: curl -T sends it the file too
        if self.operation in ("CREATE", "APPEND") and self.is_datanode():
            self.upload = self.tree.incoming()

    def data_received(self, chunk: bytes) -> None:
        """Write part of an upload to disk unless an earlier write failed; drop other requests' bodies."""
        if self.upload and not self.upload_error:
            try:
                self.upload.write(chunk)
            except OSError as error:
                self.upload_error = error

    def on_connection_close(self) -> None:
        """Delete the upload's file, because the client has disconnected."""
        self.on_finish()

    def on_finish(self) -> None:
        """Delete the upload's file if it was not published."""
        if self.upload:
            with contextlib.suppress(OSError):
                self.upload.close()
            Path(self.upload.name).unlink(missing_ok=True)

    def write_error(self, status_code: int, **about: Any) -> None:
        """Respond with a ``RemoteException``."""
        error = (about.get("exc_info") or (None, None))[1]
        if isinstance(error, OSError):
            error = RemoteFault.from_os_error(error, self.hdfs_path)
        if isinstance(error, RemoteFault):
            self.set_status(error.status)
        else:
            name = "IllegalArgumentException" if isinstance(error, HTTPError) else "IOException"
            error = RemoteFault(name, f"HTTP {status_code}: {error}")
        self.finish({"RemoteException": {"exception": error.exception, "message": str(error)}})

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log unexpected errors, without the query. Rejected requests and disk errors are not logged."""
        if not isinstance(value, (RemoteFault, HTTPError, OSError)):
            _LOG.error("%s %s failed", self.request.method, self.request.path, exc_info=(typ, value, tb))

    # the four HTTP methods

    async def get(self, _path: str | None = None) -> None:
        """Handle read operations."""
        if self.operation == "GETFILESTATUS":
            self.finish({"FileStatus": self._owned(self.tree.status(self.hdfs_path))})
        elif self.operation == "LISTSTATUS":
            children = await asyncio.to_thread(self.tree.children, self.hdfs_path)
            self.finish({"FileStatuses": {"FileStatus": [self._owned(child) for child in children]}})
        elif self.operation == "GETCONTENTSUMMARY":
            summary = await asyncio.to_thread(self.tree.summary, self.hdfs_path)
            self.finish({"ContentSummary": summary})
        elif self.operation == "GETHOMEDIRECTORY":
            self.finish({"Path": f"/user/{self.user()}"})
        elif self.operation == "OPEN":
            await self._open()
        else:
            raise self._not_served()

    async def put(self, _path: str | None = None) -> None:
        """Handle operations that create or change."""
        if self.operation == "CREATE":
            self._create()
        elif self.operation == "MKDIRS":
            self.tree.mkdirs(self.hdfs_path, self._permission())
            self.finish({"boolean": True})
        elif self.operation == "RENAME":
            options, destination = self.parameter("renameoptions").upper(), self.parameter("destination")
            if options:
                self.tree.rename_onto(self.hdfs_path, destination, overwrite="OVERWRITE" in options)
            else:
                self.write({"boolean": self.tree.rename_into(self.hdfs_path, destination)})
        elif self.operation == "SETPERMISSION":
            self.tree.set_permission(self.hdfs_path, self._permission())
        else:
            raise self._not_served()

    async def post(self, _path: str | None = None) -> None:
        """Handle APPEND."""
        if self.operation != "APPEND":
            raise self._not_served()
        if not self.is_datanode():
            self.tree.status(self.hdfs_path)  # raises for a missing file; the DataNode rejects folders later
            self._send_on()
        else:
            await asyncio.to_thread(self.tree.append, self._end_upload(), self.hdfs_path)

    async def delete(self, _path: str | None = None) -> None:
        """Handle DELETE."""
        if self.operation != "DELETE":
            raise self._not_served()
        gone = self.tree.delete(self.hdfs_path, recursive=self._flag("recursive"))
        if gone:
            await asyncio.to_thread(self.tree.purge, gone)
        self.finish({"boolean": bool(gone)})

    # operations in two steps

    async def _open(self) -> None:
        offset, wanted = self._number("offset", 0), self._number("length", _NO_LIMIT)
        if not self.is_datanode():
            about = self.tree.status(self.hdfs_path)
            if about["type"] == "FILE" and offset >= about["length"] and offset > 0:
                message = (
                    f"Offset={offset} out of the range [0, {about['length']}); OPEN, path={self.hdfs_path}"
                )
                raise RemoteFault("IOException", message)
            self._send_on()
            return
        with self.tree.open(self.hdfs_path) as file:
            left = min(wanted, max(os.fstat(file.fileno()).st_size - offset, 0))
            file.seek(offset)
            self.set_header("Content-Length", str(left))
            with contextlib.suppress(StreamClosedError):  # the client has closed the connection
                while left and (chunk := file.read(min(_CHUNK, left))):
                    left -= len(chunk)
                    self.write(chunk)
                    await self.flush()

    def _create(self) -> None:
        if not self.is_datanode():
            self._send_on()
            return
        overwrite = self._flag("overwrite")
        self.tree.publish(self._end_upload(), self.hdfs_path, self._permission(), overwrite=overwrite)
        self.set_status(201)

    def _end_upload(self) -> Path:
        assert self.upload is not None
        self.upload.close()
        if self.upload_error:
            raise self.upload_error
        return Path(self.upload.name)

    # wire details

    def is_datanode(self) -> bool:
        """Return whether the request is for the DataNode, not the NameNode."""
        return bool(self.parameter("namenoderpcaddress"))

    def parameter(self, name: str) -> str:
        """Return a query parameter; empty if it is missing."""
        return self.get_query_argument(name, "", strip=False)

    def user(self) -> str:
        """Return the request's user."""
        return self.parameter("user.name") or _NOBODY

    def _owned(self, status: dict[str, Any]) -> dict[str, Any]:
        """Return a ``FileStatus`` with the request's user as its owner, because the tree stores no owners."""
        return {**status, "owner": self.user()}

    def _flag(self, name: str) -> bool:
        return self.parameter(name).lower() == "true"

    def _permission(self) -> int:
        return self._number("permission", 0o755, base=8)

    def _number(self, name: str, default: int, base: int = 10) -> int:
        value = self.parameter(name)
        with contextlib.suppress(ValueError):
            number = int(value, base) if value else default
            if number >= 0:
                return number
        message = f'Invalid value for webhdfs parameter "{name}": "{value}"'
        raise RemoteFault("IllegalArgumentException", message)

    def _not_served(self) -> RemoteFault:
        message = (
            f'Invalid value for webhdfs parameter "op": no {self.request.method} operation {self.operation}'
        )
        return RemoteFault("IllegalArgumentException", message)

    def _send_on(self) -> None:
        """Redirect the client to the DataNode, which is also this server."""
        request = self.request
        self.set_status(307)
        address = f"{request.protocol}://{request.host}{request.uri}&namenoderpcaddress={request.host}"
        self.set_header("Location", address)
