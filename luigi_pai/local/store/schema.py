"""The tables of the server's SQLite file, and how an older file becomes a present one."""

from __future__ import annotations

import re
import sqlite3
from contextlib import contextmanager
from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

__all__ = ["VERSION", "durably", "open_database", "transaction"]

VERSION = 2
"""PRAGMA user_version of the files that this module writes; the first release wrote 0."""

_FIRST_TABLES = """
CREATE TABLE IF NOT EXISTS about (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS users (
    name TEXT PRIMARY KEY, password TEXT NOT NULL, admin INTEGER NOT NULL, virtual_clusters TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS jobs (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    username TEXT NOT NULL,
    virtual_cluster TEXT NOT NULL,
    config_json TEXT NOT NULL,
    spec_json TEXT NOT NULL,
    sub_state TEXT NOT NULL,
    execution_type TEXT NOT NULL DEFAULT 'START',
    retries INTEGER NOT NULL DEFAULT 0,
    counted_retries INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    completed INTEGER,
    exit_code INTEGER,
    exit_type TEXT,
    diagnostics TEXT,
    deleted INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX IF NOT EXISTS jobs_by_name ON jobs (name) WHERE NOT deleted;
CREATE INDEX IF NOT EXISTS jobs_by_state ON jobs (sub_state);
CREATE TABLE IF NOT EXISTS attempts (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    job_id INTEGER NOT NULL REFERENCES jobs (id) ON DELETE CASCADE,
    number INTEGER NOT NULL,
    launched INTEGER NOT NULL,
    completed INTEGER,
    interrupted INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX IF NOT EXISTS attempts_by_job ON attempts (job_id);
CREATE TABLE IF NOT EXISTS tasks (
    container_id TEXT PRIMARY KEY,
    attempt_id INTEGER NOT NULL REFERENCES attempts (id) ON DELETE CASCADE,
    role TEXT NOT NULL,
    task_index INTEGER NOT NULL,
    folder TEXT NOT NULL,
    ports TEXT NOT NULL,
    gpus INTEGER NOT NULL,
    pid INTEGER,
    pid_started TEXT,
    exit_code INTEGER
);
CREATE INDEX IF NOT EXISTS tasks_by_attempt ON tasks (attempt_id)
"""

_BOTH_GENERATIONS = """
ALTER TABLE jobs ADD COLUMN generation INTEGER NOT NULL DEFAULT 1;
ALTER TABLE jobs ADD COLUMN total_gpus INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN total_tasks INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN total_roles INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN launched INTEGER;
DROP INDEX jobs_by_name;
CREATE UNIQUE INDEX jobs_v1_by_name ON jobs (name) WHERE generation = 1 AND NOT deleted;
CREATE UNIQUE INDEX jobs_v2_by_name ON jobs (username, name) WHERE generation = 2;
CREATE INDEX jobs_by_created ON jobs (generation, created);
ALTER TABLE attempts ADD COLUMN exit_code INTEGER;
ALTER TABLE attempts ADD COLUMN trigger_role TEXT;
ALTER TABLE attempts ADD COLUMN trigger_index INTEGER;
ALTER TABLE attempts ADD COLUMN trigger_message TEXT;
ALTER TABLE tasks ADD COLUMN launched INTEGER;
ALTER TABLE tasks ADD COLUMN completed INTEGER;
ALTER TABLE tasks ADD COLUMN exit_info TEXT;
ALTER TABLE tasks ADD COLUMN number INTEGER NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN counted_retries INTEGER NOT NULL DEFAULT 0;
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
CREATE TABLE tokens (token TEXT PRIMARY KEY, username TEXT NOT NULL, ends INTEGER);
CREATE INDEX tokens_by_user ON tokens (username)
"""

_JOB = """
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    username TEXT NOT NULL,
    virtual_cluster TEXT NOT NULL,
    sub_state TEXT NOT NULL,
    execution_type TEXT NOT NULL DEFAULT 'START',
    retries INTEGER NOT NULL DEFAULT 0,
    counted_retries INTEGER NOT NULL DEFAULT 0,
    created INTEGER NOT NULL,
    completed INTEGER,
    exit_code INTEGER,
    exit_type TEXT,
    diagnostics TEXT,
    deleted INTEGER NOT NULL DEFAULT 0,
    generation INTEGER NOT NULL DEFAULT 1,
    total_gpus INTEGER NOT NULL DEFAULT 0,
    total_tasks INTEGER NOT NULL DEFAULT 0,
    total_roles INTEGER NOT NULL DEFAULT 0,
    launched INTEGER
"""
_JOB_COLUMNS = ", ".join(re.findall(r"^ +([a-z_]+)", _JOB, re.MULTILINE))

