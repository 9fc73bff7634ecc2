"""When to ask next, and how long to bear with a server that does not answer."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from luigi_pai.errors import (
    ClusterUnreachable,
    InvalidReply,
    JobNotFound,
    PaiApiError,
    PaiHttpError,
    PaiJobLost,
    RateLimited,
    ServerFault,
)

if TYPE_CHECKING:
    from luigi_pai.api.client import PaiClient
    from luigi_pai.api.status import JobStatus

__all__ = ["FAULTS", "Patience", "Polling", "next_wait", "past_limits", "watch"]

logger = logging.getLogger("luigi-interface")

FAULTS = (ClusterUnreachable, InvalidReply, RateLimited, ServerFault)
"""What is waited out: the answer says nothing about the job."""

_AGE_SHARE = 0.1
_JITTER = 0.1
_FIRST_PAUSE = 0.5
_LONGEST_PAUSE = 15.0
_LOST_AFTER = 60.0
_LONGEST_LIMIT = 3600.0  # of the servers' windows the longest

T = TypeVar("T")
Pause = Callable[[float], None]


@dataclass(frozen=True)
class Polling:
    """The times of ``[OpenPai]`` that concern waiting, in seconds.

    Attributes:
        shortest, longest: bounds of the wait between two looks (``poll_min``, ``poll_max``).
        patience: how long faults are borne without a break (``poll_patience``).
    """

    shortest: float = 0.5
    longest: float = 30.0
    patience: float = 1800.0


def next_wait(age: float, polling: Polling) -> float:
    """Return how long to wait before the next look, in seconds.

    A tenth of the job's age, between ``polling.shortest`` and ``polling.longest``,
    give or take a tenth: with the defaults every 0.5 s for the first 5 s, every
    6 s at the age of a minute, every 30 s from five minutes on.

    Args:
        age: of the job, in seconds.
        polling: the bounds.
    """
    wait = min(max(age * _AGE_SHARE, polling.shortest), polling.longest)
    return wait * random.uniform(1 - _JITTER, 1 + _JITTER)  # noqa: S311  spreads load, guards nothing


class Patience:
    """Bears faults, one after the other, for a limited time.

    Between two tries it waits 0.5 s, then twice as long each time, up to 15 s;
    after a 429, until the server's limit is over, which counts for nothing.

    Args:
        limit: seconds without a good answer after which the last fault is raised.
        pause: waits; ``time.sleep`` or what a caller does meanwhile.
    """

    def __init__(self, limit: float, pause: Pause = time.sleep) -> None:
        self._limit = limit
        self._pause = pause
        self._since: float | None = None
        self._next = _FIRST_PAUSE

    def call(self, ask: Callable[[], T]) -> T:
        """Return what ``ask`` returns, calling it again after each fault.

        Raises:
            PaiApiError: the last fault, when the limit is reached, and at once
                what is no fault.
        """
        while True:
            try:
                answer = ask()
            except FAULTS as fault:
                self.bear(fault)
            except PaiHttpError:
                self.answered()
                raise
            else:
                self.answered()
                return answer

    def bear(self, fault: PaiApiError) -> None:
        """Wait after a fault.

        Raises:
            PaiApiError: the fault itself, when the limit is reached.
        """
        now = time.monotonic()
        if isinstance(fault, RateLimited):
            wait = min(max(1.0, (fault.reset_at or 0) - time.time()), _LONGEST_LIMIT)
            logger.warning("OpenPAI takes no more requests for now; waiting %.0f s (%s)", wait, fault)
            self._pause(wait * random.uniform(1, 1 + _JITTER))  # noqa: S311
            if self._since is not None:
                self._since += time.monotonic() - now
            return
        if self._since is None:
            self._since = now
            logger.warning("%s (waiting for up to %.0f s)", fault, self._limit)
        elif now - self._since >= self._limit:
            raise fault
        left = self._since + self._limit - now
        self._pause(min(self._next * random.uniform(0.5, 1), max(left, 0.01)))  # noqa: S311
        self._next = min(self._next * 2, _LONGEST_PAUSE)

    def answered(self) -> None:
        """Note that the server answers: the time starts anew."""
        if self._since is not None:
            logger.info("OpenPAI answers again after %.0f s", time.monotonic() - self._since)
        self._since, self._next = None, _FIRST_PAUSE


def past_limits(ask: Callable[[], T], limit: float, pause: Pause = time.sleep) -> T:
    """Return what ``ask`` returns, once the server takes requests again.

    Args:
        ask: is called again after each 429.
        limit: seconds after which the last 429 is raised.
        pause: waits until the server's limit is over.

    Raises:
        PaiApiError: what ``ask`` raises.
    """
    patience, since = Patience(limit, pause), time.monotonic()
    while True:
        try:
            return ask()
        except RateLimited as refusal:
            if time.monotonic() - since > limit:
                raise
            patience.bear(refusal)


def watch(
    client: PaiClient,
    status: JobStatus,
    polling: Polling,
    *,
    just_submitted: bool,
    on_change: Callable[[JobStatus], None],
    pause: Pause = time.sleep,
) -> JobStatus:
    """Follow a job to its end.

    Args:
        client: where to ask.
        status: what is known of the job; its ``name`` is followed.
        polling: the schedule, see ``next_wait``.
        just_submitted: the job is new. Else its age is that of its time stamp.
        on_change: called with each status that says something new, the first too.
        pause: waits between two looks.

    Returns:
        its last status, of a finished job.

    Raises:
        PaiApiError: the server was not to be reached for longer than ``polling.patience``.
        PaiJobLost: the server does not know the job, and goes on not knowing it
            for a minute (right after a submit it may need a moment to show it).
    """
    patience = Patience(polling.patience, pause)
    started = time.monotonic() - (0.0 if just_submitted else _age(status))
    unknown_since: float | None = None
    name = status.name
    on_change(status)
    while not status.finished:
        pause(next_wait(time.monotonic() - started, polling))
        try:
            seen = patience.call(lambda: client.status(name))
        except JobNotFound:
            unknown_since = unknown_since or time.monotonic()
            if time.monotonic() - unknown_since < _LOST_AFTER:
                continue
            raise PaiJobLost(
                f"job {name!r} is no longer known to {client.account.url}: it was deleted, or it ended and "
                "was forgotten while nobody looked; if its results are complete, and on HDFS, put a file "
                "_SUCCESS into its output folder, else run the task again to submit it anew"
            ) from None
        unknown_since = None
        if seen != status:
            status = seen
            on_change(status)
    return status


def _age(status: JobStatus) -> float:
    """Return the age of a job in seconds, by its own time stamp; 0 where clocks disagree or none is known."""
    return max(0.0, time.time() - status.created_ms / 1000) if status.created_ms else 0.0
