"""The states of jobs: one rule, as Python and as SQL."""

from __future__ import annotations

import itertools

import pytest

from luigi_pai.local.releases.release import LTP_1_5, releases_by_api
from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import COMPLETED, RUNNING, WAITING, NewJob
from luigi_pai.local.views.job_states import job_state, state_sql

SPEC = {"taskRoles": [], "gang": True}
CODES = (0, 1, 214, -210, -220)


@pytest.fixture
def store(tmp_path):
    opened = Store(tmp_path / "server.sqlite")
    yield opened
    opened.close()


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
    job = store.add_job(NewJob("a", "anna", "default", {}, SPEC, api))
    job.sub_state, job.execution_type, job.exit_code = sub_state, execution_type, exit_code
    assert job_state(job) == state


def test_the_sql_of_a_state_is_the_state(store):
    """Of every job that can be, of both APIs."""
    combinations = itertools.product(
        ("v1", "v2"), (WAITING, RUNNING, COMPLETED), ("START", "STOP"), (None, *CODES)
    )
    for number, (api, sub_state, execution_type, exit_code) in enumerate(combinations):
        if (sub_state == COMPLETED) == (exit_code is not None):
            job = store.add_job(NewJob(f"job-{number}", "anna", "default", {}, SPEC, api))
            job.sub_state, job.execution_type, job.exit_code = sub_state, execution_type, exit_code
            store.save_job(job)
    state = state_sql(*store.releases.values())
    found = {row["id"]: row["state"] for row in store.rows(f"SELECT id, {state} AS state FROM jobs")}
    jobs = [job for api in ("v1", "v2") for job in store.jobs(api)]
    assert len(jobs) == 28
    assert {job.id: job_state(job) for job in jobs} == found


def test_a_job_has_the_release_that_the_server_has_of_its_api(tmp_path):
    """The file stores the API only: a data folder may be given to a server of another release."""
    path = tmp_path / "other.sqlite"
    first = Store(path)
    first.add_job(NewJob("a", "anna", "default", {}, SPEC, "v2"))
    first.close()
    second = Store(path, releases_by_api("ltp"))
    assert second.job_of("anna", "a").release is LTP_1_5
    second.close()
