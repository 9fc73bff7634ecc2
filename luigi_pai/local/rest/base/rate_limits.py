"""The request limits of OpenPAI 1.x and LTP, counted as their rest-servers count.

With OpenPAI (express-rate-limit 5) all counts of one kind begin anew at the same moments, a window
apart from the server's start. With LTP (express-rate-limit 7) each address or user has a window of its
own, from its first request on. A request that is refused counts, too.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["RateLimits"]

_MINUTE = 60
_HOUR = 3600


class RateLimits:
    """The requests that were counted since the windows began.

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
        windows = zip(("call", "list", "submission"), limits, (_MINUTE, _MINUTE, _HOUR), strict=True)
        self._windows = {kind: (limit, seconds) for kind, limit, seconds in windows}
        self._clock = clock
        self._started = clock()
        self._of_each_key = of_each_key
        self._counts: dict[tuple[str, str], tuple[float, int]] = {}  # the end of the window, and the count

    def count(self, kind: str, key: str) -> tuple[dict[str, str], bool]:
        """Count a ``call`` of an address, a ``list`` or ``submission`` (taken or not) of a user.

        Returns:
            The headers of its answer, and whether it is refused.
        """
        limit, seconds = self._windows[kind]
        now = self._clock()
        end, count = self._counts.get((kind, key), (now, 0))
        if now >= end:
            self._counts = {name: other for name, other in self._counts.items() if now < other[0]}
            begin = now if self._of_each_key else self._started
            end, count = begin + seconds * ((now - begin) // seconds + 1), 0
        count += 1
        self._counts[kind, key] = (end, count)
        headers = {
            "X-RateLimit-Limit": str(limit),
            "X-RateLimit-Remaining": str(max(0, limit - count)),
            "X-RateLimit-Reset": str(math.ceil(end)),
        }
        if count > limit:
            headers["Retry-After"] = str(math.ceil(end - now) if self._of_each_key else seconds)
        return headers, count > limit
