"""Explanations: why jobs are waiting. Jobs with equal demands share a reason, even across forks."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from luigi_pai.errors import PaiHttpError

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.clock import Clock
    from luigi_pai.api.shared import SharedDocument

_KEY, _ASKED, _NO_EVENTS, _WAITING = "explanations", "asked", "no events", "waiting"
_WINDOW, _MOST_ASKED = 60.0, 4  # seconds, requests
_MOST_KEPT = 50
_WAITS_FOR = 30.0  # how long a process counts as waiting after it looks up a queued job, in seconds


class Explanations:
    """The cluster's reasons why jobs are waiting, and the number of processes waiting for a job.

    Args:
        shared: A document that forked processes share. It is small, because it is written often.
        clock: The clock that measures ages.
    """

    def __init__(self, shared: SharedDocument, clock: Clock) -> None:
        self._shared = shared
        self._clock = clock

    def count_waiting(self) -> int:
        """Record that this process is waiting for a queued job; return how many processes are."""
        now = self._clock.monotonic()
        with self._shared.update() as state:
            known = state.get(_WAITING, {})
            waiting = {process: seen for process, seen in known.items() if now - seen < _WAITS_FOR}
            waiting[str(os.getpid())] = now
            state[_WAITING] = waiting
        return len(waiting)

    def may_ask(self) -> bool:
        """Return whether a request may be made, and count it. All processes together have 4 per minute."""
        now = self._clock.monotonic()
        with self._shared.update() as state:
            since, asked = state.get(_ASKED, (now, 0))
            if now - since >= _WINDOW:
                since, asked = now, 0
            state[_ASKED] = [since, asked + 1]
        return bool(asked < _MOST_ASKED)

    def explain(
        self, demand: str, max_age: float, may_ask: Callable[[], bool], ask: Callable[[], str | None]
    ) -> str | None:
        """Return why jobs with a given demand for resources are waiting; None if no reason is known.

        Args:
            demand: A string that all jobs with this demand have in common.
            max_age: How long a response may be reused, in seconds.
            may_ask: Returns whether a request may be made. If it returns False, an older response is used.
            ask: Makes the request. After a NoApiError (servers before 1.3), it is not called again.
        """
        known, now = self._shared.read(), self._clock.monotonic()
        received, reason = known.get(_KEY, {}).get(demand, (-max_age, None))
        if known.get(_NO_EVENTS) or now - received < max_age or not may_ask():
            return str(reason) if reason else None
        try:
            reason = ask()
        except PaiHttpError as error:
            if error.code == "NoApiError":
                with self._shared.update() as state:
                    state[_NO_EVENTS] = True
            raise
        with self._shared.update() as state:
            kept = {**state.get(_KEY, {}), demand: [now, reason]}
            state[_KEY] = dict(sorted(kept.items(), key=lambda item: item[1][0])[-_MOST_KEPT:])
        return reason
