"""Running the local server until a signal stops it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.settings import PASSWORD_VARIABLE, Settings
from luigi_pai.local.server import LocalServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


_EXIT_USAGE = 2
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def stopping_signals() -> list[signal.Signals]:
    """Return the signals that stop the server, without SIGHUP if it is ignored, as under ``nohup``."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in STOPPING if number != signal.SIGHUP or not ignored]


@contextlib.contextmanager
def on_signals(numbers: Sequence[signal.Signals], action: Callable[[signal.Signals], None]) -> Iterator[None]:
    """In this ``with`` block, call ``action`` on these signals; the event loop must be running."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, action, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)


async def serve(
    settings: Settings,
    ready: Callable[[LocalServer], None] | None = None,
    *,
    until_stdin_closes: bool = False,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP arrives; but if run under ``nohup``, ignore SIGHUP.

    ``ready`` is called when the server has begun to accept connections. If ``until_stdin_closes`` is True,
    the server stops at the end of its standard input, too, so that it cannot outlive its parent process.

    Raises:
        ConfigError: the settings, the HDFS, the port or the data folder cannot be used.
    """
    stopped = asyncio.Event()
    server = LocalServer(settings)
    with (
        on_signals(stopping_signals(), lambda _: stopped.set()),
        on_signals([signal.SIGCHLD], lambda _: server.orphans.reap()),
    ):
        loop = asyncio.get_running_loop()
        if until_stdin_closes:
            loop.add_reader(sys.stdin.fileno(), _at_end_of_input, loop, stopped)
        if ready is not None:
            ready(server)
        await stopped.wait()
        await server.close()


def _at_end_of_input(loop: asyncio.AbstractEventLoop, stopped: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        stopped.set()


def main() -> int:
    """Run the server of a `LocalPai` until the standard input of this process ends; return the exit code.

    The program's argument is the `Settings` as JSON; the password is in LUIGI_PAI_LOCAL_PASSWORD.
    """
    given = json.loads(sys.argv[1])
    password = os.environ.pop(PASSWORD_VARIABLE)
    more = {"data": Path(given["data"]), "virtual_clusters": tuple(given["virtual_clusters"])}
    try:
        settings = Settings(**{**given, **more, "password": password})
        asyncio.run(serve(settings, until_stdin_closes=True))
    except ConfigError as error:
        sys.stderr.write(f"luigi-pai local: {error}\n")
        return _EXIT_USAGE
    return 0
