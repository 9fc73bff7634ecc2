"""What an upload or a download has done, and its progress bar."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["Transfer", "progress_bar", "readable"]

_STEP = 1024
_UNITS = ("KiB", "MiB", "GiB", "TiB", "PiB")


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


def readable(size: float) -> str:
    """Return a number of bytes as ``512 B``, ``12 KiB`` or ``1.5 GiB``."""
    if size < _STEP:
        return f"{size:.0f} B"
    unit = ""
    for unit in _UNITS:  # noqa: B007  the last is the one
        size /= _STEP
        if round(size) < _STEP:
            break
    digits = 1 if size < 10 and size != round(size) else 0  # noqa: PLR2004 - two digits are enough
    return f"{size:.{digits}f} {unit}"


@contextlib.contextmanager
def progress_bar(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while inside, if that is a terminal and there is something to do.

    A worker process of Luigi's shows none: there may be several at once. Nor is there one where NO_COLOR is
    set, as the bar is drawn with escape sequences. What is yielded is to be called,
    from any thread, with how much has been done.
    """
    on_terminal = sys.stderr and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
    if not total or not on_terminal or multiprocessing.parent_process():
        yield lambda _done: None
        return
    import click  # noqa: PLC0415  needed only on a terminal

    lock = threading.Lock()
    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:

        def advance(done: int) -> None:
            with lock:
                bar.update(done)

        yield advance
