"""Jobs posted to a server with faults: each of them once. On a clock that the test moves."""

from __future__ import annotations

from functools import partial

import pytest
from clocks import Sleepers

from luigi_pai.api.polling import Polling
from luigi_pai.api.status import JobState
from luigi_pai.api.submitting import Posting
from luigi_pai.api.wire.refusals import REFUSALS
from luigi_pai.errors import (
    InvalidReply,
    NameConflict,
    PaiHttpError,
    PaiNameTaken,
    PermissionRefused,
    RateLimited,
    ServerFault,
)
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.names import attempt_name, v2_name
from luigi_pai.jobspec.protocol import JobProtocol

HANG = pytest.param("hang", marks=pytest.mark.slow)
RELEASES = ("0.7.1", "0.15.0", "1.0.1", "1.8.0")
POST = ("POST", r"/api/v\d/jobs/?$")
GET = ("GET", r"/api/v\d/jobs/(admin~)?train")


def job(name="train"):
    return PaiJob(name, "x", [TaskRole("main", "true")])


@pytest.fixture
def cluster(request, faulty, new_cluster, clock):
    hangs = "[hang" in request.node.name or "-hang" in request.node.name
    timeout = 0.5 if hangs else 30
    return new_cluster(faulty.url, clock=clock, read_timeout=timeout, polling=Polling(patience=100))


@pytest.fixture
def posted(cluster):
    """Post a job as a run does, and return its first status."""
    return lambda name="train": Posting(cluster.book, name).post(job(name))


def lookups(faulty) -> list[str]:
    """Return the names that were looked up, in order."""
    paths = [path for method, path in faulty.calls if method == "GET" and "/jobs/" in path]
    return [path.rsplit("/", 1)[1].removeprefix("admin~") for path in paths]


# ---------------------------------------------------------------- submitting


@pytest.mark.parametrize(("release", "warns"), [("0.15.0", True), ("1.0.1", False), ("1.8.0", False)])
def test_secrets_are_warned_of_where_the_server_shows_them(cluster, faulty, caplog, release, warns):
    """0.15 stores them as they are, and sends them without a login; ``config`` shows them as ******."""
    faulty.release = release
    role = {"dockerImage": "i", "resourcePerInstance": {"cpu": 1, "memoryMB": 100, "gpu": 0}, "instances": 1}
    document = {
        "protocolVersion": 2,
        "name": "train",
        "type": "job",
        "prerequisites": [{"name": "i", "type": "dockerimage", "uri": "x"}],
        "secrets": {"key": "hush-hush"},
        "taskRoles": {"main": {**role, "commands": ["use <% $secrets.key %>"]}},
    }
    cluster.submit(JobProtocol.from_dict(document))
    warning = "Job train has secrets, and OpenPAI 0.15 shows them to everybody"
    assert (warning in caplog.text) == warns
    assert "hush-hush" not in caplog.text
    faulty.jobs["train"].config = document
    assert cluster.job("train").config()["secrets"] == {"key": "******"}


@pytest.mark.parametrize("release", RELEASES)
def test_a_job_is_submitted_and_its_first_status_read(faulty, cluster, posted, release):
    """One login, one post, one lookup; by the handle's own way in too."""
    faulty.release = release
    handle = cluster.submit(job())
    assert handle.name == "train"
    assert faulty.posts() == ["train"]
    assert (faulty.submissions, faulty.logins) == (1, 1)
    assert posted("next").succeeded
    assert faulty.submissions == 2


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
@pytest.mark.parametrize("kind", ["reset", HANG, "truncated", 500, 503])
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


@pytest.mark.parametrize("code", ["ECONNREFUSED", "ECONNRESET", "ETIMEDOUT"])
def test_a_server_without_its_database_is_waited_for(faulty, cluster, code):
    """Its 500 names a broken connection: it is not about the job."""
    faulty.fail(*POST, 500, times=8, body={"code": code, "message": f"connect {code} 10.0.0.7:9748"})
    assert cluster.submit(job()).status().succeeded
    assert faulty.submissions == 9


def test_a_500_for_a_second_job_is_not_about_the_job(faulty, cluster, clock):
    """The same 500 three times is about the job; the second one gets all of the patience."""
    faulty.fail(*POST, 500, times=8, body={"code": "UnknownError", "message": "boom"})
    with pytest.raises(
        ServerFault, match=r"boom; tried 3 times in \d s; job train may have been submitted; "
    ):
        cluster.submit(job())
    assert faulty.submissions == 3
    assert sum(clock.slept) < 10
    assert cluster.submit(job("other")).status().succeeded
    assert (faulty.submissions, faulty.posts()) == (9, ["other"])


