"""Cluster: settings, dialect, concurrency, hints in errors, request limits."""

from __future__ import annotations

import logging
import re
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from api_cases import cases
from mocked_rest import JOB, URL

from luigi_pai.api.cluster import Cluster
from luigi_pai.api.polling import Polling
from luigi_pai.api.submitting import Posting
from luigi_pai.errors import (
    JobNotFound,
    PaiApiError,
    PaiHttpError,
    SpecError,
)
from luigi_pai.jobspec.job import PaiJob, TaskRole

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


# ---------------------------------------------------------------- the settings


def test_a_cluster_shows_no_secret(new_cluster):
    """Its repr says where and who; the password may follow the name, and an unknown API version is named."""
    cluster = new_cluster(URL, password="hush-hush", token="hush-token")
    assert repr(cluster) == "Cluster('http://pai.test:9186', 'admin')"
    assert "hush" not in repr(vars(cluster))
    assert Cluster("http://pai.test:9186", "anna", "hers").book.api.session.account.password == "hers"
    with pytest.raises(ValueError, match=r"^api_version = 'v3' is not valid; use auto, v1 or v2$"):
        new_cluster(api_version="v3")


def test_a_job_that_cannot_run_is_not_sent(new_cluster, rest):
    """Every problem is said before anything is asked."""
    with pytest.raises(SpecError, match="1 problem in its description\n  image: "):
        new_cluster(URL).submit(PaiJob("j", "", [TaskRole("w", "c")]))
    assert len(rest.calls) == 0


# ---------------------------------------------------------------- the dialect


@pytest.mark.parametrize(("info", "found"), [({"launcherType": "k8s"}, False), ({}, True)])
def test_a_tilde_in_a_name_does_not_lead_to_the_job_of_another_user(new_cluster, rest, info, found):
    """A v2 server takes the name for USER~NAME, also in the v1 API; 0.7 allows the character in names."""
    job = {"jobStatus": {"state": "RUNNING", "username": "bob" if info else "admin", "createdTime": 1}}
    rest.get(f"{URL}/api/v1/jobs/bob~x", json=job)
    rest.get(f"{URL}/api/v1/", json=info)
    missing = {"code": "NoJobError", "message": "Job admin~bob-x is not found."}
    rest.get(re.compile(f"{URL}/api/v2/jobs/admin~bob-x-.*"), status=404, json=missing)
    job = new_cluster(URL, token="t").job("bob~x")
    if found:
        assert job.status().username == "admin"
        return
    with pytest.raises(JobNotFound, match="404 NoJobError: Job admin~bob-x is not found"):
        job.status()


def test_what_v1_has_none_of_is_not_said_of_a_server_that_was_not_asked(faulty, new_cluster):
    """The first request of a new cluster: its dialect is not known yet."""
    faulty.release, faulty.events = "1.8.0", [{"type": "Warning"}]
    faulty.add("j")
    assert new_cluster(faulty.url).events("j") == [{"type": "Warning"}]
    assert new_cluster(faulty.url).server.info()["launcherType"] == "k8s"
    faulty.storages["nfs1"] = {}
    assert [storage["name"] for storage in new_cluster(faulty.url).server.storages()] == ["nfs1"]


def test_a_submission_to_an_upgraded_server_advises_no_setting_that_nobody_wrote(faulty, new_cluster):
    """It is refused once, which shows the new dialect; the second one is taken."""
    cluster = new_cluster(faulty.url)
    cluster.submit(JOB)
    faulty.release = "1.8.0"
    with pytest.raises(PaiHttpError) as caught:
        cluster.submit(other := PaiJob("other", "i", [TaskRole("t", "true")]))
    assert "api_version" not in str(caught.value)
    cluster.submit(other)
    assert cluster.book.api.dialect.version == "v2"


