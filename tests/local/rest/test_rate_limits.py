"""The limits of OpenPAI 1.x: counted as there, and kept by this package's client."""

from __future__ import annotations

import pytest
import requests
from protocol_client import ProtocolClient, protocol

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai
from luigi_pai.local.config.settings import DEFAULT_LIMITS, parse_limits
from luigi_pai.local.rest.base import RateLimits

TEXT = "Too many requests, please try again later."


class Clock:
    """A time that stands still until it is set."""

    def __init__(self):
        self.now = 1_000_000.25

    def __call__(self):
        return self.now


def test_counts_begin_anew_at_the_same_moment_for_everybody():
    """A fixed window; what is left and when it ends stand in the headers."""
    clock = Clock()
    limits = RateLimits((2, 1, 1), clock)
    headers, refused = limits.count("call", "1.2.3.4")
    assert headers == {
        "X-RateLimit-Limit": "2",
        "X-RateLimit-Remaining": "1",
        "X-RateLimit-Reset": "1000061",
    }
    clock.now += 59
    assert not limits.count("call", "1.2.3.4")[1]
    assert not limits.count("call", "5.6.7.8")[1]
    headers, refused = limits.count("call", "1.2.3.4")
    assert refused
    assert (headers["X-RateLimit-Remaining"], headers["Retry-After"]) == ("0", "60")
    clock.now += 1
    headers, refused = limits.count("call", "1.2.3.4")
    assert (refused, headers["X-RateLimit-Remaining"], headers["X-RateLimit-Reset"]) == (
        False,
        "1",
        "1000121",
    )
    clock.now += 600
    assert limits.count("call", "5.6.7.8")[0]["X-RateLimit-Reset"] == "1000721"


def test_lists_and_submissions_are_counted_apart_by_user():
    """An hour for submissions, a minute for lists."""
    limits = RateLimits((9, 1, 1), Clock())
    assert [limits.count("list", "a")[1], limits.count("list", "b")[1], limits.count("list", "a")[1]] == [
        False,
        False,
        True,
    ]
    assert [limits.count("submission", "a")[1], limits.count("submission", "a")[1]] == [False, True]
    assert limits.count("submission", "a")[0]["Retry-After"] == "3600"
    assert limits.count("list", "a")[0]["Retry-After"] == "60"


def test_on_ltp_each_user_has_a_window_of_their_own():
    """It begins with their first request; Retry-After is what is left of it."""
    clock = Clock()
    limits = RateLimits((9, 1, 1), clock, of_each_key=True)
    assert limits.count("list", "anna")[0]["X-RateLimit-Reset"] == "1000061"
    clock.now += 40
    headers, refused = limits.count("list", "anna")
    assert (refused, headers["Retry-After"], headers["X-RateLimit-Reset"]) == (True, "20", "1000061")
    assert limits.count("list", "bob")[0]["X-RateLimit-Reset"] == "1000101"
    clock.now += 20
    headers, refused = limits.count("list", "anna")
    assert (refused, headers["X-RateLimit-Remaining"]) == (False, "0")
    assert limits.count("list", "bob")[0]["Retry-After"] == "40"


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