def test_a_job_that_was_accepted_shows_that_a_500_is_about_the_job(faulty, cluster):
    """The same one for a second job is given up after three posts, too."""
    faulty.fail(*POST, 500, times=3, body={"code": "UnknownError", "message": "boom"})
    with pytest.raises(ServerFault):
        cluster.submit(job())
    cluster.submit(job("good"))
    faulty.fail(*POST, 500, times=99, body={"code": "UnknownError", "message": "boom"})
    with pytest.raises(ServerFault, match="tried 3 times"):
        cluster.submit(job("other"))
    assert faulty.submissions == 7


def test_one_post_tests_for_all_whether_the_server_accepts_jobs(faulty, cluster, clock):
    """While it does not, ten jobs make about as many posts as one."""
    faulty.fail(*POST, 500, times=float("inf"), body={"code": "ECONNREFUSED", "message": "down"})
    threads = Sleepers(clock)
    names = [f"train{number}" for number in range(10)]
    ended = [
        threads.start(partial(Posting(cluster.book, name, sleep=threads.sleep).post, job(name)))
        for name in names
    ]
    threads.run(until=90)
    assert 8 <= faulty.submissions <= 12
    faulty.faults.clear()
    threads.run()
    assert all(each.result().succeeded for each in ended)
    assert len(faulty.posts()) == 10


@pytest.mark.slow
def test_after_a_post_that_timed_out_the_next_one_comes_later(faulty, new_cluster, clock):
    """The server may still be at work on it: as long as its reply was waited for, at most 15 s."""
    cluster = new_cluster(faulty.url, clock=clock, read_timeout=0.5, polling=Polling(patience=100))
    faulty.fail(*POST, "hang", lasts=9)
    assert cluster.submit(job()).status().succeeded
    assert clock.slept[0] == pytest.approx(9, abs=0.1)


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
    assert sum(clock.slept) >= (60 if headers else 0.25)


def test_a_429_without_end_is_given_up_after_poll_patience(faulty, cluster, clock):
    """A proxy that refuses for ever does not hold the work for ever."""
    faulty.fail(*POST, 429, times=float("inf"), body="Too many requests")
    with pytest.raises(RateLimited):
        cluster.submit(job())
    assert 99 < sum(clock.slept) < 110
    assert faulty.submissions < 20


def test_a_refusal_is_final(faulty, cluster):
    """It is posted once."""
    faulty.fail(*POST, 403, body={"code": "ForbiddenUserError", "message": "no"})
    with pytest.raises(PermissionRefused):
        cluster.submit(job())
    assert faulty.submissions == 1


@pytest.mark.parametrize(("status", "code"), sorted(REFUSALS, key=str))
def test_a_known_refusal_needs_no_lookup(faulty, cluster, posted, status, code):
    """It is posted once, and nothing else is asked; the error says that there is no such job."""
    faulty.fail(*POST, status, times=9, body={"code": code, "message": "no"})
    with pytest.raises(PaiHttpError, match=rf"^job 'train' was not submitted: POST .*: {status} .*: no"):
        cluster.submit(job())
    assert (faulty.submissions, lookups(faulty)) == (1, [])
    if status not in (404, 409):  # a 404 may be of the other dialect, and a 409 is about another job
        with pytest.raises(PaiHttpError, match=": no"):
            posted("other")
        assert (faulty.submissions, lookups(faulty)) == (2, [])


UNKNOWN = [(400, "UnknownError"), (403, "QuotaError"), (403, None), (404, "NoJobError"), (409, "Conflict")]
"""Responses to a submission that are not a known refusal of any release."""


@pytest.mark.parametrize(("status", "code"), UNKNOWN)
@pytest.mark.parametrize("case", ["taken", "not taken", "not to be looked up"])
def test_after_an_unknown_error_the_job_is_looked_up_once(faulty, cluster, status, code, case):
    """It is there, or was not taken; where the lookup fails too, the error has both responses."""
    faulty.fail(*POST, status, after=case != "not taken", body={"code": code, "message": "no"})
    response = rf"POST .*: {status} .*: no"
    if case == "taken":
        assert cluster.submit(job()).status().succeeded
        assert lookups(faulty)[0] == "train"
    elif case == "not taken":
        with pytest.raises(PaiHttpError, match=rf"^job 'train' was not submitted: {response}$"):
            cluster.submit(job())
        assert lookups(faulty) == ["train"]
    else:
        faulty.fail(*GET, 503, times=float("inf"))
        advice = "job train may have been submitted; look it up before you submit it again"
        with pytest.raises(
            ServerFault, match=rf"^GET .*: 503 .*; the response to the submission was: {response}; {advice}$"
        ):
            cluster.submit(job())
        assert faulty.posts() == ["train"]
    assert faulty.submissions == 1


