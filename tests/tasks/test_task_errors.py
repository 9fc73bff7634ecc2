"""A PaiTask and errors of the server: while it waits, in complete(), and with wrong settings."""

from __future__ import annotations

import logging
import math

import pytest
from lives import Life, lives
from train_task import Train

from luigi_pai import ClusterUnreachable, ServerFault

# ---------------------------------------------------------------- faults while waiting


@lives("errors")
def test_a_life(pai, settings, caplog, steps):
    caplog.set_level(logging.INFO, "luigi-interface")
    Life(pai, settings, caplog).play(steps)


def test_a_token_that_ends_while_waiting_is_renewed_unnoticed(pai):
    """When the server no longer takes the token, another is asked for and the request repeated."""
    first, second = Train(name="first"), Train(name="second")
    first.run()
    pai.tokens.clear()
    second.run()
    assert pai.posts() == ["first", "second"]
    assert pai.count("POST", "/token") == 2


@pytest.mark.parametrize("release", ["0.17.0", "1.8.0"])
def test_tokens_that_are_refused_for_a_while_fail_no_task(pai, settings, release):
    """Neither before the submission, nor while the job runs, nor in complete(): the task logs in again."""
    settings(poll_min=1, poll_max=2)
    pai.release, pai.plan = release, {"runs_for": 100}
    clock, refused = pai.clock, {"code": "UnauthorizedUserError", "message": "Your token is invalid."}

    def refuse_tokens():
        end = clock.monotonic() + 8
        pai.fail("*", "/jobs", 401, math.inf, body=refused, when=lambda _: clock.monotonic() < end)

    task = Train()
    refuse_tokens()
    clock.call_later(60, refuse_tokens)
    task.run()
    refuse_tokens()
    assert task.complete()
    assert pai.submissions - pai.refused_submissions == 1
    assert 9 <= pai.logins <= 30


# ---------------------------------------------------------------- complete() and unreachable servers


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("kind", [500, 503, "reset", "hang"])
def test_a_fault_in_complete_is_an_error_not_false(pai, kind):
    """A server that does not say is an error in complete(): "no" would submit the work again."""
    pai.add("train")
    pai.fail("GET", "/jobs/train", kind, times=99)
    with pytest.raises((ServerFault, ClusterUnreachable)) as caught:
        Train().complete()
    assert kind != "hang" or "no response within 0.5 s" in str(caught.value)
