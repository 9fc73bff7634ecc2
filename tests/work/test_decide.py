"""The next step of a piece of work: a case for each row of docs/running-again.md."""

from __future__ import annotations

from dataclasses import replace

import pytest
import yaml
from places import ROOT

from luigi_pai.api.book.entries import Entry
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.work.claims import Claim
from luigi_pai.work.decide import Done, Refuse, Situation, Submit, TakeOver, decide

HOUR, ARRAY = 3600.0, "train-array-0123456789ab"
CASES = yaml.safe_load(
    (ROOT / "tests" / "data" / "tasks" / "decisions.yaml").read_text("utf-8").replace("ARRAY", ARRAY)
)
KNOWN = Situation(
    "train",
    kind="steps.Train",
    folder="/train/output",
    own_name="train",
    age=HOUR,
    retention=12 * HOUR,
    cluster="http://pai",
)


def name_of(number: int) -> str:
    return "train" if number == 1 else f"train__attempt{number}"


def entry_of(job: str | None, number: int = 1, *, array: bool = False, **more) -> Entry:
    """Return a submission; ``job`` is its state, or None if the server does not know it."""
    name = name_of(number)
    status = None if job is None else JobStatus(name, JobState[job], raw_state=job)
    return Entry(number, ARRAY if array else name, status, **more)


def claim(number: int = 1, **more) -> Claim:
    """Return the claim of a submission."""
    about = {"name": "train", "number": number, "job": name_of(number), "cluster": "http://pai"}
    return Claim(
        **{**about, "user": "anna", "claimed_ms": 0, "digest": "mine", "task": "steps.Train", **more}
    )


@pytest.mark.parametrize("case", CASES)
def test_the_decision(case):
    """As its case says."""
    submission, held, more, wanted = CASES[case]
    entry = entry_of(**submission) if submission else None
    decided = decide(replace(KNOWN, entry=entry, claim=None if held is None else claim(**held), **more))
    if isinstance(wanted, dict):
        assert isinstance(decided, Submit)
        reason = wanted.pop("reason", None)
        assert (reason in decided.reason) if reason else not decided.reason
        assert replace(decided, reason="") == Submit(**wanted)
    elif isinstance(decided, Refuse):
        assert type(decided.error).__name__ == wanted
        assert "train" in str(decided.error)
    else:
        assert decided == {"TakeOver": TakeOver(entry), "Done": Done(entry), "Complete": Done()}[wanted]


@pytest.mark.parametrize("state", [state.name for state in JobState])
def test_each_state_has_a_decision(state):
    """An ended job is never watched, one that goes on is never submitted again."""
    decided = decide(replace(KNOWN, entry=entry_of(state), claim=claim()))
    finished = JobStatus("train", JobState[state]).finished
    assert isinstance(decided, TakeOver) == (not finished)
