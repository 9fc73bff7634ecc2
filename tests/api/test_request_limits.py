"""The request limits of a server, kept by all processes of a family. On a clock that the test moves."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from api_cases import cases

from luigi_pai.api.request_limits import Kind, Limits, reset_after
from luigi_pai.api.shared import SharedDocument
from luigi_pai.errors import RateLimited


@pytest.fixture
def limits(clock):
    return Limits(SharedDocument(), clock)


def said(clock, left, reset_in, of=600, ahead=0.0, **others):
    """Return the headers of a 1.x server: whose clock may be ahead, with Date as any server sends it."""
    now = clock.time() + ahead
    return {
        "Date": formatdate(now, usegmt=True),
        "X-RateLimit-Limit": str(of),
        "X-RateLimit-Remaining": str(left),
        "X-RateLimit-Reset": str(round(now + reset_in)),
        **others,
    }


def is_free(limits, kind=Kind.CALL) -> bool:
    try:
        limits.reserve(kind, "GET x")
    except RateLimited:
        return False
    return True


# ---------------------------------------------------------------- counting


def test_a_server_without_limits_is_asked_as_often_as_one_likes(limits):
    """0.x sends no such headers."""
    for _ in range(2000):
        limits.reserve(Kind.CALL, "GET x")
        limits.record(Kind.CALL, {"Content-Type": "application/json"})
    assert limits.polling_wait() == 0


def test_no_more_is_sent_than_is_left(limits, clock):
    """What is refused then was not sent, and says until when it would be refused."""
    limits.record(Kind.CALL, said(clock, left=3, reset_in=40))
    assert [is_free(limits) for _ in range(5)] == [True, True, True, False, False]
    with pytest.raises(RateLimited) as caught:
        limits.reserve(Kind.CALL, "GET /api/v2/jobs/admin~j")
    assert str(caught.value).startswith(
        "GET /api/v2/jobs/admin~j: not sent, the server's rate limit is reached for another "
    )
    assert not caught.value.sent
    assert caught.value.reset_at - clock.time() == pytest.approx(40, abs=1.5)


def test_what_is_on_its_way_is_not_given_back(limits, clock):
    """An answer says what was left when the server wrote it; the requests sent since are counted too."""
    limits.record(Kind.CALL, said(clock, left=10, reset_in=40))
    for _ in range(8):
        limits.reserve(Kind.CALL, "GET x")
    limits.record(Kind.CALL, said(clock, left=9, reset_in=40))  # of the first of the eight
    assert [is_free(limits) for _ in range(3)] == [True, True, False]


def test_a_slow_answer_gives_nothing_back(limits, clock):
    """It names the end of the same window, by a Date that is seconds old when it arrives."""
    limits.record(Kind.CALL, said(clock, left=10, reset_in=40))
    slow = said(clock, left=9, reset_in=40)
    for _ in range(10):
        limits.reserve(Kind.CALL, "GET x")
    clock.advance(8)
    limits.record(Kind.CALL, slow)
    assert not is_free(limits)


def test_each_kind_is_counted_by_itself(limits, clock):
    """Lists and submissions have limits of their own."""
    limits.record(Kind.LIST, said(clock, left=0, reset_in=40, of=60))
    assert not is_free(limits, Kind.LIST)
    assert is_free(limits, Kind.CALL)
    assert is_free(limits, Kind.SUBMIT)


@cases("story")
def test_the_story_of_a_window(limits, clock, story):
    """What is known of it, and until when."""
    ahead = 0.0
    for word in story.split():
        what, _, value = word.partition("=")
        numbers = [float(number) if number else None for number in value.split(",")]
        if word.startswith("+"):
            clock.advance(float(word))
        elif what == "left":
            headers = said(clock, left=int(numbers[0]), reset_in=numbers[1], ahead=ahead)
            assert reset_after(headers, clock.time()) == pytest.approx(numbers[1], abs=1.5)
            limits.record(Kind.CALL, headers)
        elif what == "refuse":
            limits.record(Kind.CALL, refusal(clock, *numbers), refused=True)
        elif what == "clock":
            clock.set_wall_clock(*numbers)
        elif what == "ahead":
            ahead = numbers[0]
        elif what == "wait":
            assert limits.polling_wait() == pytest.approx(numbers[0], abs=1.5 if numbers[0] else 0)
        else:
            assert is_free(limits) == (word == "free"), word


def refusal(clock, reset_in, retry_after):
    """Return the headers of a 429."""
    headers = {"Content-Type": "text/html", "Date": formatdate(clock.time(), usegmt=True)}
    if reset_in is not None:
        headers["X-RateLimit-Reset"] = str(round(clock.time() + reset_in))
    return headers if retry_after is None else headers | {"Retry-After": f"{retry_after:.0f}"}


@cases("headers")
def test_headers_that_say_nothing_stop_nothing(limits, headers):
    """Nor what is no number."""
    limits.record(Kind.CALL, headers)
    assert is_free(limits)


def test_a_server_without_date_is_read_by_our_clock(limits, clock):
    """And believed for the whole window at most."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(clock.time() + 30)}
    assert reset_after(headers, clock.time()) == pytest.approx(30)
    limits.record(Kind.LIST, headers | {"X-RateLimit-Reset": str(clock.time() + 1e6)})
    clock.advance(59)
    assert not is_free(limits, Kind.LIST)
    clock.advance(2)
    assert is_free(limits, Kind.LIST)


