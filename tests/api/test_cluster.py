"""Cluster: what it knows of a server, and what it adds to the dialect."""

from __future__ import annotations

import logging
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import responses

from luigi_pai import reset_clusters
from luigi_pai.api.cluster import CLUSTERS
from luigi_pai.api.retries import run_steps
from luigi_pai.api.submissions import Submissions
from luigi_pai.api.watcher import Polling
from luigi_pai.errors import (
    ClusterUnreachable,
    InvalidReply,
    JobNotFound,
    NameConflict,
    PaiHttpError,
    RateLimited,
    SpecError,
)
from luigi_pai.spec.job import PaiJob, TaskRole

URL = "http://pai.test:9186"
JOB = PaiJob("j", "i", [TaskRole("w", "c")])
HOUR, DAY = 3600.0, 86400.0

pytestmark = pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")


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


# ---------------------------------------------------------------- the setting, the repr


def test_an_api_version_that_is_none_is_refused(new_cluster):
    """By name."""
    with pytest.raises(ValueError, match=r"^api_version = 'v3' is none of auto, v1 and v2$"):
        new_cluster(api_version="v3")


def test_the_repr_shows_no_secret(new_cluster):
    """Where and who."""
    cluster = new_cluster(URL, password="hush-hush", token="hush-token")
    assert repr(cluster) == "Cluster('http://pai.test:9186', 'admin')"
    assert "hush" not in repr(vars(cluster))


def test_a_job_that_cannot_run_is_not_sent(new_cluster, rest):
    """Every problem is said before anything is asked."""
    with pytest.raises(SpecError, match="1 problem in its description\n  image: "):
        new_cluster(URL).submit(PaiJob("j", "", [TaskRole("w", "c")]))
    assert len(rest.calls) == 0


# ---------------------------------------------------------------- the dialect


@pytest.mark.parametrize("release", ["0.7.1", "0.15.0", "1.0.1", "1.8.0"])
def test_the_dialect_is_learned_from_the_answers(faulty, new_cluster, clock, release):
    """By at most one question besides what was to be asked anyway."""
    faulty.release = release
    faulty.add("there")
    cluster = new_cluster(faulty.url, clock=clock)
    assert cluster.dialect.version == "v1"
    with pytest.raises(JobNotFound):
        cluster.status("missing")
    assert cluster.status("there").succeeded
    assert cluster.dialect.version == ("v1" if release == "0.7.1" else "v2")
    assert faulty.dialect_questions == (0 if release == "1.8.0" else 1)


def test_a_job_that_is_there_is_answer_enough(faulty, new_cluster):
    """On a v1 server nothing else is asked."""
    faulty.add("there")
    cluster = new_cluster(faulty.url)
    assert cluster.status("there").succeeded
    assert faulty.calls == [("GET", "/api/v1/jobs/there")]
    with pytest.raises(JobNotFound):
        cluster.status("missing")
    assert faulty.dialect_questions == 0


def test_an_upgraded_server_is_noticed(faulty, new_cluster):
    """A learned v1 is not for ever."""
    faulty.add("there")
    cluster = new_cluster(faulty.url)
    cluster.status("there")
    faulty.release = "1.8.0"
    with pytest.raises(JobNotFound):
        cluster.status("missing")
    assert cluster.dialect.version == "v2"


def test_the_dialect_is_learned_once_by_a_family_of_processes(faulty, new_cluster, in_forks):
    """Threads and forks wait for one question, and know its answer."""
    faulty.release = "1.0.1"
    cluster = new_cluster(faulty.url)

    def look(number):
        with pytest.raises(JobNotFound):
            cluster.status(f"missing{number}")

    def process(_number=0):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(look, range(4)))

    in_forks(process, 3, meanwhile=process)
    assert cluster.dialect.version == "v2"
    assert (faulty.dialect_questions, faulty.logins) == (1, 1)


