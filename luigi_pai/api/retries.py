"""Retry of transient errors: how long to wait after each, until a deadline.

Nothing here sleeps. ``Steps`` are generators that yield the seconds to wait before
they go on and return a result; ``run_steps`` is the one loop that sleeps.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, TypeVar

from luigi_pai.errors import (
    ClusterUnreachable,
    InvalidReply,
    PaiApiError,
    PaiHttpError,
    RateLimited,
    ServerFault,
)

if TYPE_CHECKING:
    from luigi_pai.api.clock import Clock

__all__ = ["TRANSIENT", "Retry", "Steps", "run_steps"]

logger = logging.getLogger(__name__)

TRANSIENT = (ClusterUnreachable, InvalidReply, RateLimited, ServerFault)
"""Errors that say nothing about the job: the request is repeated, where that is safe."""

_FIRST_WAIT = 0.5  # seconds
_LONGEST_WAIT = 15.0
_UNANNOUNCED_LIMIT = 1.0  # after the first 429 that does not say for how long
_LONGEST_UNANNOUNCED = 60.0
_LONGEST_LIMIT = 3600.0  # the longest window of a server
_WINDOWS = 3  # how often a server may refuse right after the moment that it named
_JITTER = 0.1

T = TypeVar("T")
Steps = Generator[float, None, T]
"""Work in steps: yields the seconds to wait before the next one, returns a result."""


def run_steps(steps: Steps[T], sleep: Callable[[float], None]) -> T:
    """Carry out steps one after the other and return their result.

    Args:
        steps: what to do.
        sleep: waits for some seconds; may do something else meanwhile.
    """
    try:
        wait = next(steps)
        while True:
            try:
                sleep(wait)
            except BaseException as interruption:  # noqa: BLE001  the steps say what goes on, and raise it
                wait = steps.throw(interruption)
            else:
                wait = next(steps)
    except StopIteration as end:
        result: T = end.value
        return result


class Retry:
    """Decides after each transient error how long to wait, or that it is over.

    After an error it is 0.5 s, then twice as long each time, up to 15 s. After a 429
    it is the time until the moment that the server names (at most an hour); where it
    names none, 1 s, then twice as long each time, up to a minute.

    A limit that this process knows of, so that the request was not even sent, does not
    count: the server is well. One that the server itself goes on refusing with does
    count, though at least three times the wait that it names is granted.

    Args:
        limit: seconds without a good answer after which the last error is raised.
        clock: measures them.
        what: is being done, for the log: ``job NAME``.
        while_limited: the same for 429s, if that is longer.
    """

    def __init__(self, limit: float, clock: Clock, what: str = "", while_limited: float = 0.0) -> None:
        self._limit = limit
        self._while_limited = max(limit, while_limited)
        self._clock = clock
        self._what = f"{what}: " if what else ""
        self._since: float | None = None
        self._next = _FIRST_WAIT
        self._granted = 0.0

    def wait_after(self, error: PaiApiError) -> float:
        """Return how many seconds to wait before the request is repeated.

        Raises:
            PaiApiError: the error itself, when the limit is reached.
        """
        if isinstance(error, RateLimited):
            return self._wait_after_limit(error)
        now = self._clock.monotonic()
        if self._since is None:
            self._since = now
            logger.warning("%s%s (retrying for up to %.0f s)", self._what, error, self._limit)
        elif now - self._since >= self._limit:
            raise error
        wait = min(self._next * random.uniform(0.5, 1), max(self._since + self._limit - now, 0.01))  # noqa: S311
        self._next = min(self._next * 2, _LONGEST_WAIT)
        return wait

    def _wait_after_limit(self, error: RateLimited) -> float:
        now = self._clock.monotonic()
        announced = error.reset_at is not None
        if error.reset_at is not None:
            wait = min(max(1.0, error.reset_at - self._clock.time()), _LONGEST_LIMIT)
            self._granted = max(self._granted, _WINDOWS * wait)
        else:
            self._next = max(self._next, _UNANNOUNCED_LIMIT)
            wait, self._next = self._next, min(self._next * 2, _LONGEST_UNANNOUNCED)
        if error.sent:
            self._since = now if self._since is None else self._since
            limit = max(self._while_limited, self._granted) if announced else self._while_limited
            if now - self._since >= limit:
                raise error
            if not announced:
                wait = min(wait, max(self._since + limit - now, 0.01))
        logger.warning(
            "%sOpenPAI takes no more requests for now; waiting %.0f s (%s)", self._what, wait, error
        )
        return wait * random.uniform(1, 1 + _JITTER)  # noqa: S311  spreads load, guards nothing

    def succeeded(self) -> None:
        """Note a good answer: the time starts anew."""
        if self._since is not None:
            logger.info(
                "%sOpenPAI answers again after %.0f s", self._what, self._clock.monotonic() - self._since
            )
        self._since, self._next, self._granted = None, _FIRST_WAIT, 0.0

    def call(self, ask: Callable[[], T]) -> Steps[T]:
        """Return what ``ask`` returns, in steps, calling it again after each transient error.

        Raises:
            PaiApiError: the last transient error, when the limit is reached, and at once any other.
        """
        while True:
            try:
                answer = ask()
            except TRANSIENT as error:
                yield self.wait_after(error)
            except PaiHttpError:
                self.succeeded()
                raise
            else:
                self.succeeded()
                return answer
