"""An HDFS in memory, request by request: what WebHDFS answers to the operations of this package."""

from __future__ import annotations

import json
import posixpath
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

from webhdfs_scripted import file_status

__all__ = ["SmallHdfs"]

Answer = tuple[int, dict[str, str], bytes]


class SmallHdfs:
    """NameNode and DataNode in one.

    Attributes:
        files: the content of each file by its path; None for a folder.
    """

    def __init__(self) -> None:
        self.files: dict[str, bytes | None] = {"/": None}

    def answer(self, url: str, body: bytes) -> Answer:
        """Do what is asked, and return status, headers and body."""
        parts = urlsplit(url)
        path = unquote(parts.path).removeprefix("/webhdfs/v1").rstrip("/") or "/"
        query = dict(parse_qsl(parts.query))
        operation = query.pop("op")
        if operation in ("CREATE", "APPEND") and "datanode" not in query:
            return 307, {"Location": f"{url}&datanode=1"}, b""
        found: Answer = getattr(self, f"_{operation.lower()}")(path, query, body)
        return found

    def _create(self, path: str, query: dict[str, str], body: bytes) -> Answer:
        if path in self.files and query["overwrite"] == "false":
            return _refused(403, "FileAlreadyExistsException")
        self._make_folders(posixpath.dirname(path))
        self.files[path] = body
        return 201, {}, b""

    def _append(self, path: str, _query: dict[str, str], body: bytes) -> Answer:
        before = self.files.get(path)
        if before is None:
            return _refused(404, "FileNotFoundException")
        self.files[path] = before + body
        return 200, {}, b""

    def _mkdirs(self, path: str, _query: dict[str, str], _body: bytes) -> Answer:
        self._make_folders(path)
        return _json(boolean=True)

    def _rename(self, path: str, query: dict[str, str], _body: bytes) -> Answer:
        to = query["destination"]
        is_rename2 = "renameoptions" in query
        if path not in self.files:
            return _refused(404, "FileNotFoundException") if is_rename2 else _json(boolean=False)
        if to in self.files and query.get("renameoptions") != "OVERWRITE":
            return _refused(403, "FileAlreadyExistsException") if is_rename2 else _json(boolean=False)
        self.files[to] = self.files.pop(path)
        return (200, {}, b"") if is_rename2 else _json(boolean=True)

    def _delete(self, path: str, query: dict[str, str], _body: bytes) -> Answer:
        below = [one for one in self.files if one.startswith(f"{path}/")]
        if below and query.get("recursive") != "true":
            return _refused(403, "PathIsNotEmptyDirectoryException")
        there = path in self.files
        for one in (*below, *([path] if there else [])):
            del self.files[one]
        return _json(boolean=there)

    def _open(self, path: str, query: dict[str, str], _body: bytes) -> Answer:
        data = self.files.get(path)
        if data is None:
            return _refused(404, "FileNotFoundException")
        return 200, {"Content-Type": "application/octet-stream"}, data[int(query.get("offset", 0)) :]

    def _getfilestatus(self, path: str, _query: dict[str, str], _body: bytes) -> Answer:
        if path not in self.files:
            return _refused(404, "FileNotFoundException")
        return _json(FileStatus=self._status(path, ""))

    def _liststatus(self, path: str, _query: dict[str, str], _body: bytes) -> Answer:
        if path not in self.files:
            return _refused(404, "FileNotFoundException")
        entries = [one for one in self.files if one != "/" and posixpath.dirname(one) == path]
        if self.files[path] is not None:
            entries = [path]
        names = {one: "" if one == path else posixpath.basename(one) for one in entries}
        return _json(FileStatuses={"FileStatus": [self._status(one, names[one]) for one in sorted(names)]})

    def _status(self, path: str, suffix: str) -> dict[str, Any]:
        data = self.files[path]
        kind = "DIRECTORY" if data is None else "FILE"
        return file_status(type=kind, length=len(data or b""), pathSuffix=suffix, owner="admin")

    def _make_folders(self, path: str) -> None:
        while path not in self.files:
            self.files[path] = None
            path = posixpath.dirname(path)


def _json(**fields: Any) -> Answer:
    return 200, {"Content-Type": "application/json"}, json.dumps(fields).encode()


def _refused(status: int, exception: str) -> Answer:
    about = {"exception": exception, "javaClassName": f"org.x.{exception}", "message": "it is so"}
    return status, {"Content-Type": "application/json"}, json.dumps({"RemoteException": about}).encode()
