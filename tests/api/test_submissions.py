"""Submissions against a server with faults: found, and submitted once. On a clock that the test moves."""

from __future__ import annotations

import pytest

from luigi_pai.api.polling import Polling
from luigi_pai.api.retries import run_steps
from luigi_pai.api.status import JobState
from luigi_pai.api.submissions import LatestSubmission, Submissions
from luigi_pai.errors import (
    ClusterUnreachable,
    InvalidReply,
    NameConflict,
    PaiHttpError,
    PaiNameTaken,
    PermissionRefused,
    RateLimited,
    ServerFault,
)
from luigi_pai.spec.job import PaiJob, TaskRole
from luigi_pai.spec.names import v2_name
from luigi_pai.spec.protocol import JobProtocol

RELEASES = ("0.7.1", "0.15.0", "1.0.1", "1.8.0")
POST = ("POST", r"/api/v\d/jobs/?$")
GET = ("GET", r"/api/v\d/jobs/(admin~)?train")


def job(name="train"):
    return PaiJob(name, "x", [TaskRole("main", "true")])


@pytest.fixture
def cluster(faulty, new_cluster, clock):
    return new_cluster(
        faulty.url, clock=clock, connect_timeout=2, read_timeout=0.2, polling=Polling(patience=100)
    )


@pytest.fixture
def submissions(cluster):
    return Submissions(cluster, "train")


@pytest.fixture
def do(clock):
    """Carry out steps on the clock of the test."""
    return lambda steps: run_steps(steps, clock.sleep)


def lookups(faulty) -> list[str]:
    """Return the names that were looked up, in order."""
    paths = [path for method, path in faulty.calls if method == "GET" and "/jobs/" in path]
    return [path.rsplit("/", 1)[1].removeprefix("admin~") for path in paths]


# ---------------------------------------------------------------- finding


@pytest.mark.parametrize("release", RELEASES)
def test_nothing_is_found_where_nothing_is(faulty, submissions, do, release):
    """Number 0, and no status."""
    faulty.release = release
    assert do(submissions.latest()) == LatestSubmission(0, None)


@pytest.mark.parametrize("state", ["RUNNING", "SUCCEEDED"])
def test_the_first_is_found_where_it_goes_on_or_succeeded(faulty, submissions, do, state):
    """Nothing else is asked for."""
    faulty.add("train", ends_as=state)
    found = do(submissions.latest())
    assert (found.number, found.status.finished, found.succeeded) == (
        1,
        state != "RUNNING",
        state == "SUCCEEDED",
    )
    assert not found.submitted
    assert lookups(faulty) == ["train"]


@pytest.mark.parametrize("release", ["0.7.1", "1.8.0"])
def test_behind_a_failed_one_the_next_is_looked_for(faulty, submissions, do, release):
    """To the first that is unknown."""
    faulty.release = release
    for name in ("train", "train__attempt2", "train__attempt3"):
        faulty.add(name, ends_as="FAILED", exit_code=1)
    found = do(submissions.latest())
    assert (found.number, found.status.name) == (3, "train__attempt3")
    assert lookups(faulty)[-4:] == ["train", "train__attempt2", "train__attempt3", "train__attempt4"]


def test_a_second_search_begins_at_the_newest_that_was_seen(faulty, submissions, do, clock):
    """And looks behind it only when that was some time ago."""
    faulty.add("train", ends_as="FAILED")
    faulty.add("train__attempt2", runs_for=3600)
    do(submissions.latest())
    faulty.calls.clear()
    assert do(submissions.latest()).number == 2
    assert lookups(faulty) == ["train__attempt2"]
    clock.advance(3601)
    faulty.jobs["train__attempt2"].ends_as = "FAILED"
    faulty.add("train__attempt3")
    assert do(submissions.latest()).number == 3


