"""Retry of transient errors: when the next try is, and when there is none. On a clock that the test moves."""

from __future__ import annotations

import logging
from datetime import datetime

import pytest

from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.errors import (
    ClusterUnreachable,
    InvalidReply,
    JobNotFound,
    RateLimited,
    ServerFault,
    TokenLost,
)
from luigi_pai.files import HdfsError


@pytest.fixture
def bear(clock):
    """Wait after an error as a Retry says."""

    def wait(retry: Retry, error) -> float:
        seconds = retry.wait_after(error)
        clock.sleep(seconds)
        return seconds

    return wait


def by_turns(*outcomes):
    """Return a function that raises or returns each outcome in turn, and the last one ever after."""
    left = list(outcomes)

    def ask():
        outcome = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    return ask


# ---------------------------------------------------------------- the schedule


def test_waits_double_up_to_a_limit(clock, bear):
    """0.5 s, then twice as long each time, up to 15 s, each shortened by up to a half at random."""
    retry = Retry(1000, clock)
    waits = [bear(retry, ServerFault("x")) for _ in range(12)]
    bounds = [0.5, 1, 2, 4, 8, 15, 15, 15, 15, 15, 15, 15]
    assert all(bound / 2 <= one <= bound for one, bound in zip(waits, bounds, strict=True))
    assert len({one / bound for one, bound in zip(waits, bounds, strict=True)}) > 6


def test_the_last_try_is_at_the_limit(clock):
    """The time is used up to its end: the last wait does not go beyond it."""
    began = clock.monotonic()
    with pytest.raises(ServerFault):
        Retry(20, clock).call(by_turns(ServerFault("x")))
    assert clock.monotonic() - began == pytest.approx(20, abs=0.05)


def test_an_answer_starts_the_time_anew(clock, bear):
    """Errors with answers in between never use the time up, and begin with a short wait again."""
    retry = Retry(20, clock)
    for _ in range(10):
        first, *_ = [bear(retry, InvalidReply("x")) for _ in range(4)]
        assert first <= 0.5
        clock.advance(10)
        retry.succeeded()


def test_call_asks_until_there_is_an_answer(clock):
    """After each kind of transient error it is asked again."""
    errors = [ServerFault("x"), InvalidReply("x"), ClusterUnreachable("x"), RateLimited("x")]
    assert Retry(100, clock).call(by_turns(*errors, "here")) == "here"
    assert len(clock.slept) == 4


def test_a_refusal_is_an_answer_too(clock, bear):
    """What is not transient is raised, and shows that the server is there: the time starts anew."""
    retry = Retry(20, clock)
    bear(retry, ServerFault("x"))
    clock.advance(15)
    with pytest.raises(JobNotFound):
        retry.call(by_turns(JobNotFound("no", status=404)))
    clock.advance(15)
    assert bear(retry, ServerFault("x")) <= 0.5


def test_transient_is_what_says_nothing_about_the_job():
    """A missing job, a refused login or a name in use is an answer."""
    assert set(TRANSIENT) == {ClusterUnreachable, InvalidReply, RateLimited, ServerFault, TokenLost}


# ---------------------------------------------------------------- 429


@pytest.mark.parametrize(
    ("reset_in", "wait"),
    [
        (40, 40),
        (1e9, 3600),  # no window of a server is longer than an hour
        (-100, 1),  # the server's clock is behind
        (0.2, 1),
    ],
)
def test_a_limit_is_waited_for_until_the_moment_that_the_server_names(clock, reset_in, wait):
    """The next try is right after it, spread over a tenth of the wait."""
    limited = RateLimited("x", reset_at=clock.time() + reset_in)
    waits = [Retry(1, clock).wait_after(limited) for _ in range(20)]
    assert all(wait <= one <= 1.1 * wait for one in waits)
    assert max(waits) - min(waits) > 0.002 * wait


def test_a_limit_without_a_moment_is_an_error_like_any_other(clock):
    """It is retried until the limit."""
    began = clock.monotonic()
    with pytest.raises(RateLimited):
        Retry(100, clock).call(by_turns(RateLimited("x")))
    assert 100 <= clock.monotonic() - began <= 105


def test_a_lasting_limit_with_moments_ends_after_three_of_them(clock):
    """One window may be longer than the limit; the same answer after each of three is the end."""
    asked = []

    def ask():
        asked.append(1)
        raise RateLimited("x", reset_at=clock.time() + 60)

    began = clock.monotonic()
    with pytest.raises(RateLimited):
        Retry(10, clock).call(ask)
    assert 180 <= clock.monotonic() - began <= 200
    assert len(asked) == 4


def test_a_limit_that_was_not_run_into_does_not_count(clock, bear):
    """A request that was not sent, because the limit is known, may wait for ever: the server is well."""
    retry = Retry(30, clock)
    for _ in range(50):
        bear(retry, RateLimited("x", reset_at=clock.time() + 3600, sent=False))
    began = clock.monotonic()
    with pytest.raises(ServerFault):
        retry.call(by_turns(ServerFault("x")))
    assert clock.monotonic() - began == pytest.approx(30, abs=0.05)


# ---------------------------------------------------------------- the log


@pytest.mark.parametrize(("fault", "server"), [(ServerFault, "OpenPAI"), (HdfsError, "the file system")])
def test_an_outage_is_logged_once_at_its_begin_and_end(clock, bear, caplog, fault, server):
    """One warning when it begins, one line when it is over, nothing for each try; by a logger of our own."""
    caplog.set_level(logging.INFO, logger="luigi_pai")
    retry = Retry(1000, clock, "job j")
    for _ in range(10):
        bear(retry, fault("the server is down"))
    retry.succeeded()
    retry.succeeded()
    begin, end = caplog.records
    assert begin.getMessage() == "job j: the server is down (retrying for up to 1000 s)"
    assert end.getMessage().startswith(f"job j: {server} responds again after ")
    assert [begin.levelname, end.levelname] == ["WARNING", "INFO"]
    assert {begin.name, end.name} == {"luigi_pai.api.retries"}


def test_a_limit_is_logged_with_its_wait(clock, bear, caplog):
    """Each wait for it, for they are long."""
    end = clock.time() + 40
    bear(Retry(1, clock), RateLimited("429 at /x", reset_at=end))
    until = datetime.fromtimestamp(end).astimezone().strftime("%H:%M:%S")
    assert caplog.messages == [f"OpenPAI rate limit reached; waiting 40 s, until {until} (429 at /x)"]


def test_the_waits_are_slept_as_the_caller_says(clock):
    """A task answers messages in its waits, so it hands in its own sleep."""
    slept, ask = [], by_turns(ServerFault("x"), ServerFault("x"), "done")
    assert Retry(100, clock, sleep=slept.append).call(ask) == "done"
    assert len(slept) == 2
    assert not clock.slept


def test_an_interruption_of_the_sleep_ends_the_call(clock):
    """Ctrl-C while a server is away: nothing is asked again."""
    asked = []

    def ask():
        asked.append(1)
        raise ServerFault("x")

    def sleep(_seconds):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Retry(100, clock, sleep=sleep).call(ask)
    assert len(asked) == 1
