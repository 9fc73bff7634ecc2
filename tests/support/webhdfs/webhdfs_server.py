"""A WebHDFS of our own in a thread, for the tests of its server, its clients and its command."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any

from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.routing import URLSpec
from tornado.web import Application

from luigi_pai.local.hdfs.webhdfs.handlers import webhdfs_routes
from luigi_pai.local.hdfs.webhdfs.namespace import Tree

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextlib.contextmanager
def serving(root: Path, handler: type[Any] | None = None) -> Iterator[str]:
    """Serve a folder on a free port of loopback, and yield ``http://HOST:PORT``.

    Args:
        root: the folder.
        handler: used in place of WebHdfsHandler.
    """
    routes = webhdfs_routes(Tree(root))
    if handler:
        routes = [URLSpec(route.regex.pattern, handler, route.kwargs) for route in routes]
    (socket,) = bind_sockets(0, "127.0.0.1")
    url = f"http://127.0.0.1:{socket.getsockname()[1]}"
    up = threading.Event()
    stop: list[Any] = []

    async def main() -> None:
        server = HTTPServer(Application([*routes], log_function=lambda _handler: None))
        server.add_sockets([socket])
        done = asyncio.Event()
        loop = asyncio.get_running_loop()
        stop.append(lambda: loop.call_soon_threadsafe(done.set))
        up.set()
        await done.wait()
        server.stop()
        await server.close_all_connections()

    thread = threading.Thread(target=lambda: asyncio.run(main()), name="webhdfs", daemon=True)
    thread.start()
    assert up.wait(10)
    try:
        yield url
    finally:
        stop[0]()
        thread.join(10)
