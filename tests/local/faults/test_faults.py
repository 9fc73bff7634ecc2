"""Faults on request: what rules may say, whom they strike, and that a client gets through them."""

from __future__ import annotations

import contextlib
import http.client
import math
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests
from local_client import LocalClient, unique

from luigi_pai.errors import ConfigError
from luigi_pai.files import HdfsError, WebHdfs
from luigi_pai.local import LocalPai
from luigi_pai.local.config.rules import parse_faults, read_faults


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


def test_everything_that_is_wrong_is_said_at_once():
    """Each with its place."""
    rules = [
        {"fault": "explode", "rate": 2, "often": 1},
        "error",
        {"path": "api", "count": -1, "skip": True, "seconds": "1", "status": 404, "method": "get"},
    ]
    with pytest.raises(ConfigError) as caught:
        parse_faults({"seed": "x", "rules": rules, "more": 1})
    said = str(caught.value)
    assert said.startswith("faults: ")
    assert said.count("rules[") == 11
    for part in (
        "seed: 'x' is not of type 'integer'",
        "('more' was unexpected)",
        "rules[0].fault: 'explode' is not one of ['delay', 'error', 'reset', 'drop', 'expire',",
        "rules[0].rate: 2 is greater than the maximum of 1",
        "rules[0]: Additional properties are not allowed ('often' was unexpected)",
        "rules[1]: 'error' is not of type 'object'",
        "rules[2]: 'fault' is a required property",
        "rules[2].status: 404 is less than the minimum of 500",
        "rules[2].method: 'get' is not one of ['GET', 'HEAD'",
    ):
        assert part in said


def test_faults_are_json():
    with pytest.raises(ConfigError, match="--faults is not JSON: Expecting value"):
        read_faults("rules:")
    assert read_faults(' [{"fault": "error"}]') == [{"fault": "error"}]
