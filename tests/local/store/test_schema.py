"""The tables of the SQLite file, and files of other versions."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai
from luigi_pai.local.store import database as schema


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


def test_what_belongs_to_a_job_is_deleted_with_it(tmp_path):
    """Attempts, tasks, texts, tags, events, secrets."""
    with closing(schema.Database(tmp_path / "server.sqlite", "v2")) as db:
        db.execute(
            "INSERT INTO jobs (id, name, username, virtual_cluster, sub_state, created)"
            " VALUES (1, 'a', 'anna', 'default', 'FRAMEWORK_COMPLETED', 0)"
        )
        db.execute("INSERT INTO job_texts VALUES (1, '{}', '{}')")
        db.execute("INSERT INTO secrets VALUES (1, '{}')")
        db.execute("INSERT INTO tags VALUES (1, 'kept')")
        db.execute("INSERT INTO events (job_id, type, reason, message, at) VALUES (1, 'Normal', 'a', 'b', 0)")
        db.execute("INSERT INTO attempts (id, job_id, number, launched) VALUES (2, 1, 1, 0)")
        db.execute(
            "INSERT INTO tasks (container_id, attempt_id, role, task_index, folder, ports, gpus)"
            " VALUES ('c', 2, 'main', 0, 'f', '{}', 0)"
        )
        db.execute("DELETE FROM jobs")
        for table in ("job_texts", "secrets", "tags", "events", "attempts", "tasks"):
            assert db.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0] == 0, table


@pytest.mark.parametrize(
    ("api", "refused"),
    [("v1", ["anna", "bob"]), ("v2", ["anna"]), ("ltp", ["anna"])],
    ids=["v1", "v2", "ltp"],
)
def test_names_are_unique_until_their_job_is_deleted(api, refused, tmp_path):
    """On v1 among all users, on v2 among the jobs of each."""
    insert = (
        "INSERT INTO jobs (name, username, virtual_cluster, sub_state, created, deleted)"
        " VALUES ('a', ?, 'default', 'FRAMEWORK_WAITING', 0, ?)"
    )
    with closing(schema.Database(tmp_path / "server.sqlite", api)) as db:
        for deleted in (1, 1, 0):
            db.execute(insert, ("anna", deleted))
        for user in ("anna", "bob"):
            if user in refused:
                with pytest.raises(sqlite3.IntegrityError):
                    db.execute(insert, (user, 0))
            else:
                db.execute(insert, (user, 0))


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