def test_the_dialect_is_learned_once_by_a_family_of_processes(faulty, new_cluster, in_forks):
    """Threads and forks wait for one question, and know its answer."""
    faulty.release = "1.0.1"
    cluster = new_cluster(faulty.url)

    def look(number):
        with pytest.raises(JobNotFound):
            cluster.book.status(f"missing{number}")

    def process(_number=0):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(look, range(4)))

    in_forks(process, 3, meanwhile=process)
    assert cluster.book.api.dialect.version == "v2"
    assert (faulty.dialect_questions, faulty.logins) == (1, 1)


def test_a_protocol_on_a_v1_cluster_advises_no_setting_that_nobody_wrote(faulty, new_cluster):
    """A protocol task sets v2 itself."""
    with pytest.raises(PaiHttpError) as caught:
        new_cluster(faulty.url).book.with_version("v2").status("j")
    assert "remove" not in str(caught.value)


def test_a_mocked_error_of_v2_advises_no_other_dialect(new_cluster, rest):
    """A test that mocks the server has not chosen a release."""
    error = {"code": "NoApiError", "message": "x"}
    rest.get(f"{URL}/api/v2/jobs/admin~j/config", status=404, json=error)
    with pytest.raises(PaiHttpError, match="404 NoApiError: x; this release of OpenPAI does not") as caught:
        new_cluster(URL, token="t", api_version="v2").config("j")
    assert "remove api_version" not in str(caught.value)


def test_a_view_with_a_fixed_dialect_shares_what_is_known(faulty, new_cluster):
    """Connections, token and memory are the cluster's own."""
    faulty.release = "1.8.0"
    faulty.add("there")
    cluster = new_cluster(faulty.url)
    assert cluster.book.with_version("v2").status("there").succeeded
    assert faulty.logins == 1
    calls = len(faulty.calls)
    assert cluster.book.with_version("v2").status("there").succeeded
    assert len(faulty.calls) == calls
    assert cluster.book.api.dialect.version == "v1"


# ---------------------------------------------------------------- many at once


@pytest.mark.slow
def test_many_threads_and_a_fork_submit_each_job_once(faulty, new_cluster, in_forks):
    """8 threads with 10 jobs each; in the middle the server is upgraded to v2, and the process is forked."""
    cluster = new_cluster(faulty.url, polling=Polling(patience=30))

    def work(name):
        assert cluster.book.latest(name) is None
        spoken = cluster.book.api.dialect.version
        job = PaiJob(name, "i", [TaskRole("w", "c")])
        try:
            status = Posting(cluster.book, name).post(job)
        except PaiHttpError:  # the server speaks v2 since
            assert spoken == "v1"
            status = Posting(cluster.book, name).post(job)
        assert status is not None

    def thread(number):
        for index in range(10):
            work(f"t{number}-{index}")

    def child(_number):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, [f"child-{index}" for index in range(10)]))

    with ThreadPoolExecutor(8) as pool:
        threads = [pool.submit(thread, number) for number in range(8)]
        while len(faulty.jobs) < 40:
            assert not [done for done in threads if done.done() and done.exception()]
            time.sleep(0.005)
        faulty.release = "1.8.0"
        in_forks(child)
        for done in threads:
            done.result()
    assert len(faulty.jobs) == 8 * 10 + 10
    assert faulty.count_answers(202, "POST", "/jobs") == 8 * 10 + 10
    assert faulty.count_answers(409) == 0
    assert cluster.book.api.dialect.version == "v2"


# ---------------------------------------------------------------- errors with hints


