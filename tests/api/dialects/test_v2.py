"""V2Dialect: submissions, lists, logs and limits; test_exchanges.py has its single requests."""

from __future__ import annotations

import re
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml
from job_cases import protocol
from mocked_rest import URL

from luigi_pai.api.dialects.v2 import LogFile, V2Dialect
from luigi_pai.api.status import JobState, JobStatus, TaskStatus
from luigi_pai.errors import PaiHttpError, RateLimited, SpecError
from luigi_pai.jobspec.dialects.yaml_text import write_yaml
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.protocol import JobProtocol

JOBS = f"{URL}/api/v2/jobs"
SERVER = "v1.8.0"


@pytest.fixture
def v2(new_session):
    """The dialect of a user with an application token."""
    return V2Dialect(new_session(URL, token="application-token"))


# ---------------------------------------------------------------- submitting


def test_a_protocol_is_posted_as_text(v2, say, rest):
    """The YAML goes out as it is, as text/yaml with the token: application/* is refused."""
    say("submit")
    text = "# as written: é\nprotocolVersion: 2\nname: p\n"
    v2.submit(JobProtocol.from_yaml(text))
    request = rest.calls[0].request
    assert request.body.decode() == text
    assert request.headers["Content-Type"] == "text/yaml"
    assert request.headers["Authorization"] == "Bearer application-token"


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
    job = JobProtocol.from_dict(protocol("echo <% $secrets.key %>", secrets={"key": "hush-hush"}))
    assert "hush" not in repr(v2.document(job))
    v2.submit(job)
    assert b"hush-hush" in rest.calls[0].request.body


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
    v2.list("admin", states=["RUNNING", "WAITING"], tags=["t1", "t2"])
    v2.list()
    queries = [parse_qs(urlsplit(call.request.url).query) for call in rest.calls]
    assert queries[0] == {
        "state": ["RUNNING,WAITING"],
        "tagsContain": ["t1,t2"],
        "username": ["admin"],
        "offset": ["0"],
        "limit": ["5000"],
    }
    assert queries[1] == {"offset": ["0"], "limit": ["5000"]}


ROW = '{"name": "j%d", "username": "admin", "state": "RUNNING"}'


@pytest.mark.slow
@pytest.mark.parametrize(("count", "has_pages", "requests"), [(27000, True, 3), (5000, False, 2)])
def test_pages_are_fetched_until_the_last(v2, rest, count, has_pages, requests):
    """The first has 5,000 jobs, each further one 20,000; before 1.2 every page has everything."""

    def page(request):
        query = parse_qs(urlsplit(request.url).query)
        offset, limit = int(query["offset"][0]), int(query["limit"][0])
        numbers = range(offset, min(offset + limit, count)) if has_pages else range(count)
        return 200, {}, f"[{','.join([ROW % number for number in numbers])}]"

    rest.add_callback("GET", JOBS, page)
    assert len(v2.list()) == count
    assert len(rest.calls) == requests


# ---------------------------------------------------------------- what a job and a cluster have


def test_a_release_that_serves_no_logs_is_remembered(v2, rest):
    """As releases before 1.4 answer."""
    assert v2.gives_logs
    rest.get(re.compile(f"{JOBS}/admin~old/.*/logs"), status=404, json={"code": "NoApiError", "message": "x"})
    with pytest.raises(PaiHttpError, match=r"OpenPAI before 1\.4 serves no logs"):
        v2.task_logs(JobStatus("old", JobState.RUNNING), "worker", 0)
    assert not v2.gives_logs


def test_the_logs_of_a_task_are_those_of_its_last_start(v2, rest):
    """Of the job's last start by the cluster, as its status says; no repr shows the token of an address."""
    tasks = (TaskStatus("worker", 0, attempt=5), TaskStatus("worker", 1, attempt=3))
    status = JobStatus("j", JobState.FAILED, attempt=2, tasks=tasks)
    path = f"{JOBS}/admin~j/attempts/2/taskRoles/worker/taskIndex/{{}}/attempts/{{}}/logs"
    uri = "/log-manager/1.2.3.4:9103/x?token=abc"
    for index, attempt in ((1, 3), (7, 0)):
        rest.get(path.format(index, attempt), json={"locations": [{"name": "all", "uri": uri}]})
        files = v2.task_logs(status, "worker", index)
        assert files == (LogFile("all", uri),)
        assert repr(files) == "(LogFile(name='all', paged=False),)"


def test_a_list_of_all_users_that_is_refused_is_one_of_the_virtual_clusters(v2, rest):
    """LTP 1.5 refuses it to a user who had other virtual clusters once; those of now may be asked for."""
    refused = {"code": "ForbiddenUserError", "message": "not allowed"}
    rest.get(f"{URL}/api/v2/jobs?offset=0&limit=5000", json=refused, status=403)
    rest.get(f"{URL}/api/v2/virtual-clusters", json={"day": {}, "night": {}})
    row = {"name": "bob~j", "username": "bob", "state": "RUNNING"}
    rest.get(f"{URL}/api/v2/jobs?vc=day%2Cnight&offset=0&limit=5000", json=[row])
    assert [job.name for job in v2.list(None)] == ["j"]


# ---------------------------------------------------------------- tokens and limits


def test_a_used_up_limit_is_not_run_into(v2, rest):
    """When an answer says that none is left, the next request of its kind is not sent; others are.

    A server whose clock is years ahead does not stop a client for years.
    """
    reset = 4102444800
    rest.get(JOBS, json=[], headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": str(reset)})
    rest.get(
        f"{JOBS}/admin~j", json={"jobStatus": {"state": "RUNNING"}}, headers={"X-RateLimit-Remaining": "5"}
    )
    v2.list()
    with pytest.raises(
        RateLimited,
        match=r"GET .*/jobs\?.*: not sent, the server's rate limit is reached for another (59|60) s",
    ) as caught:
        v2.list()
    assert not caught.value.sent
    v2.status("j")
    v2.status("j")
    assert len(rest.calls) == 3
