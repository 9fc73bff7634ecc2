"""A data folder of an earlier release goes on; one of a later release is refused."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from local_client import LocalClient
from protocol_client import ProtocolClient, protocol

from luigi_pai.errors import ConfigError
from luigi_pai.local import LocalPai, schema

FIRST = (Path(__file__).parents[1] / "data" / "local_schema_0.sql").read_text()


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
