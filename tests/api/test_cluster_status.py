"""Cluster: cached statuses, replaced servers, servers without reply, retention."""

from __future__ import annotations

from email.utils import formatdate

import pytest
from api_cases import cases
from mocked_rest import URL, reply

from luigi_pai import reset_clusters
from luigi_pai.api.polling import Polling
from luigi_pai.api.registry import CLUSTERS
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.errors import (
    JobNotFound,
    RateLimited,
)

HOUR, DAY = 3600.0, 86400.0


@cases("state about requests")
def test_an_end_is_asked_for_once(new_cluster, rest, state, about, requests):
    """A finished job never changes: it is remembered by its name, and no request made for it again."""
    rest.get(f"{URL}/api/v1/jobs/j", json=reply(state, **about))
    cluster = new_cluster(URL)
    assert {cluster.job("j").status().raw_state for _ in range(3)} == {state}
    assert len(rest.calls) == requests
    assert (cluster.book.api.detector.known is None) == (about == {})
    rest.get(f"{URL}/api/v1/jobs/k", json={}, status=404)
    with pytest.raises(JobNotFound):
        cluster.job("k").status()


def test_jobs_that_are_completed_are_listed_as_running(new_cluster, rest):
    """As most releases call them; none of them waits."""
    rows = [
        {"name": word.lower(), "state": word, "subState": sub_state}
        for word, sub_state in (("WAITING", "APPLICATION_COMPLETED"), ("RUNNING", "APPLICATION_RUNNING"))
    ]
    rest.add("GET", f"{URL}/api/v1/jobs?username=admin", json=rows)
    cluster = new_cluster(URL)
    assert [job.name for job in cluster.list(states=["RUNNING"])] == ["waiting", "running"]
    assert cluster.list(states=["WAITING"]) == []
    assert [job.name for job in cluster.list(states="running")] == ["waiting", "running"]
    with pytest.raises(ValueError, match=r"states: 'DONE' is not one of WAITING, RUNNING, SUCCEEDED, "):
        cluster.list(states=["done"])


@cases("url portal_url portal")
def test_the_page_of_a_job_is_in_the_portal(new_cluster, url, portal_url, portal):
    """Without portal_url it is guessed: 9286 beside 9186, or what the rest-server is below."""
    cluster = new_cluster(url, portal_url=portal_url)
    assert cluster.page("j") == f"{portal}/view.html?jobName=j"
    cluster = new_cluster(url, portal_url=portal_url, api_version="v2")
    assert cluster.page("j") == f"{portal}/job-detail.html?username=admin&jobName=j"
    assert cluster.page("j", "bob") == f"{portal}/job-detail.html?username=bob&jobName=j"


def test_names_are_quoted_in_the_page_of_a_job(new_cluster):
    """A name cannot add to the query."""
    cluster = new_cluster(URL, username="a&b")
    assert cluster.page("x&y=ü/é?") == "http://pai.test:9286/view.html?jobName=x%26y%3D%C3%BC%2F%C3%A9%3F"
    page = new_cluster(URL, username="a&b", api_version="v2").page("x&y=ü/é?")
    assert page.endswith("?username=a%26b&jobName=x%26y%3D%C3%BC%2F%C3%A9%3F")


# ---------------------------------------------------------------- another server, forgetting


def test_a_reset_cluster_begins_anew(faulty, new_cluster, clock):
    """Token, dialect, limits, jobs and notes are forgotten; the next call finds everything out again."""
    faulty.release = "1.8.0"
    faulty.limits = {"list": 1}
    faulty.add("a")
    cluster = new_cluster(faulty.url, clock=clock)
    cluster.job("a").status()
    cluster.list()
    cluster.book.latest("a")
    with pytest.raises(RateLimited):
        cluster.list()
    faulty.jobs.clear()
    faulty.limits = {}
    cluster.reset()
    assert cluster.book.api.dialect.version == "v1"
    assert cluster.book.cached_entry("a") is None
    with pytest.raises(JobNotFound):
        cluster.job("a").status()
    assert cluster.list() == []
    assert faulty.logins == 2


def test_a_closed_cluster_opens_new_connections(faulty, new_cluster):
    """close() is no end."""
    faulty.add("a", runs_for=60)
    cluster = new_cluster(faulty.url)
    for connections in (1, 1, 2, 2):
        cluster.job("a").status()
        assert faulty.connections == connections
        if connections == 1 and len(faulty.calls) == 2:
            cluster.close()


def test_the_clusters_of_a_process_are_one_for_each_settings(monkeypatch):
    """Until they are reset, when their connections are closed and what they knew is gone."""
    closed = []
    settings = {"url": URL, "username": "admin", "password": "x", "polling": Polling()}
    cluster = CLUSTERS.get(**settings)
    assert CLUSTERS.get(**dict(reversed(settings.items()))) is cluster
    assert CLUSTERS.get(**settings | {"polling": Polling(patience=1)}) is not cluster
    assert CLUSTERS.get(**settings | {"password": "y"}) is not cluster
    assert cluster.clock is CLUSTERS.clock
    CLUSTERS.cache.put("settings", 1)
    monkeypatch.setattr(cluster, "close", lambda: closed.append(1))
    reset_clusters()
    assert closed
    assert CLUSTERS.get(**settings) is not cluster
    assert CLUSTERS.cache.get("settings") is None


# ---------------------------------------------------------------- how long a server knows a job


@pytest.mark.parametrize("ahead", [-3600, 0, 3600])
def test_the_clock_of_the_server_tells_whether_a_job_was_there_before(new_cluster, rest, clock, ahead):
    """A job of 100 s before, or of now; the two clocks may differ by an hour."""
    now = clock.time()
    rest.get(f"{URL}/api/v1/", headers={"Date": formatdate(now + ahead, usegmt=True)})
    server = new_cluster(URL, clock=clock).server
    for age, expected in ((100, True), (0, False)):
        status = JobStatus("j", JobState.RUNNING, created_ms=int((now + ahead - age) * 1000))
        assert server.existed_before(status, now) == expected


@cases("release seconds")
@pytest.mark.parametrize("api_version", ["auto", "fixed"])
def test_the_retention_is_that_of_the_release(faulty, new_cluster, release, seconds, api_version):
    """It is asked for at most once."""
    faulty.release = release
    fixed = "v1" if release == "0.7.1" else "v2"
    cluster = new_cluster(faulty.url, api_version=fixed if api_version == "fixed" else "auto")
    with pytest.raises(JobNotFound):
        cluster.job("missing").status()
    assert [cluster.book.api.retention() for _ in range(3)] == [seconds] * 3
    assert faulty.dialect_questions <= 1


def test_the_retention_may_be_set(new_cluster, rest):
    """Sites change it; then nothing is asked."""
    assert new_cluster(URL, retention=60.0, api_version="v2").book.api.retention() == 60.0
    assert len(rest.calls) == 0


@pytest.mark.parametrize("version", [None, "", "nightly"])
def test_a_v2_server_that_does_not_say_its_release(new_cluster, rest, version):
    """Nothing said is the shorter time: what is submitted again too early is refused by its name."""
    rest.get(f"{URL}/api/v1/", json={"version": version})
    expected = 30 * DAY if version == "nightly" else 12 * HOUR
    assert new_cluster(URL, api_version="v2", token="t").book.api.retention() == expected
