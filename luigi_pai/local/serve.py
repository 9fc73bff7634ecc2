"""Running the local server: until it is told to stop, or for as long as a command runs."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.local.config.settings import PASSWORD_VARIABLE
from luigi_pai.local.container.environment import without_proxies
from luigi_pai.local.luigi_config import compose, earlier_config, open_pai_section
from luigi_pai.local.server import LocalServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from luigi_pai.local.config.settings import Settings

__all__ = ["run_command", "serve"]

_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FORWARDED = (*_STOPPING, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_EXIT_NOT_FOUND = 127
_EXIT_NOT_EXECUTABLE = 126
_SIGNALLED = 128


async def serve(
    settings: Settings,
    ready: Callable[[LocalServer], None],
    leaving: Callable[[LocalServer], None],
    *,
    until_stdin_closes: bool = False,
) -> None:
    """Serve until SIGINT, SIGTERM or SIGHUP (not under nohup); a second one ends tasks without grace.

    Args:
        settings: how to run.
        ready: called once, when requests are answered.
        leaving: called once, before running tasks are ended.
        until_stdin_closes: also stop when standard input ends, so that a
            server cannot outlive the process that started it.

    Raises:
        ConfigError: the settings, the port or the data folder cannot be used.
    """
    told = asyncio.Event()
    server = LocalServer(settings)
    with _on_signals(_stopping(), lambda _: server.hurry() if told.is_set() else told.set()):
        loop = asyncio.get_running_loop()
        if until_stdin_closes:
            loop.add_reader(sys.stdin.fileno(), _at_end_of_input, loop, told)
        ready(server)
        await told.wait()
        leaving(server)
        await server.close()


def _stopping() -> list[signal.Signals]:
    """Return the signals that stop the server: not SIGHUP where it is ignored, as ``nohup`` has it."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in _STOPPING if number != signal.SIGHUP or not ignored]


def _at_end_of_input(loop: asyncio.AbstractEventLoop, told: asyncio.Event) -> None:
    if not os.read(sys.stdin.fileno(), 4096):
        loop.remove_reader(sys.stdin.fileno())
        told.set()


async def run_command(
    settings: Settings,
    command: Sequence[str],
    ready: Callable[[LocalServer], None],
    *,
    temporary_data: bool,
) -> int:
    """Serve while a command runs whose Luigi is configured for this server.

    Args:
        settings: how to run.
        command: the program and its arguments.
        ready: called once, before the command starts.
        temporary_data: use a data folder that is removed at the end, not that of the settings.

    Returns:
        The exit code for a shell: the command's own, or 128 + the signal that ended it.

    Raises:
        ConfigError: the settings, the port, the data folder or the user's
            configuration cannot be used.
    """
    scratch = Path(tempfile.mkdtemp(prefix="luigi-pai-local-"))
    try:
        if temporary_data:
            settings = replace(settings, data=scratch / "data")
        earlier = earlier_config()
        server = LocalServer(settings)
        try:
            config = scratch / "luigi.cfg"
            section = open_pai_section(
                server.address, server.hdfs, settings.user, server.password(), settings.api
            )
            with os.fdopen(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(compose(earlier, section))
            ready(server)
            code = await _run(command, _environment(server, config))
        finally:
            with _on_signals(_stopping(), lambda _: server.hurry()):
                await server.close()
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return code


async def _run(command: Sequence[str], environment: dict[str, str]) -> int:
    """Run a command in the foreground, passing on the signals that reach this process."""
    process: asyncio.subprocess.Process | None = None
    early: list[signal.Signals] = []

    def forward(number: signal.Signals) -> None:
        if process is None:
            early.append(number)
        elif number not in _FROM_TERMINAL or not _in_foreground_of_terminal():  # that has sent it, too
            _signal(process, number)

    with _on_signals(_FORWARDED, forward):
        try:
            process = await asyncio.create_subprocess_exec(*command, env=environment)
        except FileNotFoundError:
            sys.stderr.write(f"luigi-pai local: {command[0]}: command not found\n")
            return _EXIT_NOT_FOUND
        except OSError as error:
            sys.stderr.write(f"luigi-pai local: {command[0]}: {error.strerror}\n")
            return _EXIT_NOT_EXECUTABLE
        for number in early:
            _signal(process, number)
        code = await process.wait()
    return code if code >= 0 else _SIGNALLED - code


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _environment(server: LocalServer, config: Path) -> dict[str, str]:
    environment = {key: value for key, value in os.environ.items() if key != PASSWORD_VARIABLE}
    return without_proxies(environment) | {
        "LUIGI_CONFIG_PATH": str(config),
        "PAI_DEFAULT_FS_URI": server.hdfs.fs_uri,
        "LUIGI_PAI_WEBHDFS_URL": server.hdfs.webhdfs_url,
        "HADOOP_USER_NAME": server.settings.user,
        "PATH": os.pathsep.join([str(server.bin), environment.get("PATH", os.defpath)]),
    }


def _in_foreground_of_terminal() -> bool:
    try:
        terminal = os.open("/dev/tty", os.O_RDONLY | os.O_NOCTTY)
    except OSError:
        return False
    try:
        return os.tcgetpgrp(terminal) == os.getpgrp()
    except OSError:
        return False
    finally:
        os.close(terminal)


@contextlib.contextmanager
def _on_signals(
    numbers: Sequence[signal.Signals], action: Callable[[signal.Signals], None]
) -> Iterator[None]:
    """Have an action taken for signals, inside."""
    loop = asyncio.get_running_loop()
    for number in numbers:
        loop.add_signal_handler(number, action, number)
    try:
        yield
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
