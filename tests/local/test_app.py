"""The application: how it starts, what it keeps of requests, and what it logs."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai
from luigi_pai.local.json_http import SmallBodyHandler
from luigi_pai.local.server import LogLines


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


FORGED = "x\n2026-01-01 00:00:00,000 127.0.0.1 200 GET /forged"


def line(record_text, exc_info=None):
    record = logging.LogRecord("n", logging.INFO, "p", 1, "%s", (record_text,), exc_info)
    return LogLines().format(record)


def test_only_the_first_line_of_a_record_begins_at_the_margin():
    """Control characters, and what else ends a line somewhere, are written as Python writes them."""
    first, second = line(FORGED).splitlines()
    assert first.endswith(" x")
    assert second == "  2026-01-01 00:00:00,000 127.0.0.1 200 GET /forged"
    assert line("\x1b[2J\r\x85\u2028é").endswith(r" \x1b[2J\r\x85\u2028é")


def test_a_traceback_is_indented():
    """Its last lines may be of a client, too."""
    error = ValueError(FORGED)
    lines = line("failed", (ValueError, error, None)).splitlines()
    assert lines[0].endswith(" failed")
    assert len(lines) == 3
    assert all(item.startswith("  ") for item in lines[1:])
