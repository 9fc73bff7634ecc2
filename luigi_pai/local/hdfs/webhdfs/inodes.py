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
_START = """
PRAGMA journal_mode = WAL;
PRAGMA synchronous = OFF;
CREATE TABLE IF NOT EXISTS inode (
    id INTEGER PRIMARY KEY, owner TEXT NOT NULL, block_size INTEGER NOT NULL, replication INTEGER NOT NULL,
    grp TEXT NOT NULL, mode INTEGER
)
"""


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
    group: str = "supergroup"
    mode: int | None = None


class Inodes:
    """The facts of every inode; may be asked from any thread. The ``superuser`` is who runs the server."""

    def __init__(self, file: Path) -> None:
        self._lock = threading.Lock()
        self.superuser = getpass.getuser()
        self._database = sqlite3.connect(file, isolation_level=None, check_same_thread=False, timeout=10)
        self._database.executescript(_START)

    def __del__(self) -> None:
        if hasattr(self, "_database"):
            self._database.close()

    def of(self, number: int) -> Inode:
        """Return what is known of an inode; what a person laid into the folder is the superuser's."""
        query = "SELECT owner, block_size, replication, grp, mode FROM inode WHERE id = ?"
        with self._lock:
            row = self._database.execute(query, (number,)).fetchone()
        return Inode(*row) if row else Inode(self.superuser)

    def keep(self, number: int, inode: Inode) -> None:
        """Remember an inode that was created or changed."""
        query = "INSERT OR REPLACE INTO inode VALUES (?, ?, ?, ?, ?, ?)"
        with self._lock:
            self._database.execute(query, (number, *astuple(inode)))

    def forget(self, numbers: Iterable[int]) -> None:
        """Forget inodes that are deleted."""
        with self._lock:
            self._database.execute("BEGIN")
            self._database.executemany("DELETE FROM inode WHERE id = ?", ((number,) for number in numbers))
            self._database.execute("COMMIT")
