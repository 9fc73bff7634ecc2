"""Jobs posted to a server with faults: each of them once. On a clock that the test moves."""

from __future__ import annotations

from functools import partial

import pytest
from api_stories import lookups
from clocks import Sleepers
from job_cases import protocol

from luigi_pai.api.polling import Polling
from luigi_pai.api.submitting import Posting
from luigi_pai.api.wire.refusals import REFUSALS
from luigi_pai.errors import (
    NameConflict,
    PaiHttpError,
    ServerFault,
)
from luigi_pai.jobspec.job import PaiJob, TaskRole
from luigi_pai.jobspec.names import v2_name
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


# ---------------------------------------------------------------- submitting


@pytest.mark.parametrize(("release", "warns"), [("0.15.0", True), ("1.0.1", False), ("1.8.0", False)])
def test_secrets_are_warned_of_where_the_server_shows_them(cluster, faulty, caplog, release, warns):
    """0.15 stores them as they are, and sends them without a login; ``config`` shows them as ******."""
    faulty.release = release
    document = protocol("use <% $secrets.key %>", secrets={"key": "hush-hush"})
    cluster.submit(JobProtocol.from_dict(document))
    warning = "Job train has secrets, and OpenPAI 0.15 shows them to everybody"
    assert (warning in caplog.text) == warns
    assert "hush-hush" not in caplog.text
    faulty.jobs["train"].config = document
    assert cluster.job("train").config()["secrets"] == {"key": "******"}


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


def test_the_last_post_before_the_deadline_may_have_been_accepted(faulty, new_cluster, clock):
    """Then the job is found by one more lookup, and is not said to have failed."""
    cluster = new_cluster(faulty.url, clock=clock, polling=Polling(patience=0.1))
    for after in (False, True):
        faulty.fail(*POST, 502, after=after)
    assert cluster.submit(job()).status().succeeded
    assert (faulty.submissions, faulty.posts()) == (2, ["train"])


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


# ---------------------------------------------------------------- a name in use


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


# ---------------------------------------------------------------- the dialect


@pytest.mark.parametrize("release", ["1.0.1", "1.8.0"])
def test_a_server_that_turns_out_to_speak_v2(faulty, cluster, posted, release):
    """The refusal says so: the dialect is learned, and what was known of v1 jobs is not of these."""
    faulty.release = release
    with pytest.raises(PaiHttpError):
        posted("a.b")
    assert cluster.book.api.dialect.version == "v2"
    assert cluster.book.cached_entry("a.b") is None
    name = cluster.book.job_name("a.b", 1)
    assert name == v2_name("a.b") != "a.b"
    assert posted(name).succeeded
    assert faulty.posts() == [name]


def test_a_job_protocol_goes_to_a_v2_server_at_once(faulty, cluster):
    """No question decides what it can only be."""
    faulty.release = "1.8.0"
    assert cluster.submit(JobProtocol.from_dict(protocol())).status().succeeded
    assert faulty.dialect_questions == 0
