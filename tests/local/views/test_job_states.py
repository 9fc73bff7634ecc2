"""The states of jobs: one rule, as Python and as SQL."""

from __future__ import annotations

import contextlib
import itertools

import pytest

from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import COMPLETED, RUNNING, WAITING, NewJob, state_sql

SPEC = {"taskRoles": [], "gang": True}
CODES = (0, 1, 214, -210, -220)


@pytest.fixture
def store(tmp_path):
    """Opens the file of an API."""
    with contextlib.ExitStack() as opened:
        yield lambda api: opened.enter_context(contextlib.closing(Store(tmp_path / "server.sqlite", api)))


@pytest.mark.parametrize(
    ("api", "sub_state", "execution_type", "exit_code", "state"),
    [
        ("v1", WAITING, "START", None, "WAITING"),
        ("v1", RUNNING, "STOP", None, "RUNNING"),
        ("v2", RUNNING, "STOP", None, "STOPPING"),
        ("v1", COMPLETED, "STOP", 214, "STOPPED"),
        ("v2", COMPLETED, "START", 214, "FAILED"),
        ("v1", COMPLETED, "START", -210, "FAILED"),
        ("v2", COMPLETED, "STOP", -210, "STOPPED"),
        ("v2", COMPLETED, "START", -220, "STOPPED"),
        ("v2", COMPLETED, "STOP", 3, "FAILED"),
        ("v1", COMPLETED, "START", 0, "SUCCEEDED"),
    ],
)
def test_the_release_of_a_job_decides_its_state(api, sub_state, execution_type, exit_code, state, store):
    """214 is an exit code like any other on v2, and -210 on v1."""
    job = store(api).add_job(NewJob("a", "anna", "default", {}, SPEC))
    job.sub_state, job.execution_type, job.exit_code = sub_state, execution_type, exit_code
    assert job.state == state


@pytest.mark.parametrize("api", ["v1", "v2", "ltp"])
def test_the_sql_of_a_state_is_the_state(api, store):
    """Of every job that can be."""
    opened = store(api)
    combinations = itertools.product((WAITING, RUNNING, COMPLETED), ("START", "STOP"), (None, *CODES))
    for number, (sub_state, execution_type, exit_code) in enumerate(combinations):
        if (sub_state == COMPLETED) == (exit_code is not None):
            job = opened.add_job(NewJob(f"job-{number}", "anna", "default", {}, SPEC))
            job.sub_state, job.execution_type, job.exit_code = sub_state, execution_type, exit_code
            opened.save_job(job)
    found = dict(opened.rows(f"SELECT id, {state_sql(opened.release.launcher)} FROM jobs"))
    assert len(found) == 14
    assert {job.id: job.state for job in opened.select_jobs("", ())} == found
