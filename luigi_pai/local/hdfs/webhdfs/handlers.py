"""WebHDFS over a folder on this machine, as Hadoop 2.7.4 speaks it.

A request to create, append or open a file is answered as by a NameNode: 307, to
this same server, with the parameter ``namenoderpcaddress``; with it, as by a
DataNode. Bodies pass in chunks in both directions and never lie in memory whole;
a file appears, complete, when its upload ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
from typing import TYPE_CHECKING, Any, BinaryIO
from urllib.parse import quote, unquote

from tornado.iostream import StreamClosedError
from tornado.routing import URLSpec
from tornado.web import HTTPError, RequestHandler, stream_request_body

from luigi_pai.local.hdfs.webhdfs.namespace import BLOCK_SIZE, Inode
from luigi_pai.local.hdfs.webhdfs.places import RemoteFault, disk_faults
from luigi_pai.local.hdfs.webhdfs.query import Query

if TYPE_CHECKING:
    import pathlib

    from luigi_pai.local.hdfs.webhdfs.namespace import Tree

__all__ = ["webhdfs_routes"]

_LOG = logging.getLogger("luigi_pai.local")
_CHUNK = 256 * 1024
_NO_LIMIT = 2**62  # bytes of a request body
_DRAINED = 16 * 1024 * 1024  # bytes of a refused body that are taken before the connection is cut
_PLAIN = "/!$&'()*+,;=:@"  # what a path may show as it is
_BINARY = "application/octet-stream"


def webhdfs_routes(tree: Tree) -> list[URLSpec]:
    """Return the routes of ``/webhdfs/v1`` for a tornado Application."""
    shared = {"tree": tree, "appending": asyncio.Lock()}
    return [URLSpec(r"/webhdfs/v1(/.*)?", WebHdfsHandler, shared)]


@stream_request_body
class WebHdfsHandler(RequestHandler):
    """One WebHDFS request."""

    def initialize(self, tree: Tree, appending: asyncio.Lock) -> None:
        """Store what all requests share."""
        self.tree = tree
        self.appending = appending
        self.query = Query("")
        self.hdfs_path = "/"
        self.user = ""
        self.upload: BinaryIO | None = None
        self.upload_place: pathlib.Path | None = None
        self.upload_fault: RemoteFault | None = None

    def set_default_headers(self) -> None:
        """Forbid guessing at content types: a file may look like a script."""
        self.set_header("X-Content-Type-Options", "nosniff")

    def compute_etag(self) -> None:
        """Send no ETag: WebHDFS has none."""

    # before and after every request

    def prepare(self) -> None:
        """Check the request before its body arrives, and open a file for the body."""
        connection: Any = self.request.connection
        connection.set_max_body_size(_NO_LIMIT)
        self.query = Query(self.request.query)
        self.hdfs_path = self.path_args[0] or "/"
        self.user = self.query.user()
        if self._operation() in ("CREATE", "APPEND") and self._is_datanode():
            try:
                self._check_upload()
            except (
                RemoteFault
            ) as fault:  # answered when the body is here: a client that still sends reads nothing
                self.upload_fault = fault
                connection.set_max_body_size(_DRAINED)
                return
            self.upload_place = self.tree.incoming()
            self.upload = self.upload_place.open("wb")

    def data_received(self, chunk: bytes) -> None:
        """Write a part of an upload to disk; any other body is dropped."""
        if not self.upload:
            return
        try:
            with disk_faults(self.hdfs_path):
                self.upload.write(chunk)
        except RemoteFault as fault:  # disk full: take the rest of the body, then say so
            self.upload_fault = fault
            self._drop_upload()

    def on_connection_close(self) -> None:
        """Forget an upload whose client has gone."""
        self._drop_upload()

    def on_finish(self) -> None:
        """Forget an upload that was not published."""
        self._drop_upload()

    def write_error(self, status_code: int, **about: Any) -> None:
        """Answer with a ``RemoteException``."""
        error = (about.get("exc_info") or (None, None))[1]
        if isinstance(error, RemoteFault):
            self.set_status(error.status)
            fault = error
        elif isinstance(error, HTTPError) and status_code < 500:  # noqa: PLR2004 - the server's own fault
            fault = RemoteFault("IllegalArgumentException", str(error))
        else:
            fault = RemoteFault("IOException", f"the server failed: {type(error).__name__}: {error}")
        self._reply(fault.body)

    def log_exception(self, typ: Any, value: Any, tb: Any) -> None:
        """Log what is wrong with the server, not what it refuses; without the query."""
        if not isinstance(value, (RemoteFault, HTTPError)):
            _LOG.error("%s %s failed", self.request.method, self.request.path, exc_info=(typ, value, tb))

    # the four methods

    async def get(self, _path: str | None = None) -> None:
        """Answer what only looks."""
        operation = self._operation()
        if operation == "GETFILESTATUS":
            self._reply({"FileStatus": self.tree.status(self.hdfs_path)})
        elif operation == "LISTSTATUS":
            children = await _in_thread(self.tree.children, self.hdfs_path)
            self._reply({"FileStatuses": {"FileStatus": children}})
        elif operation == "GETCONTENTSUMMARY":
            summary = await _in_thread(self.tree.summary, self.hdfs_path)
            self._reply({"ContentSummary": summary})
        elif operation == "GETHOMEDIRECTORY":
            self._reply({"Path": f"/user/{self.user}"})
        elif operation == "OPEN":
            await self._open()
        else:
            raise self._not_served(operation)

    async def put(self, _path: str | None = None) -> None:
        """Answer what creates and changes."""
        operation, query = self._operation(), self.query
        if operation == "CREATE":
            self._create()
        elif operation == "MKDIRS":
            self.tree.mkdirs(self.hdfs_path, query.permission(), self.user)
            self._reply({"boolean": True})
        elif operation == "RENAME":
            options, destination = query.rename_options(), query.destination()
            if options:
                self.tree.rename_onto(self.hdfs_path, destination, overwrite="OVERWRITE" in options)
                self._reply_nothing()
            else:
                self._reply({"boolean": self.tree.rename_into(self.hdfs_path, destination)})
        elif operation == "SETPERMISSION":
            self.tree.set_permission(self.hdfs_path, query.permission())
            self._reply_nothing()
        elif operation == "SETOWNER":
            owner, group = query.text("owner"), query.text("group")
            if not owner and not group:
                raise RemoteFault("IllegalArgumentException", "Both owner and group are empty.")
            self.tree.set_owner(self.hdfs_path, owner, group)
            self._reply_nothing()
        elif operation == "SETTIMES":
            times = (query.number(name, -1, least=-1) for name in ("modificationtime", "accesstime"))
            self.tree.set_times(self.hdfs_path, *times)
            self._reply_nothing()
        else:
            raise self._not_served(operation)

    async def post(self, _path: str | None = None) -> None:
        """Answer what adds to a file."""
        operation = self._operation()
        if operation != "APPEND":
            raise self._not_served(operation)
        await self._append()

    async def delete(self, _path: str | None = None) -> None:
        """Answer what deletes."""
        operation = self._operation()
        if operation != "DELETE":
            raise self._not_served(operation)
        gone = self.tree.delete(self.hdfs_path, recursive=self.query.boolean("recursive"))
        if gone:
            await _in_thread(self.tree.purge, gone)
        self._reply({"boolean": bool(gone)})

    # operations in two steps

    async def _open(self) -> None:
        offset = self.query.number("offset", 0)
        wanted = self.query.number("length", _NO_LIMIT)
        if not self._is_datanode():
            length = self.tree.length(self.hdfs_path)
            if length is not None and offset >= length and offset > 0:
                text = f"Offset={offset} out of the range [0, {length}); OPEN, path={self.hdfs_path}"
                raise RemoteFault("IOException", text)
            self._send_on(offset="0")
            return
        with self._file() as file:
            left = min(wanted, max(os.fstat(file.fileno()).st_size - offset, 0))
            file.seek(offset)
            self.set_header("Content-Type", _BINARY)
            self.set_header("Content-Length", str(left))
            with contextlib.suppress(StreamClosedError):  # the reader has had enough
                while left and (chunk := file.read(min(_CHUNK, left))):
                    left -= len(chunk)
                    self.write(chunk)
                    await self.flush()

    def _create(self) -> None:
        if not self._is_datanode():
            self.query.boolean("overwrite")
            self.query.permission()
            self._send_on(overwrite="false")
            return
        upload = self._end_upload()
        self._check_upload()  # another upload may have ended since this one began
        inode = Inode(
            self.user,
            self.query.number("blocksize", BLOCK_SIZE, least=1),
            self.query.number("replication", 1, least=1),
            mode=self.query.permission(),
        )
        self.tree.publish(upload, self.hdfs_path, inode)
        self.set_status(201)
        authority = quote(self.query.text("namenoderpcaddress"), safe=_PLAIN + "[]")
        self.set_header("Location", f"hdfs://{authority}{quote(self.hdfs_path, safe=_PLAIN)}")
        self._reply_nothing(content_type=None)

    def _file(self) -> BinaryIO:
        with disk_faults(self.hdfs_path):
            return self.tree.file(self.hdfs_path).open("rb")

    async def _append(self) -> None:
        if not self._is_datanode():
            self.tree.length(self.hdfs_path)  # it is there; the DataNode refuses a folder
            self._send_on()
            return
        upload = self._end_upload()
        async with self.appending:
            await _in_thread(self.tree.append, upload, self.hdfs_path)
        self._reply_nothing(content_type=None)

    def _check_upload(self) -> None:
        if self._operation() == "APPEND":
            self.tree.may_append(self.hdfs_path)
        else:
            self.tree.may_create(self.hdfs_path, overwrite=self.query.boolean("overwrite"))

    def _end_upload(self) -> pathlib.Path:
        if self.upload and self.upload_place:
            with disk_faults(self.hdfs_path):
                self.upload.close()
            self.upload = None
            return self.upload_place
        raise self.upload_fault or RemoteFault("IOException", f"no upload for {self.hdfs_path}")

    def _drop_upload(self) -> None:
        if self.upload:
            self.upload.close()
            self.upload = None
        if self.upload_place:
            self.upload_place.unlink(missing_ok=True)
            self.upload_place = None

    # wire details

    def _operation(self) -> str:
        return self.query.text("op").upper()

    def _is_datanode(self) -> bool:
        return "namenoderpcaddress" in self.query

    def _not_served(self, operation: str) -> RemoteFault:
        if not operation:
            return RemoteFault("UnsupportedOperationException", "op=NULL is not supported")
        enum = f"org.apache.hadoop.hdfs.web.resources.{(self.request.method or '').capitalize()}OpParam.Op"
        text = f'Invalid value for webhdfs parameter "op": No enum constant {enum}.{operation}'
        return RemoteFault("IllegalArgumentException", text)

    def _send_on(self, **defaults: str) -> None:
        """Send the client to the DataNode that this server is, too."""
        host = self.request.host
        path = quote(unquote(self.request.path), safe=_PLAIN)
        query = self.query.redirected(host, **defaults)
        self.set_status(307)
        self.set_header("Location", f"{self.request.protocol}://{host}{path}?{query}")
        self._reply_nothing()

    def _reply(self, body: dict[str, Any]) -> None:
        charset = "; charset=utf-8" if self._is_datanode() else ""
        self._end(f"application/json{charset}", json.dumps(body).encode())

    def _reply_nothing(self, content_type: str | None = _BINARY) -> None:
        self._end(content_type, b"")

    def _end(self, content_type: str | None, body: bytes) -> None:
        if content_type:
            self.set_header("Content-Type", content_type)
        else:
            self.clear_header("Content-Type")
        self.set_header("Cache-Control", "no-cache")
        self.set_header("Content-Length", str(len(body)))
        self.finish(body)


async def _in_thread(work: Any, *arguments: Any) -> Any:
    return await asyncio.get_running_loop().run_in_executor(None, work, *arguments)
