"""States and statuses."""

from __future__ import annotations

import dataclasses

import pytest

from luigi_pai.api.status import JobState, JobStatus, TaskStatus


@pytest.mark.parametrize("state", JobState)
def test_every_state_reads_as_itself(state):
    """A server's word is the state of that name."""
    assert JobState.of(state.value) is state


def test_the_word_of_contrib_is_success():
    """SUCCEED, which only mocked tests say, is SUCCEEDED."""
    assert JobState.of("SUCCEED") is JobState.SUCCEEDED


@pytest.mark.parametrize("word", ["HIBERNATING", "succeeded", "", None, 7, [], "FAILED "])
def test_an_unheard_of_word_is_unknown_and_no_end(word):
    """What is no state's name ends no job."""
    assert JobState.of(word) is JobState.UNKNOWN
    assert not JobState.of(word).finished


def test_three_states_end_a_job():
    """Succeeded, failed and stopped are ends; nothing else is, STOPPING and COMPLETING neither."""
    assert {state.value for state in JobState if state.finished} == {"SUCCEEDED", "FAILED", "STOPPED"}
    assert [state for state in JobState if JobStatus("j", state).succeeded] == [JobState.SUCCEEDED]
    assert all(JobStatus("j", state).finished is state.finished for state in JobState)


def test_a_status_is_a_value():
    """Equal by its fields, and not to be changed."""
    status = JobStatus("j", JobState.RUNNING, tasks=(TaskStatus("main", 0),))
    assert status == JobStatus("j", JobState.RUNNING, tasks=(TaskStatus("main", 0),))
    with pytest.raises(dataclasses.FrozenInstanceError):
        status.state = JobState.FAILED


@pytest.mark.parametrize(
    ("username", "created_ms", "identified"),
    [("admin", 1, True), (None, 1, False), ("admin", None, False), (None, None, False)],
)
def test_a_status_is_identified_by_owner_and_birth(username, created_ms, identified):
    """Only a reply that says whose job it is, and from when, is one of a real server."""
    status = JobStatus("j", JobState.SUCCEEDED, username=username, created_ms=created_ms)
    assert status.identified is identified


@pytest.mark.parametrize(
    ("about", "line"),
    [
        ({"state": JobState.RUNNING}, "RUNNING"),
        ({"state": JobState.UNKNOWN, "raw_state": "HIBERNATING"}, "HIBERNATING"),
        ({"state": JobState.RUNNING, "tasks": (TaskStatus("m", 0),)}, "RUNNING, 1 task"),
        (
            {"state": JobState.RUNNING, "tasks": (TaskStatus("m", 0),) * 2, "retries": 3},
            "RUNNING, 2 tasks, retry 3",
        ),
        ({"state": JobState.WAITING, "virtual_cluster": "vc1"}, "WAITING, waiting in virtual cluster vc1"),
        ({"state": JobState.RUNNING, "virtual_cluster": "vc1"}, "RUNNING"),
    ],
)
def test_a_summary_is_one_line(about, line):
    """State, tasks, retries, and where it waits: what Luigi's page shows."""
    assert JobStatus("j", **about).summary() == line
