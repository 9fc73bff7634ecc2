"""What HDFS keeps of a file and a file system does not: owner, block size, replication.

One SQLite file beside the tree, keyed by inode number: a renamed folder keeps
all of its owners without a write.
"""

from __future__ import annotations

import getpass
import sqlite3
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

__all__ = ["BLOCK_SIZE", "Inode", "Inodes"]

BLOCK_SIZE = 128 * 1024 * 1024


@dataclass(frozen=True)
class Inode:
    """The facts of one file or folder.

    Attributes:
        owner: the ``user.name`` that created it.
        block_size: in bytes.
        replication: the number of copies asked for; one is kept.
    """

    owner: str
    block_size: int = BLOCK_SIZE
    replication: int = 1


class Inodes:
    """The facts of every inode; may be asked from any thread."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        # what a person laid into the folder by hand belongs to the server's own user
        self._by_hand = Inode(getpass.getuser())
        self._database = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=10)
        with self._sql() as run:
            run.execute("PRAGMA journal_mode=WAL")
            run.execute("PRAGMA synchronous=OFF")
            run.execute(
                "CREATE TABLE IF NOT EXISTS inode (id INTEGER PRIMARY KEY, owner TEXT NOT NULL,"
                " block_size INTEGER NOT NULL, replication INTEGER NOT NULL)"
            )

    def __del__(self) -> None:
        if hasattr(self, "_database"):
            self._database.close()

    @contextmanager
    def _sql(self) -> Iterator[sqlite3.Connection]:
        with self._lock:
            yield self._database

    def of(self, number: int) -> Inode:
        """Return what is known of an inode."""
        with self._sql() as run:
            row = run.execute(
                "SELECT owner, block_size, replication FROM inode WHERE id = ?", (number,)
            ).fetchone()
        return Inode(*row) if row else self._by_hand

    def keep(self, number: int, inode: Inode) -> None:
        """Remember an inode that was just created."""
        with self._sql() as run:
            run.execute(
                "INSERT OR REPLACE INTO inode VALUES (?, ?, ?, ?)",
                (number, inode.owner, inode.block_size, inode.replication),
            )

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget inodes that are deleted."""
        with self._sql() as run:
            run.execute("BEGIN")
            run.executemany("DELETE FROM inode WHERE id = ?", ((number,) for number in numbers))
            run.execute("COMMIT")