@pytest.mark.parametrize("call", [lambda cluster: cluster.status("j"), lambda cluster: cluster.submit(JOB)])
def test_a_configured_v1_on_a_v2_cluster_says_what_to_change(faulty, new_cluster, call):
    """The setting is obeyed, and named."""
    faulty.release = "1.8.0"
    with pytest.raises(
        PaiHttpError, match=r"speaks the v2 dialect .*: take api_version = v1 out of \[OpenPai\]"
    ):
        call(new_cluster(faulty.url, api_version="v1"))
    assert faulty.posts() == []


def test_a_view_with_a_fixed_dialect_shares_what_is_known(faulty, new_cluster):
    """Connections, token and memory are the cluster's own."""
    faulty.release = "1.8.0"
    faulty.add("there")
    cluster = new_cluster(faulty.url)
    view = cluster.speaking("v2")
    assert view.status("there").succeeded
    assert faulty.logins == 1
    cluster.notes.put("a", 1)
    assert view.notes.get("a") == 1
    assert cluster.dialect.version == "v1"


# ---------------------------------------------------------------- many at once


@pytest.mark.slow
def test_many_threads_and_a_fork_submit_each_job_once(faulty, new_cluster, in_forks):
    """8 threads with 50 jobs each; in the middle the server is upgraded to v2, and the process is forked."""
    cluster = new_cluster(faulty.url, polling=Polling(patience=30))

    def work(name):
        submissions = Submissions(cluster, name)
        found = run_steps(submissions.newest(), time.sleep)
        while found.status is None:
            job = PaiJob(submissions.job_name(1), "i", [TaskRole("w", "c")])
            found = run_steps(submissions.submit(1, job), time.sleep)
        assert found.submitted

    def thread(number):
        for index in range(50):
            work(f"t{number}-{index}")

    def child(_number):
        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, [f"child-{index}" for index in range(20)]))

    with ThreadPoolExecutor(8) as pool:
        threads = [pool.submit(thread, number) for number in range(8)]
        while len(faulty.jobs) < 100:
            assert not [done for done in threads if done.done() and done.exception()]
            time.sleep(0.005)
        faulty.release = "1.8.0"
        in_forks(child)
        for done in threads:
            done.result()
    assert len(faulty.jobs) == 8 * 50 + 20
    assert faulty.count_answers(202, "POST", "/jobs") == 8 * 50 + 20
    assert faulty.count_answers(409) == 0
    assert cluster.dialect.version == "v2"


# ---------------------------------------------------------------- another server, forgetting


@pytest.mark.parametrize("release", ["0.7.1", "1.8.0"])
def test_another_empty_server_is_believed(faulty, new_cluster, clock, release):
    """Its answer is asked for after half a minute, and what was remembered of the other is not said."""
    faulty.release = release
    cluster = new_cluster(faulty.url, clock=clock)
    for name in ("a", "b"):
        faulty.add(name)
        assert cluster.status(name).succeeded
    faulty.jobs.clear()
    clock.advance(31)
    for name in ("a", "b"):
        with pytest.raises(JobNotFound):
            cluster.status(name)


def test_another_server_on_new_connections_is_asked_at_once(faulty, new_cluster, clock):
    """Connections that were lost are a sign that another may be there."""

    cluster = new_cluster(faulty.url, clock=clock)
    faulty.add("a")
    assert cluster.status("a").succeeded
    faulty.down()
    faulty.jobs.clear()
    faulty.up()
    with pytest.raises(JobNotFound):
        cluster.status("a")


def test_the_same_server_is_asked_for_one_of_its_jobs(faulty, new_cluster, clock):
    """Every half a minute; what it says of one counts for all."""
    cluster = new_cluster(faulty.url, clock=clock)
    names = [f"j{number}" for number in range(30)]
    for name in names:
        faulty.add(name)
        cluster.status(name)
    faulty.calls.clear()
    for _ in range(3):
        clock.advance(31)
        for name in names:
            assert cluster.status(name).succeeded
    assert len(faulty.calls) == 3


