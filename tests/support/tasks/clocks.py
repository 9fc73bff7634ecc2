"""Clocks that a test installs in place of the real one: time(), monotonic() and sleep(seconds)."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


class StillWaitingError(BaseException):
    """The code under test waits for longer than its settings allow.

    No Exception, so that nothing that retries catches it.
    """


class FastClock:
    """A clock that runs faster than the real one.

    Args:
        factor: seconds of this clock in a real one.
    """

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self._time, self._monotonic = time.time(), time.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds of this clock since its start."""
        return self.monotonic() - self._monotonic

    def time(self) -> float:
        return self._time + (time.monotonic() - self._monotonic) * self.factor

    def monotonic(self) -> float:
        return self._monotonic + (time.monotonic() - self._monotonic) * self.factor

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / self.factor)


class MovableClock:
    """A clock that moves when it is told to, and when somebody sleeps on it.

    Attributes:
        slept: seconds of each sleep, in order.
    """

    def __init__(self) -> None:
        self._time, self._monotonic = time.time(), time.monotonic()
        self._lock = threading.Lock()
        self.slept: list[float] = []

    def time(self) -> float:
        with self._lock:
            return self._time

    def monotonic(self) -> float:
        with self._lock:
            return self._monotonic

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        with self._lock:
            self._time += seconds
            self._monotonic += seconds

    def set_wall_clock(self, seconds: float) -> None:
        """Set the time of day forward, or back, while no time passes: what an administrator does."""
        with self._lock:
            self._time += seconds

    def sleep(self, seconds: float) -> None:
        """Let time pass at once."""
        self.slept.append(seconds)
        self.advance(seconds)
        time.sleep(0)  # let the threads of the servers run


class SkippingClock:
    """The real clock, set forward by what is slept on it, so that waiting takes no time.

    Args:
        limit: seconds, from its start or the last ``restart``, beyond which a sleep raises
            StillWaitingError.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._skipped = 0.0
        self._lock = threading.Lock()
        self._later: list[tuple[float, Callable[[], object]]] = []
        self._began = self.monotonic()

    @property
    def elapsed(self) -> float:
        """Seconds since its start or the last ``restart``."""
        return self.monotonic() - self._began

    def restart(self) -> None:
        """Count ``elapsed`` from now on."""
        self._began = self.monotonic()

    def time(self) -> float:
        return time.time() + self._skipped

    def monotonic(self) -> float:
        return time.monotonic() + self._skipped

    def call_later(self, seconds: float, do: Callable[[], object]) -> None:
        """Call ``do`` in the thread whose sleep, or ``advance``, reaches that moment."""
        with self._lock:
            self._later.append((self.monotonic() + seconds, do))

    def advance(self, seconds: float) -> None:
        """Set the clock forward."""
        with self._lock:
            self._skipped += seconds
            now = self.monotonic()
            due = [do for moment, do in self._later if moment <= now]
            self._later = [entry for entry in self._later if entry[0] > now]
        for do in due:
            do()

    def sleep(self, seconds: float) -> None:
        if self.elapsed + seconds > self._limit:
            raise StillWaitingError(f"after {self.elapsed:.0f} s it would wait {seconds:.1f} s more")
        self.advance(seconds)
        time.sleep(0)  # let the threads of the servers run
