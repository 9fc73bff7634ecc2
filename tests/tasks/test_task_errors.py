"""A PaiTask and errors of the server: while it waits, in complete(), and with wrong settings."""

from __future__ import annotations

import functools
import logging
import math

import luigi
import luigi.worker
import pytest
from train_task import Train

from luigi_pai import (
    AuthenticationError,
    ClusterUnreachable,
    ConfigError,
    InvalidReply,
    PaiJobLost,
    ServerFault,
)

# ---------------------------------------------------------------- faults while waiting


@pytest.mark.slow
def test_faults_while_polling_are_waited_out(pai, caplog):
    """503s, resets, pages of a proxy and 429 while the job runs do not fail its task."""
    pai.plan = {"runs_for": 1.0}
    task = Train()
    assert not task.complete()
    pai.fail("GET", "/jobs/train$", 503, times=5)
    pai.fail("GET", "/jobs/train$", "reset", times=4)
    pai.fail("GET", "/jobs/train$", 404, times=2, body="<html>maintenance</html>")
    pai.fail("GET", "/jobs/train$", 429, body="<html>Too many requests</html>")
    with caplog.at_level(logging.INFO, "luigi-interface"):
        task.run()
    assert task.complete()
    assert pai.posts() == ["train"]
    assert "retrying for up to 30 s" in caplog.text
    assert "replies again" in caplog.text


def test_a_minute_without_a_server_is_waited_out(pai, settings, clock):
    """A server that is gone for 60 s while the job runs costs the task nothing."""
    settings(poll_patience=120)
    pai.plan = {"runs_for": 1.0}
    clock.call_later(0.5, pai.down)
    clock.call_later(60.5, pai.up)
    task = Train()
    task.run()
    assert clock.elapsed > 60
    assert task.complete()
    assert pai.count("POST", "/jobs") == 1


def test_retries_end_after_poll_patience(pai, settings):
    """A server that stays away longer than poll_patience is an error; the job stays where it is."""
    settings(poll_patience=40)
    pai.plan = {"runs_for": 3600}
    pai.fail("GET", "/jobs/train$", 404, body='{"code": "NoJobError", "message": "not yet"}')
    pai.fail("GET", "/jobs/train$", 503, times=999)
    with pytest.raises(ServerFault, match="503"):
        Train().run()
    assert pai.posts() == ["train"]


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


def test_a_job_that_the_server_loses_is_said_to_be_lost(pai, clock):
    """A running job that the server no longer knows ends the wait with PaiJobLost."""
    pai.plan = {"runs_for": 1e6}
    clock.call_later(1, pai.jobs.clear)
    with pytest.raises(PaiJobLost, match="'train' is no longer on"):
        Train().run()


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


def test_another_web_server_is_not_a_missing_job(pai):
    """A 404 page of something that is no OpenPAI does not read as "the job is not there"."""
    pai.fail("GET", "/jobs/train", 404, times=9, body="<html>nginx: not found</html>")
    with pytest.raises(InvalidReply, match=r"pai_url in .OpenPai.* the rest-server"):
        Train().complete()
    assert pai.count("POST") == 0


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
