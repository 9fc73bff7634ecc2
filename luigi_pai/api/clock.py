"""The clock of a Cluster, for ages, deadlines and waits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import queue

LATEST_MS = 10**14
"""No record has a later time, in milliseconds since 1970 UTC: it is in the year 5138."""


class Clock:
    """The system's clock. Tests replace it (``CLUSTERS.clock``)."""

    def time(self) -> float:
        """Return seconds since 1970 UTC, for comparison with time stamps of other machines."""
        return time.time()

    def monotonic(self) -> float:
        """Return seconds of a clock that is never set back; the same in all processes of this machine."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def get(self, items: queue.Queue[Any], seconds: float) -> Any:
        """Wait for an item of a queue and return it.

        Raises:
            queue.Empty: none came within that time.
        """
        return items.get(timeout=seconds)
