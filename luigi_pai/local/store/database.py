"""The server's SQLite file: its tables and transactions.

Every change is committed before the caller continues, so no response confirms a change that a server crash
could undo. There is one connection, which only the event loop's thread uses.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import ConfigError
from luigi_pai.local.releases import RELEASES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VERSION = 4
"""PRAGMA user_version in the files that this module reads and writes."""

_TABLES = Path(__file__).with_name("tables.sql")
_UNIQUE = {"v1": "(name)", "v2": "(username, name)", "ltp": "(username, name)"}
"""For each API, the columns that identify a job."""


def _is_new(db: sqlite3.Connection, path: Path, api: str) -> bool:
    """Return whether the file has no tables yet. Raise ConfigError for tables of another version or API."""
    found = int(db.execute("PRAGMA user_version").fetchone()[0])
    if found == VERSION:
        its_api = db.execute("SELECT value FROM about WHERE key = 'api'").fetchone()[0]
        if its_api != api:
            raise ConfigError(
                f"the data folder {path.parent} has the jobs of {RELEASES[its_api].name}, and this server "
                f"would be {RELEASES[api].name}; give --api {its_api}, or another folder with --data"
            )
        return False
    if found or db.execute("SELECT 1 FROM sqlite_master").fetchone():
        raise ConfigError(
            f"{path} was written by another version of luigi-pai (its tables have version {found}, this one "
            f"reads {VERSION}); use that luigi-pai, or another folder with --data"
        )
    return True


@contextmanager
def transaction(db: sqlite3.Connection) -> Iterator[None]:
    """Commit all changes in this ``with`` block together, or undo them all if the block raises an error."""
    db.execute("BEGIN IMMEDIATE")
    with db:  # commits; if the block or the commit fails, rolls back
        yield


def now_ms() -> int:
    """Return the time in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


class Database:
    """The SQLite file with an API's jobs. Tables are created in a new file.

    SQLite overwrites deleted secrets with zeros (``secure_delete``), but the file still contains the secrets
    until the next checkpoint. A committed change survives however this process ends. It survives a machine
    failure only if a checkpoint followed, or if it was committed within `durably`.

    Raises:
        ConfigError: the file is damaged, is not an SQLite file, has tables of another version, or has another
            API's jobs.
    """

    def __init__(self, path: Path, api: str) -> None:
        path.touch(mode=0o600)
        self._connection = db = sqlite3.connect(path, isolation_level=None)
        db.row_factory = sqlite3.Row
        try:
            is_new = _is_new(db, path, api)
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA secure_delete = ON")
            db.execute("PRAGMA foreign_keys = ON")
            if is_new:
                with transaction(db):
                    for statement in _TABLES.read_text("utf-8").split(";"):
                        db.execute(statement)
                    db.execute(f"CREATE UNIQUE INDEX jobs_by_name ON jobs {_UNIQUE[api]} WHERE NOT deleted")
                    facts = [("api", api), ("cluster_timestamp", str(now_ms()))]
                    db.executemany("INSERT INTO about VALUES (?, ?)", facts)
                    db.execute(f"PRAGMA user_version = {VERSION}")
        except sqlite3.DatabaseError as error:
            db.close()
            raise ConfigError(f"cannot use {path}: {error}") from None
        except ConfigError:
            db.close()
            raise
        self._secrets_in_log = True  # an earlier server may have left secrets there
        self._empty_log()

    def close(self) -> None:
        """Close the file. Call no other method afterwards."""
        self._connection.close()

    def execute(self, sql: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        """Run a statement."""
        return self._connection.execute(sql, tuple(values))

    def rows(self, sql: str, values: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """Run a statement, and return its rows."""
        return self.execute(sql, values).fetchall()

    def insert(self, table: str, **values: Any) -> int:
        """Insert values by column into a table, and return the row's number."""
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        sql = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608 - constants
        return int(self.execute(sql, values.values()).lastrowid or 0)

    def _update(self, table: str, key: str, record: Any, columns: str) -> None:
        """Save a record's attributes to the columns with the same names, in the row with its ``key``."""
        names = columns.split()
        setters = ", ".join(f"{name} = ?" for name in names)
        sql = f"UPDATE {table} SET {setters} WHERE {key} = ?"  # noqa: S608 - constants
        self.execute(sql, [getattr(record, name) for name in (*names, key)])

    @contextmanager
    def changing(self, *records: Any) -> Iterator[None]:
        """Commit all changes in this ``with`` block together, or undo them all if it raises an error.

        A nested block belongs to the outer block's transaction.

        Args:
            *records: objects whose attributes are restored if the block raises an error.
        """
        before = [(record, vars(record).copy()) for record in records]
        try:
            if self._connection.in_transaction:
                yield
            else:
                with transaction(self._connection):
                    yield
                if self._secrets_in_log:
                    self._empty_log()
        except BaseException:
            for record, values in before:
                vars(record).update(values)
            raise

    def _empty_log(self) -> None:
        """Empty the write-ahead log to remove deleted secrets. If this fails, the next change tries again."""
        self.execute("PRAGMA busy_timeout = 0")  # do not wait for programs that are reading the file
        with contextlib.suppress(sqlite3.OperationalError):
            self._secrets_in_log = bool(self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()[0])
        self.execute("PRAGMA busy_timeout = 5000")

    @contextmanager
    def durably(self) -> Iterator[None]:
        """Flush this ``with`` block's commits to disk. Inside an open transaction, do nothing."""
        if self._connection.in_transaction:
            yield
            return
        self.execute("PRAGMA synchronous = FULL")
        try:
            yield
        finally:
            self.execute("PRAGMA synchronous = NORMAL")
