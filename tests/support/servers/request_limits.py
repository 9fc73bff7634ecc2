"""The request limits of a rest-server, counted as express-rate-limit counts on OpenPAI 1.x."""

from __future__ import annotations

import math
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

WINDOWS = {"call": 60.0, "list": 60.0, "submit": 3600.0}
"""Seconds after which each count begins anew."""


class RequestLimits:
    """Counts of one server, over all its clients: they come from one address, as one user.

    Args:
        limits: how many of each kind, ``call``, ``list`` and ``submit``, in its window;
            or how many, and the seconds of a window that is shorter than the real one.
        clock: of the server.
        windows_per_key: as on LTP: a window begins with the first request of its kind, and ``Retry-After`` is
            what is left of it, not the whole.
    """

    def __init__(
        self,
        limits: Mapping[str, int | tuple[int, float]],
        clock: Any,
        *,
        windows_per_key: bool = False,
    ) -> None:
        self._clock = clock
        self._windows_per_key = windows_per_key
        self._lock = threading.Lock()
        self._most: dict[str, int] = {}
        self._seconds: dict[str, float] = {}
        for kind, limit in limits.items():
            most, seconds = limit if isinstance(limit, tuple) else (limit, WINDOWS[kind])
            self._most[kind], self._seconds[kind] = most, seconds
        now = clock.time()
        self._ends = {
            kind: now if windows_per_key else now + seconds for kind, seconds in self._seconds.items()
        }
        self.counts = dict.fromkeys(self._most, 0)

    def count(self, kind: str) -> tuple[dict[str, str], bool]:
        """Count a request, refused or not; return the headers of its answer, and whether it is refused."""
        if kind not in self._most:
            return {}, False
        with self._lock:
            now, seconds = self._clock.time(), self._seconds[kind]
            if now >= self._ends[kind]:
                self.counts[kind] = 0
                if self._windows_per_key:
                    self._ends[kind] = now + seconds
                else:
                    self._ends[kind] += seconds * math.floor((now - self._ends[kind]) / seconds + 1)
            self.counts[kind] += 1
            left = self._most[kind] - self.counts[kind]
            headers = {
                "X-RateLimit-Limit": str(self._most[kind]),
                "X-RateLimit-Remaining": str(max(0, left)),
                "X-RateLimit-Reset": str(math.ceil(self._ends[kind])),
            }
            if left < 0:
                wait = self._ends[kind] - now if self._windows_per_key else seconds
                headers["Retry-After"] = str(math.ceil(wait))
            return headers, left < 0
