"""Bodies of requests to the local server, and numbers in them."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from luigi_pai.local.json_http import SmallBodyHandler


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
