"""Answer for answer, the local server is the OpenPAI 0.7.1 that was recorded.

tests/data/observed_v0.7.1.json holds what a real rest-server 0.7.1 answered to
the steps below: status, content type, error code, message and JSON shape.
"""

from __future__ import annotations

import json

import pytest
import requests
from local_client import role, unique
from places import DATA
from recording import check_answer, shape_differences
from waiting import wait_until

from luigi_pai.local import LocalPai

RECORDING = json.loads((DATA / "observed_v0.7.1.json").read_text())
RECORDED_NAME = "q6afffc61"


class Replay:
    """Sends the recorded requests, with names of this run, and keeps the answers."""

    def __init__(self, url, name):
        self.url = url
        self.name = name
        self.answers = {}
        self.token = None

    def send(self, step, body=None, *, auth=False, form=False, headers=None):
        method, path = next(entry["req"] for entry in RECORDING if entry["step"] == step).split(" ", 1)
        headers = dict(headers or {})
        if auth:
            headers["Authorization"] = f"Bearer {self.token if auth is True else auth}"
        if isinstance(body, str):
            headers["Content-Type"] = "application/json"
            body = {"data": body}
        elif body is not None:
            body = {"data" if form else "json": body}
        reply = requests.request(
            method,
            self.url + path.replace(RECORDED_NAME, self.name),
            headers=headers,
            timeout=20,
            allow_redirects=False,
            **(body or {}),
        )
        self.answers[step] = reply
        return reply

    def config(self, suffix, **more):
        main = role("sleep 600", memoryMB=1024, taskNumber=1)
        return {"jobName": f"{self.name}flat{suffix}", "image": "ubuntu", "taskRoles": [main], **more}

    def run(self):
        self.run_logins()
        self.run_submissions()
        self.run_readings_and_stops()
        self.run_clusters_and_users()

    def run_logins(self):
        send = self.send
        login = {"username": "admin", "password": "admin-password"}
        for step in ("root", "v2 root", "unknown"):
            send(step)
        send("login missing", {"username": "admin"})
        send("login wrong", {"username": "admin", "password": "wrongpw"})
        send("login nouser", {"username": "nobody1", "password": "wrongpw"})
        self.token = send("login", {**login, "expiration": 3600}).json()["token"]
        send("login form", login, form=True)
        send("login exp 10", {**login, "expiration": 10})
        send("authn info")
        send("basic login", login)

    def run_submissions(self):
        send, config = self.send, self.config
        send("flat list")
        send("flat get missing")
        send("flat post noauth", config(""))
        send("flat post badtoken", config(""), auth="x")
        send("flat post", config(""), auth=True)
        send("flat post dup", config(""), auth=True)
        send("flat put dup", config(""), auth=True)
        send("flat put new", config("zz"), auth=True)
        send("flat put get by url")
        send("flat put get by body")
        send("flat post schema", {"jobName": f"{self.name}flats"}, auth=True)
        send("flat post extra key", config("e", foo=1), auth=True)
        send("flat post tilde", config("~t"), auth=True)
        too_many = role("sleep 1", taskNumber=1, minFailedTaskCount=3)
        send("flat post minfail", config("m", taskRoles=[too_many]), auth=True)
        send("flat minfail exists?")
        send("flat post killall", config("k", killAllOnCompletedTaskNumber=1), auth=True)
        send("flat killall exists?")
        send("flat post bad vc", config("v", virtualCluster="nosuch"), auth=True)
        failing = [role("exit 1", taskNumber=1)]
        send("flat post vc1", config("w", virtualCluster="vc1", taskRoles=failing), auth=True)
        send("flat post badjson", "{bad", auth=True)
        send("flat post jobEnvs", config("j", jobEnvs={"A": "1"}), auth=True)
        send("flat post str num", config("n", retryCount="1"), auth=True)

    def run_readings_and_stops(self):
        send = self.send
        send("flat get")
        send("flat config")
        send("flat config yaml", headers={"Accept": "text/yaml"})
        send("flat config missing")
        send("flat ssh")
        send("flat list after")
        send("flat list user")
        send("flat list other user")
        send("flat exec noauth", {"value": "STOP"})
        send("flat exec bad", {"value": "PAUSE"}, auth=True)
        send("flat exec missing body", {}, auth=True)
        send("flat exec missing job", {"value": "STOP"}, auth=True)
        send("flat stop", {"value": "STOP"}, auth=True)
        wait_until(lambda: send("flat get stopped").json()["jobStatus"]["state"] == "STOPPED")
        wait_until(lambda: send("flat get failed").json()["jobStatus"]["state"] == "FAILED")
        send("flat delete noauth")
        send("flat delete", auth=True)
        send("flat get deleted")
        send("flat delete again", auth=True)

    def run_clusters_and_users(self):
        send = self.send
        send("vc list")
        send("vc get")
        send("vc missing")
        bob = {"username": f"bob{self.name}", "password": "bobpassword", "admin": False, "modify": False}
        send("user put", bob, auth=True)
        send("user list", auth=True)
        send("user list noauth")
        send("user get", auth=True)


@pytest.fixture(scope="module")
def replay():
    """The whole recording, replayed once."""
    with LocalPai(virtual_clusters=["vc1"], api="v1", password="admin-password") as server:
        replay = Replay(server.url, unique("q").replace("-", ""))
        replay.run()
    return replay


NOT_THERE = ("user list", "user list noauth")
"""The steps of what the local server does not have: docs/local-reference.md names them."""


@pytest.mark.parametrize("step", [entry["step"] for entry in RECORDING if entry["step"] not in NOT_THERE])
def test_the_answer_is_that_of_0_7_1(step, replay):
    """Status, content type, error code, message and JSON shape are the recorded ones."""
    theirs = next(entry for entry in RECORDING if entry["step"] == step)
    check_answer(replay.answers[step], theirs, (RECORDED_NAME, replay.name))


@pytest.mark.parametrize("step", NOT_THERE)
def test_the_list_of_users_is_not_there(step, replay):
    assert replay.answers[step].json()["code"] == "NoApiError"


def test_a_stopped_and_a_failed_job_say_so_as_0_7_1_does(replay):
    """The states, exit codes and types behind the shapes."""
    stopped = replay.answers["flat get stopped"].json()["jobStatus"]
    assert (stopped["subState"], stopped["executionType"]) == ("FRAMEWORK_COMPLETED", "STOP")
    assert stopped["appExitCode"] == 214
    failed = replay.answers["flat get failed"].json()["jobStatus"]
    assert (failed["subState"], failed["executionType"]) == ("FRAMEWORK_COMPLETED", "START")
    assert (failed["appExitCode"], failed["appExitType"]) == (1, "UNKNOWN")


def test_the_comparison_sees_a_difference():
    """The helper above would fail on a missing key, an extra key and another type."""
    assert list(shape_differences("", {"a": "str"}, {})) == [".a is only in one of them"]
    assert list(shape_differences("", {}, {"a": "str"})) == [".a is only in one of them"]
    assert list(shape_differences("", [{"a": "str"}], [{"a": "num"}])) == ["[].a: str there, num here"]
