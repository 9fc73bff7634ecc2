"""Workers: threads that run ``retries.Steps`` of a sweep, several at once."""

from __future__ import annotations

import math
import queue
import threading
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.api.clock import Clock
    from luigi_pai.api.retries import Steps
    from luigi_pai.sweep.jobs import Member
    from luigi_pai.sweep.starting import Started

_LONGEST_WAIT = 0.05  # seconds


@dataclass(slots=True, eq=False)
class Start:
    """Steps that start points, or that record the ends of points.

    Attributes:
        steps: the generator.
        members: the points to start; empty if the steps record ends.
        began: time when the steps were added, in seconds of the monotonic clock.
        due: time of the next step, by the same clock.
        future: gets the result of the step that runs; None between two steps.
        result: what the steps have returned; None until they have ended.
    """

    steps: Steps[Started]
    members: Sequence[Member]
    began: float
    due: float
    future: Future[float] | None = None
    result: Started | None = None

    def take(self, future: Future[float]) -> None:
        """Run the next step. The result of ``future`` is the seconds to wait before the following step."""
        try:
            future.set_result(next(self.steps))
        except StopIteration as end:
            self.result = end.value
            future.set_result(0.0)
        except BaseException as error:  # noqa: BLE001  raised again by future.result()
            future.set_exception(error)


class Workers:
    """Runs steps in threads, and starts as many threads as steps run at the same time.

    The threads end after ``close()``, or with the process. Neither ``close()`` nor the end of the process
    waits for requests in progress.

    Args:
        clock: for the times of steps.

    Attributes:
        starts: the added steps that have not ended.
    """

    def __init__(self, clock: Clock) -> None:
        self.starts: list[Start] = []
        self._clock = clock
        self._tasks: queue.SimpleQueue[tuple[Start, Future[float]] | None] = queue.SimpleQueue()
        self._threads = 0

    def add(self, steps: Steps[Started], members: Sequence[Member]) -> None:
        """Add steps, due now."""
        now = self._clock.monotonic()
        self.starts.append(Start(steps, members, now, now))

    def taken(self) -> list[Start]:
        """Return the starts whose current step has ended."""
        return [start for start in self.starts if start.future is not None and start.future.done()]

    def advance(self) -> bool:
        """Start the due steps, and wait up to 0.05 s until a step ends; return False if no step runs."""
        now = self._clock.monotonic()
        for start in self.starts:
            if start.future is None and start.due <= now:
                start.future = Future()
                self._tasks.put((start, start.future))
        pending = [start.future for start in self.starts if start.future is not None]
        while self._threads < len(pending):
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()
        if pending:
            wait(pending, _LONGEST_WAIT, FIRST_COMPLETED)
        return bool(pending)

    def idle(self) -> float:
        """Return the seconds until a step is due; 0 while a step runs, infinity if there are no steps."""
        now = self._clock.monotonic()
        waits = [0.0 if start.future is not None else start.due - now for start in self.starts]
        return max(0.0, min(waits, default=math.inf))

    def close(self) -> None:
        """Let the threads end after their current steps."""
        for _ in range(self._threads):
            self._tasks.put(None)
        self._threads = 0

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            start, future = task
            start.take(future)
