"""Job: the handle of a job, on a local OpenPAI 0.7.1 and 1.8, and on a server with faults."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from mocked_rest import JOB
from ports import refused_port

from luigi_pai.api.job import Job
from luigi_pai.api.polling import Polling
from luigi_pai.errors import (
    ClusterUnreachable,
    PaiJobFailed,
    PaiJobLost,
    PaiJobTimeout,
)
from luigi_pai.jobspec.job import PaiJob, TaskRole

if TYPE_CHECKING:
    from luigi_pai import Cluster

_serial = itertools.count()


@pytest.fixture(params=["v1", "v2"])
def local(request):
    """A local OpenPAI that speaks a dialect."""
    return request.getfixturevalue("local_pai_v1" if request.param == "v1" else "local_pai_v2")


@pytest.fixture
def is_v2(request, local):
    return local is request.getfixturevalue("local_pai_v2")


@pytest.fixture
def cluster(local, new_cluster) -> Cluster:
    """A cluster that has yet to learn which."""
    return new_cluster(
        local.url,
        password=local.password,
        fs_uri=local.fs_uri,
        portal_url=local.url,
        polling=Polling(shortest=0.05, longest=0.5),
    )


@pytest.fixture
def submit(cluster):
    """Submit a command as a job of one task."""

    def new(command: str) -> Job:
        name = f"job-{time.time_ns():x}-{next(_serial)}"
        return cluster.submit(PaiJob(name, "x", [TaskRole("main", command, memoryMB=512)]))

    return new


# ---------------------------------------------------------------- on a local OpenPAI


def test_a_job_is_submitted_and_waited_for(submit, local, is_v2):
    """Without a luigi.cfg, without a task: what a script does. The server has its config, and its events."""
    job = submit("true")
    changes = []
    status = job.wait(on_change=changes.append)
    assert status.succeeded
    assert changes[-1] == status == job.status()
    assert (status.name, status.username, status.exit_code) == (job.name, "admin", 0)
    assert job.failure() is None
    page = "job-detail.html?username=admin&jobName=" if is_v2 else "view.html?jobName="
    assert job.url == f"{local.url}/{page}{job.name}"
    assert job.config()["name" if is_v2 else "jobName"] == job.name
    roles = job.config()["taskRoles"]
    assert (list(roles) if is_v2 else [role["name"] for role in roles]) == ["main"]
    assert [event for event in job.events() if not isinstance(event, dict)] == []


@pytest.mark.slow
def test_a_failed_job_says_why(submit, is_v2):
    """wait() returns the end, whichever it is; failure() says what happened, where to look."""
    job = submit("echo begin; echo boom >&2; exit 3")
    status = job.wait()
    assert status.raw_state == "FAILED"
    error = job.failure()
    assert type(error) is PaiJobFailed
    assert (error.status, error.job_name) == (status, job.name)
    first, *others = str(error).splitlines()
    assert first.startswith(f"job '{job.name}' ended as FAILED with exit code ")
    assert f"  job page: {job.url}" in others
    if is_v2:
        assert ", its command with 3" in first
        assert "  last lines of main[0]:" in others
        assert "    boom" in others
    again = Job(job.book, job.name)
    assert str(again.failure()) == str(error)


def test_a_job_is_stopped(submit):
    """It is STOPPED soon."""
    job = submit("sleep 60")
    assert job.failure() is None
    job.stop()
    assert job.wait().raw_state == "STOPPED"
    assert str(job.failure()).startswith(f"job '{job.name}' ended as STOPPED")


def test_the_logs_of_a_task(submit, is_v2):
    """By their names, as far as the release gives them out."""
    job = submit("echo out; echo err >&2")
    job.wait()
    logs = job.logs("main")
    assert logs["stdout"].splitlines()[-1] == "out"
    assert "err" in logs["stderr"]
    if not is_v2:
        long = submit("seq 10000")  # more than a page of a YARN node shows by itself
        long.wait()
        assert len(long.logs("main")["stdout"].splitlines()) == 10_000
        return
    assert {"out", "err"} <= set(logs["all"].splitlines())
    assert job.logs("main", tail=True).keys() == logs.keys()


def test_logs_that_cannot_be_read_name_the_setting_of_the_portal(local_pai_v2, new_cluster):
    """On v2 they are read from the portal, whose address is a guess if it is not set."""
    nowhere = f"http://127.0.0.1:{refused_port()}"
    cluster = new_cluster(local_pai_v2.url, password=local_pai_v2.password, portal_url=nowhere)
    job = cluster.submit(PaiJob(f"job-{time.time_ns():x}", "x", [TaskRole("main", "true", memoryMB=512)]))
    job.wait()
    with pytest.raises(ClusterUnreachable, match=r"set portal_url in \[OpenPai\] of luigi\.cfg to its URL$"):
        job.logs("main")


@pytest.mark.slow
def test_a_script_needs_no_luigi(local_pai_v2):
    """Submitting, waiting and reading why a job failed import none of it."""
    local = local_pai_v2
    script = f"""
import sys
from luigi_pai import Cluster, PaiJob, TaskRole
from luigi_pai.api.polling import Polling

cluster = Cluster({local.url!r}, {local.username!r}, password={local.password!r}, fs_uri={local.fs_uri!r},
                  polling=Polling(shortest=0.05))
