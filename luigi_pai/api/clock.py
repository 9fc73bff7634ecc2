"""A Cluster's clock, for ages, deadlines and waits."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import queue

LATEST_MS = 10**14
"""A time in the year 5138, in milliseconds since 1970 UTC. Stored records must have earlier times."""


class Clock:
    """The system's clock. Tests replace it (``CLUSTERS.clock``)."""

    sleep = staticmethod(time.sleep)
    """Wait for a number of seconds."""

    monotonic = staticmethod(time.monotonic)
    """Return the seconds of a clock that never goes back and that all processes on a machine share."""

    time = staticmethod(time.time)
    """Return seconds since 1970 UTC, to compare with other machines' time stamps."""

    def get(self, items: queue.Queue[Any], seconds: float) -> Any:
        """Wait for an item from a queue and return it.

        Raises:
            queue.Empty: No item came within ``seconds``.
        """
        return items.get(timeout=seconds)
