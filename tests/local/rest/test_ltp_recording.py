"""Answer for answer, the local server is the LTP 1.5 that was recorded.

tests/data/observed_ltp-v1.5.json holds what a real rest-server of LTP 1.5 answered to the steps that
were recorded of 1.8.0, too.
"""

from __future__ import annotations

import json

import pytest
from local_client import unique
from places import DATA
from v2_replay import NOT_THERE, Replay

from luigi_pai.local import LocalPai

RECORDING = json.loads((DATA / "observed_ltp-v1.5.json").read_text())
RECORDED_NAME = "p6b027e99"

# What the recorded server could not do, and this one can: docs/local-reference.md says why.
ELSEWHERE = {
    "logs": "no log manager was there",
}
EMULATED = {"get failed": "its launcher was emulated, and told of the user's errors only"}
OFF = "job-attempts healthz"  # the job history service, which is off on both
# LTP takes any body; here bodies are checked as by 1.8.
CHECKED = (
    "login bad schema",
    "login short pw",
    "login expiration 10",
    "tag bad",
    "stop bad value",
    "stop lower",
)


@pytest.fixture(scope="module")
def replay():
    """The whole recording, replayed once."""
    with LocalPai(api="ltp", password="admin-password") as server:
        replay = Replay(server.url, unique("p").replace("-", ""), RECORDING, RECORDED_NAME)
        replay.run()
    return replay


@pytest.mark.parametrize(
    "step",
    [
        entry["step"]
        for entry in RECORDING
        if entry["step"] not in {*ELSEWHERE, *EMULATED, *CHECKED, *NOT_THERE, OFF}
    ],
)
def test_the_answer_is_that_of_ltp_1_5(step, replay):
    """Status, content type, error code, message and JSON shape are the recorded ones."""
    replay.check(step)


@pytest.mark.parametrize("step", NOT_THERE)
def test_administration_is_not_there(step, replay):
    assert replay.answers[step].json()["code"] == "NoApiError"


@pytest.mark.parametrize("step", CHECKED)
def test_bodies_are_checked_as_by_1_8(step, replay):
    reply = replay.answers[step]
    assert (reply.status_code, reply.json()["code"]) == (400, "InvalidParametersError")


@pytest.mark.parametrize("step", ELSEWHERE)
def test_what_the_recorded_server_lacked_is_there(step, replay):
    """Logs and the history of attempts."""
    assert replay.answers[step].status_code == 200


def test_a_failed_job_says_so_as_ltp_does(replay):
    """What the user's command wrote is where the recorded server has it."""
    mine, theirs = (
        found["jobStatus"]
        for found in (replay.answers["get failed"].json(), replay.recorded["get failed"]["json"])
    )
    for key in ("state", "subState", "appExitCode", "appExitType"):
        assert (key, mine[key]) == (key, theirs[key])
    assert "user" in theirs["appExitMessages"]["runtime"]["errorLogs"]
    assert mine["appExitMessages"]["runtime"]["originUserExitCode"] == 1


def test_every_job_has_a_tag_of_its_type(replay):
    """The value behind the shape: ``others`` unless the protocol says more."""
    for step in ("get", "get stopped", "get failed"):
        assert replay.answers[step].json()["tags"] == replay.recorded[step]["json"]["tags"]
