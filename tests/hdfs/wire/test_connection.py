"""Connections: one for a process and server."""

from __future__ import annotations

import multiprocessing

from luigi_pai.files import WebHdfs


def test_one_session_per_process_and_server(fs, url, home):
    """All targets of a process share one connection pool; another user has another."""
    server, _path = fs.at(home)
    assert WebHdfs(url, fs.user, connect_timeout=5, read_timeout=20).at("/x")[0] is server
    assert WebHdfs(url, "other").at("/x")[0] is not server


def _ask(fs, path, *, expected):
    for _ in range(20):
        assert fs.exists(path) is expected


def test_a_fork_has_its_own_connection(fs, home):
    """A forked worker that asks at the same time as its parent gets its own answers."""
    _ask(fs, "/", expected=True)
    child = multiprocessing.get_context("fork").Process(
        target=_ask, args=(fs, f"{home}/missing"), kwargs={"expected": False}
    )
    child.start()
    _ask(fs, "/", expected=True)
    child.join()
    assert child.exitcode == 0
