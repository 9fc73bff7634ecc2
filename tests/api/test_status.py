"""States and statuses."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
from api_cases import cases

from luigi_pai.api.dialects.job_replies import job_status, listed_job, listed_jobs
from luigi_pai.api.status import JobState, JobStatus, TaskStatus, instance_statuses


def test_the_word_of_contrib_is_success():
    """SUCCEED, which only mocked tests say, is SUCCEEDED."""
    assert JobState.of("SUCCEED") is JobState.SUCCEEDED


@cases("release sub_states word meaning")
def test_a_state_is_read_with_the_state_of_the_launcher(release, sub_states, word, meaning):
    """No job whose containers have finished is WAITING or RUNNING, in a lookup and in a list."""
    for sub_state in sub_states.split():
        status = {"name": "j", "state": word, "subState": sub_state}
        (row,) = listed_jobs([listed_job(status)])
        for read in (row, job_status("j", {"jobStatus": status})):
            assert (read.state.value, read.raw_state) == (meaning, meaning), (release, sub_state)
            assert read.summary() == meaning


@pytest.mark.parametrize("word", ["HIBERNATING", "succeeded", "", None, 7, [], "FAILED "])
def test_an_unheard_of_word_is_unknown_and_no_end(word):
    """What is no state's name ends no job."""
    assert JobState.of(word) is JobState.UNKNOWN
    assert not JobState.of(word).finished


FC, YARN = "AttemptRunning", "APPLICATION_RUNNING"


@cases("release times start")
def test_the_start_of_a_job_is_in_the_field_of_its_release(release, times, start):
    """Others have something else in it: 0.x when YARN got the job, 0.15 to 0.17 when it was created."""
    read = job_status("j", {"jobStatus": {"state": "RUNNING", **times}})
    assert read.launched_ms == start, release


@cases("times start")
def test_an_instance_has_the_start_of_its_task(times, start):
    """1.1 and 1.2 name the start of the attempt; in a task that waits, that is when its wait began."""
    roles = {"main": {"taskStatuses": [{"taskIndex": 0, **times}]}}
    array = job_status("j", {"jobStatus": {"state": "RUNNING"}, "taskRoles": roles})
    assert array.tasks[0].launched_ms == start
    assert instance_statuses(array)(0).launched_ms == start


def test_three_states_end_a_job():
    """Succeeded, failed and stopped are ends, and nothing else is; a server's word is the state's name."""
    assert {state.value for state in JobState if state.finished} == {"SUCCEEDED", "FAILED", "STOPPED"}
    assert [state for state in JobState if JobStatus("j", state).succeeded] == [JobState.SUCCEEDED]
    for state in JobState:
        assert JobStatus("j", state).finished is state.finished
        assert JobState.of(state.value) is state


def test_a_status_is_a_value():
    """Equal by its fields, and not to be changed."""
    status = JobStatus("j", JobState.RUNNING, tasks=(TaskStatus("main", 0),))
    assert status == JobStatus("j", JobState.RUNNING, tasks=(TaskStatus("main", 0),))
    with pytest.raises(dataclasses.FrozenInstanceError):
        status.state = JobState.FAILED


@pytest.mark.parametrize("username", ["admin", None])
@pytest.mark.parametrize("created_ms", [1, None])
def test_a_status_is_identified_by_owner_and_birth(username, created_ms):
    """Only a reply that says whose job it is, and from when, is one of a real server."""
    status = JobStatus("j", JobState.SUCCEEDED, username=username, created_ms=created_ms)
    assert status.identified is (None not in (username, created_ms))


@cases("about line")
def test_a_summary_is_one_line(about, line):
    """State, tasks, retries, and where it waits: what Luigi's page shows."""
    tasks = (TaskStatus("m", 0),) * about.get("tasks", 0)
    assert JobStatus("j", **about | {"state": JobState(about["state"]), "tasks": tasks}).summary() == line


ARRAY = JobStatus(
    "array",
    JobState.RUNNING,
    username="anna",
    diagnostics="of the array",
    tasks=(
        TaskStatus("main", 0, state="SUCCEEDED", exit_code=0, launched_ms=1, completed_ms=5),
        TaskStatus("main", 1, state="FAILED", exit_code=255, attempt=2, diagnostics="why", exit_type="Bad"),
        TaskStatus("main", 2, state="RUNNING", exit_code=255, attempt=1),
        TaskStatus("main", 3, state="FAILED", exit_code=-220),
    ),
)


def test_an_instance_of_an_array_has_a_status_like_a_job():
    """Its own state, exit code, times and task, under the name of the array, which the server knows."""
    good, bad, running, stopped = (instance_statuses(ARRAY)(index) for index in range(4))
    assert [each.state.value for each in (good, bad, running, stopped)] == [
        "SUCCEEDED",
        "FAILED",
        "RUNNING",
        "STOPPED",
    ]
    assert {each.name for each in (good, bad, running)} == {"array"}
    assert (good.exit_code, good.launched_ms, good.completed_ms, good.exit_task) == (0, 1, 5, None)
    assert (bad.exit_code, bad.retries, bad.diagnostics, bad.exit_type) == (255, 2, "why", "Bad")
    assert (bad.exit_task, bad.tasks) == (("main", 1), (ARRAY.tasks[1],))
    assert (running.exit_code, running.finished) == (None, False)


@pytest.mark.parametrize("state", ["STOPPED", "FAILED", "SUCCEEDED"])
def test_an_instance_without_an_end_of_its_own_has_that_of_its_array(state):
    """Whether the server shows its task or not: no task is no failure."""
    ended = replace(ARRAY, state=JobState(state))
    assert instance_statuses(ended)(2).state.value == state
    assert instance_statuses(ended)(9).state.value == state
    assert instance_statuses(ended)(0).succeeded


def test_an_instance_that_is_not_shown_yet_is_unknown():
    assert instance_statuses(ARRAY)(9).state is JobState.UNKNOWN
