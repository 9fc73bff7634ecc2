"""The control routes: faults on request, job scripts, and what the server holds."""

from __future__ import annotations

import contextlib
import http.client
import math
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from local_cases import cases
from local_client import LocalClient, unique
from protocol_client import plugin
from waiting import wait_until

from luigi_pai.errors import ConfigError
from luigi_pai.files import HdfsError, WebHdfs
from luigi_pai.local import LocalPai
from luigi_pai.local.config.rules import parse_faults, parse_job_scripts, read_faults


@pytest.fixture(scope="module")
def faulty():
    """A 0.7.1 of its own whose faults tests change."""
    with LocalPai(api="v1") as server:
        yield server


@pytest.fixture
def strike(faulty):
    """Put one rule in force; afterwards none is."""

    def put(fault, **more):
        faulty.set_faults([{"fault": fault, **more}])

    yield put
    faulty.set_faults()


def get(server, path="/api/v1/jobs", **more):
    return requests.get(server.url + path, timeout=20, **more)


@pytest.mark.slow
def test_an_error_is_answered_as_often_as_its_rule_says(faulty, strike):
    """The third and fourth request that match; others are left alone."""
    strike("error", status=502, path="/api/v1/jobs", skip=2, count=2)
    assert [get(faulty).status_code for _ in range(6)] == [200, 200, 502, 502, 200, 200]
    assert get(faulty, "/rest-server/api/v1/jobs").status_code == 200
    assert get(faulty, "/api/v1/virtual-clusters").status_code == 200
    (rule,) = faulty.fault_counts()
    assert (rule["seen"], rule["struck"]) == (7, 2)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_faults(faulty):
    """A run can be repeated; another seed gives another one."""

    def run(seed):
        faulty.set_faults({"seed": seed, "rules": [{"fault": "error", "rate": 0.5}]})
        return [get(faulty).status_code for _ in range(40)]

    first = run(7)
    assert set(first) == {200, 503}
    assert run(7) == first
    assert run(8) != first
    faulty.set_faults()


@pytest.mark.slow
def test_a_delay_comes_before_the_answer(faulty, strike):
    strike("delay", seconds=0.1, method="GET")
    before = time.monotonic()
    assert get(faulty).status_code == 200
    assert time.monotonic() - before >= 0.1


def test_a_reset_comes_before_the_work(faulty, strike):
    """The job was not taken."""
    client = LocalClient(faulty)
    strike("reset", method="POST", path="/api/v1/jobs")
    with pytest.raises(requests.ConnectionError):
        client.post("reset-job", "true")
    assert get(faulty, "/api/v1/jobs/reset-job").status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "error"),
    [
        ({"fault": "drop"}, requests.ConnectionError),
        ({"fault": "error", "status": 502, "executed": True}, requests.HTTPError),
    ],
)
def test_an_answer_that_is_lost_comes_after_the_work(rule, error, faulty, strike):
    """The job was taken, and nobody was told; or as from a proxy that gives up too early."""
    client, name = LocalClient(faulty), unique()
    strike(**rule, method="POST", path="/api/v1/jobs")
    with pytest.raises(error, match=None if rule["fault"] == "drop" else "502"):
        client.post(name, "true").raise_for_status()
    assert client.wait(name)["jobStatus"]["state"] == "SUCCEEDED"


@pytest.mark.slow
def test_an_expired_token_is_of_no_use_until_the_next_login(faulty, strike):
    """It is this token that ends, for good; the route answers as it does to any ended token."""
    client = LocalClient(faulty)
    other = LocalClient(faulty)
    strike("expire", count=1)
    assert client.post("expired", "true").status_code == 401
    assert client.post("expired", "true").json()["code"] == "UnauthorizedUserError"
    assert other.post("expired", "true").status_code == 202


@pytest.mark.parametrize(("pause", "accepted"), [(0.0, 1), (0.4, 2)], ids=["together", "in turn"])
def test_logins_at_the_same_moment_lose_each_others_tokens(faulty, strike, pause, accepted):
    """Only those that overlap, as the last of them replaces what the others have stored."""
    strike("race", method="POST", path="*/token", seconds=0.2)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(LocalClient, faulty)
        time.sleep(pause)
        clients = [LocalClient(faulty), first.result()]
    posts = [client.post(unique(), "true").status_code for client in clients]
    assert sorted(posts) == [202] * accepted + [401] * (2 - accepted)


def test_a_limit_is_answered_as_the_real_server_does(faulty, strike):
    """429 as HTML; Retry-After is the whole window, X-RateLimit-Reset the true moment."""
    strike("limit", seconds=3)
    before = math.ceil(time.time() + 3)
    reply = get(faulty)
    assert reply.status_code == 429
    assert reply.headers["Content-Type"] == "text/html; charset=utf-8"
    assert reply.headers["Retry-After"] == "60"
    assert before <= int(reply.headers["X-RateLimit-Reset"]) <= math.ceil(time.time() + 3)


