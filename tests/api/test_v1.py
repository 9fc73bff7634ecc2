"""The v1 dialect against the replies recorded from a real rest-server 0.7.1."""

from __future__ import annotations

import json

import pytest
from mocked_rest import URL

from luigi_pai.api.dialects.v1 import V1Dialect
from luigi_pai.api.status import JobState, JobStatus, TaskStatus
from luigi_pai.errors import (
    AuthenticationError,
    InvalidReply,
    JobNotFound,
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


# ---------------------------------------------------------------- one job


IN_ALL = {"raw_state": "RUNNING", "username": "admin", "virtual_cluster": "default", "retries": 0}
ENDED = {"finished": True, "succeeded": False}


@pytest.mark.parametrize(
    ("step", "facts"),
    [
        (
            "flat get",
            {
                **IN_ALL,
                "created_ms": 1795161185532,
                **dict.fromkeys(("completed_ms", "exit_code", "diagnostics", "exit_type")),
                "progress": 0.0,
                "tasks": (TaskStatus("main", 0, log_url="http://nm:8042/node/containerlogs/x/admin/"),),
                "finished": False,
                "identified": True,
            },
        ),
        (
            "flat get stopped",
            {**ENDED, "raw_state": "STOPPED", "exit_code": 214, "completed_ms": 1795161185645}
            | {"diagnostics": None},
        ),
        (
            "flat get failed",
            {**ENDED, "raw_state": "FAILED", "exit_code": 1, "diagnostics": "diag"}
            | {"exit_type": "NON_TRANSIENT", "virtual_cluster": "vc1"},
        ),
    ],
)
def test_a_job_is_read(v1, say, observed, step, facts):
    """State, owner, times, exit and tasks are those of the reply; what is null is None."""
    say(step)
    status = v1.status(name := observed[step]["req"].rsplit("/", 1)[1])
    assert {fact: getattr(status, fact) for fact in facts} == facts
    assert (status.name, status.state.value) == (name, facts["raw_state"])


@pytest.mark.parametrize("step", ["flat get missing", "flat get deleted"])
def test_an_unknown_job_is_job_not_found(v1, say, observed, step):
    """NoJobError becomes JobNotFound, with the server's code and words."""
    say(step)
    name = observed[step]["req"].rsplit("/", 1)[1]
    with pytest.raises(JobNotFound) as caught:
        v1.status(name)
    assert str(caught.value) == f"GET {JOBS}/{name}: 404 NoJobError: Job {name} is not found."
    assert (caught.value.status, caught.value.code) == (404, "NoJobError")
    assert caught.value.server_message == f"Job {name} is not found."


def test_a_bare_404_is_job_not_found(v1, rest):
    """``{}`` with a 404, as users' mocked tests have it, is an unknown job too."""
    rest.get(f"{JOBS}/x", json={}, status=404)
    with pytest.raises(JobNotFound, match=f"^GET {JOBS}/x: 404 Not Found$"):
        v1.status("x")


def test_a_server_without_v1_jobs_says_which_dialect_is_missing(v1, say):
    """NoApiError, of releases from 1.1 on, is not an unknown job."""
    say("unknown", "/api/v1/jobs/x")
    with pytest.raises(
        PaiHttpError, match=r"NoApiError.*this release of OpenPAI does not have this API"
    ) as caught:
        v1.status("x")
    assert not isinstance(caught.value, JobNotFound)


@pytest.mark.parametrize("state", ["SUCCEEDED", "SUCCEED"])
def test_a_bare_reply_of_a_mocked_test_is_enough(v1, rest, state):
    """``{"jobStatus": {"state": ...}}`` alone is a status, with the server's word and contrib's."""
    rest.get(f"{JOBS}/x", json={"jobStatus": {"state": state}})
    status = v1.status("x")
    assert (status.name, status.succeeded, status.raw_state) == ("x", True, state)
    assert (status.username, status.created_ms, status.tasks) == (None, None, ())
    assert not status.identified


@pytest.mark.parametrize(
    "reply",
    [
        [],
        "RUNNING",
        None,
        7,
        {},
        {"jobStatus": None},
        {"jobStatus": "RUNNING"},
        {"jobStatus": {"state": None}},
    ],
    ids=json.dumps,
)
def test_a_reply_without_a_state_is_invalid(v1, rest, reply):
    """JSON that is no job's status is an error that names the job, not a crash and not a state."""
    rest.get(f"{JOBS}/x", body=json.dumps(reply))
    with pytest.raises(InvalidReply, match=r"^the server's reply for job 'x' has no jobStatus\.state$"):
        v1.status("x")


def test_odd_fields_are_read_as_far_as_they_can_be(v1, rest):
    """Numbers as strings, a 0 for "not yet", and what is no number at all (1.0 sends such) do no harm."""
    rest.get(
        f"{JOBS}/x",
        body=json.dumps(
            {
                "jobStatus": {
                    "state": "RUNNING",
                    "retries": "2",
                    "createdTime": "1795161185532",
                    "completedTime": 0,
                    "appExitCode": "none",
                    "appProgress": float("nan"),
                    "username": "",
                    "virtualCluster": 7,
                },
                "taskRoles": {
                    "main": {"taskStatuses": [{"taskIndex": "1"}, "odd", {"taskIndex": True}]},
                    "odd": None,
                    "empty": {"taskStatuses": None},
                },
            }
        ),
    )
    status = v1.status("x")
    assert (status.retries, status.created_ms, status.completed_ms) == (2, 1795161185532, None)
    assert (status.exit_code, status.progress, status.username, status.virtual_cluster) == (None,) * 4
    assert status.tasks == (TaskStatus("main", 1), TaskStatus("main", 0))


def test_an_unknown_state_is_no_end(v1, rest):
    """A state of a release yet unheard of reads as UNKNOWN and keeps the server's word."""
    rest.get(f"{JOBS}/x", json={"jobStatus": {"state": "HIBERNATING"}})
    status = v1.status("x")
    assert (status.state, status.raw_state, status.finished) == (JobState.UNKNOWN, "HIBERNATING", False)


@pytest.mark.parametrize(
    ("name", "quoted"),
    [
        ("done?x=1", "done%3Fx%3D1"),
        ("a/b", "a%2Fb"),
        ("../token", "..%2Ftoken"),
        ("a%b", "a%25b"),
        ("a%2Fb", "a%252Fb"),
        ("a#b", "a%23b"),
        ("grüße", "gr%C3%BC%C3%9Fe"),
        ("a b", "a%20b"),
        ("a~b", "a~b"),
    ],
)
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


# ---------------------------------------------------------------- the list


def test_the_list_of_a_user_is_read_in_its_order(v1, say):
    """Each row is a status, newest first as the server sends them."""
    say("flat list user")
    rows = v1.list("admin")
    assert [row.name for row in rows] == [
        "q6afffc61flatn",
        "q6afffc61flatw",
        "q6afffc61flat~t",
        "q6afffc61flatp",
        "q6afffc61flat",
    ]
    assert {(row.state, row.username, row.exit_code) for row in rows} == {(JobState.RUNNING, "admin", None)}
    assert (rows[1].virtual_cluster, rows[0].created_ms, rows[0].tasks) == ("vc1", 1795161185595, ())


def test_an_empty_list_is_empty(v1, say):
    """A user without jobs has an empty list."""
    say("flat list other user")
    assert v1.list("zzz") == []


def test_rows_that_are_no_jobs_are_left_out(v1, rest):
    """A row without a name is not a job."""
    rest.get(f"{JOBS}?username=admin", json=[{"name": "a", "state": "RUNNING"}, {"state": "x"}, None, 3])
    assert [row.name for row in v1.list("admin")] == ["a"]


def test_a_list_that_is_no_list_is_invalid(v1, rest):
    """The v2 form of a list, or anything else, is an error."""
    rest.get(f"{JOBS}?username=admin", json={"totalCount": 0, "data": []})
    with pytest.raises(InvalidReply, match=r"^the server sent dict instead of a list of jobs$"):
        v1.list("admin")


# ---------------------------------------------------------------- submit and stop


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


def test_201_of_later_releases_is_success_too(logged_in, rest):
    """0.12 and later answer 201 with a Location."""
    rest.post(JOBS, status=201, json={"message": "ok"}, headers={"Location": f"{JOBS}/x"})
    logged_in.submit(JOB)
    assert rest.calls[-1].request.body.decode() == JOB.to_json()


def test_a_name_in_use_is_a_name_conflict(logged_in, say):
    """ConflictJobError becomes NameConflict."""
    say("flat post dup")
    with pytest.raises(NameConflict) as caught:
        logged_in.submit(JOB)
    assert str(caught.value) == (f"POST {JOBS}: 409 ConflictJobError: Job name q6afffc61flat already exists")
    assert (caught.value.status, caught.value.code) == (409, "ConflictJobError")


@pytest.mark.parametrize(
    ("step", "status", "code"),
    [
        ("flat post schema", 400, "InvalidParametersError"),
        ("flat post extra key", 400, "InvalidParametersError"),
        ("flat post minfail", 400, "InvalidParametersError"),
        ("flat post killall", 400, "InvalidParametersError"),
        ("flat post jobEnvs", 400, "InvalidParametersError"),
        ("flat post badjson", 400, None),
        ("flat post bad vc", 404, "NoVirtualClusterError"),
    ],
)
def test_a_refused_job_is_explained_in_the_servers_words(logged_in, say, observed, step, status, code):
    """A refusal of the job keeps status, code and message, is one line, and is no missing job or login."""
    say(step)
    with pytest.raises(PaiHttpError) as caught:
        logged_in.submit(JOB)
    message = observed[step]["message"]
    assert str(caught.value) == f"POST {JOBS}: {status} {code or 'Bad Request'}: {message}"
    assert (caught.value.status, caught.value.code, caught.value.server_message) == (status, code, message)
    assert type(caught.value) is PaiHttpError


@pytest.mark.parametrize("step", ["flat post noauth", "flat post badtoken"])
def test_a_token_that_the_server_does_not_take_names_the_setting(logged_in, say, step):
    """An application token is not replaced by a login: the error says that it is the token."""
    say(step)
    with pytest.raises(AuthenticationError) as caught:
        logged_in.submit(JOB)
    assert str(caught.value) == (
        f"POST {JOBS}: 401 UnauthorizedUserError: Guest is not allowed to do this operation; "
        "the server does not accept the token of [OpenPai] in luigi.cfg: make a new application token on "
        "your profile page of the web portal, and write token = ... there"
    )
    assert (caught.value.status, caught.value.code) == (401, "UnauthorizedUserError")


@pytest.mark.parametrize("step", ["flat stop", "flat exec bad"])
def test_a_stop_is_sent_as_the_server_wants_it(logged_in, rest, say, step):
    """Stopping puts ``{"value": "STOP"}`` with the token, and 202 is success."""
    say(step)
    logged_in.stop("q6afffc61flat")
    request = rest.calls[0].request
    assert (request.method, request.url) == ("PUT", f"{JOBS}/q6afffc61flat/executionType")
    assert json.loads(request.body) == {"value": "STOP"}
    assert request.headers["Authorization"] == "Bearer application-token"


def test_a_missing_job_cannot_be_stopped(logged_in, say):
    """The launcher's UnknownError for a job that it does not know is JobNotFound."""
    say("flat exec missing job")
    with pytest.raises(
        JobNotFound, match=r"^job 'q6afffc61flatq' was not stopped: the server has no job of that name$"
    ) as caught:
        logged_in.stop("q6afffc61flatq")
    assert (caught.value.status, caught.value.code) == (404, "UnknownError")


@pytest.mark.parametrize("step", ["flat exec noauth", "flat exec missing body"])
def test_a_refused_stop_is_explained_in_the_servers_words(logged_in, say, observed, step):
    """What the server says to a stop is handed on."""
    say(step)
    with pytest.raises(PaiHttpError) as caught:
        logged_in.stop("q6afffc61flat")
    assert (caught.value.status, caught.value.code) == (observed[step]["status"], observed[step]["code"])
    assert observed[step]["message"].rstrip(".") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("reply", [{"jobName": "j"}, '{"jobName": "j"}'], ids=["0.7", "0.8"])
def test_the_config_of_a_job_is_read(v1, rest, reply):
    """An object on 0.7, a text that holds one on 0.8 to 0.11."""
    rest.get(f"{JOBS}/j/config", json=reply)
    assert v1.config("j") == {"jobName": "j"}


@pytest.mark.parametrize("reply", ["no JSON", "[]", None, ["x"]])
def test_a_malformed_config_is_an_invalid_reply(v1, rest, reply):
    """Named by its path."""
    rest.get(f"{JOBS}/j/config", body=json.dumps(reply))
    with pytest.raises(InvalidReply, match=r"^the server answered /api/v1/jobs/j/config with "):
        v1.config("j")


@pytest.mark.parametrize(
    ("config", "folder"),
    [({"outputDir": "hdfs://h:9000/o"}, "hdfs://h:9000/o"), ({"outputDir": ""}, None), ({}, None)],
)
def test_the_output_folder_of_a_job_is_read(v1, config, folder):
    """As the server has completed it."""
    assert v1.output_folder(config) == folder


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
    with pytest.raises(SpecError, match=r"is a job of the YAML protocol, and this cluster \(OpenPAI 0\.7"):
        logged_in.submit(protocol)
    assert len(rest.calls) == 0


def test_what_v1_servers_do_not_have_is_empty(v1, rest):
    """No events, no logs; nothing is asked."""
    status = JobStatus("j", JobState.FAILED)
    assert (v1.events("j"), v1.task_logs(status, "main", 0)) == ([], ())
    assert not v1.gives_logs
    assert len(rest.calls) == 0


def test_the_virtual_clusters_are_read(v1, rest):
    """By name."""
    rest.get(f"{URL}/api/v1/virtual-clusters", json={"default": {"capacity": 100}})
    assert v1.virtual_clusters() == {"default": {"capacity": 100}}


# ---------------------------------------------------------------- the login

IF_IT_IS_RIGHT = (
    "; if it is right, set token = ... (an application token) instead: OpenPAI's successor LTP may refuse "
    "right passwords"
)


@pytest.mark.parametrize(
    ("step", "hint"),
    [
        (
            "login wrong",
            f"; set the right password in [OpenPai] of luigi.cfg{IF_IT_IS_RIGHT}",
        ),
        ("login nouser", "; set the right username in [OpenPai] of luigi.cfg"),
        ("login exp 10", "; check username, password and expiration in [OpenPai] of luigi.cfg"),
        ("login missing", "; check username, password and expiration in [OpenPai] of luigi.cfg"),
    ],
)
def test_a_refused_login_says_why_and_what_to_set(v1, say, observed, step, hint):
    """The 400s of the login are AuthenticationError, with the server's code and the setting to change."""
    say(step)
    with pytest.raises(AuthenticationError) as caught:
        v1.submit(JOB)
    record = observed[step]
    message = record["message"].rstrip(".")
    assert str(caught.value) == f"login of user 'admin' at {URL} was refused: {message}{hint}"
    assert (caught.value.status, caught.value.code) == (400, record["code"])


def test_without_a_password_the_error_says_so(new_session, say):
    """No password in luigi.cfg is told before anything about a wrong one."""
    say("login missing")
    with pytest.raises(
        AuthenticationError, match=r"; no password is set; write password = \.\.\. \(or token"
    ):
        V1Dialect(new_session(URL, password=None)).submit(JOB)


def test_the_recorded_login_is_a_token(v1, rest, say):
    """The recorded reply of a login is enough to post with."""
    say("login")
    say("flat post")
    v1.submit(JOB)
    assert rest.calls[1].request.headers["Authorization"] == "Bearer <jwt>"
