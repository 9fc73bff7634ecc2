"""What an upload or a download has done."""

from __future__ import annotations

from dataclasses import dataclass

from luigi_pai.hdfs.sizes import readable

__all__ = ["JOBS", "Transfer"]

JOBS = 16
"""Files sent or fetched at once, if nothing else is said."""


@dataclass(frozen=True)
class Transfer:
    """What an upload or a download has done; as text, one line.

    Attributes:
        done: ``uploaded`` or ``downloaded``.
        destination: where to, as it was given.
        moved: files that were new or changed, and so were sent or fetched.
        files: all that there are.
        size: bytes of those that were sent or fetched.
        removed: files that were removed because they are gone here.
    """

    done: str
    destination: str
    moved: int
    files: int
    size: int
    removed: int = 0

    def __str__(self) -> str:
        removed = f"; removed {self.removed:,}" if self.removed else ""
        files = "file" if self.files == 1 else "files"
        return (
            f"{self.done} {self.moved:,} of {self.files:,} {files}, {readable(self.size)}, "
            f"to {self.destination}{removed}"
        )
