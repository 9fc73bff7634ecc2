"""A PaiTask and errors of the server: while it waits, in complete(), and with wrong settings."""

from __future__ import annotations

import functools
import logging
import math

import luigi
import luigi.worker
import pytest
from lives import Life, lives
from train_task import Train

from luigi_pai import (
    AuthenticationError,
    ClusterUnreachable,
    ConfigError,
    InvalidReply,
    ServerFault,
)

# ---------------------------------------------------------------- faults while waiting


@lives("errors")
def test_a_life(pai, settings, caplog, steps):
    """As its sentence says."""
    caplog.set_level(logging.INFO, "luigi-interface")
    Life(pai, settings, caplog).play(steps)


def test_a_plan_is_not_patient(pai, settings, caplog):
    """A person waits for it: a wrong answer is an error after seconds, as in complete()."""
    settings(poll_patience=1800)
    pai.fail("GET", "/jobs/train$", 200, times=999, body="<html>the portal</html>")
    with pytest.raises(InvalidReply, match="is http"):
        Train().forecast()
    assert "retrying for up to 2 s" in caplog.text


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


def test_unheard_of_states_are_not_ends(pai, clock):
    """UNKNOWN and states of a future release are waited through."""
    job = pai.add("train", ends_as="UNKNOWN")
    assert not Train().complete()
    for second, state in enumerate(("DREAMING", "UNKNOWN", "SUCCEEDED"), 1):
        clock.call_later(second, functools.partial(setattr, job, "ends_as", state))
    Train().run()
    assert clock.elapsed >= 3
    assert pai.count("POST") == 0


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
    assert kind != "hang" or "no reply within 0.5 s" in str(caught.value)


# ---------------------------------------------------------------- wrong settings: one clear line each


def one_line(task: luigi.Task, error: type[Exception], ask: str = "run") -> str:
    with pytest.raises(error) as caught:
        getattr(task, ask)()
    text = str(caught.value)
    assert len(text.splitlines()) == 1
    assert "admin-password" not in text
    return text


@pytest.mark.parametrize(
    ("key", "value", "user", "why", "what"),
    [
        ("password", "wrong-password", "admin", "Password is incorrect", "password"),
        ("username", "nobody1", "nobody1", "User nobody1 is not found", "username"),
    ],
)
def test_a_refused_login_is_one_clear_line(pai, settings, key, value, user, why, what):
    """It says why, for which user and where, and which key to set."""
    settings(**{key: value})
    assert one_line(Train(), AuthenticationError) == (
        f"job 'train' was not submitted: login of user '{user}' at {pai.url} was refused: "
        f"{why}; set the right {what} in [OpenPai] of luigi.cfg"
    )


@pytest.mark.usefixtures("pai")
def test_a_missing_password_is_one_clear_line():
    """With no password the error names the key to write."""
    luigi.configuration.get_config().remove_option("OpenPai", "password")
    text = one_line(Train(), AuthenticationError)
    assert "no password is set; write password = ..." in text


def test_a_wrong_port_is_one_clear_line(pai):
    """A refused connection says the address and the key, in run() and in complete()."""
    pai.down()
    for ask in ("run", "complete"):
        text = one_line(Train(), ClusterUnreachable, ask)
        assert text == (
            f"cannot reach {pai.url}: Connection refused; check pai_url in [OpenPai] of luigi.cfg, "
            "and that the rest-server runs"
        )


@pytest.mark.parametrize(
    ("url", "error", "start", "advice"),
    [
        (
            "http://no-such-host.invalid:9186",
            ClusterUnreachable,
            "cannot reach http://no-such-host.invalid:9186: ",
            "check pai_url in [OpenPai]",
        ),
        (
            "ftp://host",
            ConfigError,
            "",
            "pai_url = 'ftp://host' is not a valid URL; use http://HOST:PORT or https://HOST/PATH",
        ),
    ],
)
def test_an_invalid_pai_url_is_one_clear_line(settings, url, error, start, advice):
    """A host that does not exist, or no address at all: the key is named."""
    settings(pai_url=url)
    text = one_line(Train(), error, "complete")
    assert text.startswith(start)
    assert advice in text