# ---------------------------------------------------------------- polling


def test_a_server_that_does_not_say_its_limit_leaves_polling_alone(limits, clock):
    """What an even use would be is not known then."""
    headers = said(clock, left=5, reset_in=60)
    del headers["X-RateLimit-Limit"]
    limits.record(Kind.CALL, headers)
    assert limits.polling_wait() == 0


# ---------------------------------------------------------------- forks


class CountingServer:
    """Counts the requests of many processes as a 1.x server does, in memory that they share."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._state = SharedDocument()

    @property
    def requests(self) -> int:
        return self._state.read().get("requests", 0)

    def ask(self, clock) -> dict[str, str]:
        with self._state.update() as state:
            state["requests"] = state.get("requests", 0) + 1
            left = self._most - state["requests"]
        return said(clock, left=max(0, left), reset_in=60, of=self._most)


@pytest.mark.slow
def test_many_processes_share_one_window(limits, clock, in_forks):
    """8 processes that ask as fast as they can: never more requests than the limit, and no 429 for any."""
    server = CountingServer(100)
    limits.record(Kind.CALL, server.ask(clock))

    def process(_number):
        while is_free(limits):
            limits.record(Kind.CALL, server.ask(clock))

    in_forks(process, 8)
    assert server.requests == 100
    assert not is_free(limits)
    assert limits.polling_wait() > 50


def test_what_one_process_runs_into_the_others_know(limits, clock, in_forks):
    """A 429 in a child stops its parent too."""
    in_forks(lambda _: limits.record(Kind.CALL, said(clock, left=0, reset_in=30), refused=True))
    assert not is_free(limits)


# ---------------------------------------------------------------- a share of a limit


def test_half_of_a_limit_is_one_list_every_two_seconds(limits, clock):
    """Of 60 a minute; the wait is that since the last one."""
    assert limits.wait(Kind.LIST, 0.5, clock.monotonic()) == 0
    limits.record(Kind.LIST, said(clock, left=59, reset_in=60, of=60))
    assert limits.wait(Kind.LIST, 0.5, clock.monotonic()) == pytest.approx(2, abs=0.1)
    assert limits.wait(Kind.LIST, 0.5, clock.monotonic() - 1.5) == pytest.approx(0.5, abs=0.1)
    assert limits.wait(Kind.LIST, 0.5, clock.monotonic() - 3) == 0
    assert limits.wait(Kind.CALL, 0.5, clock.monotonic()) == 0


def test_what_others_have_used_is_spread_over_the_window(limits, clock):
    """10 of our half are left for 40 s; then none is, until the window ends."""
    limits.record(Kind.LIST, said(clock, left=40, reset_in=40, of=60))
    assert limits.wait(Kind.LIST, 0.5, clock.monotonic()) == pytest.approx(4, abs=0.1)
    limits.record(Kind.LIST, said(clock, left=30, reset_in=40, of=60))
    assert limits.wait(Kind.LIST, 0.5, clock.monotonic() - 30) == pytest.approx(40, abs=1)
    clock.advance(41)
    assert limits.wait(Kind.LIST, 0.5, clock.monotonic() - 30) == 0
    assert limits.wait(Kind.LIST, 0.5, clock.monotonic()) == pytest.approx(2, abs=0.1)
