"""The application: how it starts, and what it keeps of requests."""

from __future__ import annotations

import logging
import socket
from types import SimpleNamespace

import pytest

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai
from luigi_pai.local.app import make_app
from luigi_pai.local.json_http import SmallBodyHandler
from luigi_pai.local.releases import OPENPAI_1_8


def test_a_server_on_loopback_asks_no_name_server(monkeypatch):
    """Its own names count for nothing there, and a lookup may take long where there is no network."""

    def fail(*_asked):
        raise AssertionError("a name was looked up")

    monkeypatch.setattr(socket, "getfqdn", fail)
    monkeypatch.setattr(socket, "gethostbyaddr", fail)
    api = SimpleNamespace(
        address=SimpleNamespace(host="127.0.0.1", netloc="127.0.0.1:1"),
        files=SimpleNamespace(routes=list),
        release=OPENPAI_1_8,
    )
    make_app(api, logging.getLogger("test"))


def test_a_server_that_is_late_shows_what_it_has_logged(monkeypatch, tmp_path):
    """Its folder may be a temporary one, which is removed."""
    monkeypatch.setattr("luigi_pai.local.local_pai._START_SECONDS", 0.0)
    with pytest.raises(ConfigError, match=r"did not respond within 0 s; it has logged nothing$"):
        LocalPai(tmp_path).start()
    (tmp_path / "server.log").write_text("".join(f"line {number}\n" for number in range(20)))
    with pytest.raises(ConfigError, match=r"0 s; the last lines of its log:\nline 10\n(.*\n)+line 19$"):
        LocalPai(tmp_path).start()


@pytest.mark.parametrize("headers", [{}, {"Content-Length": "300000"}])
def test_a_body_that_is_refused_does_not_stay_in_memory(headers):
    """Whether its length was announced or not."""
    handler = SmallBodyHandler.__new__(SmallBodyHandler)
    handler.request = SimpleNamespace(headers=headers)
    handler.prepare()
    for _ in range(5):
        handler.data_received(b"x" * 60_000)
    assert handler.too_large
    assert handler.content == b""
