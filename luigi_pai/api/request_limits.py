"""A server's rate limits, counted together by all forked processes.

OpenPAI 1.0 and later limit requests, by default to 600 per minute and IP address, 60 lists per minute
and user, and 60 submissions per hour and user. Each response says how many requests are left and when the
window ends. Requests beyond the limit are not sent, because the server also counts rejected submissions.
Polling is spread over the window, so that other requests stay possible.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from enum import Enum
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import RateLimited

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.api.clock import Clock
    from luigi_pai.api.shared import SharedDocument

_KEY = "limits"
_POLLING_SHARE = 0.8  # share of the limit for polling, spread evenly; the rest is for other requests
# a response belongs to the known window if the end that it reports is later by less than this fraction of the
# window's length (for example, a slow response reports a later end)
_SAME_WINDOW = 0.5


class Kind(Enum):
    """The kinds of requests that a server counts separately."""

    CALL = "call"
    LIST = "list"
    SUBMIT = "submit"


_WINDOWS = {Kind.CALL: 60.0, Kind.LIST: 60.0, Kind.SUBMIT: 3600.0}
"""The length of each window in seconds."""


@dataclass(frozen=True)
class Window:
    """A time window in which a server accepts a limited number of requests.

    Attributes:
        left: How many more requests the server accepts.
        ends_in: Seconds until the next window starts.
        size: The number of requests in a whole window; None if the server has not sent it.
        length: The length of a whole window in seconds.
    """

    left: int
    ends_in: float
    size: float | None
    length: float


class Limits:
    """The requests left under each rate limit.

    Args:
        state: A document with the counts, which forked processes share.
        clock: The clock that measures the windows, in its monotonic time.
    """

    def __init__(self, state: SharedDocument, clock: Clock) -> None:
        self._state = state
        self._clock = clock

    def reserve(self, kind: Kind, request: str) -> None:
        """Count a request that is about to be sent.

        Args:
            kind: The kind of request.
            request: A description of the request for the error message.

        Raises:
            RateLimited: The window has no requests left. ``sent`` is False, ``reset_at`` is its end.
        """
        kinds = {kind, Kind.CALL}  # a list or a submission is also a call
        state = self._state.read()
        if _KEY not in state or all(self._window(state, each) is None for each in kinds):
            return
        with self._state.update() as state:
            for each in kinds:
                window = self._window(state, each)
                if window is None:
                    continue
                if window["left"] <= 0:
                    wait = window["ends"] - self._clock.monotonic()
                    raise RateLimited(
                        f"{request}: not sent, the server's rate limit is reached for another {wait:.0f} s",
                        reset_at=self._clock.time() + wait,
                        sent=False,
                    )
                state[_KEY] = {**state[_KEY], each.value: {**window, "left": window["left"] - 1}}

    def record(self, kind: Kind, headers: Mapping[str, str], *, refused: bool = False) -> None:
        """Record the limit that a response reports, if any.

        Args:
            kind: The kind of request.
            headers: The response's headers.
            refused: Whether the response is a 429.
        """
        remaining = headers.get("X-RateLimit-Remaining")
        left = 0.0 if refused else None if remaining is None else _number(remaining)
        if left is None or (wait := reset_after(headers, self._clock.time(), _WINDOWS[kind])) is None:
            return
        size = _number(headers.get("X-RateLimit-Limit"))
        ends = self._clock.monotonic() + wait
        with self._state.update() as state:
            known = self._window(state, kind)
            if known is not None and ends - known["ends"] < _SAME_WINDOW * _WINDOWS[kind]:
                left = min(left, known["left"])  # responses do not count requests in flight
                ends = known["ends"]
            last = state.get(_KEY, {}).get(kind.value, {})
            window = {"left": left, "of": size, "ends": ends, "span": max(wait, last.get("span", 0.0))}
            state[_KEY] = {**state.get(_KEY, {}), kind.value: window}

    def window(self, kind: Kind) -> Window | None:
        """Return the current window for a kind of request; None if none is known."""
        current = self._window(self._state.read(), kind)
        if current is None:
            return None
        size = current["of"] or None
        return Window(int(current["left"]), current["ends"] - self._clock.monotonic(), size, _WINDOWS[kind])

    def polling_wait(self) -> float:
        """Return how many seconds to pause polling so that the requests left last for the window."""
        state = self._state.read()
        window = self._window(state, Kind.CALL) if _KEY in state else None
        if window is None or not window["of"]:
            return 0.0
        rest = window["ends"] - self._clock.monotonic()
        even = _POLLING_SHARE * window["of"] / max(window["span"], 1.0)  # requests per second
        return max(0.0, float(rest - window["left"] / even))

    def wait(self, kind: Kind, share: float, since: float) -> float:
        """Return how many seconds to wait before the next request, to use only a share of the limit.

        The wait is 0.0 if no limit is known. The share's unused requests are spread over the rest of the
        window.

        Args:
            kind: The kind of request.
            share: The share of the limit, 0 to 1; the rest is left for other requests.
            since: The time of the last request of this kind, in seconds of the monotonic clock.
        """
        state, now = self._state.read(), self._clock.monotonic()
        size = state.get(_KEY, {}).get(kind.value, {}).get("of")
        if not size:
            return 0.0
        spacing, window = _WINDOWS[kind] / (share * size), self._window(state, kind)
        if window is not None:
            rest, usable = window["ends"] - now, window["left"] - (1 - share) * size
            if usable < 1:
                return float(rest)
            spacing = max(spacing, rest / usable)
        return float(max(0.0, since + spacing - now))

    def _window(self, state: Mapping[str, Any], kind: Kind) -> dict[str, Any] | None:
        """Return the current window; None if none is known."""
        window: dict[str, Any] | None = state.get(_KEY, {}).get(kind.value)
        return window if window is not None and self._clock.monotonic() < window["ends"] else None


def reset_after(headers: Mapping[str, str], now: float, window: float | None = None) -> float | None:
    """Return the seconds until a rate limit ends; None if the response does not say.

    The result is Retry-After, or the time from Date to X-RateLimit-Reset. If both exist, the smaller time is
    returned. If the response has X-RateLimit-Reset, the result is at most ``window``.

    Args:
        headers: The response's headers.
        now: Seconds since 1970 UTC, for a server that sends no Date.
        window: The length of the limit's window in seconds, if known.
    """
    moment, wait = _number(headers.get("X-RateLimit-Reset")), _number(headers.get("Retry-After"))
    waits = [seconds for seconds in (wait, window if moment is not None else None) if seconds is not None]
    if moment is not None:
        date = server_time(headers)
        waits.append(moment - (now if date is None else date))
    return None if not waits else max(0.0, min(waits))


def server_time(headers: Mapping[str, str]) -> float | None:
    """Return the server's time in seconds since 1970 UTC; None if the response has no Date."""
    try:
        return parsedate_to_datetime(headers.get("Date", "")).timestamp()
    except (TypeError, ValueError):
        return None


def _number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) else None
