"""Answer for answer, the local server is the OpenPAI 1.8.0 that was recorded.

tests/data/observed_v1.8.0.json holds what a real rest-server 1.8.0 answered to
the steps below: status, content type, error code, message and JSON shape.
"""

from __future__ import annotations

import json

import pytest
from local_client import unique
from places import DATA
from v2_replay import NOT_THERE, Replay

from luigi_pai.local import LocalPai

RECORDING = json.loads((DATA / "observed_v1.8.0.json").read_text())
RECORDED_NAME = "p6afffdb1"

# What the recorded server could not do, and this one can: docs/local-reference.md says why.
ELSEWHERE = {
    "logs": "no log manager was there",
}
OFF = "job-attempts healthz"  # the job history service, which is off on both


@pytest.fixture(scope="module")
def replay():
    """The whole recording, replayed once."""
    with LocalPai(api="v2", password="admin-password") as server:
        replay = Replay(server.url, unique("p").replace("-", ""), RECORDING, RECORDED_NAME)
        replay.run()
    return replay


@pytest.mark.parametrize(
    "step", [entry["step"] for entry in RECORDING if entry["step"] not in {*ELSEWHERE, *NOT_THERE, OFF}]
)
def test_the_answer_is_that_of_1_8_0(step, replay):
    """Status, content type, error code, message and JSON shape are the recorded ones."""
    replay.check(step)


@pytest.mark.parametrize("step", NOT_THERE)
def test_administration_is_not_there(step, replay):
    assert replay.answers[step].json()["code"] == "NoApiError"


@pytest.mark.parametrize("step", ELSEWHERE)
def test_what_the_recorded_server_lacked_is_there(step, replay):
    """Logs and the history of attempts."""
    assert replay.answers[step].status_code == 200


def test_a_stopped_and_a_failed_job_say_so_as_1_8_0_does(replay):
    """The states, exit codes and types behind the shapes."""
    theirs = {entry["step"]: entry["json"] for entry in RECORDING}
    for step in ("get stopped", "get succeeded", "get"):
        mine = replay.answers[step].json()["jobStatus"]
        for key in ("state", "subState", "executionType", "attemptState", "appExitCode", "appExitType"):
            assert (key, mine[key]) == (key, theirs[step]["jobStatus"][key])
    stopped = replay.answers["get stopped"].json()
    assert stopped["jobStatus"]["appExitSpec"]["phrase"] == "StopFrameworkRequested"
    assert stopped["taskRoles"]["worker"]["taskStatuses"][0]["containerExitCode"] == -220
    failed = replay.answers["get failed"].json()["jobStatus"]
    assert (failed["state"], failed["appExitCode"], failed["appExitType"]) == ("FAILED", 255, "Failed")


def test_the_config_is_the_protocol_without_its_secrets(replay):
    """The very body that was recorded, its name apart."""
    theirs = next(entry["json"] for entry in RECORDING if entry["step"] == "config")
    mine = replay.answers["config"].json()
    theirs["name"] = mine["name"]
    theirs["taskRoles"]["worker"]["commands"] = ["sleep 60"]
    assert mine == theirs
    assert mine["secrets"] == "******"
