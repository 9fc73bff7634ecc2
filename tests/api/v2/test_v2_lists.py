"""V2Dialect against replies recorded from a real rest-server 1.8.0: lists, logs, events, tags, limits."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest
from mocked_rest import URL

from luigi_pai.api.dialects.v2 import LogFile, V2Dialect
from luigi_pai.api.status import JobState, JobStatus, TaskStatus
from luigi_pai.errors import (
    AuthenticationError,
    InvalidReply,
    PaiHttpError,
    PermissionRefused,
    RateLimited,
    ServerFault,
)

JOBS = f"{URL}/api/v2/jobs"
SERVER = "v1.8.0"


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


def test_a_server_that_knows_no_filter(v2, rest):
    """Of what 0.15 answers, which filters nothing, the user's own jobs are returned, by their plain name."""
    others = [{"name": "x", "username": "bob", "state": "RUNNING"}]
    rest.get(JOBS, json=[*others, {"name": "admin~y", "username": "admin", "state": "RUNNING"}])
    assert [job.name for job in v2.list("admin")] == ["y"]


@pytest.mark.parametrize("reply", [{}, "x", None])
def test_a_malformed_list(v2, rest, reply):
    rest.get(JOBS, body=json.dumps(reply))
    with pytest.raises(InvalidReply, match="instead of a list of jobs"):
        v2.list()


# ---------------------------------------------------------------- what a job and a cluster have


def test_logs_are_named_without_their_addresses(v2, rest):
    """A log's address carries a token of its own, which no repr shows."""
    path = f"{JOBS}/admin~j/attempts/1/taskRoles/worker/taskIndex/2/attempts/3/logs"
    rest.get(path, json={"locations": [{"name": "all", "uri": "/log-manager/1.2.3.4:9103/x?token=abc"}]})
    status = JobStatus("j", JobState.FAILED, attempt=1, tasks=(TaskStatus("worker", 2, attempt=3),))
    files = v2.task_logs(status, "worker", 2)
    assert files == (LogFile("all", "/log-manager/1.2.3.4:9103/x?token=abc"),)
    assert repr(files) == "(LogFile(name='all', paged=False),)"
    assert rest.calls[0].request.url == path


def test_logs_that_are_not_to_be_had(v2, say, rest):
    """As recorded without a log server, and as releases before 1.4 answer."""
    say("logs")
    status = JobStatus("p6afffdb1a", JobState.RUNNING)
    with pytest.raises(ServerFault, match="Failed to get log list"):
        v2.task_logs(status, "worker", 0)
    assert v2.gives_logs
    rest.get(re.compile(f"{JOBS}/admin~old/.*/logs"), status=404, json={"code": "NoApiError", "message": "x"})
    with pytest.raises(PaiHttpError, match=r"OpenPAI before 1\.4 serves no logs"):
        v2.task_logs(JobStatus("old", JobState.RUNNING), "worker", 0)
    assert not v2.gives_logs


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
        assert v2.task_logs(status, "worker", index) == (LogFile("all", "/x"),)


@pytest.mark.parametrize("reply", [{}, {"locations": None}, {"locations": [7, {"name": "all"}, {"uri": 7}]}])
def test_odd_locations_are_left_out(v2, rest, reply):
    """A log without an address is none."""
    rest.get(f"{JOBS}/admin~j/attempts/0/taskRoles/w/taskIndex/0/attempts/0/logs", json=reply)
    assert v2.task_logs(JobStatus("j", JobState.RUNNING), "w", 0) == ()


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


def test_events(v2, say, rest):
    say("events")
    assert v2.events("p6afffdb1a") == []
    rest.get(f"{JOBS}/admin~j/events", json={"totalCount": 1, "data": [{"type": "Warning"}, 7]})
    assert v2.events("j") == [{"type": "Warning"}]


def test_tags(v2, say, rest):
    say("tag add")
    v2.add_tag("p6afffdb1a", "t1")
    (call,) = rest.calls
    assert (call.request.method, json.loads(call.request.body)) == ("PUT", {"value": "t1"})


def test_the_cluster(v2, say):
    """Its release, virtual clusters and storages are read."""
    for step in ("info", "vc list", "storages"):
        say(step)
    assert v2.info()["version"] == "v1.8.0"
    assert list(v2.virtual_clusters()) == ["default"]
    assert [storage["name"] for storage in v2.storages()] == ["nfs1"]


def test_a_list_of_all_users_that_is_refused_is_one_of_the_virtual_clusters(v2, rest):
    """LTP 1.5 refuses it to a user who had other virtual clusters once; those of now may be asked for."""
    refused = {"code": "ForbiddenUserError", "message": "not allowed"}
    rest.get(f"{URL}/api/v2/jobs?offset=0&limit=5000", json=refused, status=403)
    rest.get(f"{URL}/api/v2/virtual-clusters", json={"day": {}, "night": {}})
    row = {"name": "bob~j", "username": "bob", "state": "RUNNING"}
    rest.get(f"{URL}/api/v2/jobs?vc=day%2Cnight&offset=0&limit=5000", json=[row])
    assert [job.name for job in v2.list(None)] == ["j"]


def test_a_refused_list_of_one_user_is_an_error(v2, rest):
    rest.get(re.compile(".*"), json={"code": "ForbiddenUserError", "message": "not allowed"}, status=403)
    with pytest.raises(PermissionRefused):
        v2.list("bob")


def test_an_answer_of_another_shape(v2, rest):
    rest.get(re.compile(".*"), json="text")
    with pytest.raises(InvalidReply, match=r"answered /api/v2/.* with str instead of"):
        v2.info()


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
    with pytest.raises(AuthenticationError, match="the server does not accept the token of"):
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
        f"login of user 'admin' at {URL} was refused: API /api/v1/token is not found; either the path in "
        "pai_url in [OpenPai] of luigi.cfg is wrong, or this cluster has no login by password (OIDC): check "
        "pai_url, or make an application token on your profile page of the web portal and write token = ... "
        "in [OpenPai] of luigi.cfg"
    )


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
        match=r"GET .*/jobs\?.*: not sent, the server's request limit is reached for another (59|60) s",
    ) as caught:
        v2.list()
    assert not caught.value.sent
    v2.status("j")
    v2.status("j")
    assert len(rest.calls) == 3


def test_a_window_that_is_over(v2, rest):
    """A limit whose end has passed holds nothing up."""
    rest.get(JOBS, json=[], headers={"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": "1000"})
    v2.list()
    v2.list()
    assert len(rest.calls) == 2