job = cluster.submit(PaiJob("script-{time.time_ns():x}", "x", [TaskRole("main", "exit 3", memoryMB=512)]))
print(job.wait().state.value, type(job.failure()).__name__)
assert 'luigi' not in sys.modules
"""
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.stderr == ""
    assert run.stdout.split() == ["FAILED", "PaiJobFailed"]


# ---------------------------------------------------------------- on a server with faults


@pytest.fixture
def faulty_cluster(faulty, new_cluster, clock):
    return new_cluster(faulty.url, clock=clock, polling=Polling(patience=100))


def test_a_handle_asks_nothing(faulty, faulty_cluster):
    """Until it is asked."""
    job = faulty_cluster.job("j")
    assert repr(job) == f"Job('j', '{faulty.url}')"
    assert faulty.calls == []


@pytest.mark.parametrize(
    ("release", "since", "page"),
    [
        ("0.7.1", {}, "view.html?jobName=j"),
        ("0.7.1", {"retryDetails": {}}, "job-detail.html?jobName=j"),  # 0.12 and later
        ("1.0.1", {}, "job-detail.html?username=admin&jobName=j"),
        ("1.8.0", {}, "job-detail.html?username=admin&jobName=j"),
    ],
)
def test_the_address_of_a_page_is_right_before_any_lookup(faulty, faulty_cluster, release, since, page):
    """The job is looked up once for it, as the portal of 0.12 has another page."""
    faulty.release = release
    shown = faulty.add("j").detail()
    if since:
        body = {**shown, "jobStatus": {**shown["jobStatus"], **since}}
        faulty.fail("GET", "/jobs/j$", 200, times=float("inf"), body=body)
    job = faulty_cluster.job("j")
    assert job.url == f"{faulty.url}/{page}"
    calls = len(faulty.calls)
    assert job.url == f"{faulty.url}/{page}"
    assert len(faulty.calls) == calls


def test_the_address_of_a_page_is_no_error_while_the_server_is_away(faulty, faulty_cluster):
    """It is that of the oldest releases then."""
    faulty.down()
    assert faulty_cluster.job("j").url == f"{faulty.url}/view.html?jobName=j"


def test_only_a_job_is_submitted(faulty, faulty_cluster):
    """Whoever knows executors may write the call of a function."""
    with pytest.raises(TypeError, match=r"takes one job; a function runs as a job with call\(fit, 0\.1\)$"):
        faulty_cluster.submit(max, 0.1, image="python:3")
    assert faulty.calls == []


def test_a_finished_job_is_asked_for_once(faulty, faulty_cluster):
    """Its end is remembered, and handed to on_change too."""
    faulty.add("j")
    job, changes = faulty_cluster.job("j"), []
    assert [job.wait(on_change=changes.append) for _ in range(3)] == changes
    assert job.status() == changes[0]
    assert len(faulty.calls) == 1


def test_a_job_that_the_server_loses_is_lost(faulty, faulty_cluster, clock):
    """After a minute, and the error says what to do."""
    faulty.plan = {"runs_for": 3600}
    job = faulty_cluster.submit(JOB)
    job.status()
    began = clock.monotonic()
    clock_sleep = clock.sleep

    def sleep(seconds):
        clock_sleep(seconds)
        if clock.monotonic() - began > 100:
            faulty.jobs.clear()

    clock.sleep = sleep
    with pytest.raises(PaiJobLost) as caught:
        job.wait()
    assert str(caught.value) == (
        f"job 'j' is no longer on {faulty.url}: it was deleted, or it ended longer ago than the "
        "server keeps jobs; if its results are complete, put a file _SUCCESS into its output folder, "
        "else run the task again to submit it again"
    )
    assert caught.value.job_name == "j"
    assert 160 <= clock.monotonic() - began < 220


@pytest.mark.parametrize("release", ["0.7.1", "1.8.0"])
def test_a_job_that_queues_too_long_is_stopped(faulty, faulty_cluster, clock, release):
    """At its time, also where it had been there for a while."""
    faulty.release = release
    faulty.add("j", runs_for=3600)
    waiting = {"state": "WAITING", "username": "admin", "createdTime": int(clock.time() * 1000)}
    faulty.fail(
        "GET",
        "/jobs/(admin~)?j$",
        200,
        times=float("inf"),
        body={"name": "j", "jobStatus": waiting, "taskRoles": {}},
        when=lambda _: "j" in faulty.jobs and faulty.jobs["j"].state == "RUNNING",
    )
    clock.advance(100)
    began = clock.monotonic()
    job = Job(faulty_cluster.book.with_version("v1" if release == "0.7.1" else "v2"), "j")
    assert job.wait(queue_timeout=160, run_timeout=1).raw_state == "STOPPED"
    assert 60 <= clock.monotonic() - began < 75
    assert faulty.count("PUT", "/executionType$") == 1
    error = job.failure()
    assert type(error) is PaiJobTimeout
    assert "\n  it was stopped because it waited for longer than queue_timeout\n" in str(error)


@pytest.mark.parametrize("kind", ["reset", "truncated", 500, 503, 429])
def test_transient_errors_are_waited_out(faulty, faulty_cluster, kind):
    """From the first lookup on."""
    faulty.add("other")
    faulty_cluster.book.status("other")
    faulty.add("j", runs_for=120)
    faulty.fail("GET", "/jobs/j$", kind, times=4)
    job = faulty_cluster.job("j")
    assert job.wait(on_change=lambda _: faulty.fail("GET", "/jobs/j$", kind, times=4)).succeeded


def test_an_interrupted_wait_leaves_the_job_alone(faulty, faulty_cluster, clock):
    """Ctrl-C stops the waiting, not the job."""
    faulty.plan = {"runs_for": 3600}
    job = faulty_cluster.submit(JOB)

    def sleep(_seconds):
        raise KeyboardInterrupt

    clock.sleep = sleep
    with pytest.raises(KeyboardInterrupt):
        job.wait()
    assert faulty.jobs["j"].state == "RUNNING"
