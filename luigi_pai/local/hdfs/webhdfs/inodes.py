"""What HDFS keeps of a file and a file system does not: owner, group, mode, block size, replication.

One SQLite file beside the tree, keyed by inode number: a renamed folder keeps
all of its owners without a write.
"""

from __future__ import annotations

import getpass
import sqlite3
import threading
from dataclasses import astuple, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
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
    """The facts of every inode; may be asked from any thread. The ``superuser`` is who runs the server."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self.superuser = getpass.getuser()
        self._database = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=10)
        columns = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
        for line in (
            "PRAGMA journal_mode=WAL",
            "PRAGMA synchronous=OFF",
            f"CREATE TABLE IF NOT EXISTS inode (id INTEGER PRIMARY KEY, {columns})",
        ):
            self._database.execute(line)
        there = {row[1] for row in self._database.execute("PRAGMA table_info(inode)")}
        for name in _COLUMNS.keys() - there:  # the file is of an earlier version
            self._database.execute(f"ALTER TABLE inode ADD COLUMN {name} {_COLUMNS[name]}")

    def __del__(self) -> None:
        if hasattr(self, "_database"):
            self._database.close()

    def of(self, number: int) -> Inode:
        """Return what is known of an inode; what a person laid into the folder is the superuser's."""
        return self.known(number) or Inode(self.superuser)

    def known(self, number: int) -> Inode | None:
        """Return what was kept of an inode; None of one that a person laid there."""
        query = f"SELECT {', '.join(_COLUMNS)} FROM inode WHERE id = ?"  # noqa: S608 - our own words
        with self._lock:
            row = self._database.execute(query, (number,)).fetchone()
        return Inode(*row) if row else None

    def keep(self, number: int, inode: Inode) -> None:
        """Remember an inode that was created or changed."""
        names = f"id, {', '.join(_COLUMNS)}"
        query = f"INSERT OR REPLACE INTO inode ({names}) VALUES (?, ?, ?, ?, ?, ?)"  # noqa: S608 - our own
        with self._lock:
            self._database.execute(query, (number, *astuple(inode)))

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget inodes that are deleted."""
        with self._lock:
            self._database.execute("BEGIN")
            self._database.executemany("DELETE FROM inode WHERE id = ?", ((number,) for number in numbers))
            self._database.execute("COMMIT")
