"""V1Dialect: names in paths, and submissions; test_exchanges.py has its single requests."""

from __future__ import annotations

import json

import pytest
from api_cases import cases
from mocked_rest import URL

from luigi_pai.api.dialects.v1 import V1Dialect
from luigi_pai.errors import (
    NameConflict,
    PaiHttpError,
    SpecError,
)
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.protocol import JobProtocol

JOBS = f"{URL}/api/v1/jobs"
TOKEN = f"{URL}/api/v1/token"
SERVER = "v0.7.1"

JOB = PaiJob("q6afffc61flat", "ubuntu", [TaskRole("main", "sleep 1", memoryMB=1024)])


@pytest.fixture
def v1(new_session):
    return V1Dialect(new_session(URL))


@pytest.fixture
def logged_in(new_session):
    return V1Dialect(new_session(URL, token="application-token"))


@cases("name quoted")
def test_names_are_quoted_in_every_path(new_session, serve, name, quoted):
    """Whatever a name holds, it stays one segment of the path, on the wire."""
    server = serve(lambda _: (200, {}, '{"jobStatus": {"state": "RUNNING"}, "message": "done"}'))
    dialect = V1Dialect(new_session(server.url, token="t"))
    assert dialect.status(name).name == name
    dialect.stop(name)
    assert [asked.path for asked in server.asked] == [
        f"/api/v1/jobs/{quoted}",
        f"/api/v1/jobs/{quoted}/executionType",
    ]


def test_the_user_is_quoted_in_the_query(new_session, serve):
    """A user name cannot add to the query of a list."""
    server = serve(lambda _: (200, {}, "[]"))
    V1Dialect(new_session(server.url)).list("a&username=b c")
    assert server.asked[0].path == "/api/v1/jobs?username=a%26username%3Db%20c"


def test_a_job_is_posted_as_json_with_the_token(v1, rest, say, make_token):
    """The body is the job's text, the token that of the login; 202 is success."""
    token = make_token()
    rest.post(TOKEN, json={"user": "admin", "token": token, "admin": True})
    say("flat post")
    v1.submit(JOB)
    login, post = (call.request for call in rest.calls)
    assert json.loads(login.body) == {
        "username": "admin",
        "password": "admin-password",
        "expiration": 3600,
    }
    assert post.headers["Content-Type"] == login.headers["Content-Type"] == "application/json"
    assert post.headers["Authorization"] == f"Bearer {token}"
    assert post.body.decode() == JOB.to_json()


def test_a_name_in_use_is_a_name_conflict(logged_in, say):
    """ConflictJobError becomes NameConflict."""
    say("flat post dup")
    with pytest.raises(NameConflict) as caught:
        logged_in.submit(JOB)
    assert str(caught.value) == (f"POST {JOBS}: 409 ConflictJobError: Job name q6afffc61flat already exists")
    assert (caught.value.status, caught.value.code) == (409, "ConflictJobError")


def test_a_tilde_that_is_refused_is_named(logged_in, rest):
    """0.7 took it, 0.8 does not."""
    rest.post(JOBS, status=400, json={"code": "InvalidParametersError", "message": '"jobName" fails'})
    with pytest.raises(PaiHttpError, match=r"fails; OpenPAI 0\.8 to 0\.14 do not allow '~' in a name"):
        logged_in.submit(PaiJob("a~b", "ubuntu", [TaskRole("main", "true")]))
    with pytest.raises(PaiHttpError, match=r"fails$"):
        logged_in.submit(JOB)


def test_a_protocol_is_no_job_for_a_v1_cluster(logged_in, rest):
    """It says which clusters run it; nothing is sent."""
    protocol = JobProtocol.from_dict({"protocolVersion": 2, "name": "p", "type": "job", "taskRoles": {}})
    with pytest.raises(SpecError, match=r"is a job in the YAML protocol, and this cluster \(OpenPAI 0\.7"):
        logged_in.submit(protocol)
    assert len(rest.calls) == 0
