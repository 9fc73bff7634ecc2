"""What HDFS keeps of a file and a file system does not: owner, group, mode, block size, replication.

One SQLite file beside the tree, keyed by inode number: a renamed folder keeps
all of its owners without a write.
"""

from __future__ import annotations

import getpass
import sqlite3
import threading
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["BLOCK_SIZE", "Inode", "Inodes"]

BLOCK_SIZE = 128 * 1024 * 1024
_GROUP = "supergroup"
_COLUMNS = {  # of the facts, in the order of Inode's fields
    "owner": "TEXT NOT NULL",
    "block_size": "INTEGER NOT NULL",
    "replication": "INTEGER NOT NULL",
    "grp": f"TEXT NOT NULL DEFAULT '{_GROUP}'",
    "mode": "INTEGER",
}
_MOST_IN_MEMORY = 100_000  # inodes


@dataclass(frozen=True)
class Inode:
    """The facts of one file or folder.

    Attributes:
        owner: the ``user.name`` that created it.
        block_size: in bytes.
        replication: the number of copies asked for; one is kept.
        group: whose it is, too.
        mode: the mode bits on HDFS, None: those on disk.
    """

    owner: str
    block_size: int = BLOCK_SIZE
    replication: int = 1
    group: str = _GROUP
    mode: int | None = None


class Inodes:
    """The facts of every inode; may be asked from any thread."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self._looked_up: dict[int, Inode | None] = {}
        self.superuser = getpass.getuser()
        self._by_hand = Inode(self.superuser)  # of what a person laid into the folder
        self._database = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=10)
        with self._sql() as run:
            run.execute("PRAGMA journal_mode=WAL")
            run.execute("PRAGMA synchronous=OFF")
            columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
            run.execute(f"CREATE TABLE IF NOT EXISTS inode (id INTEGER PRIMARY KEY, {columns})")
            there = {row[1] for row in run.execute("PRAGMA table_info(inode)")}
            for name, kind in _COLUMNS.items():
                if name not in there:  # the file is of an earlier version
                    run.execute(f"ALTER TABLE inode ADD COLUMN {name} {kind}")

    def __del__(self) -> None:
        if hasattr(self, "_database"):
            self._database.close()

    @contextmanager
    def _sql(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._database

    def of(self, number: int) -> Inode:
        """Return what is known of an inode."""
        return self.known(number) or self._by_hand

    def known(self, number: int) -> Inode | None:
        """Return what was kept of an inode; None of one that a person laid there."""
        query = f"SELECT {', '.join(_COLUMNS)} FROM inode WHERE id = ?"  # noqa: S608 - our own words
        with self._sql() as run:
            if number not in self._looked_up:
                row = run.execute(query, (number,)).fetchone()
                if len(self._looked_up) >= _MOST_IN_MEMORY:
                    self._looked_up.clear()
                self._looked_up[number] = Inode(*row) if row else None
            return self._looked_up[number]

    def keep(self, number: int, inode: Inode) -> None:
        """Remember an inode that was created or changed."""
        names = f"id, {', '.join(_COLUMNS)}"
        query = f"INSERT OR REPLACE INTO inode ({names}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 - our own
        with self._sql() as run:
            run.execute(query, (number, *astuple(inode)))
            self._looked_up.pop(number, None)

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget inodes that are deleted."""
        with self._sql() as run:
            self._looked_up.clear()
            run.execute("BEGIN")
            run.executemany("DELETE FROM inode WHERE id = ?", ((number,) for number in numbers))
            run.execute("COMMIT")
