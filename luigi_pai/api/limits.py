"""The request limits of a server, kept without being run into.

From 1.0 on a server counts: by default 600 requests a minute and address, 60 lists a
minute and user, 60 submits an hour and user. Each answer says how many are left of
its kind and when the count begins anew. When none is left, a request would only be
refused (and refused submits count too), so it is not sent.
"""

from __future__ import annotations

import math
import threading
import time
from enum import Enum
from typing import TYPE_CHECKING

from luigi_pai.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Kind", "Limits", "reset_time"]


class Kind(Enum):
    """What a server counts apart."""

    CALL = "call"
    LIST = "list"
    SUBMIT = "submit"


_WINDOWS = {Kind.CALL: 60.0, Kind.LIST: 60.0, Kind.SUBMIT: 3600.0}
"""Seconds after which a server counts anew."""


class Limits:
    """What is left of each limit. Safe to share between threads."""

    def __init__(self) -> None:
        self._ends: dict[Kind, float] = {}
        self._lock = threading.Lock()

    def check(self, kind: Kind, what: str) -> None:
        """Refuse a request that the server would refuse.

        Args:
            kind: of the request.
            what: the request, for the error.

        Raises:
            RateLimited: with the time at which requests are taken again.
        """
        now = time.time()
        with self._lock:
            ends = self._ends.get(kind, 0.0)
        if now < ends:
            raise RateLimited(
                f"{what}: not sent, the server's limit is used up for {ends - now:.0f} s", reset_at=ends
            )

    def note(self, kind: Kind, headers: Mapping[str, str]) -> None:
        """Take in what an answer says of its limit; most say nothing."""
        left, ends = _number(headers.get("X-RateLimit-Remaining")), reset_time(headers, _WINDOWS[kind])
        with self._lock:
            if left is not None and left <= 0 and ends is not None:
                self._ends[kind] = ends
            else:
                self._ends.pop(kind, None)


def reset_time(headers: Mapping[str, str], window: float | None = None) -> float | None:
    """Return when a limit ends, in seconds since 1970 UTC, or None where the server does not say.

    X-RateLimit-Reset is that moment by the server's clock. Retry-After is the
    whole window: the end is never later, whatever the clocks say.

    Args:
        headers: of the answer.
        window: seconds after which the server counts anew, where known.
    """
    moment, wait = _number(headers.get("X-RateLimit-Reset")), _number(headers.get("Retry-After"))
    waits = [seconds for seconds in (wait, window if moment is not None else None) if seconds is not None]
    ends = [time.time() + seconds for seconds in waits] + ([] if moment is None else [moment])
    return min(ends, default=None)


def _number(text: str | None) -> float | None:
    try:
        number = float(text or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None
