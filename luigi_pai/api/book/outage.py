"""Outage: a server that did not reply just now."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.errors import ClusterUnreachable

if TYPE_CHECKING:
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.shared import SharedDocument

__all__ = ["Outage"]

_KEPT = 10.0  # seconds


class Outage:
    """An address that did not reply: for 10 s it is not tried again, by no process of the family.

    A thousand tasks need not each wait for a timeout.

    Args:
        shared: with forks.
        clock: measures the age of the error.
    """

    def __init__(self, shared: SharedDocument, clock: Clock) -> None:
        self._shared = shared
        self._clock = clock

    def raise_if_unreachable(self) -> None:
        """Raise the error of a lookup in the last 10 s that had no reply.

        Raises:
            ClusterUnreachable: there was one.
        """
        last = self._shared.read().get("unreachable")
        if last is not None and 0 <= self._clock.monotonic() - last[0] < _KEPT:
            raise ClusterUnreachable(last[1])

    def record(self, error: ClusterUnreachable) -> None:
        """Record that there was no reply."""
        with self._shared.update() as state:
            state["unreachable"] = [self._clock.monotonic(), str(error)]

    def end(self) -> None:
        """Record that there was a reply."""
        if "unreachable" in self._shared.read():
            with self._shared.update() as state:
                state.pop("unreachable", None)
