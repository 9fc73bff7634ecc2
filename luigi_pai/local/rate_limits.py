"""The request limits of OpenPAI 1.x, counted as its rest-server counts (express-rate-limit 5).

All counts of one kind begin anew at the same moments, a window apart from the server's start.
A request that is refused counts, too.
"""

from __future__ import annotations

import math
import re
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["DEFAULT_LIMITS", "RateLimits", "parse_limits"]

DEFAULT_LIMITS = (600, 60, 60)
"""Calls a minute and address, lists a minute and user, submissions an hour and user."""

_MINUTE = 60
_HOUR = 3600


def parse_limits(text: str | None) -> tuple[int, int, int] | None:
    """Return the limits that a text asks for: ``default`` or ``CALLS,LISTS,SUBMISSIONS``; None for None.

    Raises:
        ConfigError: it is neither.
    """
    if text is None:
        return None
    if text == "default":
        return DEFAULT_LIMITS
    found = re.fullmatch(r"([1-9]\d{0,8}),([1-9]\d{0,8}),([1-9]\d{0,8})", text)
    if found is None:
        raise ConfigError(
            f"--rate-limits {text}: it is `default` or three numbers, such as 600,60,60: calls a minute, "
            "lists a minute, submissions an hour"
        )
    return int(found[1]), int(found[2]), int(found[3])


@dataclass
class _Window:
    """Counts of one kind of request."""

    limit: int
    seconds: int
    started: float
    clock: Callable[[], float]

    def __post_init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._ends = self.started + self.seconds

    def count(self, key: str) -> tuple[dict[str, str], bool]:
        """Count a request; return the headers of its answer, and whether it is to be refused."""
        now = self.clock()
        if now >= self._ends:
            self._counts.clear()
            self._ends += self.seconds * math.floor((now - self._ends) / self.seconds + 1)
        self._counts[key] += 1
        left = self.limit - self._counts[key]
        headers = {
            "X-RateLimit-Limit": str(self.limit),
            "X-RateLimit-Remaining": str(max(0, left)),
            "X-RateLimit-Reset": str(math.ceil(self._ends)),
        }
        if left < 0:
            headers["Retry-After"] = str(self.seconds)
        return headers, left < 0


class RateLimits:
    """What has been asked since the windows began.

    Args:
        limits: calls a minute and address, lists a minute and user, submissions an hour and user.
        clock: returns the time in seconds since 1970 UTC.
    """

    def __init__(self, limits: tuple[int, int, int], clock: Callable[[], float] = time.time) -> None:
        calls, lists, submissions = limits
        now = clock()
        self._calls = _Window(calls, _MINUTE, now, clock)
        self._lists = _Window(lists, _MINUTE, now, clock)
        self._submissions = _Window(submissions, _HOUR, now, clock)

    def call(self, address: str) -> tuple[dict[str, str], bool]:
        """Count a request of an address; return the headers of its answer, and whether it is refused."""
        return self._calls.count(address)

    def list(self, user: str) -> tuple[dict[str, str], bool]:
        """Count a list of jobs for a user; return as `call` does."""
        return self._lists.count(user)

    def submission(self, user: str) -> tuple[dict[str, str], bool]:
        """Count a submission of a user, taken or not; return as `call` does."""
        return self._submissions.count(user)