def test_a_server_that_has_forgotten_the_newest_is_searched_from_the_first(faulty, submissions, do, clock):
    """Another server may answer by now."""
    faulty.add("train", ends_as="FAILED")
    faulty.add("train__attempt2", runs_for=3600)
    do(submissions.latest())
    faulty.jobs.clear()
    clock.advance(31)
    assert do(submissions.latest()) == LatestSubmission(0, None)
    assert lookups(faulty)[-2:] == ["train__attempt2", "train"]


def test_a_search_may_begin_where_the_caller_says(faulty, submissions, do):
    """The first two are no longer known, but were recorded."""
    faulty.add("train__attempt3", ends_as="FAILED")
    faulty.add("train__attempt4")
    assert do(submissions.latest(3)).number == 4
    assert lookups(faulty) == ["train__attempt3", "train__attempt4"]


def test_what_was_found_is_used_once_within_seconds(faulty, cluster, do, clock):
    """Luigi asks complete() right before run(), each with a lookup of its own."""
    faulty.add("train", runs_for=3600)
    found = do(Submissions(cluster, "train").latest())
    assert Submissions(cluster, "other").cached() is None
    assert Submissions(cluster, "train").cached() == found
    assert Submissions(cluster, "train").cached() is None
    do(Submissions(cluster, "train").latest())
    clock.advance(31)
    assert Submissions(cluster, "train").cached() is None


def test_a_name_of_somebody_else_is_an_error(faulty, submissions, do):
    """With whose it is, and where to look."""
    faulty.add("train", username="bob")
    with pytest.raises(PaiNameTaken) as caught:
        do(submissions.latest())
    assert str(caught.value) == (
        f"the name 'train' belongs to a job of user 'bob' ({faulty.url}/view.html?jobName=train); "
        "names are shared by all users of a cluster: choose another name for the task"
    )
    assert caught.value.job_name == "train"


def test_transient_errors_of_a_lookup_are_retried(faulty, submissions, do):
    """A truncated answer, a 500, a reset, a gateway's page; of a server that has answered before."""
    do(submissions.latest())
    faulty.add("train")
    for kind in ("truncated", 500, "reset", 502):
        faulty.fail(*GET, kind, times=3)
    assert do(submissions.latest()).succeeded


def test_a_server_that_stays_away_is_given_up_after_poll_patience(faulty, cluster, do, clock):
    """That of the caller, where it names one: complete() asks for seconds only."""
    do(Submissions(cluster, "other").latest())
    faulty.fail("GET", "/jobs/", 500, times=float("inf"))
    began = clock.monotonic()
    with pytest.raises(ServerFault):
        do(Submissions(cluster, "train", patience=2).latest())
    assert 2 <= clock.monotonic() - began < 3


def test_a_server_that_was_never_there_is_not_waited_for(faulty, submissions, do, clock):
    """A wrong address is no outage."""
    faulty.down()
    with pytest.raises(ClusterUnreachable, match="Connection refused"):
        do(submissions.latest())
    with pytest.raises(ClusterUnreachable, match="Connection refused"):
        do(submissions.submit_new(job()))
    assert clock.slept == []


# ---------------------------------------------------------------- the list


def test_the_latest_submission_is_found_in_the_list(faulty, cluster, do):
    """Of work whose first jobs are forgotten; one list serves all work for some seconds."""
    for name in ("a__attempt2", "a__attempt5", "a__attempt4", "b", "c__attempt3"):
        faulty.add(name)
    assert [do(Submissions(cluster, name).latest_in_list()) for name in "abcd"] == [5, 0, 3, 0]
    assert faulty.lists == 1


def test_the_list_is_one_for_a_family_of_processes(faulty, cluster, do, clock, in_forks):
    """v2 servers give it out 60 times a minute."""
    faulty.add("a__attempt2")

    def child(_number):
        assert do(Submissions(cluster, "a").latest_in_list()) == 2

    in_forks(child)
    child(0)
    assert faulty.lists == 1
    clock.advance(11)
    child(0)
    assert faulty.lists == 2


