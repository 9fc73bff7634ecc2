"""The same work on many things, in threads."""

from __future__ import annotations

import threading
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

__all__ = ["Stopped", "Threads"]

Thing = TypeVar("Thing")
Result = TypeVar("Result")


class Stopped(Exception):
    """Work was given up, because other work failed or the user pressed Ctrl-C."""


class Threads:
    """Threads that work on many things at once; after a failure they begin nothing more.

    Args:
        number: of threads.
    """

    def __init__(self, number: int) -> None:
        self.number = number
        self._stop = threading.Event()

    def map(self, work: Callable[[Thing], Result], things: Iterable[Thing]) -> list[Result]:
        """Return what the work returns for each thing.

        Raises:
            Exception: the first that the work raised; no thread runs any more.
        """
        self._stop.clear()
        with ThreadPoolExecutor(self.number) as pool:
            futures = [pool.submit(work, thing) for thing in things]
            try:
                done, _pending = wait(futures, return_when=FIRST_EXCEPTION)
                for future in done:
                    future.result()
                return [future.result() for future in futures]
            except BaseException:  # also Ctrl-C
                self._stop.set()
                pool.shutdown(wait=False, cancel_futures=True)
                raise

    def check(self) -> None:
        """Give up, if other work failed; long work calls this again and again.

        Raises:
            Stopped: it did.
        """
        if self._stop.is_set():
            raise Stopped
