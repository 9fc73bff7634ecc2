"""A job's page is bounded, however often it was tried and whatever happened to it."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from luigi_pai.local.pages import job as page_job
from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import Attempt, NewJob
from luigi_pai.local.views.job_events import JobNotes

MANY = 150


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "server.sqlite")
    yield store
    store.close()


@pytest.fixture
def job(store):
    role = {"name": "m", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 1, "shmMB": 1, "gpuNumber": 0}
    return store.add_job(NewJob("tried-often", "admin", "default", {}, {"taskRoles": [role]}, api="v2"))


def test_a_page_has_the_last_hundred_attempts(job):
    """A job that is killed is tried again for ever."""
    attempts = [Attempt(number, job.id, number, number) for number in range(1, MANY + 1)]
    shown = "".join(page_job._attempts(job, attempts))
    assert shown.count("<tr>") == 1 + 100
    assert 'id="attempt-150"' in shown
    assert 'id="attempt-51"' in shown
    assert 'id="attempt-50"' not in shown


def test_a_page_reads_the_last_hundred_events(store, job, monkeypatch):
    """No more of them leave the database."""
    notes = JobNotes(store)
    for number in range(MANY):
        notes.record(job, "Tried", f"for the {number}th time")
    read = []
    rows = store.rows
    monkeypatch.setattr(store, "rows", lambda *asked: read.append(rows(*asked)) or read[-1])
    shown = "".join(page_job._events(SimpleNamespace(notes=notes), job))
    assert [len(found) for found in read] == [100]
    assert "for the 149th time" in shown
    assert "for the 49th time" not in shown
    assert len(notes.events(job)) == MANY
