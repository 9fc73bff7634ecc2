"""V2Dialect against replies recorded from a real rest-server 1.8.0: status and submission."""

from __future__ import annotations

import json
import re

import pytest
import yaml
from mocked_rest import URL

from luigi_pai.api.dialects.v2 import V2Dialect
from luigi_pai.api.status import TaskStatus
from luigi_pai.errors import (
    JobNotFound,
    NameConflict,
    PaiHttpError,
    PermissionRefused,
    ServerFault,
    SpecError,
)
from luigi_pai.jobspec.dialects.yaml_text import write_yaml
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.protocol import JobProtocol

JOBS = f"{URL}/api/v2/jobs"
SERVER = "v1.8.0"
TEXT = "protocolVersion: 2\nname: p\n"


# ---------------------------------------------------------------- one job


RUNTIME_ERROR = {
    "exit_type": "PAIRuntimeExitAbnormally",
    "exit_reason": "PAI Runtime exit abnormally with undefined exitcode, it may have bugs",
    "exit_solution": "Contact PAI Dev to fix PAI Runtime bugs",
}


@pytest.mark.parametrize(
    ("step", "facts"),
    [
        (
            "get",
            {
                "raw_state": "RUNNING",
                "username": "admin",
                "virtual_cluster": "default",
                "retries": 0,
                "created_ms": 1795161521526,
                "attempt": 0,
                "finished": False,
                "identified": True,
                **dict.fromkeys(("completed_ms", "exit_code", "diagnostics", "exit_type", "progress")),
                "tasks": (TaskStatus("worker", 0, state="RUNNING", attempt=0, launched_ms=1795161521544),),
            },
        ),
        ("get failed", {"raw_state": "FAILED", "exit_code": 1, "exit_task": ("worker", 0), **RUNTIME_ERROR}),
        (
            "get succeeded",
            {"raw_state": "SUCCEEDED", "succeeded": True, "exit_code": 0, "completed_ms": 1795161524530},
        ),
        ("get stopped", {"raw_state": "STOPPED", "finished": True, "succeeded": False}),
    ],
)
def test_a_job_is_read(v2, say, observed, step, facts):
    """State, owner, times, tasks, and of a failed one why, what may help, and which task decided."""
    say(step)
    status = v2.status(name := observed[step]["req"].partition("~")[2])
    assert {fact: getattr(status, fact) for fact in facts} == facts
    assert (status.name, status.state.value) == (name, facts["raw_state"])


def test_a_failed_task_is_read(v2, say):
    """It has the facts of the job's end, and its own times."""
    say("get failed")
    status = v2.status("p6afffdb1i")
    (task,) = status.tasks
    assert (task.role, task.index, task.state, task.exit_code, task.attempt) == ("worker", 0, "FAILED", 1, 0)
    assert (task.launched_ms, task.completed_ms) == (1795161524535, 1795161524535)
    assert {fact: getattr(task, fact) for fact in RUNTIME_ERROR} == RUNTIME_ERROR
    for diagnostics in (status.diagnostics, task.diagnostics):
        assert diagnostics.startswith("PodPattern matched:")


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
    [("a b", "j", "a%20b~j"), ("u", "a/b?c", "u~a-b-c-9e3e44"), ("u~v", "j", "u~v~j")],
)
def test_names_are_quoted(new_session, rest, user, name, path, asked):
    """Whatever a name contains, it is one segment of the path."""
    rest.get(re.compile(f"{JOBS}/.*"), json={"jobStatus": {"state": "RUNNING"}})
    V2Dialect(new_session(URL, token="t-application", username=user)).status(name)
    assert asked() == [f"GET /api/v2/jobs/{path}"]


# ---------------------------------------------------------------- submitting


def test_a_protocol_is_posted_as_text(v2, say, rest):
    """The YAML goes out as it is, as text/yaml with the token: application/* is refused."""
    say("submit")
    text = f"# as written: é\n{TEXT}"
    v2.submit(JobProtocol.from_yaml(text))
    request = rest.calls[0].request
    assert request.body.decode() == text
    assert request.headers["Content-Type"] == "text/yaml"
    assert request.headers["Authorization"] == "Bearer application-token"


def test_a_name_in_use(v2, say):
    """409 is a NameConflict."""
    say("submit dup")
    with pytest.raises(NameConflict, match="ConflictJobError: Job admin~p6afffdb1a already exists"):
        v2.submit(JobProtocol.from_yaml(TEXT))


