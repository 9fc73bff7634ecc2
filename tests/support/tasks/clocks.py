"""A clock that a test installs in place of the real one: time(), monotonic() and sleep(seconds)."""

from __future__ import annotations

import math
import mmap
import os
import queue
import struct
import threading
import time
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.api.clock import Clock

if TYPE_CHECKING:
    from collections.abc import Callable

T = TypeVar("T")

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


class Sleepers:
    """Threads that sleep on one clock: time passes only while all of them sleep, to the next that wakes.

    Args:
        clock: of the test.
    """

    def __init__(self, clock: MovableClock) -> None:
        self._clock = clock
        self._changed = threading.Condition()
        self._busy = 0
        self._due: dict[int, float] = {}  # of each sleeping thread, by its id
        self._awake: set[int] = set()

    def start(self, do: Callable[[], T]) -> Future[T]:
        """Call a function in a thread, and return when it sleeps or has ended."""
        future: Future[T] = Future()
        with self._changed:
            self._busy += 1
            threading.Thread(target=self._work, args=(do, future), daemon=True).start()
            self._changed.wait_for(lambda: not self._busy)
        return future

    def sleep(self, seconds: float) -> None:
        """In a thread: wait until ``run`` reaches the moment."""
        me = threading.get_ident()
        with self._changed:
            self._due[me] = self._clock.monotonic() + seconds
            self._busy -= 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: me in self._awake)
            self._awake.discard(me)

    def run(self, until: float = math.inf) -> None:
        """Let time pass until all threads have ended, or up to ``until`` seconds after the clock's start."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: not self._busy)
                if not self._due:
                    return
                who = min(self._due, key=self._due.__getitem__)
                wait = self._due[who] - self._clock.monotonic()
                if self._clock.elapsed + wait > until:
                    return
                del self._due[who]
                self._clock.advance(max(0.0, wait))
                self._busy += 1
                self._awake.add(who)
                self._changed.notify_all()

    def _work(self, do: Callable[[], T], future: Future[T]) -> None:
        try:
            future.set_result(do())
        except BaseException as error:  # noqa: BLE001  judged by the test
            future.set_exception(error)
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()
