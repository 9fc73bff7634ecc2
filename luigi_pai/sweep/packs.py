"""Packs: a sweep's points that are started together, with their start times and threads."""

from __future__ import annotations

import math
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.errors import PaiError
from luigi_pai.files.errors import HdfsError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.clock import Clock
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.point import Point

T = TypeVar("T")

AT_ONCE = 8
"""Maximum number of points or packs to start at the same time."""

_AGAIN_AFTER = 1.0  # how long to wait, in seconds, before looking up points claimed by another process again
_GATHERED = 2.0  # how long to look for all points that are claimed for one array, in seconds


@dataclass(slots=True, eq=False)
class Pack:
    """Points that are started together.

    Attributes:
        points: The points.
        name: The name of the array that the points are claimed for; empty if the array has no name yet. None
            if the points have not been looked up yet.
        due: When to start, in seconds on the monotonic clock; infinity if the pack waits for more points.
        started_at: When the thread that starts the points was started.
        future: Receives the thread's results.
    """

    points: list[Point]
    name: str | None = None
    due: float = -math.inf
    started_at: float = 0.0
    future: Future[Any] = field(default_factory=Future)


class Packs:
    """The packs to start before more points are drawn, and the packs that are being started."""

    def __init__(self, limits: SweepLimits, clock: Clock) -> None:
        self.starting: list[Pack] = []
        self._limits = limits
        self._clock = clock
        self._packs: list[Pack] = []

    def __bool__(self) -> bool:
        return bool(self._packs)

    def next_due(self, *, is_drawn: bool) -> Pack | None:
        """Return a pack to start, or None. An incomplete pack is due only if no more points can join it.

        Args:
            is_drawn: Whether all points have been drawn.
        """
        now, packs = self._clock.monotonic(), self._packs
        due = next((pack for pack in packs if pack.due <= now), None)
        is_last = is_drawn and not self.starting and all(pack.due == math.inf for pack in packs)
        return packs[0] if due is None and is_last and packs else due

    def start(self, pack: Pack, act: Callable[[Pack], Any]) -> None:
        """Call a function with a pack in a thread, unless the pack is empty."""
        self._take_out(pack)
        if pack.points:
            pack.started_at = self._clock.monotonic()
            pack.future = run_in_thread(lambda: act(pack))
            self.starting.append(pack)

    def started(self) -> list[Pack]:
        """Return the packs whose threads have finished since the last call."""
        started = [pack for pack in self.starting if pack.future.done()]
        self.starting = [pack for pack in self.starting if pack not in started]
        return started

    def idle(self) -> float:
        """Return how long until a delayed pack is due, in seconds; infinity if there is none."""
        now = self._clock.monotonic()
        return min((pack.due - now for pack in self._packs if pack.due > now), default=math.inf)

    def look_up_again(self, points: Iterable[Point]) -> None:
        """Schedule another lookup of points, because another process has claimed them."""
        if again := list(points):
            self._packs.append(Pack(again, due=self._clock.monotonic() + _AGAIN_AFTER))

    def add(self, point: Point, array: str | None) -> None:
        """Add a point to the pack of its array, or to the pack that waits for more points.

        Once the waiting pack is full, it is due at once.
        """
        if array is not None:
            pack = next((each for each in self._packs if each.name == array), Pack([], array))
            pack.due = self._clock.monotonic() + _GATHERED
        else:
            pack = next((each for each in self._packs if each.due == math.inf), Pack([], "", math.inf))
        pack.points.append(point)
        if array is None and len(pack.points) >= self._limits.points_per_job:
            pack.due = -math.inf
        self._take_out(pack)
        self._packs.append(pack)

    def _take_out(self, pack: Pack) -> None:
        self._packs = [each for each in self._packs if each is not pack]


class Outages:
    """Limits how many points start at once, and delays the next start, during outages.

    While the file system or the server does not respond, only one point or pack is started at a time, with
    growing pauses in between, so that an outage is logged only once. Errors are retried for ``patience``
    seconds.
    """

    def __init__(self, patience: float, clock: Clock, sweep: str) -> None:
        self._patience = patience
        self._clock = clock
        self._retry = Retry(patience, clock, sweep)
        self._is_proven = False  # whether the last start completed without a transient error
        self._paused_until = -math.inf

    @property
    def at_once(self) -> int:
        """Maximum number of simultaneous starts."""
        return AT_ONCE if self._is_proven else 1

    def wait(self) -> float:
        """Return how long until the next start, in seconds; 0 or less if it may start now."""
        return self._paused_until - self._clock.monotonic()

    def end(self) -> None:
        """Record that a start completed without a transient error."""
        self._is_proven = True
        self._retry.succeeded()

    def retries(self, error: Exception, book: Book | None, start: float) -> bool:
        """Return whether to continue after an error in a start made at this time; if so, pause starts."""
        if book is None or not isinstance(error, (*TRANSIENT, HdfsError)):
            return False
        is_away = error.transient if isinstance(error, HdfsError) else book.api.session.answered
        if not is_away or self._clock.monotonic() - start >= self._patience:
            return False
        if self._is_proven or start >= self._paused_until:  # otherwise starts are already paused
            try:
                self._paused_until = self._clock.monotonic() + self._retry.wait_after(error)
            except PaiError:
                return False
        self._is_proven = False
        return True


def run_in_thread(act: Callable[[], T]) -> Future[T]:
    """Call a function in its own thread. Neither the sweep nor the exiting process waits for it."""
    future = Future[T]()

    def work() -> None:
        try:
            future.set_result(act())
        except BaseException as error:  # noqa: BLE001  raised again by future.result()
            future.set_exception(error)

    threading.Thread(target=work, daemon=True).start()
    return future
