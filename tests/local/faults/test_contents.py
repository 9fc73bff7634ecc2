"""The control routes of job scripts and of what the server holds."""

from __future__ import annotations

import time

import pytest
import requests
from local_client import LocalClient, unique
from protocol_client import plugin
from waiting import wait_until

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    with LocalPai(api="v1") as pai:
        yield pai


@pytest.fixture
def pai(server):
    """An empty server."""
    server.empty()
    return server


def test_a_scripted_job_runs_no_command(pai, tmp_path):
    """Nor fetches code, which would fail."""
    pai.script_jobs(job="job-*", exit_code=7, stdout="out\n", stderr='it\'s "broken" $HOME `id`\n')
    client = LocalClient(pai)
    job = client.run(f"touch {tmp_path}/ran", codeDir="hdfs://nowhere:1/code")
    assert (job["jobStatus"]["state"], job["jobStatus"]["appExitCode"]) == ("FAILED", 7)
    assert client.log(job) == "out\n"
    assert client.log(job, stream="stderr") == 'it\'s "broken" $HOME `id`\n'
    assert list(tmp_path.iterdir()) == []


def test_a_scripted_v2_job_runs_no_command(local_pai_v2, v2, tmp_path):
    """Nor a plugin, which would fail."""
    name = unique("scripted")
    local_pai_v2.script_jobs(job=name, exit_code=7, stdout="out\n")
    job = v2.run(f"touch {tmp_path}/ran", name=name, extras=plugin("nosuch", {}))
    assert (job["jobStatus"]["appExitCode"], v2.log(job)) == (255, "out\n")
    assert list(tmp_path.iterdir()) == []


def test_the_first_rule_decides_until_it_is_used_up(pai):
    pai.script_jobs(job="a-*", exit_code=1, times=1)
    pai.script_jobs(job="a-*", exit_code=0)
    client = LocalClient(pai)
    states = [client.run("exit 9", name=unique("a"))["jobStatus"]["state"] for _ in range(3)]
    assert states == ["FAILED", "SUCCEEDED", "SUCCEEDED"]
    assert client.run("exit 9", name=unique("b"))["jobStatus"]["appExitCode"] == 9


def test_after_so_many_seconds(pai):
    pai.script_jobs(job="*", after=0.7)
    began = time.monotonic()
    LocalClient(pai).run("true")
    assert time.monotonic() - began >= 0.7


@pytest.mark.parametrize(("rule", "state"), [({"waits": True}, "WAITING"), ({"after": None}, "RUNNING")])
def test_until_it_is_stopped(pai, rule, state):
    pai.script_jobs(job="*", **rule)
    client = LocalClient(pai)
    name = client.submit("true")
    client.wait(name, state)
    time.sleep(0.3)
    assert client.status(name)["state"] == state
    client.stop(name)
    assert client.wait(name)["jobStatus"]["state"] == "STOPPED"


def test_a_job_whose_tasks_have_ended_is_reported_as_by_later_releases(pai):
    """0.10 to 0.14 call it WAITING; only its sub-state tells that it does not wait."""
    pai.script_jobs(job="*", completing=True, after=None)
    client = LocalClient(pai)
    name = client.submit("true")
    wait_until(lambda: client.status(name)["subState"] == "APPLICATION_COMPLETED")
    status = client.status(name)
    assert (status["state"], status["completedTime"]) == ("WAITING", None)
    client.stop(name)
    assert client.wait(name)["jobStatus"]["subState"] == "FRAMEWORK_COMPLETED"


def test_what_is_wrong_with_a_rule(pai):
    with pytest.raises(ConfigError) as caught:
        pai.script_jobs(job=3, exit_code=256, after=-1, times=-1, waits=1, when="now")
    said = str(caught.value)
    assert said.startswith("job scripts: [0].after: -1 is less than the minimum of 0; [0].exit_code: 256 is ")
    assert "'when' was unexpected" in said
    assert all(f"[0].{key}: " in said for key in ("job", "times", "waits"))
    with pytest.raises(ConfigError, match=r"^job scripts: \[0\]: 'job' is a required property"):
        pai.script_jobs(exit_code=1)
    with pytest.raises(ConfigError, match=r"job scripts: .* is not of type 'array'"):
        pai._control("POST", {"job": "*"}, "/local/job-scripts")


def test_emptying_ends_and_deletes_everything(pai):
    """Waiting, running and ended jobs, files, faults and scripts; names are free again."""
    pai.set_faults([{"fault": "error", "path": "/nothing"}])
    client = LocalClient(pai)
    ended = client.submit("true")
    client.wait(ended)
    running = client.submit("sleep 60")
    client.wait(running, "RUNNING")
    pai.script_jobs(job="*", waits=True)
    waiting = client.submit("true")
    requests.put(f"{pai.webhdfs_url}/webhdfs/v1/a/b?op=MKDIRS&user.name=admin", timeout=20)
    (pai.data / "storages" / "nfs1" / "file").touch()
    assert pai.jobs() == [{"name": name, "username": "admin"} for name in (ended, running, waiting)]
    pai.empty()
    assert pai.jobs() == pai.fault_counts() == []
    assert list((pai.data / "jobs").iterdir()) == []
    assert list((pai.data / "storages" / "nfs1").iterdir()) == []
    listed = requests.get(f"{pai.webhdfs_url}/webhdfs/v1/?op=LISTSTATUS&user.name=admin", timeout=20).json()
    assert {entry["pathSuffix"] for entry in listed["FileStatuses"]["FileStatus"]} == {"Output"}
    for name in (ended, running, waiting):
        assert client.run("true", name=name)["jobStatus"]["state"] == "SUCCEEDED"


def test_a_storage_that_is_a_link_is_left_as_it_is(pai, tmp_path):
    (tmp_path / "kept").touch()
    (pai.data / "storages" / "linked").symlink_to(tmp_path)
    pai.empty()
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_jobs_that_ended_long_ago_are_forgotten(pai):
    """What still runs stays."""
    client = LocalClient(pai)
    client.run("true")
    running = client.submit("sleep 60")
    pai.forget_jobs(time.time() - 60)
    assert len(pai.jobs()) == 2
    pai.forget_jobs(time.time() + 60)
    assert [job["name"] for job in pai.jobs()] == [running]
    with pytest.raises(ConfigError, match="the body must be"):
        pai._control("POST", {"endedBefore": "1"}, "/local/contents")
    client.stop(running)
    wait_until(lambda: client.status(running)["state"] == "STOPPED")
