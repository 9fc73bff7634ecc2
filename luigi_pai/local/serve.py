"""Running the local server until a signal stops it."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

from luigi_pai.local.server import LocalServer
from luigi_pai.local.signals import on_signals, stopping_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.local.config.settings import Settings

__all__ = ["serve"]


async def serve(
    settings: Settings,
    ready: Callable[[LocalServer], None],
    leaving: Callable[[LocalServer], None],
    *,
    until_stdin_closes: bool = False,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP (not under nohup); a second one ends tasks without grace.

    ``ready`` is called once, when requests are answered, and ``leaving`` before running tasks are ended. With
    ``until_stdin_closes`` a server cannot outlive the process that started it.

    Raises:
        ConfigError: the settings, the port or the data folder cannot be used.
    """
    stopped = asyncio.Event()
    server = LocalServer(settings)
    with (
        on_signals(stopping_signals(), lambda _: server.hurry() if stopped.is_set() else stopped.set()),
        on_signals([signal.SIGCHLD], lambda _: server.orphans.reap()),
    ):
        loop = asyncio.get_running_loop()
        if until_stdin_closes:
            loop.add_reader(sys.stdin.fileno(), _at_end_of_input, loop, stopped)
        ready(server)
        await stopped.wait()
        leaving(server)
        await server.close()


def _at_end_of_input(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stopped.set()
