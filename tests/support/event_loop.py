"""Runs a coroutine in a loop of a thread of its own: the test's thread may have one of somebody else's."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor


def in_a_loop(coroutine):
    with ThreadPoolExecutor(1) as threads:
        return threads.submit(asyncio.run, coroutine).result()
