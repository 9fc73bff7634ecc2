"""Waiting for what another thread or process brings about."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, TypeVar

import psutil

if TYPE_CHECKING:
    from collections.abc import Callable

_LONGEST = 300.0  # seconds, which a busy machine does not reach

T = TypeVar("T")


def wait_until(condition: Callable[[], T], pause: float = 0.02) -> T:
    """Return the first true value of a condition.

    Raises:
        AssertionError: it did not become true within five minutes.
    """
    deadline = time.monotonic() + _LONGEST
    while not (value := condition()):
        assert time.monotonic() < deadline, "it did not become true in time"
        time.sleep(pause)
    return value


def wait_for_end(pid: int) -> None:
    """Wait for the end of a process."""
    with contextlib.suppress(psutil.NoSuchProcess):
        wait_until(lambda: psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