@pytest.mark.parametrize(
    ("api_version", "status", "code"),
    [("v1", 404, "NoVirtualClusterError"), ("v2", 403, "ForbiddenUserError")],
)
def test_the_error_of_an_unknown_virtual_cluster_lists_the_known_ones(
    new_cluster, rest, api_version, status, code
):
    """A typing error is seen at once; where they cannot be asked for, the refusal is what counts."""
    message = "User admin is not allowed to do operation in virtual cluster nope"
    rest.post(f"{URL}/api/{api_version}/jobs", json={"code": code, "message": message}, status=status)
    rest.get(f"{URL}/api/{api_version}/virtual-clusters", json={"vc2": {}, "default": {}})
    with pytest.raises(PaiHttpError) as caught:
        new_cluster(URL, token="t", api_version=api_version).submit(JOB)
    assert str(caught.value).endswith(
        f"{message}; check virtual_cluster of the task; this cluster has: default, vc2"
    )
    assert (caught.value.status, caught.value.code) == (status, code)
    rest.replace("GET", f"{URL}/api/{api_version}/virtual-clusters", status=500)
    with pytest.raises(PaiHttpError, match=r"; check virtual_cluster of the task$"):
        new_cluster(URL, token="t", api_version=api_version).submit(JOB)


@pytest.mark.parametrize("release", ["0.7.1", "1.8.0"])
@cases("fault")
def test_a_stop_is_repeated(faulty, known_cluster, release, fault):
    """It changes nothing to ask twice; a page, or an empty object, is no answer of the server."""
    faulty.release = release
    cluster = known_cluster()
    for name, stop in (("a", cluster.stop), ("b", lambda name: cluster.job(name).stop())):
        faulty.add(name, runs_for=3600)
        assert cluster.job(name).status().raw_state == "RUNNING"
        faulty.fail("PUT", "/executionType", times=1 if fault["kind"] == "refused" else 3, **fault)
        stop(name)
        assert faulty.jobs[name].state == "STOPPED"
        faulty.heal()


@pytest.mark.parametrize("kind", ["reset", "truncated", 500, 503])
@pytest.mark.parametrize(
    ("path", "request_of"),
    [
        ("/jobs/a$", lambda cluster: cluster.job("a").status()),
        ("/jobs/a/config$", lambda cluster: cluster.config("a")),
        ("/jobs/a/config$", lambda cluster: cluster.job("a").config()),
        (r"/jobs\?", lambda cluster: cluster.list()),
    ],
    ids=["status", "config", "config of the job", "list"],
)
def test_a_request_that_changes_nothing_is_repeated(faulty, known_cluster, clock, kind, path, request_of):
    """For three seconds."""
    cluster = known_cluster()
    faulty.add("a", runs_for=3600)
    cluster.job("a").status()
    faulty.fail("GET", path, kind, times=3)
    assert request_of(cluster)
    faulty.fail("GET", path, kind, times=float("inf"))
    clock.restart()
    with pytest.raises(PaiApiError):
        request_of(cluster)
    assert clock.elapsed <= 3.01


# ---------------------------------------------------------------- request limits


def test_polling_is_paused_as_the_server_says(faulty, new_cluster, clock):
    """A cluster knows what is left after its first answer; what a fork has used counts."""
    faulty.release = "1.8.0"
    faulty.limits = {"call": 10}
    faulty.add("a", runs_for=3600)
    cluster = new_cluster(faulty.url, clock=clock, api_version="v2")
    assert cluster.book.api.session.limits.polling_wait() == 0
    for _ in range(6):
        cluster.book.status("a")
    assert 0 < cluster.book.api.session.limits.polling_wait() <= 61
    clock.advance(61)
    assert cluster.book.api.session.limits.polling_wait() == 0


def test_what_is_learned_is_logged_by_a_logger_of_our_own(faulty, new_cluster, caplog):
    """Once, and not by Luigi's: api knows no Luigi."""
    caplog.set_level(logging.INFO, logger="luigi_pai")
    faulty.release = "1.8.0"
    cluster = new_cluster(faulty.url)

    def look(_):
        with pytest.raises(JobNotFound):
            cluster.book.status("missing")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(look, range(8)))
    lines = [record for record in caplog.records if "speaks API version v2" in record.getMessage()]
    assert [record.name for record in lines] == ["luigi_pai.api.dialects.detection"]
