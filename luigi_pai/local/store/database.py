"""The SQLite file of the server: transactions, and the removal of deleted secrets from the disk.

Every change is committed before the caller goes on, so that an answer never
promises what a crash of the server could take back. One connection, used by
the event loop's thread only.
"""

from __future__ import annotations

import contextlib
import sqlite3
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from luigi_pai.local.store.schema import open_database, transaction

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["Database", "now_ms"]

_BUSY_TIMEOUT = 5000  # ms


def now_ms() -> int:
    """Return the time in milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


class Database:
    """An open SQLite file.

    Raises:
        ConfigError: the file is damaged, is no SQLite file, or has another version of the tables.
    """

    def __init__(self, path: Path) -> None:
        self._connection = open_database(path)
        self._secrets_in_log = True  # an earlier server may have left some
        self._empty_log()

    def close(self) -> None:
        """Close the file; the object is of no use afterwards."""
        self._connection.close()

    def execute(self, sql: str, values: Iterable[Any] = ()) -> sqlite3.Cursor:
        """Run a statement."""
        return self._connection.execute(sql, tuple(values))

    def rows(self, sql: str, values: Iterable[Any] = ()) -> list[sqlite3.Row]:
        """Run a statement, and return its rows."""
        return self.execute(sql, values).fetchall()

    def insert(self, table: str, **values: Any) -> int:
        """Insert values by column into a table, and return the number of the row."""
        columns, marks = ", ".join(values), ", ".join("?" * len(values))
        sql = f"INSERT INTO {table} ({columns}) VALUES ({marks})"  # noqa: S608 - constants
        return int(self.execute(sql, values.values()).lastrowid or 0)

    def _update(self, table: str, key: str, record: Any, columns: str) -> None:
        """Save attributes of a record in columns of the same names, in the row of its key."""
        names = columns.split()
        setters = ", ".join(f"{name} = ?" for name in names)
        sql = f"UPDATE {table} SET {setters} WHERE {key} = ?"  # noqa: S608 - constants
        self.execute(sql, [getattr(record, name) for name in (*names, key)])

    @contextmanager
    def changing(self, *records: Any) -> Iterator[None]:
        """Make every change inside take effect together, or none of them; may be nested.

        Args:
            *records: objects whose attributes are set back if the changes fail.
        """
        before = [(record, vars(record).copy()) for record in records]
        try:
            with self._transaction():
                yield
        except BaseException:
            for record, values in before:
                vars(record).update(values)
            raise

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        if self._connection.in_transaction:
            yield
            return
        with transaction(self._connection):
            yield
        self._empty_log()

    @contextmanager
    def durably(self) -> Iterator[None]:
        """Make what is committed inside survive a failure of the machine, unless it is part of more."""
        if self._connection.in_transaction:
            yield
            return
        self.execute("PRAGMA synchronous = FULL")
        try:
            yield
        finally:
            self.execute("PRAGMA synchronous = NORMAL")

    def _delete_secrets(self, condition: str, values: Iterable[Any] = ()) -> None:
        """Delete the secrets of jobs, from the disk too."""
        deleted = self.execute(f"DELETE FROM secrets WHERE {condition}", values)  # noqa: S608 - constants
        self._secrets_in_log = self._secrets_in_log or deleted.rowcount > 0
        self._empty_log()

    def _empty_log(self) -> None:
        """Empty SQLite's write-ahead log if deleted secrets may still be in it."""
        if self._secrets_in_log and not self._connection.in_transaction:
            # where another program reads the file, or the disk is full, the next change tries again
            self.execute("PRAGMA busy_timeout = 0")
            try:
                with contextlib.suppress(sqlite3.OperationalError):
                    checkpoint = self.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                    self._secrets_in_log = bool(checkpoint[0])
            finally:
                self.execute(f"PRAGMA busy_timeout = {_BUSY_TIMEOUT}")