def test_what_the_server_finds_wrong_is_readable(v2, say):
    """The JSON array of a refusal becomes a sentence for each finding."""
    say("submit schema err")
    with pytest.raises(PaiHttpError) as caught:
        v2.submit(JobProtocol.from_yaml(TEXT))
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
        v2.submit(JobProtocol.from_yaml(TEXT))
    assert str(caught.value) == f"POST {JOBS}: 400 InvalidProtocolError: {sentence}"


@pytest.mark.parametrize("message", ["Prerequisite x does not exist.", "{}", "[]", "[7]"])
def test_a_refusal_in_plain_words_is_said_as_it_is(v2, rest, message):
    """What is no list of findings."""
    rest.post(JOBS, status=400, json={"code": "InvalidProtocolError", "message": message})
    with pytest.raises(PaiHttpError) as caught:
        v2.submit(JobProtocol.from_yaml(TEXT))
    assert str(caught.value) == f"POST {JOBS}: 400 InvalidProtocolError: {message}"


def test_another_api_v2_is_recognised(v2, rest):
    """0.8 to 0.14 had one at the same address, which wants a ``type`` of the job."""
    rest.post(JOBS, status=400, json={"code": "InvalidParametersError", "message": '"type" is required'})
    with pytest.raises(
        PaiHttpError, match=r"is required; this server has no API for the YAML job protocol: OpenPAI 0\.8"
    ):
        v2.submit(JobProtocol.from_yaml(TEXT))


def test_a_v1_job_is_posted_converted(v2, rest, caplog):
    """And what is lost in between is logged; what is shown before is what is sent."""
    rest.post(JOBS, status=202, json={"message": "ok"})
    job = PaiJob("j", "ubuntu", [TaskRole("main", "true", memoryMB=512)], retryCount=2, gpuType="K80")
    shown = v2.document(job)
    assert caplog.messages == []
    v2.submit(job)
    assert [line.partition(": ")[0] for line in caplog.messages] == [
        "Job j, and others like it, on a v2 cluster"
    ]
    (sent,) = [yaml.safe_load(call.request.body) for call in rest.calls]
    assert (sent["name"], sent["jobRetryCount"], list(sent["taskRoles"])) == ("j", 2, ["main"])
    assert shown == sent


def test_the_yaml_that_was_checked_is_posted(v2, rest, monkeypatch):
    """It is written once."""
    rest.post(JOBS, status=202, json={"message": "ok"})
    written = []

    def write(value):
        written.append(write_yaml(value))
        return written[-1]

    for module in ("protocol", "submission"):
        monkeypatch.setattr(f"luigi_pai.jobspec.{module}.write_yaml", write)
    v2.submit(PaiJob("j", "ubuntu", [TaskRole("main", "true", memoryMB=512)]))
    assert [call.request.body.decode() for call in rest.calls] == written


def test_a_converted_job_that_is_too_large_is_not_posted(v2, rest):
    """The check of the protocol finds it."""
    job = PaiJob("j", "ubuntu", [TaskRole("main", "x" * 102_000)])
    with pytest.raises(SpecError, match=r"has 10\d,\d+ bytes; servers accept at most 102,400"):
        v2.submit(job)
    assert len(rest.calls) == 0


def test_what_many_jobs_lose_is_logged_once(v2, rest, caplog):
    """Folders differ by the name only; nothing is said of the output folder that a task has by default."""
    rest.post(JOBS, status=202, json={"message": "ok"})
    for name in ("a", "b", "b__attempt2"):
        folder = f"$PAI_DEFAULT_FS_URI/{name[0]}/output"
        role = TaskRole("main", "true", memoryMB=512, shmMB=64)
        v2.submit(PaiJob(name, "ubuntu", [role], outputDir=folder))
    assert caplog.messages == []
    for name in ("a2", "b2"):
        job = PaiJob(name, "ubuntu", [role], dataDir=f"$PAI_DEFAULT_FS_URI/{name}", gpuType="K80")
        v2.submit(job)
    assert [message.partition(": ")[2].partition(" ")[0] for message in caplog.messages] == [
        "gpuType:",
        "dataDir:",
    ]


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
        v2.submit(JobProtocol.from_yaml(TEXT))


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
