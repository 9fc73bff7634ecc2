"""Attempts and tasks as 1.8 shows them: also those that are waited for, and those that never began."""

from __future__ import annotations

import pytest
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
