"""Small files, written with one request each where the NameNode was asked for another one before."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from luigi_pai.hdfs.errors import HdfsError

if TYPE_CHECKING:
    from luigi_pai.hdfs.connection import Connection

__all__ = ["SmallFiles"]

_ONE_ANSWER = 32  # files, so that the files of an upload are spread over the DataNodes
_PLAIN = re.compile(r"[A-Za-z0-9._/-]+")  # a path that is the same in any address


class SmallFiles:
    """Writes files that are to be new.

    WebHDFS asks the NameNode for each file which DataNode to send it to. The
    answer is an address in which the path is the one thing about the file, so
    that it serves for the next files, too: half of the requests. Whatever goes
    wrong on the way, the file is written again in the usual way.
    """

    def __init__(self, server: Connection) -> None:
        self._server = server
        self._of_thread = threading.local()

    def write(self, path: str, data: bytes) -> None:
        """Write a file; where it was begun in vain it is replaced."""
        address = self._address(path)
        if address:
            try:
                self._server.write_to(address, path, data)
            except HdfsError:
                self._of_thread.left = 0
            else:
                return
        self._of_thread.address = self._server.create_file(path, data, overwrite=bool(address))
        self._of_thread.path = path
        self._of_thread.left = _ONE_ANSWER - 1

    def _address(self, path: str) -> str | None:
        """Return the address for a path, made from an earlier file's; None where there is none."""
        if not getattr(self._of_thread, "left", 0) or not _PLAIN.fullmatch(path):
            return None
        self._of_thread.left -= 1
        earlier: str = self._of_thread.path
        parts = urlsplit(str(self._of_thread.address))
        if not _PLAIN.fullmatch(earlier) or not parts.path.endswith(earlier):
            return None
        return urlunsplit(parts._replace(path=parts.path.removesuffix(earlier) + path))
