"""A thread pool with a progress bar, to send and fetch many files at once."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
from concurrent.futures import FIRST_EXCEPTION, CancelledError, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

Thing = TypeVar("Thing")
Result = TypeVar("Result")

JOBS = 16
"""Default number of files that are sent or fetched at once."""


class WorkerPool:
    """A thread pool that processes many items at once; a failure cancels the rest."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._bar: Any = None
        self._bar_lock = threading.Lock()
        self._cancelled = threading.Event()

    def map(self, work: Callable[[Thing], Result], things: Iterable[Thing]) -> list[Result]:
        """Call ``work`` for each of ``things``, in threads; return the results in the same order.

        Raises:
            Exception: ``work`` raised it. It is raised again here once all threads have finished.
        """
        self._cancelled.clear()
        running = threading.Semaphore(self._number)

        def run(thing: Thing) -> Result:
            with running:
                self.advance(0)
                return work(thing)

        with ThreadPoolExecutor(self._number) as pool:
            try:
                futures = [pool.submit(run, thing) for thing in things]
                for future in wait(futures, return_when=FIRST_EXCEPTION).done:
                    future.result()
                return [future.result() for future in futures]
            except BaseException:  # also Ctrl-C
                self._cancelled.set()
                pool.shutdown(wait=False, cancel_futures=True)
                # also wait for a thread unknown to the pool because Ctrl-C interrupted its start
                for _ in range(self._number):
                    running.acquire()
                raise

    @contextlib.contextmanager
    def progress(self, label: str, total: int) -> Iterator[None]:
        """Show a progress bar on standard error inside ``with``; ``advance`` moves the bar.

        No bar is shown if standard error is not a terminal, if ``total`` is 0, if NO_COLOR is set (a bar is
        drawn with escape sequences), or in a Luigi worker process (several bars could overlap).
        """
        on_terminal = sys.stderr and sys.stderr.isatty() and not os.environ.get("NO_COLOR")
        if not total or not on_terminal or multiprocessing.parent_process():
            yield
            return
        import click  # noqa: PLC0415  needed only on a terminal

        with click.progressbar(length=total, label=label, file=sys.stderr) as self._bar:
            yield

    def advance(self, done: int) -> None:
        """Advance the progress bar; raise CancelledError if other work has failed."""
        if self._cancelled.is_set():
            raise CancelledError
        if self._bar:
            with self._bar_lock:
                self._bar.update(done)