def test_a_reset_cluster_begins_anew(faulty, new_cluster, clock):
    """Token, dialect, limits, jobs and notes are forgotten; the next call finds everything out again."""
    faulty.release = "1.8.0"
    faulty.limits = {"list": 1}
    faulty.add("a")
    cluster = new_cluster(faulty.url, clock=clock)
    cluster.status("a")
    cluster.list()
    cluster.note_unreachable(ClusterUnreachable("down"))
    cluster.notes.put("x", 1)
    run_steps(Submissions(cluster, "a").newest(), clock.sleep)
    with pytest.raises(RateLimited):
        cluster.list()
    faulty.jobs.clear()
    faulty.limits = {}
    cluster.reset()
    assert cluster.dialect.version == "v1"
    assert cluster.notes.get("x") is None
    assert cluster.lookup_of("a") is None
    cluster.check_reachable()
    with pytest.raises(JobNotFound):
        cluster.status("a")
    assert cluster.list() == []
    assert faulty.logins == 2


def test_a_closed_cluster_opens_new_connections(faulty, new_cluster):
    """close() is no end."""
    faulty.add("a", runs_for=60)
    cluster = new_cluster(faulty.url)
    for connections in (1, 1, 2, 2):
        cluster.status("a")
        assert faulty.connections == connections
        if connections == 1 and len(faulty.calls) == 2:
            cluster.close()


def test_the_clusters_of_a_process_are_one_for_each_settings():
    """Until they are reset, when their connections are closed and what they knew is gone."""
    settings = {"url": URL, "username": "admin", "password": "x", "polling": Polling()}
    cluster = CLUSTERS.get(**settings)
    assert CLUSTERS.get(**dict(reversed(settings.items()))) is cluster
    assert CLUSTERS.get(**settings | {"polling": Polling(patience=1)}) is not cluster
    assert CLUSTERS.get(**settings | {"password": "y"}) is not cluster
    assert cluster.clock is CLUSTERS.clock
    CLUSTERS.notes.put("settings", 1)
    reset_clusters()
    assert CLUSTERS.get(**settings) is not cluster
    assert CLUSTERS.notes.get("settings") is None


# ---------------------------------------------------------------- nobody there


def test_nobody_there_is_found_out_once(new_cluster, clock, in_forks):
    """A thousand tasks do not each find it out: for ten seconds they are told what the first ran into."""
    cluster = new_cluster(clock=clock)
    cluster.check_reachable()
    in_forks(lambda _: cluster.note_unreachable(ClusterUnreachable("cannot reach it: Connection refused")))
    for _ in range(2):
        with pytest.raises(ClusterUnreachable, match=r"^cannot reach it: Connection refused$"):
            cluster.check_reachable()
        clock.set_wall_clock(-DAY)
    clock.advance(10.5)
    cluster.check_reachable()


# ---------------------------------------------------------------- how long a server knows a job


@pytest.mark.parametrize(
    ("release", "seconds"),
    [
        ("0.7.1", 12 * HOUR),
        ("0.15.0", 12 * HOUR),
        ("0.17.0", 12 * HOUR),
        ("1.0.1", 30 * DAY),
        ("1.8.0", 30 * DAY),
    ],
)
@pytest.mark.parametrize("api_version", ["auto", "fixed"])
def test_the_retention_is_that_of_the_release(faulty, new_cluster, release, seconds, api_version):
    """It is asked for at most once."""
    faulty.release = release
    fixed = "v1" if release == "0.7.1" else "v2"
    cluster = new_cluster(faulty.url, api_version=fixed if api_version == "fixed" else "auto")
    with pytest.raises(JobNotFound):
        cluster.status("missing")
    assert [cluster.retention() for _ in range(3)] == [seconds] * 3
    assert faulty.dialect_questions <= 1


def test_the_retention_may_be_set(new_cluster, rest):
    """Sites change it; then nothing is asked."""
    assert new_cluster(URL, retention=60.0, api_version="v2").retention() == 60.0
    assert len(rest.calls) == 0