# What may be large is kept apart from what lists read. DROP COLUMN would need SQLite 3.35.
_LISTS_AND_GROUPS = f"""
CREATE TABLE job_texts (
    job_id INTEGER PRIMARY KEY REFERENCES jobs (id) ON DELETE CASCADE,
    config_json TEXT NOT NULL,
    spec_json TEXT NOT NULL
);
INSERT INTO job_texts SELECT id, config_json, spec_json FROM jobs;
CREATE TABLE new_jobs ({_JOB});
INSERT INTO new_jobs ({_JOB_COLUMNS}) SELECT {_JOB_COLUMNS} FROM jobs;
DELETE FROM sqlite_sequence WHERE name = 'new_jobs';
INSERT INTO sqlite_sequence SELECT 'new_jobs', seq FROM sqlite_sequence WHERE name = 'jobs';
DROP TABLE jobs;
ALTER TABLE new_jobs RENAME TO jobs;
CREATE UNIQUE INDEX jobs_v1_by_name ON jobs (name) WHERE generation = 1 AND NOT deleted;
CREATE UNIQUE INDEX jobs_v2_by_name ON jobs (username, name) WHERE generation = 2;
CREATE INDEX jobs_by_created ON jobs (generation, created);
CREATE INDEX jobs_unfinished ON jobs (id) WHERE sub_state <> 'FRAMEWORK_COMPLETED' OR deleted;
ALTER TABLE users ADD COLUMN email TEXT NOT NULL DEFAULT '';
ALTER TABLE users ADD COLUMN extension TEXT NOT NULL DEFAULT '{{}}';
ALTER TABLE users ADD COLUMN groups TEXT NOT NULL DEFAULT '';
CREATE TABLE groups (
    name TEXT PRIMARY KEY, description TEXT NOT NULL, external_name TEXT NOT NULL, extension TEXT NOT NULL
)
"""  # noqa: S608 - constants


_PAST_CLUSTERS = """
CREATE TABLE IF NOT EXISTS past_virtual_clusters (
    username TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (username, name)
)
"""
"""Beside the tables of a version: earlier releases neither read nor miss it."""


def _steps(found: int) -> list[str]:
    """Return the statements that make a file of an earlier version a present one."""
    steps = [_FIRST_TABLES + ";" + _BOTH_GENERATIONS, _LISTS_AND_GROUPS]
    return [statement for step in steps[found:] for statement in step.split(";")]


def open_database(path: Path) -> sqlite3.Connection:
    """Open the file, making it or bringing it up to date where that is needed.

    Deleted secrets are overwritten on disk (``secure_delete``). What is committed outlives this
    process however it ends, and the machine from the next checkpoint or `durably` on.

    Raises:
        ConfigError: the file is damaged, is no SQLite file, or is a newer release's.
    """
    path.touch(mode=0o600)
    db = sqlite3.connect(path, isolation_level=None)
    db.row_factory = sqlite3.Row
    try:
        found = _version(db, path)
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA secure_delete = ON")
        db.execute("PRAGMA foreign_keys = OFF")  # a table that is replaced takes nothing along
        if found < VERSION:
            with transaction(db):
                for statement in _steps(found):
                    db.execute(statement)
                db.execute(f"PRAGMA user_version = {VERSION}")
        db.execute(_PAST_CLUSTERS)
        db.execute("PRAGMA foreign_keys = ON")
    except sqlite3.DatabaseError as error:
        db.close()
        raise ConfigError(f"cannot use {path}: {error}") from None
    except ConfigError:
        db.close()
        raise
    return db


def _version(db: sqlite3.Connection, path: Path) -> int:
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found > VERSION:
        raise ConfigError(
            f"{path} was written by a newer luigi-pai (its schema is {found}, this one knows {VERSION}); "
            "use that one, or another folder with --data"
        )
    return found


@contextmanager
def durably(db: sqlite3.Connection) -> Iterator[None]:
    """Have a transaction inside, and all before it, outlive a failure of the machine."""
    db.execute("PRAGMA synchronous = FULL")
    try:
        yield
    finally:
        db.execute("PRAGMA synchronous = NORMAL")


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
