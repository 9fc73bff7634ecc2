"""The states of jobs: the release decides, and lists find them."""

from __future__ import annotations

import contextlib

import pytest

from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import COMPLETED, COMPLETING, RUNNING, WAITING

SPEC = {"taskRoles": [], "gang": True}


@pytest.fixture
def store(tmp_path):
    """Opens the file of an API."""
    with contextlib.ExitStack() as opened:
        yield lambda api: opened.enter_context(contextlib.closing(Store(tmp_path / "server.sqlite", api)))


@pytest.mark.parametrize(
    ("api", "sub_state", "execution_type", "exit_code", "state"),
    [
        ("v1", WAITING, "START", None, "WAITING"),
        ("v1", COMPLETING, "START", None, "WAITING"),
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
    """214 is an exit code like any other on v2, and -210 on v1; lists find it."""
    opened = store(api)
    job = opened.add_job("a", "anna", "default", {}, SPEC)
    job.sub_state, job.execution_type, job.exit_code = sub_state, execution_type, exit_code
    assert job.state == state
    opened.save_job(job)
    assert opened.rows("SELECT state FROM jobs")[0][0] == state
