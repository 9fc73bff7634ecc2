"""What is done about a piece of work: a row for each case, as docs/running-again.md tells it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from luigi_pai import PaiJobForgotten, PaiWorkConflict
from luigi_pai.api.book.entries import Entry
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.work.claims import Claim
from luigi_pai.work.decide import Done, Refuse, RunsInArrayError, Situation, Submit, TakeOver, decide

HOUR, ARRAY = 3600.0, "train-array-0123456789ab"
RECENT, OLD = "is submitted again", 100 * HOUR


def job(state: str, number: int = 1, **more) -> Entry:
    """Return a submission that the server knows."""
    name = "train" if number == 1 else f"train__attempt{number}"
    return Entry(number, more.pop("array", name), JobStatus(name, JobState[state], raw_state=state), **more)


def unknown(number: int = 1, array: str | None = None, **more) -> Entry:
    """Return a submission that was recorded, and that the server does not know."""
    return Entry(number, array or ("train" if number == 1 else f"train__attempt{number}"), None, **more)


def claim(number: int = 1, **more) -> Claim:
    """Return the claim of a submission."""
    name = "train" if number == 1 else f"train__attempt{number}"
    about = {"name": "train", "number": number, "job": name, "cluster": "http://pai", "user": "anna"}
    return Claim(**{**about, "claimed_ms": 0, "digest": "mine", "task": "steps.Train", **more})


KNOWN = Situation(
    "train",
    kind="steps.Train",
    folder="/train/output",
    own_name="train",
    age=HOUR,
    retention=12 * HOUR,
    cluster="http://pai",
)

ROWS = [
    # what the server says                     | claim | more of the situation              | decision
    ("no job", None, None, {}, Submit(1)),
    ("no job, but complete outputs", None, None, {"is_complete": True}, Done()),
    ("a waiting job", job("WAITING"), claim(), {}, TakeOver(job("WAITING"))),
    ("a running job", job("RUNNING"), claim(), {}, TakeOver(job("RUNNING"))),
    ("a running job without a claim", job("RUNNING"), None, {}, TakeOver(job("RUNNING"))),
    ("a job in an unknown state", job("UNKNOWN"), claim(), {}, TakeOver(job("UNKNOWN"))),
    ("a job that is being stopped", job("STOPPING"), claim(), {}, TakeOver(job("STOPPING"))),
    ("a job that has succeeded", job("SUCCEEDED"), claim(), {}, Done(job("SUCCEEDED"))),
    ("the second has succeeded", job("SUCCEEDED", 2), claim(2), {}, Done(job("SUCCEEDED", 2))),
    ("a failed job", job("FAILED"), claim(state="FAILED"), {}, Submit(2)),
    ("a stopped job", job("STOPPED"), claim(), {}, Submit(2)),
    ("the third has failed", job("FAILED", 3), claim(3), {}, Submit(4)),
    ("a failed job of other work", job("FAILED"), claim(task="other.Task", digest="x"), {}, Submit(2)),
    ("the last failure that is allowed", job("FAILED"), claim(), {"is_final": True}, TakeOver(job("FAILED"))),
    ("a claim of a moment ago", unknown(), claim(), {"age": 4.0}, Submit(1, wait=6.0, reason=RECENT)),
    ("a claim of a clock that is ahead", unknown(), claim(), {"age": -9.0}, Submit(1, reason=RECENT)),
    ("a claim within the server's memory", unknown(), claim(), {}, Submit(1, reason=RECENT)),
    ("its outputs are complete", unknown(), claim(), {"is_complete": True}, Done()),
    ("an old claim, and complete outputs", unknown(), claim(), {"age": OLD, "is_complete": True}, Done()),
    ("an old claim", unknown(), claim(), {"age": OLD}, PaiJobForgotten),
    ("a claim for another cluster", unknown(), claim(cluster="http://other"), {}, PaiJobForgotten),
    ("an old claim of a success", unknown(), claim(state="SUCCEEDED"), {"age": OLD}, PaiJobForgotten),
    ("a recent claim of a success", unknown(), claim(state="SUCCEEDED"), {}, PaiJobForgotten),
    (
        "an old claim, to submit",
        unknown(),
        claim(),
        {"age": OLD, "on_forgotten": "submit"},
        Submit(2, reason="x"),
    ),
    ("an old claim of a failure", unknown(), claim(state="FAILED"), {"age": OLD}, Submit(2)),
    ("an old claim of a stop", unknown(), claim(state="STOPPED"), {"age": OLD}, Submit(2)),
    ("an old claim, asked to stop", unknown(), claim(stop_sent=True), {"age": OLD}, Submit(2)),
    (
        "asked to stop, but succeeded",
        unknown(),
        claim(stop_sent=True, state="SUCCEEDED"),
        {},
        PaiJobForgotten,
    ),
    (
        "an old claim on this machine",
        unknown(),
        claim(),
        {"age": OLD, "is_durable": False},
        Submit(1, reason="x"),
    ),
    (
        "a success claimed on this machine",
        unknown(),
        claim(state="SUCCEEDED"),
        {"age": 4.0, "is_durable": False},
        Submit(1, wait=6.0),
    ),
    (
        "an old success claimed on this machine",
        unknown(),
        claim(state="SUCCEEDED"),
        {"age": OLD, "is_durable": False},
        Submit(1),
    ),
    ("a failure claimed on this machine", unknown(), claim(state="FAILED"), {"is_durable": False}, Submit(1)),
    ("a part of an array", job("RUNNING", array=ARRAY, index=1), claim(), {}, RunsInArrayError),
    (
        "a point in an array",
        job("RUNNING", array=ARRAY, index=1),
        claim(),
        {"shares_jobs": True},
        TakeOver(job("RUNNING", array=ARRAY, index=1)),
    ),
    (
        "a success in an array",
        job("SUCCEEDED", array=ARRAY, index=1),
        claim(),
        {},
        Done(job("SUCCEEDED", array=ARRAY, index=1)),
    ),
    ("a failure in an array", job("FAILED", array=ARRAY, index=1), claim(), {}, Submit(2)),
    ("claimed for an array", unknown(array=ARRAY), claim(job=ARRAY), {}, RunsInArrayError),
    (
        "a point that is claimed for an array",
        unknown(array=ARRAY),
        claim(job=ARRAY),
        {"shares_jobs": True, "age": 7.0},
        Submit(1, ARRAY, wait=3.0, reason=RECENT),
    ),
    (
        "a point whose array has not come",
        unknown(array=ARRAY),
        claim(job=ARRAY),
        {"shares_jobs": True},
        Submit(1, ARRAY, reason=RECENT),
    ),
    ("claimed for an array without it", unknown(array=ARRAY, void=True), claim(job=ARRAY), {}, Submit(2)),
    (
        "other work that runs",
        job("RUNNING"),
        claim(task="a.Other", digest="x"),
        {"digest": "mine"},
        PaiWorkConflict,
    ),
    (
        "other work that succeeded",
        job("SUCCEEDED"),
        claim(task="a.Other", digest="x"),
        {"digest": "m"},
        PaiWorkConflict,
    ),
    (
        "other work, complete",
        unknown(),
        claim(task="a.B", digest="x"),
        {"digest": "m", "is_complete": True},
        PaiWorkConflict,
    ),
    (
        "a renamed class with the same job",
        job("SUCCEEDED"),
        claim(task="a.Old"),
        {"digest": "mine"},
        Done(job("SUCCEEDED")),
    ),
    (
        "the same class in a package",
        job("SUCCEEDED"),
        claim(task="pkg.steps.Train", digest="x"),
        {"digest": "m"},
        Done(job("SUCCEEDED")),
    ),
    (
        "a changed job of the same class",
        job("SUCCEEDED"),
        claim(digest="x"),
        {"digest": "mine"},
        Done(job("SUCCEEDED")),
    ),
    (
        "a claim of 3ee811b, without a class",
        job("SUCCEEDED"),
        claim(task="", digest="x"),
        {"digest": "m"},
        Done(job("SUCCEEDED")),
    ),
    (
        "an earlier claim of other work",
        job("RUNNING", 2),
        claim(task="a.Other", digest="x"),
        {"digest": "m"},
        TakeOver(job("RUNNING", 2)),
    ),
]


@pytest.mark.parametrize(
    ("entry", "held", "more", "wanted"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_the_decision(entry, held, more, wanted):
    """Each row; of a reason, only whether there is one is compared, or its words."""
    decided = decide(replace(KNOWN, entry=entry, claim=held, **more))
    if isinstance(wanted, type):
        assert isinstance(decided, Refuse)
        assert isinstance(decided.error, wanted)
        assert "train" in str(decided.error)
        return
    if isinstance(wanted, Submit):
        assert isinstance(decided, Submit)
        assert bool(decided.reason) == bool(wanted.reason)
        assert wanted.reason in (decided.reason, "x", "") or wanted.reason in decided.reason
        decided, wanted = replace(decided, reason=""), replace(wanted, reason="")
    assert decided == wanted


def test_rows_have_names_of_their_own():
    """So that a failure names its case."""
    assert len({row[0] for row in ROWS}) == len(ROWS) > 45


@pytest.mark.parametrize("state", [state.name for state in JobState])
def test_each_state_has_a_decision(state):
    """An ended job is never watched, one that goes on is never submitted again."""
    decided = decide(replace(KNOWN, entry=job(state), claim=claim()))
    finished = JobStatus("train", JobState[state]).finished
    assert isinstance(decided, TakeOver) == (not finished)