# ---------------------------------------------------------------- submitting


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_is_submitted_and_its_first_status_read(faulty, cluster, do, release):
    """One login, one post, one lookup; by the handle's own way in too."""
    faulty.release = release
    handle = cluster.submit(job())
    assert handle.name == "train"
    assert faulty.posts() == ["train"]
    assert (faulty.submissions, faulty.logins) == (1, 1)
    found = do(Submissions(cluster, "next").submit(1, job("next")))
    assert (found.number, found.submitted, found.status.succeeded) == (1, True, True)
    assert faulty.submissions == 2


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["reset", "hang", "truncated", 500, 503])
def test_a_post_whose_answer_is_lost_is_one_job(faulty, cluster, release, after, kind):
    """Whether the server had done it or not: it is looked up before it is posted again."""
    faulty.release = release
    faulty.fail(*POST, kind, after=after)
    handle = cluster.submit(job())
    assert handle.status().succeeded
    assert faulty.posts() == ["train"]
    assert faulty.submissions == (1 if after or kind == "truncated" else 2)


def test_a_post_and_its_lookups_lost_again_and_again_is_one_job(faulty, cluster):
    """A server that goes away right after it has taken the job, for a minute."""
    faulty.fail(*POST, "reset", after=True)
    faulty.fail(*GET, "reset", times=12)
    assert cluster.submit(job()).status().succeeded
    assert (faulty.posts(), faulty.submissions) == (["train"], 1)


def test_a_refused_name_after_a_lost_answer_is_the_job_itself(faulty, cluster):
    """A server that does not show it yet refuses the second post: that says that the first went through."""
    faulty.fail(*POST, "reset", after=True)
    faulty.fail(*GET, 404, body={"code": "NoJobError", "message": "no"}, times=2)
    assert cluster.submit(job()).status().succeeded
    assert (faulty.posts(), faulty.submissions, faulty.refused_submissions) == (["train"], 2, 1)


def test_a_page_in_place_of_an_answer_is_looked_behind(faulty, cluster):
    """What stands before the server may have handed the job on, or not; three of them are the end."""
    faulty.fail(*POST, 200, after=True, body="<html>sign in</html>")
    assert cluster.submit(job()).status().succeeded
    faulty.fail(*POST, 200, times=99, body="<html>sign in</html>")
    with pytest.raises(InvalidReply, match="instead of JSON"):
        cluster.submit(job("other"))
    assert (faulty.posts(), faulty.submissions) == (["train"], 4)


def test_a_job_that_makes_the_server_fail_is_given_up(faulty, cluster, clock):
    """A 500 to the same job three times is about the job."""
    faulty.fail(*POST, 500, times=99, body={"code": "UnknownError", "message": "boom"})
    with pytest.raises(ServerFault, match="boom"):
        cluster.submit(job())
    assert faulty.submissions == 3
    assert sum(clock.slept) < 10


def test_a_gateway_without_a_server_is_waited_for(faulty, cluster, clock):
    """A 503 is about the server: to the end of the patience."""
    faulty.fail(*POST, 503, times=8)
    cluster.submit(job())
    assert faulty.posts() == ["train"]
    faulty.fail(*POST, 503, times=float("inf"))
    began = clock.monotonic()
    with pytest.raises(ServerFault):
        cluster.submit(job("other"))
    assert 100 <= clock.monotonic() - began < 110


@pytest.mark.parametrize("headers", [{}, {"Retry-After": "60"}])
def test_a_429_is_waited_for_and_not_looked_behind(faulty, cluster, clock, headers):
    """Nothing was taken, so there is nothing to look for; refused submissions count, so few are made."""
    faulty.fail(*POST, 429, body="Too many requests", headers=headers)
    cluster.submit(job())
    assert faulty.submissions == 2
    assert lookups(faulty) == ["train"]  # after it was taken
    assert sum(clock.slept) == pytest.approx(60 if headers else 1, rel=0.15)