def test_a_job_of_yesterday_is_not_taken_for_one_that_was_submitted_with_an_error(faulty, cluster, clock):
    """An unknown 409 may be about the name, or not."""
    faulty.add("train", created=clock.time() - 86400)
    faulty.fail(*POST, 409, body={"code": "Conflict", "message": "no"})
    with pytest.raises(NameConflict, match="'train' was not submitted: an earlier job has this name"):
        cluster.submit(job())


def test_a_job_that_is_not_shown_yet_is_submitted_all_the_same(faulty, posted):
    """Its first status says so; nobody is told that it is missing."""
    faulty.fail(*GET, 404, body={"code": "NoJobError", "message": "no"})
    status = posted()
    assert (status.state, status.raw_state) == (JobState.UNKNOWN, "SUBMITTED")
    faulty.fail(*GET, 500, times=9)
    assert posted("train__attempt2").raw_state == "SUBMITTED"


# ---------------------------------------------------------------- a name in use


def test_a_name_in_use_is_said_by_submit(faulty, cluster):
    """And the job of that name is there to be had."""
    faulty.add("train")
    with pytest.raises(NameConflict, match="409 ConflictJobError"):
        cluster.submit(job())
    assert cluster.job("train").status().succeeded


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("kind", ["reset", HANG, 503, 409])
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


@pytest.mark.parametrize("late", [0, 5])
def test_a_name_in_use_is_no_submission_of_a_run(faulty, posted, late):
    """Another process submitted it: there is no first status. It may be shown some seconds later."""
    faulty.add("train", runs_for=3600)
    faulty.fail(*GET, 404, body={"code": "NoJobError", "message": "no"}, times=late)
    assert posted() is None
    assert faulty.submissions == faulty.refused_submissions == 1 + late


def test_a_name_that_is_free_a_second_later_is_taken(faulty, posted):
    """A 409 of something between the two, of no job."""
    faulty.fail(*POST, 409, body={"code": "ConflictJobError", "message": "no"})
    assert posted().succeeded
    assert faulty.posts() == ["train"]


@pytest.mark.parametrize("number", [1, 2])
def test_the_job_that_has_a_name_is_the_newest(faulty, cluster, number):
    """Also where the first ones are forgotten by now, and where it has failed and another one came."""
    faulty.add(attempt_name("train", number), ends_as="FAILED")
    faulty.add(attempt_name("train", number + 1), runs_for=3600)
    entry = cluster.book.holder("train", number)
    assert (entry.number, entry.status.finished) == (number + 1, False)


def test_a_name_of_another_user_is_an_error(faulty, posted):
    """With whose it is."""
    faulty.add("train", username="bob")
    with pytest.raises(PaiNameTaken, match="belongs to a job of user 'bob'"):
        posted()


def test_a_name_in_use_that_is_not_shown_is_an_error(faulty, posted, clock):
    """After ten seconds."""
    faulty.add("train")
    faulty.fail(*GET, 404, body={"code": "NoJobError", "message": "no"}, times=float("inf"))
    began = clock.monotonic()
    with pytest.raises(PaiNameTaken) as caught:
        posted()
    assert str(caught.value) == (
        "the server refuses the name 'train' as in use, but has no job of that name; "
        "choose another name for the task"
    )
    assert 10 <= clock.monotonic() - began <= 12


# ---------------------------------------------------------------- the dialect


@pytest.mark.parametrize("release", ["1.0.1", "1.8.0"])
def test_a_server_that_turns_out_to_speak_v2(faulty, cluster, posted, release):
    """The refusal says so: the dialect is learned, and what was known of v1 jobs is not of these."""
    faulty.release = release
    with pytest.raises(PaiHttpError):
        posted("a.b")
    assert cluster.book.api.dialect.version == "v2"
    assert cluster.book.known("a.b") is None
    name = cluster.book.job_name("a.b", 1)
    assert name == v2_name("a.b") != "a.b"
    assert posted(name).succeeded
    assert faulty.posts() == [name]


def test_a_refusal_in_the_right_dialect_is_the_error(faulty, new_cluster):
    """The server's words."""
    faulty.release = "1.8.0"
    cluster = new_cluster(faulty.url, api_version="v2")
    faulty.fail(
        *POST, 400, body={"code": "InvalidProtocolError", "message": "Prerequisite x does not exist."}
    )
    with pytest.raises(PaiHttpError, match="Prerequisite x does not exist"):
        Posting(cluster.book, "train").post(job())


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
