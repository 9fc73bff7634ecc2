"""What happens to a job when the process that watches it is ended by SIGTERM or SIGINT."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import FrameType

__all__ = ["before_signals"]

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_LONGEST = 5.0  # seconds


class _Signalled(BaseException):
    """A signal has come; raised so that locks and connections are left in order before anything is sent."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


@contextlib.contextmanager
def before_signals(act: Callable[[], None]) -> Iterator[Callable[[], None]]:
    """Call a function when SIGTERM or SIGINT comes, for 5 s at most; then the signal takes its course.

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
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    handled = [number for number, handler in before.items() if handler not in (signal.SIG_IGN, None)]

    def raise_it(number: int, _: FrameType | None) -> None:
        came.append(number)
        for other in handled:  # a main process that ends sends SIGTERM to its children after a Ctrl-C
            signal.signal(other, signal.SIG_IGN)
        raise _Signalled(number)

    def restore() -> None:
        for number in handled:
            signal.signal(number, before[number])

    for number in handled:
        signal.signal(number, raise_it)
    try:
        yield check
    except _Signalled as signalled:
        thread = threading.Thread(target=act, daemon=True)
        thread.start()
        thread.join(_LONGEST)
        restore()
        os.kill(os.getpid(), signalled.number)
        raise KeyboardInterrupt from None  # the signal was handled, and the process goes on
    finally:
        restore()
