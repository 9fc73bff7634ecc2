"""Retries after transient errors, with exponential backoff, until a deadline."""

from __future__ import annotations

import logging
import random
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, TypeVar

from luigi_pai.errors import (
    ClusterUnreachable,
    InvalidReply,
    PaiApiError,
    PaiError,
    PaiHttpError,
    RateLimited,
    ServerFault,
    TokenLost,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.clock import Clock

logger = logging.getLogger(__name__)

TRANSIENT = (ClusterUnreachable, InvalidReply, RateLimited, ServerFault, TokenLost)
"""Transient errors: a request that is safe to repeat is retried after them."""

_FIRST_WAIT = 0.5  # seconds
_LONGEST_WAIT = 15.0
_LONGEST_LOGINS = 20.0  # seconds: six or more retries, to spread out processes that log in at the same time
_LONGEST_LIMIT = 3600.0  # the longest window of a server
_WINDOWS = 3  # a deadline is at least this many times the wait that the server sends with a 429
_JITTER = 0.1

T = TypeVar("T")


def is_transient(error: BaseException) -> bool:
    """Return whether an error of the server or of files is transient."""
    return isinstance(error, TRANSIENT) or (isinstance(error, PaiError) and error.transient)


@dataclass(eq=False, repr=False)
class Retry:
    """Decides after each transient error whether to give up and, if not, how long to wait.

    The first wait is at most 0.5 s. This maximum doubles with each additional wait, up to 15 s. If the server
    says when a rate limit ends, the wait after a 429 lasts until then, but at most an hour.

    The time until the deadline starts with the first failed request. A request that was not sent because
    of a known limit does not start it, and is retried even after the deadline. If the server rejects a
    request with 429, the deadline is at least three times the wait that the server sends.

    Args:
        limit: How many seconds to go without success before raising the last error.
        clock: The clock that measures these seconds.
        subject: The subject of the log messages, such as ``job NAME``.
        longest: If a rate limit lasts longer than this many seconds, the error is raised without a wait.
        token_limit: The limit after ``TokenLost``, but at most 20 s, if it is longer than ``limit``.
        sleep: Waits for a number of seconds; default: ``clock.sleep``.
    """

    limit: float
    clock: Clock
    subject: str = ""
    longest: float = _LONGEST_LIMIT
    token_limit: float = 0.0
    sleep: Callable[[float], None] | None = None
    _since: float | None = field(default=None, init=False)  # when the first request failed
    _next: float = field(default=_FIRST_WAIT, init=False)  # the longest next wait
    _granted: float = field(default=0.0, init=False)  # the least deadline, after a 429
    _failed: str = field(default="", init=False)  # the server of the last error

    def wait_after(self, error: PaiError) -> float:
        """Return how many seconds to wait before the next attempt.

        Raises:
            PaiError: ``error`` is raised again if the deadline is reached, if it comes from a test's mock, or
                if the server has never responded.
        """
        if error.mocked or (isinstance(error, ClusterUnreachable) and error.never_replied):
            raise error
        self._failed = "OpenPAI" if isinstance(error, PaiApiError) else "the file system"
        if isinstance(error, RateLimited) and error.reset_at is not None:
            return self._wait_after_limit(error, error.reset_at)
        now, limit = self.clock.monotonic(), self.limit
        if isinstance(error, TokenLost):
            limit = max(limit, min(_LONGEST_LOGINS, self.token_limit))
        if self._since is None:
            self._since = now
            logger.warning("%s%s (retrying for up to %.0f s)", self._prefix, error, limit)
        elif now - self._since >= limit:
            raise error
        wait = min(self._next * random.uniform(0.5, 1), max(self._since + limit - now, 0.01))  # noqa: S311
        self._next = min(self._next * 2, _LONGEST_WAIT)
        return wait

    def _wait_after_limit(self, error: RateLimited, reset_at: float) -> float:
        now = self.clock.monotonic()
        wait = min(max(1.0, reset_at - self.clock.time()), _LONGEST_LIMIT)
        if wait > self.longest:
            raise error
        self._granted = max(self._granted, _WINDOWS * wait)
        if error.sent:
            self._since = now if self._since is None else self._since
            if now - self._since >= max(self.limit, self._granted):
                raise error
        until = datetime.fromtimestamp(self.clock.time() + wait).astimezone().strftime("%H:%M:%S")
        message = "%sOpenPAI rate limit reached; waiting %.0f s, until %s (%s)"
        logger.warning(message, self._prefix, wait, until, error)
        return wait * random.uniform(1, 1 + _JITTER)  # noqa: S311  spreads load, guards nothing

    @property
    def _prefix(self) -> str:
        return f"{self.subject}: " if self.subject else ""

    def succeeded(self) -> None:
        """Record a success, which resets the deadline."""
        if self._since is not None:
            seconds = self.clock.monotonic() - self._since
            logger.info("%s%s responds again after %.0f s", self._prefix, self._failed, seconds)
        self._since, self._next, self._granted = None, _FIRST_WAIT, 0.0

    def call(self, request: Callable[[], T]) -> T:
        """Call a function until it succeeds, with waits between the calls; return the result.

        Raises:
            PaiError: The transient error (of the server or of files) after which ``wait_after`` gives up, or
                the first error that is not transient.
        """
        while True:
            try:
                result = request()
            except PaiError as error:
                if not is_transient(error):
                    if isinstance(error, PaiHttpError):
                        self.succeeded()
                    raise
                (self.sleep or self.clock.sleep)(self.wait_after(error))
            else:
                self.succeeded()
                return result