@pytest.mark.parametrize("version", [None, "", "nightly"])
def test_a_v2_server_that_does_not_say_its_release(new_cluster, rest, version):
    """Nothing said is the shorter time: what is submitted again too early is refused by its name."""
    rest.get(f"{URL}/api/v1/", json={"version": version})
    expected = 30 * DAY if version == "nightly" else 12 * HOUR
    assert new_cluster(URL, api_version="v2", token="t").retention() == expected


# ---------------------------------------------------------------- errors with hints


@pytest.mark.parametrize(
    ("api_version", "status", "code"),
    [("v1", 404, "NoVirtualClusterError"), ("v2", 403, "ForbiddenUserError")],
)
def test_an_unknown_virtual_cluster_is_told_with_those_that_there_are(
    new_cluster, rest, api_version, status, code
):
    """A typing error is seen at once."""
    message = "User admin is not allowed to do operation in virtual cluster nope"
    rest.post(f"{URL}/api/{api_version}/jobs", json={"code": code, "message": message}, status=status)
    rest.get(f"{URL}/api/{api_version}/virtual-clusters", json={"vc2": {}, "default": {}})
    with pytest.raises(PaiHttpError) as caught:
        new_cluster(URL, token="t", api_version=api_version).submit(JOB)
    assert str(caught.value).endswith(
        f"{message}; check virtual_cluster of the task; this cluster has: default, vc2"
    )
    assert (caught.value.status, caught.value.code) == (status, code)


def test_virtual_clusters_that_cannot_be_asked_for_hide_no_error(new_cluster, rest):
    """The refusal is what counts."""
    error = {"code": "NoVirtualClusterError", "message": "Virtual cluster nope is not found."}
    rest.post(f"{URL}/api/v1/jobs", json=error, status=404)
    rest.get(f"{URL}/api/v1/virtual-clusters", status=500)
    with pytest.raises(PaiHttpError, match=r"is not found\.; check virtual_cluster of the task$"):
        new_cluster(URL, token="t", api_version="v1").submit(JOB)


@pytest.mark.parametrize("api_version", ["v1", "v2"])
@pytest.mark.parametrize("reply", ["null", "[]", '"ok"'])
def test_a_stop_that_is_answered_with_nothing_is_not_believed(new_cluster, rest, api_version, reply):
    """Every release answers with an object."""
    name = "j" if api_version == "v1" else "admin~j"
    rest.put(f"{URL}/api/{api_version}/jobs/{name}/executionType", body=reply)
    with pytest.raises(
        InvalidReply, match=r"stop of job 'j' with .* in place of an object; the job may go on"
    ):
        new_cluster(URL, token="t", api_version=api_version).stop("j")


# ---------------------------------------------------------------- request limits


def test_polling_is_paused_as_the_server_says(faulty, new_cluster, clock):
    """A cluster knows what is left after its first answer; what a fork has used counts."""
    faulty.release = "1.8.0"
    faulty.limits = {"call": 10}
    faulty.add("a", runs_for=3600)
    cluster = new_cluster(faulty.url, clock=clock, api_version="v2")
    assert cluster.polling_wait() == 0
    for _ in range(6):
        cluster.status("a")
    assert 0 < cluster.polling_wait() <= 61
    clock.advance(61)
    assert cluster.polling_wait() == 0


def test_what_is_learned_is_logged_by_a_logger_of_our_own(faulty, new_cluster, caplog):
    """Once, and not by Luigi's: api knows no Luigi."""
    caplog.set_level(logging.INFO, logger="luigi_pai")
    faulty.release = "1.8.0"
    cluster = new_cluster(faulty.url)

    def look(_):
        with pytest.raises(JobNotFound):
            cluster.status("missing")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(look, range(8)))
    lines = [record for record in caplog.records if "speaks the v2 dialect" in record.getMessage()]
    assert [record.name for record in lines] == ["luigi_pai.api.learning"]
