"""The request limits of OpenPAI 1.x and LTP, counted as their rest-servers count.

With OpenPAI (express-rate-limit 5) all counts of one kind begin anew at the same moments, a window
apart from the server's start. With LTP (express-rate-limit 7) each address or user has a window of its
own, from its first request on. A request that is refused counts, too.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RateLimits"]

_MINUTE = 60
_HOUR = 3600


@dataclass
class _Window:
    """Counts of one kind of request."""

    limit: int
    seconds: int
    started: float
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self.ends = self.started + self.seconds

    def count(self, key: str) -> tuple[dict[str, str], bool]:
        """Count a request; return the headers of its answer, and whether it is to be refused."""
        now = self.clock()
        if now >= self.ends:
            self._counts.clear()
            self.ends += self.seconds * math.floor((now - self.ends) / self.seconds + 1)
        self._counts[key] += 1
        left = self.limit - self._counts[key]
        headers = {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(max(0, left)),
            "X-RateLimit-Reset": str(math.ceil(self.ends)),
        }
        if left < 0:
            headers["Retry-After"] = str(self.seconds)
        return headers, left < 0


@dataclass
class _OwnWindows:
    """Counts of one kind of request, in a window for each key."""

    limit: int
    seconds: int
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._windows: dict[str, _Window] = {}

    def count(self, key: str) -> tuple[dict[str, str], bool]:
        """Count a request; return as `_Window.count` does, with what is left of the window."""
        now = self.clock()
        window = self._windows.get(key)
        if window is None or now >= window.ends:
            self._windows = {name: other for name, other in self._windows.items() if now < other.ends}
            window = self._windows[key] = _Window(self.limit, self.seconds, now, self.clock)
        headers, refused = window.count(key)
        if refused:
            headers["Retry-After"] = str(math.ceil(window.ends - now))
        return headers, refused


class RateLimits:
    """What has been asked since the windows began.

    Args:
        limits: calls a minute and address, lists a minute and user, submissions an hour and user.
        clock: returns the time in seconds since 1970 UTC.
        of_each_key: whether each address and user has a window of its own.
    """

    def __init__(
        self,
        limits: tuple[int, int, int],
        clock: Callable[[], float] = time.time,
        *,
        of_each_key: bool = False,
    ) -> None:
        now = clock()

        def counts(limit: int, seconds: int) -> _Window | _OwnWindows:
            if of_each_key:
                return _OwnWindows(limit, seconds, clock)
            return _Window(limit, seconds, now, clock)

        calls, lists, submissions = limits
        self._calls = counts(calls, _MINUTE)
        self._lists = counts(lists, _MINUTE)
        self._submissions = counts(submissions, _HOUR)

    def call(self, address: str) -> tuple[dict[str, str], bool]:
        """Count a request of an address; return the headers of its answer, and whether it is refused."""
        return self._calls.count(address)

    def list(self, user: str) -> tuple[dict[str, str], bool]:
        """Count a list of jobs for a user; return as `call` does."""
        return self._lists.count(user)

    def submission(self, user: str) -> tuple[dict[str, str], bool]:
        """Count a submission of a user, taken or not; return as `call` does."""
        return self._submissions.count(user)
