"""Processes of the machine that the tests started."""

from __future__ import annotations

import contextlib
import time

import psutil


def wait_for_end(pid: int, timeout: float = 30) -> None:
    """Wait for the end of a process that was killed: a busy machine takes a moment for it.

    Raises:
        AssertionError: it still runs after so many seconds.
    """
    deadline = time.monotonic() + timeout
    with contextlib.suppress(psutil.NoSuchProcess):
        while psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
            assert time.monotonic() < deadline, f"process {pid} still runs"
            time.sleep(0.01)
