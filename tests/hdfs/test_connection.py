"""Connections: one for a process, several NameNodes, proxies, https, Kerberos."""

from __future__ import annotations

import multiprocessing
import os
from typing import Any

import pytest
from webhdfs_scripted import scripted_fs

from luigi_pai.hdfs import (
    HdfsError,
    WebHdfs,
)
from luigi_pai.hdfs import connection as connections


def test_reads_are_tried_again_and_changes_are_not() -> None:
    """A lost connection is asked again for what only looks, and never for what changes something."""
    asked: list[str] = []

    def script(handler: Any) -> None:
        asked.append(handler.command)
        if len(asked) < 3:
            handler.close_connection = True
            handler.connection.close()
        else:
            handler.answer(200, b'{"FileStatus": {"type": "FILE"}}')

    with scripted_fs(script) as fs:
        assert fs.exists("/p")
        assert asked == ["GET", "GET", "GET"]
        asked.clear()
        with pytest.raises(HdfsError):
            fs.touchz("/p")
        assert asked == ["PUT"]


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
