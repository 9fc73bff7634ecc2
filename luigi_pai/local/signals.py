"""Signals of a process that runs the local server."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["STOPPING", "on_signals", "stopping_signals"]

STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stopping_signals() -> list[signal.Signals]:
    """Return the signals that stop the server: not SIGHUP where it is ignored, as under ``nohup``."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in STOPPING if number != signal.SIGHUP or not ignored]


@contextlib.contextmanager
def on_signals(numbers: Sequence[signal.Signals], action: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call an action for signals of this process while the context lasts; needs a running event loop."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, action, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
