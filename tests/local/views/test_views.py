"""Attempts, tasks and logs as 1.8 shows them: also attempts that are waited for, and parts of logs."""

from __future__ import annotations

import pytest
import requests
from local_cases import cases
from protocol_client import protocol, task_role
from waiting import wait_until

BIG = {"cpu": 1_000_000, "memoryMB": 100, "gpu": 0}
NO_CONTAINER = ("containerId", "containerIp", "containerNodeName", "containerExitCode", "containerExitSpec")


def statuses(job):
    return [status for role in job["taskRoles"].values() for status in role["taskStatuses"]]


def test_a_job_that_waits_shows_its_tasks_without_containers(v2):
    """And its first attempt, in all routes; what is not there is null, and has no log."""
    roles = {"w": task_role("true", instances=2, resourcePerInstance=BIG), "ps": task_role("true")}
    name = v2.submit(protocol(roles=roles))
    job = v2.job(name)
    status = job["jobStatus"]
    assert (status["state"], status["subState"]) == ("WAITING", "AttemptPreparing")
    assert (status["attemptId"], status["attemptState"], status["appProgress"]) == (0, "WAITING", 0)
    assert (status["appCreatedTime"], status["appLaunchedTime"]) == (status["createdTime"], None)
    shown = [(item["taskState"], item["taskIndex"]) for item in statuses(job)]
    assert shown == [("WAITING", 0), ("WAITING", 1), ("WAITING", 0)]
    assert all(item[key] is None for item in statuses(job) for key in NO_CONTAINER)
    assert all(item["containerPorts"] == {} for item in statuses(job))
    assert v2.send("GET", f"/jobs/{name}/attempts/0").json() == job
    task = f"/jobs/{name}/attempts/0/taskRoles/w/taskIndex/1/attempts"
    tried = v2.send("GET", task).json()
    assert [item["attemptState"] for item in tried["attempts"]] == ["WAITING"]
    log = v2.send("GET", f"{task}/0/logs")
    assert (log.status_code, log.json()["code"]) == (404, "NoTaskLogError")

    v2.stop(name)
    stopped = v2.wait(name)
    status = stopped["jobStatus"]
    assert (status["state"], status["attemptState"], status["appExitCode"]) == ("STOPPED", "STOPPED", -210)
    assert status["appExitDiagnostics"] == "User has requested to stop the Framework"
    assert status["launchedTime"] == status["appLaunchedTime"] == status["completedTime"]
    assert [item["containerExitCode"] for item in statuses(stopped)] == [-220] * 3
    assert all(item["launchedTime"] == item["completedTime"] for item in statuses(stopped))
    row = v2.send("GET", "/jobs", keyword=name.partition("~")[2]).json()[0]
    assert (row["state"], row["appExitCode"], row["launchedTime"]) == ("STOPPED", -210, row["completedTime"])


@pytest.mark.slow
def test_a_job_that_is_tried_again_shows_the_attempt_that_it_waits_for(v2, tmp_path):
    """Stopped then, it was stopped in that attempt, whatever became of those before."""
    name = v2.submit(protocol(f"echo x >>{tmp_path}/runs; kill -KILL $$"))

    def waiting():
        job = v2.job(name)
        return job if job["jobStatus"]["state"] == "WAITING" and job["jobStatus"]["retries"] > 2 else None

    job = wait_until(waiting)
    status = job["jobStatus"]
    assert (status["attemptId"], status["attemptState"]) == (status["retries"], "WAITING")
    assert (status["appExitCode"], status["appExitSpec"], status["appProgress"]) == (None, None, 0)
    assert statuses(job)[0]["taskState"] == "WAITING"
    before = v2.send("GET", f"/jobs/{name}/attempts/{status['retries'] - 1}").json()["jobStatus"]
    assert (before["attemptState"], before["appExitCode"]) == ("FAILED", 137)
    assert before["appCompletedTime"] <= status["appCreatedTime"]

    v2.stop(name)
    job = v2.wait(name)
    status = job["jobStatus"]
    assert (status["state"], status["attemptState"], status["appExitCode"]) == ("STOPPED", "STOPPED", -210)
    assert status["attemptId"] == status["retries"]
    assert status["appExitSpec"]["phrase"] == "StopFrameworkRequested"


