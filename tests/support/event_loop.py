"""Runs a coroutine in a loop of its own; unlike asyncio.run it does not touch the loop of the thread."""

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


async def _end_all():
    left = asyncio.all_tasks() - {asyncio.current_task()}
    for task in left:
        task.cancel()
    await asyncio.gather(*left, return_exceptions=True)
