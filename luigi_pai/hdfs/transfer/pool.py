"""Threads that send and fetch many files at once."""

from __future__ import annotations

import contextlib
import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from luigi_pai.hdfs.transfer.summary import progress_bar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

__all__ = ["JOBS", "READ_AT_ONCE", "Cancelled", "WorkerPool"]

Thing = TypeVar("Thing")
Result = TypeVar("Result")

JOBS = 16
"""Files sent or fetched at once, if nothing else is said."""
READ_AT_ONCE = 1024 * 1024
"""Bytes of a file that are in memory at once, in each thread."""


class Cancelled(Exception):
    """Work was cancelled, because other work failed or the user pressed Ctrl-C."""


class WorkerPool:
    """A number of threads that work on many things at once; a failure cancels the rest."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._advance: Callable[[int], None] = lambda _done: None
        self._cancelled = threading.Event()

    def map(self, work: Callable[[Thing], Result], things: Iterable[Thing]) -> list[Result]:
        """Return what the work returns for each thing.

        Raises:
            Exception: the first that the work raised; no thread runs any more.
        """
        self._cancelled.clear()
        with ThreadPoolExecutor(self._number) as pool:
            futures = [pool.submit(work, thing) for thing in things]
            try:
                for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                    future.result()
                return [future.result() for future in futures]
            except BaseException:  # also Ctrl-C
                self._cancelled.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    @contextlib.contextmanager
    def progress(self, label: str, total: int) -> Iterator[None]:
        """Show a bar while inside, of how much of the total the work has noted."""
        with progress_bar(label, total) as self._advance:
            yield

    def advance(self, done: int) -> None:
        """Note how much has been done; raises Cancelled if other work has failed."""
        if self._cancelled.is_set():
            raise Cancelled
        self._advance(done)
