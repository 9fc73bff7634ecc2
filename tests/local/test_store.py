"""What the store keeps, and when it is safe."""

from __future__ import annotations

import pytest

from luigi_pai.local import job_rows
from luigi_pai.local.job_rows import JobRows
from luigi_pai.local.records import COMPLETED, NewJob
from luigi_pai.local.store import NameTaken, Store

ROLE = {"name": "main", "taskNumber": 2, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 3, "command": "true"}


@pytest.fixture
def store(tmp_path):
    kept = Store(tmp_path / "server.sqlite")
    yield kept
    kept.close()


def new(name="job", generation=1, **more):
    config = {"jobName": name, "taskRoles": [ROLE], "padding": "x" * 5000}
    return NewJob(name, "anna", "default", config, config, generation, **more)


def synchronous(store):
    return store.rows("PRAGMA synchronous")[0][0]


def test_a_job_that_is_taken_is_synced_to_disk_other_changes_are_not(store, monkeypatch):
    """2 is FULL: the machine may fail. 1 is NORMAL: the server may."""
    assert synchronous(store) == 1
    seen = []
    monkeypatch.setattr(store, "_whole_jobs", lambda *_: seen.append(synchronous(store)) or [None])
    store.add_job(new("one"))
    assert seen == [1]
    inside = []
    changing = store.changing

    def watched():
        inside.append(synchronous(store))
        return changing()

    monkeypatch.setattr(store, "changing", watched)
    store.add_job(new("two"))
    with pytest.raises(NameTaken):
        store.add_job(new("two"))
    assert inside == [2, 2]
    assert synchronous(store) == 1


def test_changes_within_changes_take_effect_together(store):
    """Or none of them."""
    job = store.add_job(new())

    def fail():
        with store.changing():
            store.add_attempt(job)
            with store.changing():
                store.add_attempt(job)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert store.attempts(job) == []
    with store.changing():
        store.add_job(new("other"))
    assert store.job("other").config["jobName"] == "other"


def test_lists_leave_out_what_may_be_large(store):
    """A job by its name has it."""
    store.add_job(new())
    assert [job.config_json for job in store.jobs()] == [""]
    assert store.job("job").roles == [ROLE]
    assert [job.roles for job in store.unfinished_jobs()] == [[ROLE]]
    job = store.job("job")
    assert (job.total_gpus, job.total_tasks, job.total_roles) == (6, 2, 1)


def test_rows_are_written_once_and_again_after_a_change(store, monkeypatch):
    """A list whose jobs have not changed asks for no job."""
    first, second = store.add_job(new("a")), store.add_job(new("b", 2))
    rows = JobRows(store)
    ids = [second.id, first.id]
    before = rows.as_json(ids)
    assert before.count('"state":"WAITING"') == 2
    asked = []
    select = store.select_jobs
    monkeypatch.setattr(store, "select_jobs", lambda clauses, ids: asked.append(ids) or select(clauses, ids))
    assert rows.as_json(ids) == before
    assert asked == []
    first.sub_state, first.exit_code = COMPLETED, 0
    store.save_job(first)
    assert rows.as_json(ids).count('"state":"SUCCEEDED"') == 1
    assert asked == [[first.id]]
    store.purge_job(first)
    assert rows.as_json([second.id]).count('"name"') == 1
    assert rows.as_json([]) == "[]"


def test_rows_do_not_fill_the_memory(store, monkeypatch):
    """Lists of more jobs than are kept are whole all the same."""
    ids = [store.add_job(new(name)).id for name in "abcd"]
    monkeypatch.setattr(job_rows, "_MOST_KEPT", 2)
    rows = JobRows(store)
    assert [rows.as_json(ids).count('"name"') for _ in range(2)] == [4, 4]
    assert rows.as_json(ids[:2]).count('"name"') == 2
    assert len(rows._rows) == 2