def test_a_429_without_end_is_given_up_after_poll_patience(faulty, cluster, clock):
    """A proxy that refuses for ever does not hold the work for ever."""
    faulty.fail(*POST, 429, times=float("inf"), body="Too many requests")
    with pytest.raises(RateLimited):
        cluster.submit(job())
    assert 100 <= sum(clock.slept) < 110
    assert faulty.submissions < 10


def test_a_refusal_is_final(faulty, cluster):
    """It is posted once."""
    faulty.fail(*POST, 403, body={"code": "ForbiddenUserError", "message": "no"})
    with pytest.raises(PermissionRefused):
        cluster.submit(job())
    assert faulty.submissions == 1


def test_a_job_that_is_not_shown_yet_is_submitted_all_the_same(faulty, submissions, do):
    """Its first status says so; nobody is told that it is missing."""
    faulty.fail(*GET, 404, body={"code": "NoJobError", "message": "no"})
    found = do(submissions.submit(1, job()))
    assert found.submitted
    assert (found.status.state, found.status.raw_state) == (JobState.UNKNOWN, "SUBMITTED")
    faulty.fail(*GET, 500, times=9)
    assert do(submissions.submit(2, job("train__attempt2"))).status.raw_state == "SUBMITTED"


# ---------------------------------------------------------------- a name in use


def test_a_name_in_use_is_said_by_submit(faulty, cluster):
    """And the job of that name is there to be had."""
    faulty.add("train")
    with pytest.raises(NameConflict, match="409 ConflictJobError"):
        cluster.submit(job())
    assert cluster.job("train").status().succeeded


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", ["reset", "hang", 503, 409])
def test_a_name_in_use_is_said_where_an_answer_was_lost(faulty, cluster, clock, release, kind):
    """The job that is found then is that of yesterday, and nothing was submitted."""
    faulty.release = release
    yesterdays = faulty.add("train", created=clock.time() - 86400, ends_as="FAILED")
    if kind == 409:  # and is found by a second post only
        faulty.fail(*POST, 503)
        faulty.fail(*GET, 404, body={"code": "NoJobError", "message": "no"})
    else:
        faulty.fail(*POST, kind)
    with pytest.raises(NameConflict, match="'train' was not submitted: an earlier job has this name"):
        cluster.submit(job())
    assert faulty.jobs == {"train": yesterdays}


def test_a_job_that_appeared_since_the_lookup_is_found(faulty, submissions, do):
    """Another process submitted it: nothing was submitted, and what is there is the answer."""
    assert do(submissions.latest()).number == 0
    faulty.add("train", runs_for=3600)
    found = do(submissions.submit(1, job()))
    assert (found.number, found.submitted, found.status.finished) == (1, False, False)


def test_a_later_job_that_appeared_since_the_lookup_is_found(faulty, submissions, do):
    """Also where the first ones are forgotten by now."""
    faulty.add("train__attempt2", runs_for=3600)
    found = do(submissions.submit(2, job("train__attempt2")))
    assert (found.number, found.submitted, found.status.finished) == (2, False, False)


def test_a_name_in_use_may_be_shown_some_seconds_later(faulty, submissions, do):
    """A server that is slow to show its jobs is waited for."""
    faulty.add("train", runs_for=3600)
    faulty.fail(*GET, 404, body={"code": "NoJobError", "message": "no"}, times=5)
    assert not do(submissions.submit(1, job())).status.finished


def test_a_name_in_use_that_is_not_shown_is_an_error(faulty, submissions, do, clock):
    """After ten seconds."""
    faulty.add("train")
    faulty.fail(*GET, 404, body={"code": "NoJobError", "message": "no"}, times=float("inf"))
    began = clock.monotonic()
    with pytest.raises(PaiNameTaken) as caught:
        do(submissions.submit(1, job()))
    assert str(caught.value) == (
        "the server refuses the name 'train' as in use, but has no job of that name; "
        "choose another name for the task"
    )
    assert 10 <= clock.monotonic() - began <= 12


