"""A job's page is bounded, however many attempts and events it has."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from luigi_pai.local.config.settings import Address
from luigi_pai.local.pages.jobs import job_page
from luigi_pai.local.store.jobs import Store
from luigi_pai.local.store.records import NewJob
from luigi_pai.local.views.job_events import JobEvents

MANY = 150


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "server.sqlite")
    yield store
    store.close()


@pytest.fixture
def job(store):
    role = {"name": "m", "taskNumber": 1, "cpuNumber": 1, "memoryMB": 1, "shmMB": 1, "gpuNumber": 0}
    return store.add_job(NewJob("tried-often", "admin", "default", {}, {"taskRoles": [role]}))


def shown(store, job):
    """Return the page of a job."""
    api = SimpleNamespace(
        store=store,
        events=JobEvents(store),
        address=Address("127.0.0.1", 9186),
        launcher=SimpleNamespace(queue=SimpleNamespace(why=lambda _: None)),
    )
    return job_page(api, job, "", None)


def test_a_page_has_the_last_hundred_attempts(store, job):
    """A job that is killed is tried again for ever."""
    with store.changing():
        for _ in range(MANY):
            store.end_attempt(store.add_attempt(job))
    text = shown(store, job)
    assert text.count('id="attempt-') == 100
    assert 'id="attempt-150"' in text
    assert 'id="attempt-51"' in text
    assert 'id="attempt-50"' not in text


def test_a_page_reads_the_last_hundred_events(store, job, monkeypatch):
    """No more of them leave the database."""
    events = JobEvents(store)
    for number in range(MANY):
        events.record(job, "Tried", f"for the {number}th time")
    read = []
    rows = store.rows

    def counted(sql, *values):
        found = rows(sql, *values)
        if "FROM events" in sql:
            read.append(len(found))
        return found

    monkeypatch.setattr(store, "rows", counted)
    text = shown(store, job)
    assert read == [100]
    assert "for the 149th time" in text
    assert "for the 49th time" not in text
    assert len(events.of(job)) == MANY
