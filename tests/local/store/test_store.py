"""What the store keeps, when it is safe, and files of other versions."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, contextmanager, nullcontext

import pytest
from local_cases import cases

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai
from luigi_pai.local.store import database as schema
from luigi_pai.local.store import records
from luigi_pai.local.store.jobs import NameTaken, Store
from luigi_pai.local.store.records import COMPLETED, Task
from luigi_pai.local.views import job_lists
from luigi_pai.local.views.job_lists import JobRows

ROLE = {"name": "main", "taskNumber": 2, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 3, "command": "true"}


@pytest.fixture
def store(tmp_path):
    kept = Store(tmp_path / "server.sqlite")
    yield kept
    kept.close()


def add(store, name="job", **more):
    config = {"jobName": name, "taskRoles": [ROLE], "padding": "x" * 5000}
    return store.add_job(name, "anna", "default", config, config, **more)


@contextmanager
def undone(store, error, *records):
    """A change that fails."""
    with pytest.raises(error), store.changing(*records):
        yield


@pytest.fixture
def asked(store, monkeypatch):
    """The ids of jobs for which lists ask, for each time."""
    ids_asked = []
    select = store.select_jobs

    def watched(sql, ids):
        ids_asked.append(*map(json.loads, ids))
        return select(sql, ids)

    monkeypatch.setattr(store, "select_jobs", watched)
    return ids_asked


def synchronous(store):
    return store.rows("PRAGMA synchronous")[0][0]


def test_a_job_that_is_taken_is_synced_to_disk_other_changes_are_not(store, monkeypatch):
    """2 is FULL: the machine may fail. 1 is NORMAL: the server may."""
    assert synchronous(store) == 1
    inside = []
    changing = store.changing

    def watched():
        inside.append(synchronous(store))
        return changing()

    monkeypatch.setattr(store, "changing", watched)
    add(store, "one")
    with pytest.raises(NameTaken):
        add(store, "one")
    assert inside == [2, 2]
    assert synchronous(store) == 1


def test_changes_within_changes_take_effect_together(store):
    """Or none of them."""
    job = add(store)
    with undone(store, ZeroDivisionError):
        store.add_attempt(job)
        with store.changing():
            store.add_attempt(job)
        raise ZeroDivisionError
    assert store.last_attempt(job) is None
    with store.changing():
        add(store, "other")
    assert store.job("other").config["jobName"] == "other"


def test_a_change_that_fails_at_its_commit_leaves_nothing_open(store, tmp_path):
    """Or all that follows would be part of it, and never be written."""
    job = add(store)
    with undone(store, sqlite3.IntegrityError):
        store.rows("PRAGMA defer_foreign_keys = ON")
        store.add_task(Task("c", 99, "main", 0, "f"))
    with store.changing():
        store.add_attempt(job)
    assert store.last_attempt(job).number == 1
    with closing(sqlite3.connect(tmp_path / "server.sqlite")) as other:
        assert other.execute("SELECT COUNT(*) FROM attempts").fetchone()[0] == 1


def test_a_full_disk_takes_back_the_change_and_nothing_else(store):
    """SQLite's own word for it; with room again, all is as before."""
    job = add(store)
    (pages,) = store.rows("PRAGMA page_count")[0]
    store.rows(f"PRAGMA max_page_count = {pages}")

    def fill():
        for number in range(100):
            add(store, f"large{number}")

    with pytest.raises(sqlite3.OperationalError, match="full"):
        fill()
    store.rows("PRAGMA max_page_count = 1000000")
    with store.changing(job):
        job.sub_state = COMPLETED
        store.save_job(job)
    assert store.job("job").sub_state == COMPLETED
    add(store, "next")


def test_records_have_their_values_back_if_a_change_fails(store):
    """What is known in memory is what is on disk."""
    job = add(store)
    before = vars(job).copy()
    with undone(store, ZeroDivisionError, job):
        job.sub_state, job.exit_code = COMPLETED, 3
        store.save_job(job)
        raise ZeroDivisionError
    assert vars(job) == before
    assert store.job("job").sub_state == job.sub_state


