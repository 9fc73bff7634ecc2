"""Runs the local server until a signal stops it, or while a command runs."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import sys
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.errors import ConfigError
from luigi_pai.local.config.settings import PASSWORD_VARIABLE, Settings
from luigi_pai.local.container.environment import without_proxies
from luigi_pai.local.luigi_config import compose, earlier_config, further_sections, open_pai_section
from luigi_pai.local.server import LocalServer
from luigi_pai.local.store.database import now_ms

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from luigi_pai.local.container.processes import Orphans

_EXIT_USAGE = 2
_STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_FORWARDED = (*_STOPPING, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2)
_FROM_TERMINAL = (signal.SIGINT, signal.SIGQUIT)
_EXIT_NOT_FOUND = 127
_EXIT_NOT_EXECUTABLE = 126
_SIGNALLED = 128


def _stopping_signals() -> list[signal.Signals]:
    """Return the signals that stop the server. Leave out SIGHUP if it is ignored, as under ``nohup``."""
    ignored = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    return [number for number in _STOPPING if number != signal.SIGHUP or not ignored]


@contextlib.contextmanager
def on_signals(numbers: Sequence[signal.Signals], action: Callable[[signal.Signals], None]) -> Iterator[None]:
    """Call ``action`` on these signals during the ``with`` block. The event loop must be running."""
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
    """Serve until SIGINT, SIGTERM or SIGHUP arrives. Under ``nohup``, ignore SIGHUP.

    ``ready`` is called once the server accepts connections. If ``until_stdin_closes`` is True, the server
    also stops when its standard input closes, so that it cannot outlive its parent process.

    Raises:
        ConfigError: the settings, the HDFS, the port or the data folder cannot be used.
    """
    stopped = asyncio.Event()
    server = LocalServer(settings)
    with (
        on_signals(_stopping_signals(), lambda _: stopped.set()),
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
    """Run a `LocalPai`'s server until this process's standard input closes; return the exit code.

    The program's argument is the `Settings` as JSON. The password comes from LUIGI_PAI_LOCAL_PASSWORD.
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


@dataclass(frozen=True)
class CommandEnd:
    """How a command ended, and how the jobs submitted while it ran ended.

    Attributes:
        exit_code: the command's exit code, or 128 plus the number of the signal that ended it, as in a shell.
        jobs: the number of submitted jobs.
        failed: the names of submitted jobs that failed, newest first.
        data: the data folder; None if it was removed.
    """

    exit_code: int
    jobs: int
    failed: Sequence[str]
    data: Path | None


async def run_command(
    settings: Settings,
    command: Sequence[str],
    ready: Callable[[LocalServer], None],
    *,
    temporary_data: bool,
) -> CommandEnd:
    """Run a server, and a command with a luigi.cfg that makes Luigi use the server.

    With ``temporary_data``, a temporary data folder replaces the settings' data folder. It is removed at the
    end if no job failed. ``ready`` is called with the server before the command starts.

    Raises:
        ConfigError: the settings, the port, the data folder or the user's configuration cannot be used.
    """
    scratch = Path(tempfile.mkdtemp(prefix="luigi-pai-local-run-"))
    config = scratch / "luigi.cfg"
    keep = False
    try:
        if temporary_data:
            settings = replace(settings, data=scratch / "data")
        earlier = earlier_config()
        begun = now_ms()
        server = LocalServer(settings)
        try:
            section = open_pai_section(server.address, server.hdfs, settings)
            config.touch(mode=0o600)
            config.write_text(compose(earlier, section, further_sections()))
            ready(server)
            environment = _environment(server, config)
            code = await run_in_foreground(command, environment, server.orphans)
            if temporary_data:
                server.stop_jobs()  # a later server must not resume them from the kept folder
            jobs, failed = server.jobs_since(begun)
            keep = temporary_data and bool(failed)
        finally:
            with on_signals(_stopping_signals(), lambda _: None):
                await server.close()
    finally:
        if keep:
            config.unlink()
        else:
            shutil.rmtree(scratch, ignore_errors=True)
    return CommandEnd(code, jobs, failed, None if temporary_data and not keep else settings.data)


async def run_in_foreground(command: Sequence[str], environment: dict[str, str], orphans: Orphans) -> int:
    """Run a command in the foreground, pass this process's signals on to it, and reap all orphans.

    Returns the command's exit code: 127 or 126 if the command could not be started, or 128 plus the signal's
    number if a signal ended it.
    """
    process: asyncio.subprocess.Process | None = None
    early: list[signal.Signals] = []

    def forward(number: signal.Signals) -> None:
        if process is None:
            early.append(number)
        elif number not in _FROM_TERMINAL or not _in_foreground_of_terminal():
            # When the command is in the foreground, the terminal sends it signals directly.
            _signal(process, number)

    with on_signals(_FORWARDED, forward):
        try:
            process = await asyncio.create_subprocess_exec(*command, env=environment)
        except FileNotFoundError:
            hint = "; write the command without quotes around it" if " " in command[0] else ""
            sys.stderr.write(f"luigi-pai local: {command[0]}: command not found{hint}\n")
            return _EXIT_NOT_FOUND
        except OSError as error:
            sys.stderr.write(f"luigi-pai local: {command[0]}: {error.strerror}\n")
            return _EXIT_NOT_EXECUTABLE
        for number in early:
            _signal(process, number)
        pid = process.pid
        with on_signals([signal.SIGCHLD], lambda _: orphans.reap(pid)):
            code = await process.wait()
    return code if code >= 0 else _SIGNALLED - code


def _signal(process: asyncio.subprocess.Process, number: signal.Signals) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.send_signal(number)


def _environment(server: LocalServer, config: Path) -> dict[str, str]:
    hdfs = {"PAI_DEFAULT_FS_URI": server.hdfs.fs_uri, "LUIGI_PAI_WEBHDFS_URL": server.hdfs.webhdfs_url}
    replaced = {PASSWORD_VARIABLE, *hdfs}
    environment = {key: value for key, value in os.environ.items() if key not in replaced}
    if server.hdfs.webhdfs_url:
        environment |= {**hdfs, "HADOOP_USER_NAME": server.settings.user}
    return without_proxies(environment) | {
        "LUIGI_CONFIG_PATH": str(config),
        "PATH": os.pathsep.join([str(server.bin), environment.get("PATH", os.defpath)]),
    }


def _in_foreground_of_terminal() -> bool:
    with contextlib.suppress(OSError), Path("/dev/tty").open("rb") as terminal:
        return os.tcgetpgrp(terminal.fileno()) == os.getpgrp()
    return False
