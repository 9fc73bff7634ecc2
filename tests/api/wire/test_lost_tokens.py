"""Tokens that the server refuses although it has just issued them."""

from __future__ import annotations

import contextlib
import fcntl
import logging
import math
import os
import tempfile

import pytest
from mocked_rest import JOB

from luigi_pai import Cluster, private_folder
from luigi_pai.api.watching import Watcher
from luigi_pai.errors import AuthenticationError, TokenLost
from luigi_pai.local import LocalPai

_REFUSAL = {"code": "UnauthorizedUserError", "message": "Your token is invalid."}
_ADVICE = (
    "401 UnauthorizedUserError: Your token is invalid; the password is correct, but the server does not "
    "accept the token that it has just issued; if this continues, make an application token on your profile "
    "page of the web portal, and write token = ... in [OpenPai] of luigi.cfg"
)


@pytest.fixture
def refuse_tokens(faulty, clock):
    """Let the server refuse all tokens for some seconds of the clock, while it accepts logins."""
    faulty.release = "1.8.0"

    def refuse(seconds: float) -> None:
        end = clock.monotonic() + seconds
        faulty.fail("*", "/jobs", 401, math.inf, body=_REFUSAL, when=lambda _: clock.monotonic() < end)

    return refuse


@pytest.mark.parametrize(
    "call",
    [
        lambda cluster: cluster.list(),
        lambda cluster: cluster.submit(JOB),
        lambda cluster: cluster.job("there").status(),
        lambda cluster: cluster.job("there").config(),
        lambda cluster: cluster.job("there").stop(),
        lambda cluster: cluster.job("there").wait(),
    ],
    ids=["list", "submit", "status", "config", "stop", "wait"],
)
def test_tokens_that_are_refused_for_8_s_delay_a_request(faulty, known_cluster, refuse_tokens, call):
    """Each retry needs one login; a submission is accepted once."""
    faulty.add("there", runs_for=3)
    refuse_tokens(8)
    call(known_cluster())
    assert 5 <= faulty.logins <= 9
    assert faulty.submissions - faulty.refused_submissions <= 1


def test_refused_tokens_in_the_middle_of_a_run_do_not_end_it(faulty, known_cluster, refuse_tokens, clock):
    """The job is watched to its end."""
    faulty.add("long", runs_for=100)
    clock.call_later(20, lambda: refuse_tokens(8))
    assert known_cluster().job("long").wait().state.value == "SUCCEEDED"
    assert 3 <= faulty.logins <= 9


def test_jobs_that_are_watched_together_share_the_logins(faulty, known_cluster, refuse_tokens, clock):
    """All jobs pause, and one of them tries again."""
    book = known_cluster().book
    watcher = Watcher(book)
    for number in range(30):
        faulty.add(f"job-{number}", runs_for=100)
        watcher.add(book.status(f"job-{number}"))
    refuse_tokens(60)
    ended = 0
    while ended < 30:
        ended += sum(update.status.finished for update in watcher.step())
        clock.sleep(watcher.idle() if len(watcher) else 0)
    assert faulty.logins <= 25


@pytest.mark.parametrize(
    ("call", "seconds", "most"),
    [(lambda cluster: cluster.list(), 20, 12), (lambda cluster: cluster.job("there").wait(), 1800, 250)],
    ids=["list", "wait"],
)
def test_a_server_that_never_accepts_its_tokens(
    faulty, known_cluster, refuse_tokens, clock, caplog, call, seconds, most
):
    """The error comes after ``poll_patience``, or 20 s, and does not blame the password."""
    faulty.add("there", runs_for=1)
    refuse_tokens(math.inf)
    caplog.set_level(logging.WARNING)
    with pytest.raises(TokenLost) as caught:
        call(known_cluster())
    assert str(caught.value).endswith(_ADVICE)
    assert seconds <= clock.elapsed < seconds + 1
    assert max(clock.slept) <= 15
    assert faulty.logins <= most
    assert [record.message.count(f"(retrying for up to {seconds} s)") for record in caplog.records] == [1]


def test_a_wrong_password_is_refused_by_one_login(faulty, new_cluster, clock):
    """Only a refused login says that the password is wrong."""
    faulty.release = "1.8.0"
    with pytest.raises(AuthenticationError, match="set the correct password in") as caught:
        new_cluster(faulty.url, password="other-password", api_version="v2", clock=clock).list()
    assert not isinstance(caught.value, TokenLost)
    assert (faulty.logins, clock.slept) == (1, [])


# ---------------------------------------------------------------- several processes


@pytest.mark.slow
@pytest.mark.parametrize("machines", [1, 8])
@pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")
def test_eight_processes_that_log_in_at_once_all_go_on(tmp_path, in_forks, machines):
    """On one machine they take turns, and log in once each; on eight, they log in again until all are in."""
    folders = [tmp_path / str(number % machines) for number in range(8)]
    for folder in set(folders):
        folder.mkdir()
    wait, go = os.pipe()
    race = {"fault": "race", "method": "POST", "path": "*/token", "seconds": 0.15}
    with LocalPai(faults=[race]) as server:

        def log_in(number):
            tempfile.tempdir = str(folders[number])
            cluster = Cluster(server.url, "admin", password=server.password, api_version="v2")
            os.read(wait, 1)
            cluster.list()

        in_forks(log_in, 8, meanwhile=lambda: os.write(go, b"x" * 8))
        (rule,) = server.fault_counts()
    os.close(wait)
    os.close(go)
    assert rule["struck"] == 8 if machines == 1 else rule["struck"] > 8


@pytest.mark.parametrize("broken", ["folder", "file", "holder"])
def test_a_lock_that_is_not_possible_prevents_no_login(faulty, known_cluster, tmp_path, monkeypatch, broken):
    """The folder is open to others, the lock file is a folder, or another process does not release it."""
    faulty.release = "1.8.0"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("luigi_pai.api.session._LOGIN_TURN", 0.05)
    account = f"admin@{faulty.url}"
    with private_folder.one_at_a_time("login", account) if broken == "holder" else contextlib.nullcontext():
        folder = private_folder.private_folder()
        if broken == "folder":
            folder.chmod(0o755)
        if broken == "file":
            for number in range(256):
                (folder / f"login-{number:02x}.lock").mkdir()
        assert known_cluster().list() == []
    assert faulty.logins == 1


def test_a_lock_is_not_held_between_two_tries_of_a_login(faulty, known_cluster, tmp_path, monkeypatch, clock):
    """While one process waits to repeat its login, another process can log in."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    faulty.release = "1.8.0"
    faulty.fail("POST", "/token", 503)
    free = []

    def take() -> None:
        with next(tmp_path.glob("*/login-*.lock")).open() as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            free.append(True)

    clock.call_later(0.1, take)
    assert known_cluster().list() == []
    assert (faulty.logins, free) == (2, [True])