def test_a_namenode_in_safe_mode_refuses_changes(faulty, strike):
    """As HDFS does; the refusal is one that ends by itself."""
    fs = WebHdfs(faulty.url, "admin")
    strike("safe-mode", method=["PUT", "POST", "DELETE"], path="/webhdfs/*", count=1)
    with pytest.raises(HdfsError, match="SafeModeException: Name node is in safe mode") as caught:
        fs.mkdir("/p")
    assert caught.value.transient
    fs.mkdir("/p")
    assert fs.isdir("/p")


@pytest.mark.parametrize("fault", ["error", "limit"])
def test_a_fault_of_a_head_has_no_body(faulty, strike, fault):
    """It would be taken for the answer to the next request of the connection."""
    strike(fault, path="/", count=1)
    connection = http.client.HTTPConnection(faulty.url.removeprefix("http://"), timeout=20)
    with contextlib.closing(connection):
        connection.request("HEAD", "/")
        answer = connection.getresponse()
        assert answer.status == (503 if fault == "error" else 429)
        assert int(answer.headers["Content-Length"]) > 0
        answer.read()
        connection.request("GET", "/")
        assert connection.getresponse().status == 200


def test_the_control_route_has_no_faults(faulty):
    faulty.set_faults([{"fault": "reset", "path": "/*"}])
    with pytest.raises(requests.ConnectionError):
        get(faulty)
    faulty.set_faults()
    assert get(faulty).status_code == 200


@pytest.mark.parametrize(("parse", "value", "parts"), cases("everything_that_is_wrong_is_said_at_once"))
def test_everything_that_is_wrong_is_said_at_once(parse, value, parts):
    """Each with its place."""
    with pytest.raises(ConfigError) as caught:
        {"faults": parse_faults, "job scripts": parse_job_scripts}[parse](value)
    found = str(caught.value)
    assert found.startswith(f"{parse}: ")
    assert [part for part in parts if part not in found] == []
    assert found.count("; ") == len(parts) - 1


def test_faults_are_json():
    with pytest.raises(ConfigError, match="--faults is not JSON: Expecting value"):
        read_faults("rules:")
    assert read_faults(' [{"fault": "error"}]') == [{"fault": "error"}]


@pytest.fixture
def pai(faulty):
    """An empty server; afterwards, too, it has no job scripts."""
    faulty.empty()
    yield faulty
    faulty.empty()


@pytest.mark.slow
def test_a_scripted_job_runs_no_command(pai, local_pai_v2, v2, tmp_path):
    """Nor fetches code, nor starts a plugin, which would fail."""
    pai.script_jobs(job="job-*", exit_code=7, stdout="out\n", stderr='it\'s "broken" $HOME `id`\n')
    client = LocalClient(pai)
    job = client.run(f"touch {tmp_path}/ran", codeDir="hdfs://nowhere:1/code")
    assert (job["jobStatus"]["state"], job["jobStatus"]["appExitCode"]) == ("FAILED", 7)
    assert client.log(job) == "out\n"
    assert client.log(job, stream="stderr") == 'it\'s "broken" $HOME `id`\n'
    name = unique("scripted")
    local_pai_v2.script_jobs(job=name, exit_code=7, stdout="out\n")
    job = v2.run(f"touch {tmp_path}/ran", name=name, extras=plugin("nosuch", {}))
    assert (job["jobStatus"]["appExitCode"], v2.log(job)) == (255, "out\n")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_the_first_rule_decides_until_it_is_used_up(pai):
    pai.script_jobs(job="a-*", exit_code=1, times=1)
    pai.script_jobs(job="a-*", exit_code=0)
    client = LocalClient(pai)
    states = [client.run("exit 9", name=unique("a"))["jobStatus"]["state"] for _ in range(3)]
    assert states == ["FAILED", "SUCCEEDED", "SUCCEEDED"]
    assert client.run("exit 9", name=unique("b"))["jobStatus"]["appExitCode"] == 9


@pytest.mark.slow
def test_after_so_many_seconds(pai):
    pai.script_jobs(job="*", after=0.7)
    began = time.monotonic()
    LocalClient(pai).run("true")
    assert time.monotonic() - began >= 0.7


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_an_invalid_rule_is_refused(pai):
    with pytest.raises(ConfigError, match=r"^job scripts: \[0\]: 'job' is a required property"):
        pai.script_jobs(exit_code=1)


@pytest.mark.slow
def test_emptying_ends_and_deletes_everything(pai, tmp_path):
    """Waiting, running and ended jobs, files, faults and scripts; names are free again.

    A storage that is a link is left as it is.
    """
    (tmp_path / "kept").touch()
    (pai.data / "storages" / "linked").symlink_to(tmp_path)
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
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]
    listed = requests.get(f"{pai.webhdfs_url}/webhdfs/v1/?op=LISTSTATUS&user.name=admin", timeout=20).json()
    assert {entry["pathSuffix"] for entry in listed["FileStatuses"]["FileStatus"]} == {"Output"}
    for name in (ended, running, waiting):
        assert client.run("true", name=name)["jobStatus"]["state"] == "SUCCEEDED"


@pytest.mark.slow
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
