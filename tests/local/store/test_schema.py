"""A data folder of an earlier release goes on; one of a later release is refused."""

from __future__ import annotations

import sqlite3

import pytest
from local_client import LocalClient
from places import DATA
from protocol_client import ProtocolClient, protocol

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai
from luigi_pai.local.store import schema

FIRST = (DATA / "local_schema_0.sql").read_text()
SECOND = (DATA / "local_schema_1.sql").read_text()


@pytest.fixture
def first_release(tmp_path):
    """A data folder that the first release left: a user, a job that ended, one that waits."""
    (tmp_path / "data").mkdir()
    db = sqlite3.connect(tmp_path / "data/server.sqlite")
    db.executescript(FIRST)
    db.close()
    return tmp_path / "data"


def test_a_file_of_the_first_release_is_brought_up_to_date(first_release):
    """Its jobs and users stay; the job that waited runs; v2 jobs can be added."""
    with LocalPai(first_release) as server:
        client = LocalClient(server)
        assert client.job("old")["jobStatus"]["appExitCode"] == 3
        assert client.wait("waiting")["jobStatus"]["state"] == "SUCCEEDED"
        assert LocalClient(server, "bob", "bobpassword").token
        v2 = ProtocolClient(server)
        assert v2.send("GET", "/jobs").json() == []
        assert v2.wait(v2.submit(protocol("true", name="old")))["jobStatus"]["state"] == "SUCCEEDED"
    db = sqlite3.connect(first_release / "server.sqlite")
    assert db.execute("PRAGMA user_version").fetchone()[0] == schema.VERSION
    db.close()


def test_a_migrated_file_has_the_tables_of_a_new_one(first_release, tmp_path):
    """Same names, same definitions."""
    definitions = []
    for path in (first_release / "server.sqlite", tmp_path / "new.sqlite"):
        db = schema.open_database(path)
        rows = db.execute("SELECT name, sql FROM sqlite_master ORDER BY name")
        definitions.append([(row["name"], " ".join((row["sql"] or "").split())) for row in rows])
        db.close()
    assert [name for name, _ in definitions[0]] == [name for name, _ in definitions[1]]
    assert definitions[0] == definitions[1]


def test_a_file_of_a_later_release_is_refused(tmp_path):
    """Before anything is changed; the message says what to do."""
    path = tmp_path / "server.sqlite"
    schema.open_database(path).close()
    db = sqlite3.connect(path)
    db.execute(f"PRAGMA user_version = {schema.VERSION + 1}")
    db.close()
    with pytest.raises(ConfigError, match="written by a newer luigi-pai") as caught:
        schema.open_database(path)
    assert str(path) in str(caught.value)
    assert "--data" in str(caught.value)
    with pytest.raises(ConfigError, match="written by a newer luigi-pai"):
        LocalPai(tmp_path).start()


def test_a_migration_that_fails_changes_nothing(first_release, monkeypatch):
    """All of it, or none."""
    monkeypatch.setattr(schema, "_BOTH_GENERATIONS", f"{schema._BOTH_GENERATIONS}; ALTER TABLE nosuch ADD x")
    with pytest.raises(ConfigError, match="cannot use"):
        schema.open_database(first_release / "server.sqlite")
    db = sqlite3.connect(first_release / "server.sqlite")
    assert db.execute("PRAGMA user_version").fetchone()[0] == 0
    assert "generation" not in [row[1] for row in db.execute("PRAGMA table_info(jobs)")]
    db.close()


@pytest.fixture
def second_release(tmp_path):
    """A data folder of the second release: jobs of both APIs, with attempts, tasks, tags, a secret."""
    (tmp_path / "data").mkdir()
    db = sqlite3.connect(tmp_path / "data/server.sqlite")
    db.executescript(SECOND)
    db.close()
    return tmp_path / "data"


def test_a_file_of_the_second_release_is_brought_up_to_date(second_release):
    """Everything of its jobs stays, their secrets too; no number of a job is used twice."""
    with LocalPai(second_release) as server:
        bob = ProtocolClient(server, "bob", "bobpassword")
        row = bob.send("GET", "/jobs", keyword="second").json()[0]
        assert (row["state"], row["tags"], row["completedTime"]) == ("SUCCEEDED", ["kept"], 1700000004000)
        job = bob.job("bob~second")
        assert bob.task(job)["containerId"] == "6b1f0c9e-0000-4000-8000-000000000001"
        assert bob.send("GET", "/jobs/bob~second/events").json()["totalCount"] == 1
        assert bob.send("GET", "/jobs/bob~second/config").json()["taskRoles"]["main"]["commands"] == ["true"]
        assert bob.log(bob.wait("bob~secretive")) == "hush\n"
        assert bob.send("GET", "/users/bob").json()["grouplist"] == ["default"]
        client = LocalClient(server)
        assert client.job("old")["taskRoles"]["main"]["taskStatuses"][0]["containerId"].endswith("_000002")
        assert client.call("GET", "/jobs/old/config").json()["jobName"] == "old"
        assert client.wait("waiting")["jobStatus"]["state"] == "SUCCEEDED"
        client.run("true", name="new")
    db = sqlite3.connect(second_release / "server.sqlite")
    assert db.execute("SELECT id FROM jobs WHERE name = 'new'").fetchone()[0] == 8
    assert db.execute("PRAGMA foreign_key_check").fetchall() == []
    assert db.execute("PRAGMA integrity_check").fetchone()[0] == "ok"
    db.execute("PRAGMA foreign_keys = ON")
    db.execute("DELETE FROM jobs WHERE name = 'second'")
    for table in ("attempts", "tags", "events", "job_texts"):
        assert db.execute(f"SELECT COUNT(*) FROM {table} WHERE job_id = 3").fetchone()[0] == 0
    db.close()


def test_a_list_reads_no_configs_and_unfinished_jobs_are_found_by_an_index(tmp_path):
    """What 10,000 finished jobs must not make slow."""
    db = schema.open_database(tmp_path / "server.sqlite")

    def plan(sql):
        return " ".join(row["detail"] for row in db.execute(f"EXPLAIN QUERY PLAN {sql}"))

    assert "jobs_unfinished" in plan(
        "SELECT * FROM jobs WHERE sub_state <> 'FRAMEWORK_COMPLETED' OR deleted ORDER BY id"
    )
    newest = plan("SELECT id FROM jobs WHERE generation = 2 ORDER BY created DESC, id DESC LIMIT 5000")
    assert "jobs_by_created" in newest
    assert "TEMP B-TREE" not in newest
    assert "config_json" not in [row["name"] for row in db.execute("PRAGMA table_info(jobs)")]
    db.close()