@pytest.mark.slow
def test_tries_of_a_task_have_times_of_their_own(v2, tmp_path):
    """Each begins after the one before has ended; the task began with its attempt."""
    command = f"echo x >>{tmp_path}/runs; [ $(wc -l <{tmp_path}/runs) = 3 ]"
    roles = {"main": task_role(command, taskRetryCount=5)}
    job = v2.run(roles=roles, extras={"gangAllocation": False})
    path = f"/jobs/{v2.username}~{job['name']}/attempts/0/taskRoles/main/taskIndex/0/attempts"
    task = v2.send("GET", path).json()
    latest, second, first = task["attempts"]
    assert task["createdTime"] == first["currentAttemptCreatedTime"] == job["jobStatus"]["createdTime"]
    assert task["launchedTime"] == first["currentAttemptLaunchedTime"]
    assert task["completedTime"] == latest["currentAttemptCompletedTime"]
    assert second["currentAttemptCreatedTime"] == first["currentAttemptCompletedTime"]
    assert latest["currentAttemptCreatedTime"] == second["currentAttemptCompletedTime"]
    shown = statuses(job)[0]
    assert {key: shown[key] for key in latest if key in shown} == {
        key: latest[key] for key in latest if key in shown
    }


@pytest.fixture(scope="module")
def log(v2):
    """The addresses of the logs of a job that has written 0 to 9, of its end, and of an empty one."""
    job = v2.run("printf 0123456789; printf errors >&2")
    whole, tail = v2.logs(job), v2.logs(job, **{"tail-mode": "true"})
    return {**whole, "tail": tail["stdout"], "tail of all": tail["all"]}


def ask(uri, asked=None, **headers):
    if asked is not None:
        headers["Range"] = asked
    return requests.get(uri, headers=headers, timeout=20)


@pytest.mark.parametrize(("asked", "status", "text", "place"), cases("a_range_is_answered_as_by_nginx"))
def test_a_range_is_answered_as_by_nginx(log, asked, status, text, place):
    """206 with its bytes and their place; 416 if it is not there; all for several ranges, or none."""
    reply = ask(log["stdout"], asked)
    assert (reply.status_code, reply.text, reply.headers.get("Content-Range")) == (status, text, place)
    assert (reply.headers["Content-Length"], reply.headers["Accept-Ranges"]) == (str(len(text)), "bytes")


def test_a_range_goes_from_one_file_into_the_next(log):
    """In the log of both streams; to If-Range the answer is all, as there is no tag that it could mean."""
    assert ask(log["stdout"], "bytes=2-4", **{"If-Range": '"tag"'}).status_code == 200
    assert ask(log["all"], "bytes=8-11").text == "89er"
    assert ask(log["all"], "bytes=12-").text == "rors"
    assert ask(log["tail of all"]).headers["Content-Range"] == "bytes 0-15/16"


@pytest.mark.slow
def test_the_end_of_a_log_says_where_it_is(log, v2):
    """A range of the last 16 KiB, whatever the request says; of an empty log it is all."""
    reply = ask(log["tail"], "bytes=2-4")
    assert (reply.status_code, reply.text) == (206, "0123456789")
    assert reply.headers["Content-Range"] == "bytes 0-9/10"
    job = v2.run("true")
    empty = ask(v2.logs(job, **{"tail-mode": "true"})["stdout"])
    assert (empty.status_code, empty.text) == (200, "")


@pytest.mark.slow
def test_a_log_that_grows_is_followed_range_by_range(v2, tmp_path):
    """Nothing new is 416; what has come since then is sent, and nothing twice."""
    go = tmp_path / "go"
    name = v2.submit(protocol(f"printf one; until [ -e {go} ]; do sleep 0.02; done; printf two"))
    v2.wait(name, "RUNNING")
    uri = v2.logs(v2.job(name))["stdout"]
    wait_until(lambda: ask(uri).text == "one")
    assert ask(uri, "bytes=3-").status_code == 416
    go.touch()
    v2.wait(name)
    reply = ask(uri, "bytes=3-")
    assert (reply.text, reply.headers["Content-Range"]) == ("two", "bytes 3-5/6")


@pytest.mark.slow
@pytest.mark.parametrize(("start", "text"), [(3, "two"), (-2, "wo"), (-99, "onetwo"), (10**30, "")])
def test_a_log_of_v1_begins_at_any_byte(client, start, text):
    """Also beyond its end."""
    job = client.run("printf onetwo")
    (status,) = job["taskRoles"]["main"]["taskStatuses"]
    reply = requests.get(f"{status['containerLog']}stdout", params={"start": start}, timeout=20)
    assert (reply.status_code, reply.text) == (200, text)
