"""Runs of a PaiTask that find an earlier submission, and submissions whose reply is lost."""

from __future__ import annotations

import json

import pytest
from train_task import Train, build

from luigi_pai import (
    PaiHttpError,
    PaiJobFailed,
    PaiNameTaken,
    ServerFault,
    reset_clusters,
)

# ---------------------------------------------------------------- resume before submit


def test_run_after_success_posts_nothing(pai):
    """A job that has succeeded is not submitted again, not even by run() itself."""
    pai.add("train")
    Train().run()
    assert pai.posts() == ["train"]
    assert pai.count("POST") == 0


def test_a_waiting_or_running_job_is_taken_over(pai):
    """A job that runs already, of a worker that died, is followed to its end; nothing is posted."""
    pai.add("train", runs_for=0.4)
    task = Train()
    assert build(task)
    assert pai.count("POST") == 0
    assert task.complete()


@pytest.mark.parametrize("forget", [reset_clusters, lambda: None], ids=["later processes", "one process"])
def test_after_a_failure_the_next_attempt_is_submitted(pai, forget):
    """A failed job is submitted as NAME__attempt2, then as NAME__attempt3."""
    pai.plan = {"ends_as": "FAILED"}
    for _ in range(2):
        assert not build(Train())
        forget()
    pai.plan = {}
    assert build(Train())
    assert pai.posts() == ["train", "train__attempt2", "train__attempt3"]
    forget()
    assert Train().complete()
    assert pai.count("POST", "/jobs") == 3


def test_a_running_later_attempt_is_taken_over(pai):
    """If NAME failed and NAME__attempt2 runs, that one is followed."""
    pai.add("train", ends_as="FAILED")
    pai.add("train__attempt2", runs_for=0.3)
    Train().run()
    assert pai.count("POST") == 0


@pytest.mark.parametrize("name", ["train", "train__attempt2"])
def test_somebody_elses_name_is_refused_with_its_owner(pai, name):
    """A name that another user holds is PaiNameTaken, in complete() and in run(), and nothing is posted."""
    pai.add("train", ends_as="FAILED")
    pai.add(name, username="bob")
    for ask in (Train().complete, Train().run):
        with pytest.raises(PaiNameTaken, match=rf"'{name}' belongs to a job of user 'bob'.*another name"):
            ask()
    assert pai.count("POST") == 0


@pytest.mark.parametrize("end", [{"runs_for": 0.2}, {"ends_as": "FAILED"}])
def test_a_job_that_appeared_since_the_lookup_is_taken_over(pai, end):
    """A 409 corrects an outdated look: another worker's job is followed, or leads to the next attempt."""
    task = Train()
    assert not task.complete()
    pai.add("train", **end)
    task.run()
    assert pai.posts() == ["train", "train__attempt2"][: 2 if "ends_as" in end else 1]


def test_a_name_in_use_that_is_not_shown_is_an_error(pai, monkeypatch):
    """If the server refuses a name for good but shows no job of it, the task says so."""
    monkeypatch.setattr("luigi_pai.api.submitting._SHOWN_WITHIN", 0.0)
    pai.fail("POST", "/jobs", 409, times=9, body='{"code": "ConflictJobError", "message": "exists"}')
    with pytest.raises(PaiNameTaken, match="refuses the name 'train' as in use, but has no job"):
        Train().run()


def test_the_lookup_of_complete_is_not_repeated_by_run(pai):
    """A new job costs a lookup, the question what the server is, a login, a post, a lookup at the end."""
    assert build(Train())
    assert [method for method, _ in pai.calls] == ["GET", "GET", "POST", "POST", "GET"]
    assert pai.count("GET", r"/api/v1/$") == 1


def test_an_end_is_remembered(pai):
    """A finished job is not asked for again in this process."""
    pai.add("train")
    task = Train()
    assert task.complete()
    calls = len(pai.calls)
    assert task.complete()
    assert len(pai.calls) == calls


# ---------------------------------------------------------------- lost answers


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("after", [True, False])
@pytest.mark.parametrize("kind", ["hang", "reset", 500, 503])
def test_a_post_without_an_answer_leaves_exactly_one_job(pai, kind, after):
    """Timeout, reset or 5xx, before or after the server took the job: one job is there, and is followed."""
    pai.fail("POST", "/jobs", kind, after=after)
    Train().run()
    assert pai.posts() == ["train"]
    assert pai.count("POST", "/jobs") == (1 if after else 2)


def test_a_post_without_an_answer_and_a_server_that_goes_away(pai):
    """After a lost answer the server is waited for before anything is posted again."""
    task = Train()
    assert not task.complete()
    pai.fail("POST", "/jobs", "reset", after=True)
    pai.fail("GET", "/jobs/train", 503, times=8)
    task.run()
    assert pai.posts() == ["train"]
    assert pai.count("POST", "/jobs") == 1


def test_a_job_that_makes_the_server_fail_is_not_posted_for_ever(pai):
    """A server that answers 500 to a job again and again is an error after three posts."""
    pai.fail("POST", "/jobs", 500, times=99)
    with pytest.raises(ServerFault, match="500"):
        Train().run()
    assert pai.count("POST", "/jobs") == 3
    assert pai.posts() == []


def test_a_server_that_takes_no_posts_is_an_error_after_poll_patience(pai, settings):
    """A 503 to every post, with looks answered all the while, ends with poll_patience."""
    settings(poll_patience=0.3)
    pai.fail("POST", "/jobs", 503, times=99)
    with pytest.raises(ServerFault, match="503"):
        Train().run()
    assert pai.posts() == []


def test_a_limit_of_submits_is_waited_for(pai):
    """A 429 to a post is waited out until the moment that the server names, and the job is posted once."""
    pai.fail("POST", "/jobs", 429, body="Too many requests")
    Train().run()
    assert pai.posts() == ["train"]
    assert pai.count("POST", "/jobs") == 2


def test_a_lost_post_of_a_job_that_fails_at_once_is_this_runs_failure(pai):
    """A job that was taken, failed, and whose answer was lost is not mistaken for an older attempt."""
    pai.plan = {"ends_as": "FAILED"}
    pai.fail("POST", "/jobs", "reset", after=True)
    with pytest.raises(PaiJobFailed, match="'train' ended"):
        Train().run()
    assert pai.posts() == ["train"]


def test_a_refused_job_is_an_error_with_the_servers_words(pai):
    """A 400 or 404 to a post is raised at once, and not tried again."""
    for status, code, message in (
        (400, "InvalidParametersError", '"jobEnvs" is not allowed'),
        (404, "NoVirtualClusterError", "Virtual cluster nosuch is not found"),
        (403, "ForbiddenUserError", "User admin is not allowed to do operation in vc1"),
    ):
        pai.fail("POST", "/jobs", status, body=json.dumps({"code": code, "message": message}))
        with pytest.raises(PaiHttpError) as caught:
            Train().run()
        assert caught.value.code == code
        assert message in str(caught.value)
    assert pai.count("POST", "/jobs") == 3
    assert pai.posts() == []


def test_another_server_at_the_same_address_is_believed(pai, clock):
    """It is empty: what the old one said is used for ten seconds."""
    task = Train()
    task.run()
    assert task.complete()
    pai.down()
    pai.jobs.clear()
    pai.up()
    clock.advance(11)
    assert not task.complete()
