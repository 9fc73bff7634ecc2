"""Runs coroutines in a loop of their own; unlike asyncio.run it does not touch the loop of the thread."""

from __future__ import annotations

import asyncio


def in_a_loop(coroutine):
    loop = asyncio.new_event_loop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.run_until_complete(_end_all())
        loop.run_until_complete(loop.shutdown_default_executor())
        loop.close()


async def until(condition):
    """Wait for what the loop brings about."""
    for _ in range(2000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not come about in time")


async def _end_all():
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
