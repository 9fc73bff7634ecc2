"""Workers: threads that take steps for a sweep, so that several requests are on their way at once."""

from __future__ import annotations

import queue
import threading
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from luigi_pai.api.retries import Steps

__all__ = ["Start", "Workers"]

T = TypeVar("T")

_LONGEST_WAIT = 0.05  # seconds


class Start(Generic[T]):
    """Steps that are taken in threads, one after the other.

    Args:
        steps: the generator.
        began: when, in seconds of the monotonic clock.

    Attributes:
        began: as given.
        due: when the next step is to be taken.
        future: the step that is being taken; None between two steps.
        result: of the steps; None before their end.
    """

    def __init__(self, steps: Steps[T], began: float) -> None:
        self._steps = steps
        self.began = self.due = began
        self.future: Future[float] | None = None
        self.result: T | None = None

    def advance(self) -> float:
        """Take the next step, and return the seconds to wait before the one after it."""
        try:
            return next(self._steps)
        except StopIteration as end:
            self.result = end.value
            return 0.0


class Workers:
    """Threads that take steps, as many as there are steps to take at once.

    They end with ``close()`` or with the process, whatever they wait for.
    """

    def __init__(self) -> None:
        self._tasks: queue.SimpleQueue[tuple[Future[float], Callable[[], float]] | None] = queue.SimpleQueue()
        self._threads = 0

    def take(self, start: Start[T], busy: int) -> None:
        """Take the next step of a start.

        Args:
            start: whose step it is.
            busy: number of steps that are being taken, this one included.
        """
        if busy > self._threads:
            self._threads += 1
            threading.Thread(target=self._work, daemon=True).start()
        start.future = Future()
        self._tasks.put((start.future, start.advance))

    def close(self) -> None:
        """Let the threads end when they have taken the steps that they are taking."""
        for _ in range(self._threads):
            self._tasks.put(None)
        self._threads = 0

    @staticmethod
    def wait(starts: Iterable[Start[T]]) -> None:
        """Wait until a step has been taken, for a twentieth of a second at most."""
        pending = [start.future for start in starts if start.future is not None]
        if pending:
            wait(pending, _LONGEST_WAIT, FIRST_COMPLETED)

    def _work(self) -> None:
        while (task := self._tasks.get()) is not None:
            future, step = task
            try:
                future.set_result(step())
            except BaseException as error:  # noqa: BLE001  handed on to whoever asks for the result
                future.set_exception(error)
