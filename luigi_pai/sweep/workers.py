"""Workers: threads that start the points of a sweep, and record their ends, several at once."""

from __future__ import annotations

import math
import queue
import threading
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.api.clock import Clock
    from luigi_pai.sweep.jobs import Member
    from luigi_pai.sweep.starting import Started

_LONGEST_WAIT = 0.05  # seconds


@dataclass(slots=True, eq=False)
class Start:
    """A call that starts points, or that records the ends of points.

    Attributes:
        act: the function.
        members: the points to start; empty if the call records ends.
        began: time when the call was added, in seconds of the monotonic clock.
        future: gets the result of the call.
    """

    act: Callable[[], Started]
    members: Sequence[Member]
    began: float
    future: Future[Started] = field(default_factory=Future)


class Workers:
    """Runs calls in threads, as many at once as there are calls.

    The threads end after ``close()``, or with the process. Neither ``close()`` nor the end of the process
    waits for requests in progress.

    Args:
        clock: for the times of calls.

    Attributes:
        starts: the added calls whose results were not taken.
    """

    def __init__(self, clock: Clock) -> None:
        self.starts: list[Start] = []
        self._clock = clock
        self._tasks: queue.SimpleQueue[Start | None] = queue.SimpleQueue()
        self._threads = 0

    def add(self, act: Callable[[], Started], members: Sequence[Member]) -> None:
        """Call a function in a thread."""
        start = Start(act, members, self._clock.monotonic())
        self.starts.append(start)
        self._tasks.put(start)
        if self._threads < len(self.starts):
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()

    def taken(self) -> list[Start]:
        """Return the calls that have ended, and forget them."""
        ended = [start for start in self.starts if start.future.done()]
        self.starts = [start for start in self.starts if start not in ended]
        return ended

    def wait(self) -> bool:
        """Wait up to 0.05 s until a call ends; return False if there is none."""
        wait([start.future for start in self.starts], _LONGEST_WAIT, FIRST_COMPLETED)
        return bool(self.starts)

    def idle(self) -> float:
        """Return 0 while a call runs, infinity if there is none."""
        return 0.0 if self.starts else math.inf

    def close(self) -> None:
        """Let the threads end after their current calls."""
        for _ in range(self._threads):
            self._tasks.put(None)
        self._threads = 0

    def _work(self) -> None:
        while (start := self._tasks.get()) is not None:
            try:
                start.future.set_result(start.act())
            except BaseException as error:  # noqa: BLE001  raised again by future.result()
                start.future.set_exception(error)