# ---------------------------------------------------------------- the dialect


@pytest.mark.parametrize("release", ["1.0.1", "1.8.0"])
def test_a_server_that_turns_out_to_speak_v2_is_searched_anew(faulty, cluster, do, release):
    """Learned at the post: the lookup was made in the other dialect, so the next one comes first."""
    work = Submissions(cluster, "a.b")
    assert do(work.latest()).number == 0  # by a v1 server
    cluster.reset()
    faulty.release = release
    found = do(work.submit(1, job("a.b")))
    assert found == LatestSubmission(0, None)
    assert cluster.dialect.version == "v2"
    assert work.job_name(1) == v2_name("a.b") != "a.b"
    assert faulty.posts() == []
    assert do(work.submit(1, job(work.job_name(1)))).submitted
    assert faulty.posts() == [v2_name("a.b")]


def test_a_server_that_turns_out_to_speak_v2_may_have_the_job(faulty, cluster, do):
    """Then that is found, and nothing is submitted."""
    faulty.release = "1.8.0"
    faulty.add("train", runs_for=3600)
    found = do(Submissions(cluster, "train").submit(1, job()))
    assert (found.number, found.submitted, found.status.finished) == (1, False, False)
    assert list(faulty.jobs) == ["train"]


def test_a_refusal_in_the_right_dialect_is_no_reason_to_search(faulty, cluster, do):
    """The server's words are the error."""
    faulty.release = "1.8.0"
    work = Submissions(cluster, "train")
    do(work.latest())
    faulty.fail(
        *POST, 400, body={"code": "InvalidProtocolError", "message": "Prerequisite x does not exist."}
    )
    with pytest.raises(PaiHttpError, match="Prerequisite x does not exist"):
        do(work.submit(1, job()))


def test_a_lookup_in_one_dialect_does_not_count_in_the_other(faulty, cluster, do):
    """Names differ, and so do the jobs."""
    faulty.add("train", runs_for=3600)
    work = Submissions(cluster, "train")
    do(work.latest())
    other = Submissions(cluster.with_api_version("v2"), "train")
    assert other.cached() is None
    assert work.cached() is not None


def test_a_job_protocol_goes_to_a_v2_server_at_once(faulty, cluster):
    """No question decides what it can only be."""
    faulty.release = "1.8.0"
    protocol = JobProtocol.from_dict(
        {
            "protocolVersion": 2,
            "name": "train",
            "type": "job",
            "prerequisites": [{"type": "dockerimage", "name": "image", "uri": "x"}],
            "taskRoles": {
                "main": {
                    "instances": 1,
                    "dockerImage": "image",
                    "resourcePerInstance": {"cpu": 1, "memoryMB": 1024, "gpu": 0},
                    "commands": ["true"],
                }
            },
        }
    )
    assert cluster.submit(protocol).status().succeeded
    assert faulty.dialect_questions == 0


def test_two_works_on_one_cluster_do_not_confuse_each_other(faulty, cluster, do):
    """The dialect is learned by one while the other is between its lookup and its post."""
    faulty.release = "1.8.0"
    first, second = Submissions(cluster, "a.1"), Submissions(cluster, "b.2")
    cluster.cache_lookup("a.1", LatestSubmission(0, None), reusable=True)
    cluster.cache_lookup("b.2", LatestSubmission(0, None), reusable=True)
    assert first.cached() == LatestSubmission(0, None)
    found = do(first.submit(1, job("a.1")))  # turns out to be v2
    assert second.cached() is None
    for work, found_now in ((first, found), (second, do(second.latest()))):
        assert found_now.number == 0
        assert do(work.submit(1, job(work.job_name(1)))).submitted
    assert faulty.posts() == [v2_name("a.1"), v2_name("b.2")]
