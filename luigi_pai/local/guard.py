"""``python -m luigi_pai.local.guard``: ends what `luigi-pai local -- COMMAND` leaves when it is killed.

It reads one line of JSON from standard input, `Guarded`. The server holds the
other end of that pipe, and kills this process before it ends itself. So at the
end of the input the server was killed (SIGKILL, out of memory): the command and its
children get SIGTERM, and SIGKILL after `GRACE` seconds; the tasks are killed and the temporary
folder is removed.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import IO

import psutil

from luigi_pai.local.container.processes import started
from luigi_pai.local.scratch import remove_scratch

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
    """The guard process of a command, in a session of its own, away from the signals of a terminal."""

    def __init__(self, pid: int, folder: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "luigi_pai.local.guard"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        line = json.dumps(asdict(Guarded(pid, started(pid), str(folder)))) + "\n"
        os.write(self._input.fileno(), line.encode())  # less than a pipe takes without waiting

    @property
    def _input(self) -> IO[bytes]:
        if self._process.stdin is None:
            raise ValueError("the guard has no standard input")
        return self._process.stdin

    def close(self) -> None:
        """End the guard: the command has ended."""
        self._process.kill()
        self._process.wait()
        self._input.close()


def main() -> None:
    """Wait until the server has ended, and clean up if it was killed."""
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


if __name__ == "__main__":
    main()
