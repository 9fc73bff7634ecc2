"""A clock that a test installs in place of the real one: time(), monotonic() and sleep(seconds)."""

from __future__ import annotations

import math
import mmap
import os
import queue
import struct
import threading
import time
from typing import TYPE_CHECKING, Any

from luigi_pai.api.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

_TICK = 2.0**-20  # seconds: sums of it are exact in both clocks, which so never differ
_TIMES = struct.Struct("dd")  # time() and monotonic()


class StillWaitingError(BaseException):
    """The code under test waits for longer than its settings allow.

    No Exception, so that nothing that retries catches it.
    """


class StandingClock(Clock):
    """A clock on which time passes by its own ``sleep`` alone."""

    def get(self, items: queue.Queue[Any], seconds: float) -> Any:
        """Return an item of a queue; if there is none, let time pass first."""
        try:
            return items.get_nowait()
        except queue.Empty:
            self.sleep(seconds)
            raise


class MovableClock(StandingClock):
    """A clock on which no time passes, except what is slept on it and what a test lets pass.

    It starts at a whole second, so that sums of whole seconds are exact. Forked processes share it.

    Args:
        limit: seconds, from its start or the last ``restart``, beyond which a sleep raises
            StillWaitingError.

    Attributes:
        slept: seconds of each sleep, in order.
    """

    def __init__(self, limit: float = math.inf) -> None:
        self._memory = mmap.mmap(-1, _TIMES.size)
        _TIMES.pack_into(self._memory, 0, float(int(time.time())), float(int(time.monotonic())))
        self._limit = limit
        self._locks: dict[int, threading.Lock] = {}  # of each process
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._began = self.monotonic()
        self.slept: list[float] = []

    @property
    def elapsed(self) -> float:
        """Seconds since its start or the last ``restart``."""
        return self.monotonic() - self._began

    def restart(self) -> None:
        """Count ``elapsed`` from now on."""
        self._began = self.monotonic()

    def time(self) -> float:
        return float(_TIMES.unpack_from(self._memory)[0])

    def monotonic(self) -> float:
        return float(_TIMES.unpack_from(self._memory)[1])

    def call_later(self, seconds: float, do: Callable[[], object]) -> None:
        """Call ``do`` in the thread whose sleep, or ``advance``, reaches that moment."""
        self._later.append((self.monotonic() + seconds, do))

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            now = self.monotonic() + seconds
            _TIMES.pack_into(self._memory, 0, self.time() + seconds, now)
            due = [entry for entry in self._later if entry[0] <= now]
            self._later = [entry for entry in self._later if entry not in due]
        for _moment, do in due:
            do()

    def set_wall_clock(self, seconds: float) -> None:
        """Set the time of day forward, or back, while no time passes: what an administrator does."""
        _TIMES.pack_into(self._memory, 0, self.time() + seconds, self.monotonic())

    def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        if self.elapsed + seconds > self._limit:
            raise StillWaitingError(f"after {self.elapsed:.0f} s it would wait {seconds:.1f} s more")
        self.slept.append(seconds)
        self.advance(math.ceil(seconds / _TICK) * _TICK)
        time.sleep(0)  # let the threads of the servers run
