"""Silence: how long logs are waited for in vain by what watches their job."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from luigi_pai.api.wire.transport import at_most
from luigi_pai.errors import ClusterUnreachable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.api.clock import Clock

__all__ = ["Silence"]

_SHORT = 5.0  # seconds for which each request is waited for
_LONGEST = 10.0  # seconds of all requests that were waited for in vain


class Silence:
    """Limits the requests for logs, which must not keep the watching of a job, nor its end.

    Args:
        clock: measures them.

    Attributes:
        is_short: whether a request is limited to 5 s.
        counts: whether the job has ended, so that requests are waited for 10 s in vain, all together.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seconds = 0.0
        self.counts = self.is_short = False

    @property
    def is_over_limit(self) -> bool:
        """Whether no further request is to be made."""
        return self._seconds >= _LONGEST

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """Make a request, which is counted if there was no answer."""
        began = self._clock.monotonic()
        with at_most(_SHORT) if self.is_short else contextlib.nullcontext():
            try:
                yield
            except ClusterUnreachable:
                self._seconds += self._clock.monotonic() - began if self.counts else 0.0
                raise
