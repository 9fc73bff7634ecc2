"""The clock of a Cluster: what it measures ages, deadlines and waits with."""

from __future__ import annotations

import time

__all__ = ["Clock"]


class Clock:
    """The system's clock. Tests install one that they can move (``CLUSTERS.clock``)."""

    def time(self) -> float:
        """Return seconds since 1970 UTC; for moments that other machines have written down."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds of a clock that nobody sets; the same in all processes of this machine."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)
