"""Bodies of requests to the local server, and numbers in them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from luigi_pai.local.json_http import SmallBodyHandler, whole_number


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


@pytest.mark.parametrize(
    ("text", "number"),
    [("0", 0), ("007", 7), ("9" * 18, 10**18 - 1), ("9" * 5000, None), ("-1", None), ("", None), ("²", None)],
)
def test_a_whole_number_has_at_most_18_digits(text, number):
    """Python reads digits of any script, and no more than 4300."""
    assert whole_number(text) == number
