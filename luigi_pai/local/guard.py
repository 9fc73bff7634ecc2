"""The guard process: ends what `luigi-pai local -- COMMAND` leaves when it is killed.

It prints a line when it has come up, and reads one line of JSON from standard input, `Guarded`. The server
holds the other end of that pipe, and kills this process before it ends itself. So at the end of the input the
server was killed (SIGKILL, out of memory): the command and its children get SIGTERM, and SIGKILL after
`GRACE` seconds; the tasks are killed and the temporary folder is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from luigi_pai.errors import ConfigError
from luigi_pai.local.container.processes import started
from luigi_pai.local.scratch import remove_scratch
from luigi_pai.python_process import python_command

__all__ = ["GRACE", "Guard", "Guarded", "main"]

GRACE = 5.0
"""Seconds between SIGTERM and SIGKILL for the command."""


@dataclass(frozen=True)
class Guarded:
    """The command's process, when it started (None: it has ended), and the temporary folder."""

    pid: int
    when_started: str | None
    folder: str


class Guard:
    """The guard process of a command, in a session of its own, away from the signals of a terminal.

    Args:
        folder: the temporary folder, which is removed if this process is killed.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._process = subprocess.Popen(  # noqa: S603  our own program
            python_command("luigi_pai.local.guard"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )

    async def wait_until_up(self) -> None:
        """Wait until the guard has come up.

        Raises:
            ConfigError: it ended instead; the text has its last line.
        """
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        if await asyncio.to_thread(self._process.stdout.readline):
            return
        lines = self._process.stderr.read().decode(errors="replace").splitlines()
        why = lines[-1] if lines else "it gives no reason"
        raise ConfigError(f"the process that cleans up after a kill did not start: {why}")

    def watch(self, pid: int) -> None:
        """Guard a command."""
        assert self._process.stdin is not None
        line = json.dumps(asdict(Guarded(pid, started(pid), str(self._folder)))) + "\n"
        self._process.stdin.write(line.encode())  # less than a pipe takes without waiting
        self._process.stdin.flush()

    def close(self) -> None:
        """End the guard: the command has ended."""
        self._process.kill()
        with self._process:
            pass  # closes its pipes


def main() -> None:
    """Wait until the server has ended, and clean up if it was killed."""
    sys.stdout.write("up\n")
    sys.stdout.flush()
    first = sys.stdin.readline()
    if not first or sys.stdin.readline():
        return
    guarded = Guarded(**json.loads(first))
    _end(guarded)
    remove_scratch(Path(guarded.folder))


def _end(guarded: Guarded) -> None:
    """End the command and the processes that it started, unless it has ended; its pid may be reused then."""
    if guarded.when_started is None or started(guarded.pid) != guarded.when_started:
        return
    with contextlib.suppress(psutil.Error):  # it ends just now
        command = psutil.Process(guarded.pid)
        left = [command, *command.children(recursive=True)]
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in left:
                with contextlib.suppress(psutil.Error):
                    process.send_signal(number)
            _, left = psutil.wait_procs(left, timeout=GRACE)
