"""Clocks that a test installs in place of the real one: time(), monotonic() and sleep(seconds)."""

from __future__ import annotations

import math
import threading
import time


class StillWaitingError(BaseException):
    """The code under test waits for longer than its settings allow.

    No Exception, so that nothing that retries catches it.
    """


class FastClock:
    """A clock that runs faster than the real one.

    Args:
        factor: seconds of this clock in a real one.
        limit: seconds of this clock, from its start or the last ``restart``, beyond
            which a sleep raises StillWaitingError.
    """

    def __init__(self, factor: float, limit: float = math.inf) -> None:
        self.factor = factor
        self._limit = limit
        self._time, self._monotonic = time.time(), time.monotonic()
        self._began = self._monotonic

    @property
    def elapsed(self) -> float:
        """Seconds of this clock since its start or the last ``restart``."""
        return self.monotonic() - self._began

    def restart(self) -> None:
        """Count ``elapsed`` from now on."""
        self._began = self.monotonic()

    def time(self) -> float:
        return self._time + (time.monotonic() - self._monotonic) * self.factor

    def monotonic(self) -> float:
        return self._monotonic + (time.monotonic() - self._monotonic) * self.factor

    def sleep(self, seconds: float) -> None:
        if self.elapsed + seconds > self._limit:
            raise StillWaitingError(
                f"after {self.elapsed:.0f} s of its clock it wants to wait for another {seconds:.1f} s"
            )
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
