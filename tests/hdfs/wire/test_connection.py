"""Connections: one for a process and server."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

from luigi_pai.hdfs import WebHdfs
from luigi_pai.hdfs import connection as connections


def test_one_session_per_process_and_server(fs: WebHdfs, url: str, home: str) -> None:
    """All targets of a process share one connection pool; another user has another; it has timeouts."""
    server, _path = fs.at(home)
    assert WebHdfs(url, fs.user, connect_timeout=5, read_timeout=20).at("/x")[0] is server
    assert WebHdfs(url, "other").at("/x")[0] is not server
    assert server._timeout == (5, 20)


def _in_child(fs: WebHdfs, parents_session: int, queue: Any) -> None:
    server, _path = fs.at("/")
    queue.put((id(server._session) != parents_session, fs.exists("/")))


def test_a_fork_has_its_own_session(fs: WebHdfs) -> None:
    """A forked worker shares no connection with its parent."""
    fs.exists("/")
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(fs, id(fs.at("/")[0]._session), queue))
    child.start()
    child.join(20)
    assert queue.get() == (True, True)
    assert {key[0] for key in connections._connections} == {os.getpid()}