@pytest.mark.parametrize("server_starts", [False, True])
def test_another_program_that_reads_the_file_blocks_no_request(server_starts, store, tmp_path):
    """Deleted secrets leave the disk with the first change after it, or when the next server starts."""
    job = add(store, secrets={"pw": "hush-hush-9"})
    log = tmp_path / "server.sqlite-wal"
    reader = sqlite3.connect(tmp_path / "server.sqlite", isolation_level=None)
    reader.execute("BEGIN")
    reader.execute("SELECT * FROM secrets").fetchall()
    store.rows("PRAGMA busy_timeout = 600000")
    store.delete_secrets(job)
    with store.changing():
        store.save_job(job)
    assert b"hush-hush-9" in log.read_bytes()
    assert store.rows("PRAGMA busy_timeout")[0][0] == 5000
    reader.close()
    if server_starts:
        Store(tmp_path / "server.sqlite").close()
    else:
        with store.changing():
            store.save_job(job)
    assert b"hush-hush-9" not in log.read_bytes()


def test_tasks_are_shown_at_their_latest_try_in_the_order_of_their_first(store):
    """However many tries there were."""
    job = add(store)
    attempt = store.add_attempt(job)
    for number in range(3):
        for role, index in (("b", 0), ("b", 1), ("a", 0))[number and 1 :]:
            store.add_task(Task(f"{role}{index}.{number}", attempt.id, role, index, "f", number=number))
    shown = store.tasks(attempt)
    assert [task.container_id for task in shown] == ["b0.0", "b1.2", "a0.2"]
    assert [task.number for task in store.tries(shown[1])] == [2, 1, 0]
    assert [store.add_attempt(job).number for _ in range(2)] == [2, 3]


def test_rows_are_written_once_and_again_after_a_change(store, asked):
    """A list whose jobs have not changed asks for no job; a tag more, or less, is a change."""
    first, second = add(store, "a"), add(store, "b")
    rows = JobRows(store)
    ids = [second.id, first.id]
    before = rows.as_json(ids)
    assert before.count('"state":"WAITING"') == 2
    asked.clear()
    assert rows.as_json(ids) == before
    assert asked == []
    first.sub_state, first.exit_code = COMPLETED, 0
    store.save_job(first)
    assert rows.as_json(ids).count('"state":"SUCCEEDED"') == 1
    assert asked == [[first.id]]
    store.add_tag(second, "t1")
    assert '"tags":["t1"]' in rows.as_json(ids)
    assert store.remove_tag(second, "t1")
    assert '"tags":["t1"]' not in rows.as_json(ids)
    assert asked[1:] == [[second.id]] * 2
    store.purge_job(first)
    assert rows.as_json([second.id]).count('"name"') == 1
    assert rows.as_json([]) == "[]"


def test_rows_do_not_fill_the_memory(store, asked, monkeypatch):
    """Lists of more jobs than are kept are whole all the same."""
    ids = [add(store, name).id for name in "abcd"]
    monkeypatch.setattr(job_lists, "MOST_KEPT", 2)
    rows = JobRows(store)
    assert [rows.as_json(ids).count('"name"') for _ in range(2)] == [4, 4]
    assert [rows.as_json(ids[:2]).count('"name"') for _ in range(2)] == [2, 2]
    assert asked == [ids, ids, ids[:2]]


@pytest.mark.parametrize(
    ("api", "sub_state", "execution_type", "exit_code", "state"),
    cases("the_release_of_a_job_decides_its_state"),
)
def test_the_release_of_a_job_decides_its_state(api, sub_state, execution_type, exit_code, state, tmp_path):
    """214 is an exit code like any other on v2, and -210 on v1; lists find it."""
    with closing(Store(tmp_path / "other.sqlite", api)) as store:
        job = add(store)
        job.sub_state, job.execution_type = getattr(records, sub_state), execution_type
        job.exit_code = exit_code
        assert job.state == state
        store.save_job(job)
        assert store.rows("SELECT state FROM jobs")[0][0] == state


