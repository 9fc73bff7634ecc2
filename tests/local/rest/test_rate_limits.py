"""The limits of OpenPAI 1.x: counted as there, and kept by this package's client."""

from __future__ import annotations

import pytest
import requests
from local_cases import cases
from protocol_client import ProtocolClient, protocol

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai
from luigi_pai.local.config.settings import DEFAULT_LIMITS, parse_limits
from luigi_pai.local.rest.base import RateLimits

TEXT = "Too many requests, please try again later."


T = 1_000_000


@pytest.mark.parametrize(("requested", "per_key"), [("shared", False), ("by_user", False), ("of_ltp", True)])
def test_counts_begin_anew_at_the_end_of_their_window(requested, per_key):
    """At the same moment for everybody, except on LTP; what is left and when it ends stand in the headers."""
    now = [T + 0.25]
    limits = RateLimits((2, 1, 1), lambda: now[0], per_key=per_key)
    for seconds, kind, key, refused, remaining, reset, retry_after in cases(f"limits_{requested}"):
        now[0] = T + seconds
        headers, found = limits.count(kind, key)
        shown = {"X-RateLimit-Limit": "2" if kind == "call" else "1", "X-RateLimit-Remaining": remaining}
        shown |= {"X-RateLimit-Reset": str(T + reset)} | ({"Retry-After": retry_after} if refused else {})
        assert (found, headers) == (refused, shown)


@pytest.mark.slow
def test_on_ltp_a_refused_request_says_when_it_may_be_sent_again():
    """On the wire, and for the fault `limit`."""
    with LocalPai(api="ltp", rate_limits="40,1,9") as server:
        client = ProtocolClient(server)
        assert client.send("GET", "/jobs").status_code == 200
        reply = client.send("GET", "/jobs")
        assert (reply.status_code, reply.headers["Content-Type"]) == (429, "text/html; charset=utf-8")
        assert 0 < int(reply.headers["Retry-After"]) <= 60
        server.set_faults([{"fault": "limit", "seconds": 7}])
        assert client.send("GET", "/jobs").headers["Retry-After"] == "7"


@pytest.mark.slow
def test_limits_are_those_of_1_x_or_three_numbers():
    """Anything else is refused before the server starts."""
    assert parse_limits("default") == DEFAULT_LIMITS == (600, 60, 60)
    assert parse_limits("5,4,3") == (5, 4, 3)
    assert parse_limits(None) is None
    for text in ("", "5", "5,4", "0,1,1", "5,4,x", "5,4,3,2"):
        with pytest.raises(ConfigError, match="three numbers, such as 600,60,60"):
            parse_limits(text)
    for more, said in (
        ({"rate_limits": "none"}, "it must be `default` or three numbers"),
        ({"api": "lpt"}, "api 'lpt': it must be one of v1, v2, ltp"),
    ):
        server = LocalPai(**more)
        with pytest.raises(ConfigError, match=said):
            server.start()
        assert not server.data.exists()


@pytest.fixture
def limited():
    """A server with so low limits that they are reached."""
    with LocalPai(rate_limits="40,3,2") as server:
        yield server


@pytest.mark.slow
def test_too_many_are_refused_as_1_8_does(limited):
    """429 in text/html, the whole window in Retry-After; other kinds of requests still go."""
    v2 = ProtocolClient(limited)
    first = v2.send("GET", "/jobs")
    assert (first.headers["X-RateLimit-Limit"], first.headers["X-RateLimit-Remaining"]) == ("3", "2")
    assert v2.call("GET", "/jobs").headers["X-RateLimit-Limit"] == "40"
    for _ in range(2):
        assert v2.send("GET", "/jobs").status_code == 200
    reply = v2.send("GET", "/jobs")
    assert (reply.status_code, reply.text) == (429, TEXT)
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert (reply.headers["Retry-After"], reply.headers["X-RateLimit-Remaining"]) == ("60", "0")
    assert reply.headers["X-RateLimit-Reset"] == first.headers["X-RateLimit-Reset"]
    reply = v2.post("no protocol")
    assert (reply.status_code, reply.headers["X-RateLimit-Remaining"]) == (400, "1")
    assert v2.post(protocol("true")).status_code == 202
    reply = v2.post(protocol("true"))
    assert (reply.status_code, reply.headers["Retry-After"]) == (429, "3600")
    assert v2.send("GET", "/jobs/admin~nosuch").status_code == 404
    while (reply := v2.call("GET", "/info")).status_code == 200:
        assert int(reply.headers["X-RateLimit-Remaining"]) >= 0
    assert (reply.status_code, reply.headers["Retry-After"]) == (429, "60")
    assert v2.call("GET", "/nosuch").status_code == 429


def test_without_a_word_there_are_none(v2):
    """They are off by default."""
    assert "X-RateLimit-Limit" not in v2.send("GET", "/jobs", limit=1).headers
    assert requests.get(f"{v2.server.url}/api/v2/info", timeout=20).status_code == 200
