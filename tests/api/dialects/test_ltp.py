"""The v2 dialect on LTP 1.5: a missing job told from a failing database, recorded answers read."""

from __future__ import annotations

import json
import math

import pytest
import requests
from api_cases import cases
from faulty_pai import PASSWORD
from ltp_answers import not_retrieved

from luigi_pai import errors
from luigi_pai.api.dialects.v2 import V2Dialect
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.errors import (
    JobNotFound,
    ServerFault,
)

SERVER = "ltp-v1.5"
JOB = "GET /api/v2/jobs/admin~train"
QUESTION = f"{JOB}/attempts/0/taskRoles/none/taskIndex/0/attempts"
"""What tells the two apart."""


@pytest.fixture
def ltp(faulty):
    """An LTP 1.5 that has given out a token."""
    faulty.release = "ltp-1.5"
    return faulty


@pytest.fixture
def v2(ltp, new_session):
    """The dialect of a user with that token."""
    return V2Dialect(new_session(ltp.url, token=ltp.token()))


def asked(pai):
    """Return the requests, without the logins."""
    return [f"{method} {path}" for method, path in pai.calls if not path.endswith("/token")]


# ---------------------------------------------------------------- one question


def test_a_task_role_that_is_not_there_is_not_found(ltp, new_cluster):
    """Nothing is asked for its logs: the status has the tasks."""
    ltp.add("train", runs_for=60, task_codes={}).config = {"taskRoles": {"main": {"instances": 1}}}
    job = new_cluster(ltp.url, api_version="v2").job("train")
    with pytest.raises(JobNotFound, match=r"^job 'train' has no task role 'nosuch'; it has main$"):
        job.logs("nosuch")
    assert ltp.count("GET", "/logs") == 0


TASK = "/attempts/0/taskRoles/main/taskIndex/0/attempts/0/logs"
CALLS = [
    pytest.param(lambda v2: v2.status("train"), "", id="status"),
    pytest.param(lambda v2: v2.attempt("train", 0), "/attempts/0", id="attempt"),
    pytest.param(lambda v2: v2.config("train"), "/config", id="config"),
    pytest.param(lambda v2: v2.events("train"), "/events", id="events"),
    pytest.param(lambda v2: v2.task_logs(JobStatus("train", JobState.RUNNING), "main", 0), TASK, id="logs"),
]


@pytest.mark.parametrize(("call", "path"), CALLS)
def test_the_second_question_tells_why_a_job_is_not_shown(ltp, v2, call, path):
    """Its 404 names a missing job; a fault of the database, and an answer about the task, are faults."""
    url = f"{ltp.url}/api/v2/jobs/admin~train{path}"
    with pytest.raises(JobNotFound) as caught:
        call(v2)
    assert str(caught.value) == f"GET {url}: Job admin~train is not found."
    assert (caught.value.status, caught.value.code) == (404, "NoJobError")
    ltp.database_down = True
    for there in (False, True):
        if there:
            ltp.add("train")
        with pytest.raises(ServerFault, match="There is a problem with your database connection"):
            call(v2)
    ltp.database_down = False
    ltp.fail("GET", f"train{path}$", 500, body=not_retrieved("admin~train").body)
    with pytest.raises(ServerFault, match=r"500 UnknownError: Failed to retrieve job admin~train\.$"):
        call(v2)
    assert asked(ltp) == [JOB + path, QUESTION] * 4


@cases("status body")
def test_no_other_fault_is_asked_about(ltp, v2, status, body):
    """They are what they are."""
    ltp.fail("GET", "train$", status, times=math.inf, body=body)
    with pytest.raises(ServerFault):
        v2.status("train")
    assert set(asked(ltp)) == {JOB}  # a 502 or 503 is repeated


@cases("fault error")
def test_what_the_question_runs_into(ltp, new_session, fault, error):
    """Nothing but the one 404 means that the job is missing; a transient error stays transient."""
    ltp.fail("GET", "/taskIndex/", **fault, times=2)
    session = new_session(ltp.url, token=ltp.token(), read_timeout=0.5)
    with pytest.raises(getattr(errors, error)) as caught:
        V2Dialect(session).status("train")
    assert not isinstance(caught.value, JobNotFound)


def test_a_job_whose_name_holds_the_password(ltp, new_session):
    """The password is hidden in answers, and the two answers are known all the same."""
    with pytest.raises(JobNotFound, match=r"Job admin~\*{6}-1 is not found"):
        V2Dialect(new_session(ltp.url)).status(f"{PASSWORD}-1")


# ---------------------------------------------------------------- what was recorded


@cases("step method path body")
def test_the_server_of_these_tests_answers_as_the_recorded_one(ltp, recorded_by, step, method, path, body):
    """Status, code and message."""
    record = recorded_by(SERVER)[step]
    ltp.add("p6b027e99a")
    token = {} if "no auth" in step else {"Authorization": f"Bearer {ltp.token()}"}
    answer = requests.request(method, ltp.url + path, json=body, headers=token, timeout=5)
    assert answer.status_code == record["status"]
    assert compact(answer.json()) == compact(record["json"])


def compact(reply):
    """Return a reply with the JSON that its message may hold in one form, without an order."""
    try:
        complaints = json.loads(reply["message"])
    except (KeyError, ValueError):
        return reply
    return {**reply, "message": sorted(complaints, key=json.dumps)}