def refusal(path, api):
    """Return what is said of a file that is refused, and that stays as it is."""
    before = path.read_bytes()
    with pytest.raises(ConfigError) as caught:
        schema.Database(path, api)
    assert path.read_bytes() == before
    return str(caught.value)


@pytest.mark.slow
@pytest.mark.parametrize("version", [0, schema.VERSION + 1])
def test_a_file_of_another_version_is_refused(version, tmp_path):
    """Before anything is changed; the message says what to do."""
    path = tmp_path / "server.sqlite"
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE jobs (id INTEGER PRIMARY KEY)")
        db.execute(f"PRAGMA user_version = {version}")
    assert refusal(path, "v2") == (
        f"{path} was written by another version of luigi-pai (its tables have version {version}, this one "
        f"reads {schema.VERSION}); use that luigi-pai, or another folder with --data"
    )
    with pytest.raises(ConfigError, match="written by another version of luigi-pai"):
        LocalPai(tmp_path).start()


def test_what_belongs_to_a_job_is_deleted_with_it(store):
    """Attempts, tasks, texts, tags, events, secrets."""
    job = add(store, secrets={"pw": "hush"})
    store.add_tag(job, "kept")
    store.record_event(job, "a", "b")
    store.add_task(Task("c", store.add_attempt(job).id, "main", 0, "f"))
    tables = ("jobs", "job_texts", "secrets", "tags", "events", "attempts", "tasks")
    for count in (1, 0):
        assert [store.rows(f"SELECT COUNT(*) FROM {table}")[0][0] for table in tables] == [count] * 7
        store.purge_job(job)


@pytest.mark.parametrize(("api", "refused"), [("v1", ["anna", "bob"]), ("v2", ["anna"]), ("ltp", ["anna"])])
def test_names_are_unique_until_their_job_is_deleted(api, refused, tmp_path):
    """On v1 among all users, on v2 among the jobs of each."""
    with closing(Store(tmp_path / "server.sqlite", api)) as store:
        for _ in range(3):
            store.execute("UPDATE jobs SET deleted = 1")
            add(store)
        for user in ("anna", "bob"):
            with pytest.raises(NameTaken) if user in refused else nullcontext():
                store.add_job("job", user, "default", {}, {"taskRoles": [ROLE]})


@pytest.mark.parametrize(("its", "api"), [("v1", "v2"), ("v2", "v1"), ("v2", "ltp"), ("ltp", "v2")])
def test_a_file_of_another_api_is_refused(its, api, tmp_path):
    """It stays as it is; the message says which API it has."""
    path = tmp_path / "server.sqlite"
    schema.Database(path, its).close()
    names = {"v1": "OpenPAI 0.7.1", "v2": "OpenPAI 1.8", "ltp": "LTP 1.5"}
    assert refusal(path, api) == (
        f"the data folder {tmp_path} has the jobs of {names[its]}, and this server would be {names[api]}; "
        f"give --api {its}, or another folder with --data"
    )
    schema.Database(path, its).close()


def test_a_list_reads_no_configs_and_unfinished_jobs_are_found_by_an_index(tmp_path):
    """What 10,000 finished jobs must not make slow."""
    with closing(schema.Database(tmp_path / "server.sqlite", "v2")) as db:

        def plan(sql):
            return " ".join(row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}"))

        assert "jobs_unfinished" in plan(
            "SELECT * FROM jobs WHERE sub_state <> 'FRAMEWORK_COMPLETED' OR deleted ORDER BY id"
        )
        newest = plan("SELECT id FROM jobs WHERE NOT deleted ORDER BY created DESC, id DESC LIMIT 5000")
        assert "jobs_by_created" in newest
        assert "TEMP B-TREE" not in newest
        assert "config_json" not in [row["name"] for row in db.execute("PRAGMA table_info(jobs)")]
