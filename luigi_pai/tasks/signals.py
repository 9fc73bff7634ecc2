"""What happens to a job when the process that watches it is ended by a signal, or loses its main process."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

__all__ = ["ENDING", "before_signals", "end_with_parent", "handled"]

ENDING = (signal.SIGTERM, signal.SIGHUP)
"""Signals that end a process: SIGHUP comes when a terminal is closed or a connection of ssh breaks."""

_LONGEST = 5.0  # seconds
_PARENT_CHECKED = 1.0  # seconds between checks


class _Signalled(BaseException):
    """A signal has come; raised so that locks and connections are left in order before anything is sent."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def handled(numbers: Iterable[signal.Signals]) -> list[signal.Signals]:
    """Return the signals that this process does not ignore, as ``nohup`` lets it ignore SIGHUP."""
    return [number for number in numbers if signal.getsignal(number) not in (signal.SIG_IGN, None)]


@contextlib.contextmanager
def before_signals(act: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Call a function at SIGTERM, SIGHUP or SIGINT, for 5 s at most; then the signal takes its course.

    In a worker process the end of the main process counts as SIGTERM: it is noticed within a second.

    Handlers are set in the main thread only, and restored. A signal that is ignored stays ignored.

    Yields:
        a function to call after foreign code that catches every exception: it lets a signal that came
        meanwhile take its course.
    """
    came: list[int] = []

    def check() -> None:
        if came:
            raise _Signalled(came[0])

    if threading.current_thread() is not threading.main_thread():
        yield check
        return
    before = {number: signal.getsignal(number) for number in handled((*ENDING, signal.SIGINT))}

    def raise_it(number: int, _: FrameType | None) -> None:
        came.append(number)
        for other in before:  # a main process that ends sends SIGTERM to its children after a Ctrl-C
            signal.signal(other, signal.SIG_IGN)
        raise _Signalled(number)

    def restore() -> None:
        for number, handler in before.items():
            signal.signal(number, handler)

    over = threading.Event()
    for number in before:
        signal.signal(number, raise_it)
    try:
        _end_with_main_process(over)
        yield check
    except _Signalled as signalled:
        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        thread.join(_LONGEST)
        restore()
        os.kill(os.getpid(), signalled.number)
        raise KeyboardInterrupt from None  # the signal was handled, and the process goes on
    finally:
        over.set()
        restore()


def _end_with_main_process(over: threading.Event) -> None:
    """Call ``end_with_parent`` in a worker process, which is a child of the main process."""
    main = multiprocessing.parent_process()
    if main is not None and main.pid is not None and multiprocessing.get_start_method() != "forkserver":
        end_with_parent(main.pid, over)


def end_with_parent(parent: int, over: threading.Event | None = None) -> None:
    """Send SIGTERM to this process when its parent has ended, however that was; needs the main thread.

    Args:
        parent: its pid; if it is no longer the parent, it has ended already.
        over: set when the parent no longer matters.
    """
    waited = over or threading.Event()

    def wait() -> None:
        while os.getppid() == parent:
            if waited.wait(_PARENT_CHECKED):
                return
        if not waited.is_set():
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="end-with-parent", daemon=True).start()
