"""Nobody writes lines of another's into server.log."""

from __future__ import annotations

import logging

from luigi_pai.local.server import LogLines

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
