"""A WebHDFS that does to a client what real life does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fault_server import FaultServer
from tornado.web import Application, RequestHandler

from luigi_pai.local.hdfs.webhdfs.handlers import webhdfs_routes
from luigi_pai.local.hdfs.webhdfs.namespace import Tree

if TYPE_CHECKING:
    from pathlib import Path


class FaultyHdfs(FaultServer):
    """NameNode and DataNode in one: the WebHDFS of luigi_pai.local.

    Args:
        root: the folder that it serves.
    """

    def __init__(self, root: Path) -> None:
        self.root = root
        self._tree = Tree(root)
        super().__init__()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def app(self) -> Application:
        return Application([*webhdfs_routes(self._tree)], log_function=self._count)

    def _count(self, handler: RequestHandler) -> None:
        request = handler.request
        self.answers.append((str(request.method), str(request.uri), handler.get_status()))
