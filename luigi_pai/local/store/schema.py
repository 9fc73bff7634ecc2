"""The tables of the server's SQLite file, and how the file is opened."""

from __future__ import annotations

import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["VERSION", "open_database", "transaction"]

VERSION = 2
"""PRAGMA user_version of the files that this module reads and writes."""

# What may be large (job_texts) is kept apart from what lists read.
_TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE users (name TEXT PRIMARY KEY, password TEXT NOT NULL, admin INTEGER NOT NULL);
CREATE TABLE tokens (token TEXT PRIMARY KEY, username TEXT NOT NULL, ends INTEGER);
CREATE INDEX tokens_by_user ON tokens (username);
CREATE TABLE jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    api TEXT NOT NULL,
    name TEXT NOT NULL,
    username TEXT NOT NULL,
    virtual_cluster TEXT NOT NULL,
    sub_state TEXT NOT NULL,
    execution_type TEXT NOT NULL DEFAULT 'START',
    retries INTEGER NOT NULL DEFAULT 0,
    counted_retries INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    launched INTEGER,
    completed INTEGER,
    exit_code INTEGER,
    exit_type TEXT,
    diagnostics TEXT,
    deleted INTEGER NOT NULL DEFAULT 0,
    total_gpus INTEGER NOT NULL DEFAULT 0,
    total_tasks INTEGER NOT NULL DEFAULT 0,
    total_roles INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX jobs_v1_by_name ON jobs (name) WHERE api = 'v1' AND NOT deleted;
CREATE UNIQUE INDEX jobs_v2_by_name ON jobs (username, name) WHERE api = 'v2';
CREATE INDEX jobs_by_created ON jobs (api, created);
CREATE INDEX jobs_unfinished ON jobs (id) WHERE sub_state <> 'FRAMEWORK_COMPLETED' OR deleted;
CREATE TABLE job_texts (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    config_json TEXT NOT NULL,
    spec_json TEXT NOT NULL
);
CREATE TABLE secrets (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE, value TEXT NOT NULL
);
CREATE TABLE tags (
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE, name TEXT NOT NULL,
    PRIMARY KEY (job_id, name)
);
CREATE TABLE events (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    container_id TEXT,
    type TEXT NOT NULL,
    reason TEXT NOT NULL,
    message TEXT NOT NULL,
    at INTEGER NOT NULL
);
CREATE INDEX events_by_job ON events (job_id);
CREATE TABLE attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    launched INTEGER NOT NULL,
    completed INTEGER,
    interrupted INTEGER NOT NULL DEFAULT 0,
    exit_code INTEGER,
    trigger_role TEXT,
    trigger_index INTEGER,
    trigger_message TEXT
);
CREATE INDEX attempts_by_job ON attempts (job_id);
CREATE TABLE tasks (
    container_id TEXT PRIMARY KEY,
    attempt_id INTEGER NOT NULL REFERENCES attempts (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    task_index INTEGER NOT NULL,
    folder TEXT NOT NULL,
    ports TEXT NOT NULL,
    gpus INTEGER NOT NULL,
    pid INTEGER,
    pid_started TEXT,
    exit_code INTEGER,
    launched INTEGER,
    completed INTEGER,
    exit_info TEXT,
    number INTEGER NOT NULL DEFAULT 0,
    counted_retries INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX tasks_by_attempt ON tasks (attempt_id)
"""


def open_database(path: Path) -> sqlite3.Connection:
    """Open the file; a new one gets the tables.

    Deleted secrets are overwritten on disk (``secure_delete``). What is committed outlives this
    process however it ends, and the machine from the next checkpoint or `Database.durably` on.

    Raises:
        ConfigError: the file is damaged, is no SQLite file, or has another version of the tables.
    """
    path.touch(mode=0o600)
    db = sqlite3.connect(path, isolation_level=None)
    db.row_factory = sqlite3.Row
    try:
        is_new = _is_new(db, path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA secure_delete = ON")
        db.execute("PRAGMA foreign_keys = ON")
        if is_new:
            with transaction(db):
                for statement in _TABLES.split(";"):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {VERSION}")
    except sqlite3.DatabaseError as error:
        db.close()
        raise ConfigError(f"cannot use {path}: {error}") from None
    except ConfigError:
        db.close()
        raise
    return db


def _is_new(db: sqlite3.Connection, path: Path) -> bool:
    """Return whether the file has no tables yet; raises ConfigError: it has tables of another version."""
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found == VERSION:
        return False
    if found or db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise ConfigError(
            f"{path} was written by another version of luigi-pai (its tables have version {found}, this one "
            f"reads {VERSION}); use that luigi-pai, or another folder with --data"
        )
    return True


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Make every change inside take effect together, or none of them."""
    db.execute("BEGIN IMMEDIATE")
    try:
        yield
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:  # some failures SQLite takes back itself; others, at the commit too, stay open
            db.execute("ROLLBACK")
        raise
