"""The v2 dialect against the replies recorded from a real rest-server 1.8.0."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
import responses
import yaml
from places import DATA

from luigi_pai.api.dialects.v2 import LogFile, V2Dialect
from luigi_pai.api.status import JobState, JobStatus, TaskStatus
from luigi_pai.errors import (
    AuthenticationError,
    InvalidReply,
    JobNotFound,
    NameConflict,
    PaiHttpError,
    PermissionRefused,
    RateLimited,
    ServerFault,
)
from luigi_pai.spec.job import PaiJob, TaskRole
from luigi_pai.spec.protocol import JobProtocol

URL = "http://pai.test:9186"
JOBS = f"{URL}/api/v2/jobs"
OBSERVED = DATA / "observed_v1.8.0.json"
TEXT = "protocolVersion: 2\nname: p\n"


@pytest.fixture(scope="session")
def observed_v2():
    """Return what the real rest-server 1.8.0 answered, by probe step."""
    return {step["step"]: step for step in json.loads(OBSERVED.read_text(encoding="utf-8"))}


@pytest.fixture
def rest():
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


@pytest.fixture
def say(rest, observed_v2):
    """Let the mock answer as the real server did in a step of the probe."""

    def reply(step: str, path: str | None = None, **headers: str) -> None:
        record = observed_v2[step]
        method, target = record["req"].split(" ", 1)
        rest.add(
            method,
            URL + (path or target).partition("?")[0],
            body=record["text"] if record["json"] is None else json.dumps(record["json"]),
            status=record["status"],
            content_type=record["ctype"],
            headers=headers,
        )

    return reply


@pytest.fixture
def v2(new_session):
    """The dialect of a user with an application token."""
    return V2Dialect(new_session(URL, token="application-token"))


@pytest.fixture
def asked(rest):
    return lambda: [f"{call.request.method} {call.request.url.removeprefix(URL)}" for call in rest.calls]


# ---------------------------------------------------------------- one job


def test_a_running_job_is_read(v2, say):
    """State, owner, times and tasks of a running job are those of the reply; what is null is None."""
    say("get")
    status = v2.status("p6afffdb1a")
    assert (status.name, status.state, status.raw_state) == ("p6afffdb1a", JobState.RUNNING, "RUNNING")
    assert (status.username, status.virtual_cluster, status.retries) == ("admin", "default", 0)
    assert (status.created_ms, status.completed_ms, status.attempt) == (1795161521526, None, 0)
    assert (status.exit_code, status.diagnostics, status.exit_type) == (None, None, None)
    assert (status.tracking_url, status.progress) == (None, None)
    assert status.tasks == (TaskStatus("worker", 0, state="RUNNING", attempt=0),)
    assert not status.finished
    assert status.identified


def test_a_failed_job_is_read(v2, say):
    """A failed job tells its exit code, its class in words, what may help, and which task decided."""
    say("get failed")
    status = v2.status("p6afffdb1i")
    assert (status.state, status.exit_code) == (JobState.FAILED, 1)
    assert status.exit_type == "PAIRuntimeExitAbnormally"
    assert status.exit_reason == ("PAI Runtime exit abnormally with undefined exitcode, it may have bugs")
    assert status.exit_solution == "Contact PAI Dev to fix PAI Runtime bugs"
    assert status.exit_task == ("worker", 0)
    assert status.diagnostics.startswith("PodPattern matched:")
    assert status.tasks == (TaskStatus("worker", 0, state="FAILED", exit_code=1, attempt=0),)


def test_a_succeeded_job_is_read(v2, say):
    """A succeeded job has ended well."""
    say("get succeeded")
    status = v2.status("p6afffdb1b")
    assert status.succeeded
    assert (status.exit_code, status.completed_ms) == (0, 1795161524530)


def test_a_stopped_job_is_read(v2, say):
    """A stopped job has ended, and not well."""
    say("get stopped")
    status = v2.status("p6afffdb1a")
    assert (status.state, status.finished, status.succeeded) == (JobState.STOPPED, True, False)


def test_an_unknown_job_is_job_not_found(v2, say):
    """NoJobError becomes JobNotFound, with the full name in the address."""
    say("get missing")
    with pytest.raises(JobNotFound) as caught:
        v2.status("nosuch")
    assert str(caught.value) == f"GET {JOBS}/admin~nosuch: 404 NoJobError: Job admin~nosuch is not found."


def test_one_attempt_is_read(v2, say, asked):
    """A start of the job by the cluster has a status of its own."""
    say("attempt 0")
    say("attempt 9")
    assert v2.attempt("p6afffdb1a", 0).attempt == 0
    with pytest.raises(JobNotFound, match="JobAttemptId 9 is not found"):
        v2.attempt("p6afffdb1a", 9)
    assert asked() == [f"GET /api/v2/jobs/admin~p6afffdb1a/attempts/{number}" for number in (0, 9)]


@pytest.mark.parametrize(
    ("user", "name", "path"),
    [("a b", "j", "a%20b~j"), ("u", "a/b?c", "u~a%2Fb%3Fc"), ("u~v", "j", "u~v~j")],
)
def test_names_are_quoted(new_session, rest, user, name, path, asked):
    """Whatever a name holds, it is one step of the address."""
    rest.get(re.compile(f"{JOBS}/.*"), json={"jobStatus": {"state": "RUNNING"}})
    V2Dialect(new_session(URL, token="t-application", username=user)).status(name)
    assert asked() == [f"GET /api/v2/jobs/{path}"]


# ---------------------------------------------------------------- submitting


def test_a_protocol_is_posted_as_text(v2, say, rest):
    """The YAML goes out as it is, as text/yaml with the token: application/* is refused."""
    say("submit")
    v2.post("# as written: é\nname: p\n")
    request = rest.calls[0].request
    assert request.body.decode() == "# as written: é\nname: p\n"
    assert request.headers["Content-Type"] == "text/yaml"
    assert request.headers["Authorization"] == "Bearer application-token"


def test_a_name_in_use(v2, say):
    """409 is a NameConflict."""
    say("submit dup")
    with pytest.raises(NameConflict, match="ConflictJobError: Job admin~p6afffdb1a already exists"):
        v2.post(TEXT)


def test_what_the_server_finds_wrong_is_readable(v2, say):
    """The JSON array of a refusal becomes a sentence for each finding."""
    say("submit schema err")
    with pytest.raises(PaiHttpError) as caught:
        v2.post(TEXT)
    assert str(caught.value) == (
        f'POST {JOBS}: 400 InvalidProtocolError: name: should match pattern "^[a-zA-Z0-9_-]+$"; '
        "should have required property 'type'; should have required property 'taskRoles'"
    )
    assert caught.value.code == "InvalidProtocolError"


@pytest.mark.parametrize(
    ("finding", "sentence"),
    [
        (
            {
                "dataPath": "",
                "message": "should NOT have additional properties",
                "params": {"additionalProperty": "prerequisites"},
            },
            "should NOT have additional properties: 'prerequisites', which needs OpenPAI 1.6",
        ),
        (
            {
                "dataPath": ".defaults",
                "message": "should NOT have additional properties",
                "params": {"additionalProperty": "deploy"},
            },
            "defaults: should NOT have additional properties: 'deploy'",
        ),
        (
            {
                "instancePath": "/type",
                "message": "must be equal to one of the allowed values",
                "params": {"allowedValues": ["job", "script"]},
            },
            "type: must be equal to one of the allowed values: job, script",
        ),
        ({"message": "odd", "params": None}, "odd"),
    ],
)
def test_a_finding_names_what_it_is_about(v2, rest, finding, sentence):
    """The property that an older release does not know, and which does; the values that there are."""
    rest.post(JOBS, status=400, json={"code": "InvalidProtocolError", "message": json.dumps([finding, 7])})
    with pytest.raises(PaiHttpError) as caught:
        v2.post(TEXT)
    assert str(caught.value) == f"POST {JOBS}: 400 InvalidProtocolError: {sentence}"


@pytest.mark.parametrize("message", ["Prerequisite x does not exist.", "{}", "[]", "[7]"])
def test_a_refusal_in_plain_words_is_said_as_it_is(v2, rest, message):
    """What is no list of findings."""
    rest.post(JOBS, status=400, json={"code": "InvalidProtocolError", "message": message})
    with pytest.raises(PaiHttpError) as caught:
        v2.post(TEXT)
    assert str(caught.value) == f"POST {JOBS}: 400 InvalidProtocolError: {message}"


def test_another_api_v2_is_told_apart(v2, rest):
    """0.8 to 0.14 had one at the same address, which wants a ``type`` of the job."""
    rest.post(JOBS, status=400, json={"code": "InvalidParametersError", "message": '"type" is required'})
    with pytest.raises(
        PaiHttpError, match=r"is required; this server has no API for the YAML job protocol: OpenPAI 0\.8"
    ):
        v2.post(TEXT)


def test_a_v1_job_is_posted_converted(v2, rest, caplog):
    """And what is lost in between is logged; what is shown before is what is sent."""
    rest.post(JOBS, status=202, json={"message": "ok"})
    job = PaiJob("j", "ubuntu", [TaskRole("main", "true", memoryMB=512)], retryCount=2, gpuType="K80")
    shown = v2.document(job)
    assert caplog.messages == []
    v2.submit(job)
    assert [line.partition(": ")[0] for line in caplog.messages] == ["Job j on a v2 cluster"]
    (sent,) = [yaml.safe_load(call.request.body) for call in rest.calls]
    assert (sent["name"], sent["jobRetryCount"], list(sent["taskRoles"])) == ("j", 2, ["main"])
    assert shown == sent


def test_secrets_are_not_in_the_shown_document(v2, rest):
    """They are in what is sent."""
    rest.post(JOBS, status=202, json={"message": "ok"})
    job = JobProtocol.from_dict(
        {
            "protocolVersion": 2,
            "name": "p",
            "type": "job",
            "secrets": {"key": "hush-hush"},
            "prerequisites": [{"type": "dockerimage", "name": "image", "uri": "x"}],
            "taskRoles": {
                "main": {
                    "instances": 1,
                    "dockerImage": "image",
                    "resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 0},
                    "commands": ["echo <% $secrets.key %>"],
                }
            },
        }
    )
    assert "hush" not in repr(v2.document(job))
    v2.submit(job)
    assert b"hush-hush" in rest.calls[0].request.body


@pytest.mark.parametrize(
    ("step", "kind", "message"),
    [
        ("submit bad image", PaiHttpError, "InvalidProtocolError: Prerequisite nope does not exist."),
        ("submit bad vc", PermissionRefused, "User admin is not allowed to do operation in nosuchvc"),
        ("submit bad storage", PaiHttpError, "404 NoStorageError: Storage nope is not found."),
        ("submit >100kB", PaiHttpError, "413 .*request entity too large"),
        ("submit bad yaml", ServerFault, "unexpected end of the stream"),
    ],
)
def test_other_refusals(v2, say, step, kind, message):
    """Each refusal is its error, in the server's words."""
    say(step)
    with pytest.raises(kind, match=message):
        v2.post(TEXT)


def test_a_job_is_stopped(v2, say, rest):
    """STOP is put to its executionType."""
    say("stop")
    v2.stop("p6afffdb1a")
    assert json.loads(rest.calls[0].request.body) == {"value": "STOP"}


def test_a_missing_job_to_stop(v2, say):
    say("stop missing")
    with pytest.raises(JobNotFound):
        v2.stop("nosuch")


def test_the_config_is_read(v2, say):
    """It comes as JSON under the name of YAML; secrets are stars."""
    say("config")
    config = v2.config("p6afffdb1a")
    assert config["name"] == "p6afffdb1a"
    assert config["secrets"] == "******"


# ---------------------------------------------------------------- lists


def test_a_list_is_read(v2, say):
    """Each row is a job, in the server's order."""
    say("list")
    jobs = v2.list()
    assert [job.name for job in jobs][:3] == ["p6afffdb1a", "p6afffdb1k", "p6afffdb1b"]
    assert {job.username for job in jobs} == {"admin"}


def test_filters_are_sent(v2, rest):
    """Every filter has its key; nothing is sent for what was not asked."""
    rest.get(JOBS, json=[])
    v2.list(
        "admin",
        keyword="a&b",
        states=["RUNNING", "WAITING"],
        virtual_clusters=["vc1"],
        tags=["t1", "t2"],
        order="jobName,ASC",
        limit=7,
    )
    v2.list()
    queries = [parse_qs(urlsplit(call.request.url).query) for call in rest.calls]
    assert queries[0] == {
        "state": ["RUNNING,WAITING"],
        "vc": ["vc1"],
        "tagsContain": ["t1,t2"],
        "username": ["admin"],
        "keyword": ["a&b"],
        "order": ["jobName,ASC"],
        "offset": ["0"],
        "limit": ["7"],
    }
    assert queries[1] == {"offset": ["0"], "limit": ["5000"]}


def rows(first, count):
    return [
        {"name": f"j{number}", "username": "admin", "state": "RUNNING"}
        for number in range(first, first + count)
    ]


def test_pages_are_fetched_until_the_last(v2, rest):
    """12,000 jobs are three pages."""

    def page(request):
        query = parse_qs(urlsplit(request.url).query)
        offset, limit = int(query["offset"][0]), int(query["limit"][0])
        return 200, {}, json.dumps(rows(offset, min(limit, 12000 - offset)))

    rest.add_callback("GET", JOBS, page)
    assert len(v2.list()) == 12000
    assert len(rest.calls) == 3
    assert [job.name for job in v2.list(limit=5001)][-1] == "j5000"


def test_a_server_without_pages_is_asked_once_more_at_most(v2, rest):
    """Releases before 1.2 answer every page with everything."""
    rest.get(JOBS, json=rows(0, 5000))
    assert len(v2.list()) == 5000
    assert len(rest.calls) == 2


def test_a_server_that_knows_no_filter(v2, rest):
    """Of what 0.15 answers, which filters nothing, the user's own jobs are returned, by their plain name."""
    others = [{"name": "x", "username": "bob", "state": "RUNNING"}]
    rest.get(JOBS, json=[*others, {"name": "admin~y", "username": "admin", "state": "RUNNING"}])
    assert [job.name for job in v2.list("admin")] == ["y"]


@pytest.mark.parametrize("reply", [{}, "x", None])
def test_a_list_that_is_none(v2, rest, reply):
    rest.get(JOBS, body=json.dumps(reply))
    with pytest.raises(InvalidReply, match="answered a list of jobs with"):
        v2.list()


# ---------------------------------------------------------------- what a job and a cluster have


def test_logs_are_named_without_their_addresses(v2, rest):
    """A log's address carries a token of its own, which no repr shows."""
    path = f"{JOBS}/admin~j/attempts/1/taskRoles/worker/taskIndex/2/attempts/3/logs"
    rest.get(path, json={"locations": [{"name": "all", "uri": "/log-manager/1.2.3.4:9103/x?token=abc"}]})
    files = v2.logs("j", "worker", 2, job_attempt=1, task_attempt=3, tail=True)
    assert files == (LogFile("all", "/log-manager/1.2.3.4:9103/x?token=abc"),)
    assert repr(files) == "(LogFile(name='all'),)"
    assert rest.calls[0].request.url == f"{path}?tail-mode=true"


def test_logs_that_are_not_to_be_had(v2, say):
    """As recorded without a log server."""
    say("logs")
    with pytest.raises(ServerFault, match="Failed to get log list"):
        v2.logs("p6afffdb1a", "worker")


def test_the_logs_of_a_task_are_those_of_its_last_start(v2, rest):
    """Of the job's last start by the cluster, as its status says."""
    status = JobStatus(
        "j",
        JobState.FAILED,
        attempt=2,
        tasks=(TaskStatus("worker", 0, attempt=5), TaskStatus("worker", 1, attempt=3)),
    )
    path = f"{JOBS}/admin~j/attempts/2/taskRoles/worker/taskIndex/{{}}/attempts/{{}}/logs"
    for index, attempt in ((1, 3), (7, 0)):
        rest.get(path.format(index, attempt), json={"locations": [{"name": "all", "uri": "/x"}]})
        assert v2.task_logs(status, "worker", index, tail=False) == (LogFile("all", "/x"),)


@pytest.mark.parametrize("reply", [{}, {"locations": None}, {"locations": [7, {"name": "all"}, {"uri": 7}]}])
def test_odd_locations_are_left_out(v2, rest, reply):
    """A log without an address is none."""
    rest.get(f"{JOBS}/admin~j/attempts/0/taskRoles/w/taskIndex/0/attempts/0/logs", json=reply)
    assert v2.logs("j", "w") == ()


@pytest.mark.parametrize(
    ("prerequisites", "folder"),
    [
        ([{"type": "output", "uri": "hdfs://h/o"}, {"type": "data", "uri": "hdfs://h/d"}], "hdfs://h/o"),
        ([{"type": "output", "uri": "a"}, {"type": "output", "uri": "b"}], None),
        ([{"type": "output", "uri": 7}, "odd"], None),
        ({"type": "output"}, None),
        (None, None),
    ],
)
def test_the_output_folder_of_a_protocol_is_read(v2, prerequisites, folder):
    """If there is just one."""
    assert v2.output_folder({"prerequisites": prerequisites}) == folder


def test_task_attempts(v2, say):
    say("task attempts")
    task = v2.task_attempts("p6afffdb1a", "worker", 0)
    assert [attempt["attemptId"] for attempt in task["attempts"]] == [0]


def test_job_attempts_without_history(v2, say):
    """As recorded with the job history service off."""
    say("job-attempts")
    with pytest.raises(ServerFault, match="Unexpected Call"):
        v2.job_attempts("p6afffdb1a")


def test_job_attempts(v2, rest):
    rest.get(f"{JOBS}/admin~j/job-attempts", json=[{"jobName": "j"}])
    assert v2.job_attempts("j") == [{"jobName": "j"}]


def test_events(v2, say, rest, asked):
    say("events")
    assert v2.events("p6afffdb1a") == []
    rest.get(f"{JOBS}/admin~j/events", json={"totalCount": 1, "data": [{"type": "Warning"}, 7]})
    assert v2.events("j", "Warning") == [{"type": "Warning"}]
    assert asked()[-1] == "GET /api/v2/jobs/admin~j/events?type=Warning"


def test_tags(v2, say, rest):
    say("tag add")
    say("tag del")
    v2.add_tag("p6afffdb1a", "t1")
    v2.remove_tag("p6afffdb1a", "t1")
    assert [(call.request.method, json.loads(call.request.body)) for call in rest.calls] == [
        ("PUT", {"value": "t1"}),
        ("DELETE", {"value": "t1"}),
    ]


def test_a_tag_that_is_not_there(v2, say):
    say("tag del missing")
    with pytest.raises(PaiHttpError, match="NoTagError"):
        v2.remove_tag("p6afffdb1a", "t1")


def test_the_cluster(v2, say, asked):
    """Its release, virtual clusters and storages are read."""
    for step in ("info", "vc list", "vc get", "vc missing", "storages", "storages default", "storage get"):
        say(step)
    assert v2.info()["version"] == "v1.8.0"
    assert list(v2.virtual_clusters()) == ["default"]
    assert v2.virtual_cluster("default")["capacity"] == 100
    with pytest.raises(PaiHttpError, match="Vc nope not found"):
        v2.virtual_cluster("nope")
    assert [storage["name"] for storage in v2.storages()] == ["nfs1"]
    assert [storage["name"] for storage in v2.storages(default=True)] == ["nfs1"]
    assert v2.storage("nfs1")["type"] == "nfs"
    assert "GET /api/v2/storages?default=true" in asked()


@pytest.mark.parametrize("call", [lambda v2: v2.info(), lambda v2: v2.job_attempts("j")])
def test_an_answer_of_another_shape(v2, rest, call):
    rest.get(re.compile(".*"), json="text")
    with pytest.raises(InvalidReply, match=r"answered /api/v2/.* with str in place of"):
        call(v2)


# ---------------------------------------------------------------- tokens and limits


def test_everything_carries_the_token(new_session, say, rest):
    """A read logs in first: from 1.0 on everything needs the token."""
    say("login v1 token")
    say("get")
    V2Dialect(new_session(URL)).status("p6afffdb1a")
    assert [call.request.headers.get("Authorization") for call in rest.calls] == [None, "Bearer <jwt>"]


def test_a_token_that_is_not_taken(v2, say):
    """An application token that was revoked is named as such."""
    say("revoked app used", "/api/v2/jobs/admin~j")
    with pytest.raises(AuthenticationError, match="the server does not take the token of"):
        v2.status("j")


@pytest.mark.parametrize("password", ["a-password", None])
def test_a_cluster_without_passwords(new_session, rest, password):
    """An OIDC cluster has no login by password, nor has a wrong path in pai_url: the error says both."""
    rest.post(
        f"{URL}/api/v1/token",
        json={"code": "NoApiError", "message": "API /api/v1/token is not found."},
        status=404,
    )
    with pytest.raises(AuthenticationError) as caught:
        V2Dialect(new_session(URL, password=password)).status("j")
    assert str(caught.value) == (
        f"login of user 'admin' at {URL} was refused: API /api/v1/token is not found.; either the path in "
        "pai_url in [OpenPai] of luigi.cfg is wrong, or this cluster has no login by password (OIDC): check "
        "pai_url, or make an application token on your profile page of the web portal and write token = ... "
        "in [OpenPai] of luigi.cfg"
    )


def test_a_used_up_limit_is_not_run_into(v2, rest):
    """When an answer says that none is left, the next request of its kind is not sent; others are."""
    reset = 4102444800
    rest.get(JOBS, json=[], headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)})
    rest.get(
        f"{JOBS}/admin~j", json={"jobStatus": {"state": "RUNNING"}}, headers={"X-RateLimit-Remaining": "5"}
    )
    v2.list()
    with pytest.raises(
        RateLimited, match=r"GET .*/jobs\?.*: not sent, the server's limit of requests is used up for \d+ s"
    ) as caught:
        v2.list()
    assert not caught.value.sent
    v2.status("j")
    v2.status("j")
    assert len(rest.calls) == 3


def test_a_limit_ends_after_its_window_whatever_the_clocks_say(v2, rest):
    """A server whose clock is years ahead does not stop a client for years."""
    headers = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "4102444800"}
    rest.get(JOBS, json=[], headers=headers)
    v2.list()
    with pytest.raises(RateLimited, match=r"used up for (59|60) s"):
        v2.list()


def test_a_window_that_is_over(v2, rest):
    """A limit whose end has passed holds nothing up."""
    rest.get(JOBS, json=[], headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1000"})
    v2.list()
    v2.list()
    assert len(rest.calls) == 2
