"""Cluster: what it knows of a server, and what it adds to the dialect."""

from __future__ import annotations

import pytest
import responses

from luigi_pai.errors import ClusterUnreachable, JobNotFound, NameConflict, PaiHttpError
from luigi_pai.spec.job import PaiJob, TaskRole

URL = "http://pai.test:9186"
JOB = PaiJob("j", "i", [TaskRole("w", "c")])


@pytest.fixture
def rest():
    with responses.RequestsMock(assert_all_requests_are_fired=False) as mock:
        yield mock


def reply(state: str, **about: object) -> dict:
    return {"jobStatus": {"state": state} | about}


@pytest.mark.parametrize("state", ["SUCCEEDED", "FAILED", "STOPPED"])
def test_an_end_is_asked_for_once(new_cluster, rest, state):
    """A finished job never changes: it is remembered, and no request made for it again."""
    rest.get(f"{URL}/api/v1/jobs/j", json=reply(state, username="admin", createdTime=1))
    cluster = new_cluster(URL)
    assert cluster.status("j") == cluster.status("j")
    assert cluster.status("j").raw_state == state
    assert len(rest.calls) == 1


@pytest.mark.parametrize("state", ["WAITING", "RUNNING", "STOPPING", "UNKNOWN", "HIBERNATING"])
def test_what_is_no_end_is_asked_for_each_time(new_cluster, rest, state):
    """A job that may go on is looked at again."""
    rest.get(f"{URL}/api/v1/jobs/j", json=reply(state, username="admin", createdTime=1))
    cluster = new_cluster(URL)
    cluster.status("j")
    cluster.status("j")
    assert len(rest.calls) == 2


def test_the_end_in_a_bare_reply_is_not_remembered(new_cluster, rest):
    """A mocked reply that does not say whose job it is may differ next time."""
    rest.get(f"{URL}/api/v1/jobs/j", json=reply("SUCCEEDED"))
    rest.get(f"{URL}/api/v1/jobs/j", json=reply("FAILED"))
    cluster = new_cluster(URL)
    assert [cluster.status("j").raw_state for _ in range(2)] == ["SUCCEEDED", "FAILED"]


def test_ends_are_remembered_by_name(new_cluster, rest):
    """One job's end says nothing about another's."""
    rest.get(f"{URL}/api/v1/jobs/j", json=reply("SUCCEEDED", username="admin", createdTime=1))
    rest.get(f"{URL}/api/v1/jobs/k", json={}, status=404)
    cluster = new_cluster(URL)
    cluster.status("j")
    with pytest.raises(JobNotFound):
        cluster.status("k")


def test_the_list_is_that_of_the_user(new_cluster, rest):
    """The user of the account is asked for, and nobody else."""
    rest.get(f"{URL}/api/v1/jobs?username=bob", json=[{"name": "a", "state": "RUNNING", "username": "bob"}])
    assert [row.name for row in new_cluster(URL, username="bob").list()] == ["a"]


def test_a_job_that_the_launcher_refused_comes_with_what_is_known(new_cluster, rest):
    """``UnknownError: Bad Request`` explains nothing, so the error lists what launchers refuse."""
    rest.post(f"{URL}/api/v1/jobs", json={"code": "UnknownError", "message": "Bad Request"}, status=400)
    with pytest.raises(PaiHttpError) as caught:
        new_cluster(URL, token="t", api_version="v1").submit(JOB)
    assert str(caught.value) == (
        f"POST {URL}/api/v1/jobs: 400 UnknownError: Bad Request; the launcher behind the server refused the "
        "job and its reason was lost; it is known to refuse memoryMB or cpuNumber of 0, negative gpuNumber, "
        "over-long names, and ports that begin at a fixed number"
    )
    assert (caught.value.status, caught.value.code) == (400, "UnknownError")
    assert caught.value.server_message == "Bad Request"


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [(409, "ConflictJobError", NameConflict), (400, "X", PaiHttpError)],
)
def test_other_refusals_are_handed_on(new_cluster, rest, status, code, kind):
    """Only that one answer gets the explanation."""
    rest.post(f"{URL}/api/v1/jobs", json={"code": code, "message": "why"}, status=status)
    with pytest.raises(kind, match=r": why$"):
        new_cluster(URL, token="t", api_version="v1").submit(JOB)


def test_stopping_goes_to_the_job(new_cluster, rest):
    """A stop is one PUT for the job's name."""
    rest.put(f"{URL}/api/v1/jobs/j/executionType", json={"message": "ok"}, status=202)
    new_cluster(URL, token="t").stop("j")
    assert len(rest.calls) == 1


@pytest.mark.parametrize(
    ("url", "portal_url", "portal"),
    [
        ("http://h:9186", None, "http://h:9286"),
        ("http://h:9186/", None, "http://h:9286"),
        ("http://[::1]:9186", None, "http://[::1]:9286"),
        ("http://h:8080", None, "http://h:8080"),
        ("https://h/rest-server", None, "https://h"),
        ("https://h:8443/pai/rest-server/", None, "https://h:8443/pai"),
        ("http://h:9186", "https://portal/x/", "https://portal/x"),
    ],
)
def test_the_page_of_a_job_is_in_the_portal(new_cluster, url, portal_url, portal):
    """Without portal_url it is guessed: 9286 beside 9186, or what the rest-server is below."""
    cluster = new_cluster(url, portal_url=portal_url)
    assert cluster.portal_url == portal
    assert cluster.page("j") == f"{portal}/view.html?jobName=j"
    assert cluster.speaking("v2").page("j") == f"{portal}/job-detail.html?username=admin&jobName=j"
    assert cluster.speaking("v2").page("j", "bob") == f"{portal}/job-detail.html?username=bob&jobName=j"


def test_names_are_quoted_in_the_page_of_a_job(new_cluster):
    """A name cannot add to the query."""
    cluster = new_cluster(URL, username="a&b")
    assert cluster.page("x&y=ü/é?") == "http://pai.test:9286/view.html?jobName=x%26y%3D%C3%BC%2F%C3%A9%3F"
    page = cluster.speaking("v2").page("x&y=ü/é?")
    assert page.endswith("?username=a%26b&jobName=x%26y%3D%C3%BC%2F%C3%A9%3F")


def test_answered_is_that_of_the_connection(new_cluster, rest):
    """A cluster that nobody ever answered says so."""
    cluster = new_cluster(URL)
    with pytest.raises(ClusterUnreachable):
        cluster.status("j")  # nothing is registered: responses refuses the connection
    assert not cluster.answered
    rest.get(f"{URL}/api/v1/jobs/j", json={}, status=404)
    with pytest.raises(JobNotFound):
        cluster.status("j")
    assert cluster.answered
