"""A progress bar, where somebody looks at it."""

from __future__ import annotations

import contextlib
import multiprocessing
import sys
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["progress"]


@contextlib.contextmanager
def progress(label: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a bar on standard error while inside, if that is a terminal.

    A worker process of Luigi's shows none: there may be several at once.

    Args:
        label: what is going on.
        total: how much there is to do.

    Yields:
        What to call, from any thread, with how much has been done.
    """
    if not sys.stderr or not sys.stderr.isatty() or multiprocessing.parent_process():
        yield lambda _done: None
        return
    import click  # noqa: PLC0415  needed only on a terminal

    lock = threading.Lock()
    with click.progressbar(length=total, label=label, file=sys.stderr) as bar:

        def advance(done: int) -> None:
            with lock:
                bar.update(done)

        yield advance
