"""The temporary folders of `luigi-pai local -- COMMAND`, and the process that cleans up where that is killed.

A folder in use holds an exclusive lock on the file ``lock`` in it. One without a lock belongs to a server
that ended without removing it.

The guard process prints a line when it has come up, and reads one line of JSON from standard input,
`Guarded`. The server holds the other end of that pipe, and kills this process before it ends itself. So at
the end of the input the server was killed (SIGKILL, out of memory): the command and its children get
SIGTERM, and SIGKILL after `GRACE` seconds; the tasks are killed and the temporary folder is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from luigi_pai.errors import ConfigError
from luigi_pai.local.container.processes import kill_all_under, started
from luigi_pai.python_process import python_command

__all__ = ["GRACE", "KEPT_FOLDERS", "Guard", "Guarded", "Scratch", "main", "remove_scratch", "sweep"]

KEPT_FOLDERS = 3
"""Folders of failed runs that `sweep` leaves, the newest ones."""

_PREFIX = "luigi-pai-local-run-"
_KEPT = "kept"
_JUST_MADE = 60.0
"""Seconds for which a folder may not have its lock yet."""


class Scratch:
    """A new temporary folder, which only this user can read, with the data folder ``data`` in it."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self.data = self.folder / "data"
        self._lock = (self.folder / "lock").open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()

    def keep(self) -> None:
        """Keep the data folder, until `KEPT_FOLDERS` later runs have kept theirs; remove all else."""
        for entry in self.folder.iterdir():
            if entry != self.data:
                entry.unlink()
        (self.folder / _KEPT).touch()
        self._lock.close()


def remove_scratch(folder: Path) -> None:
    """End the tasks that a server which was killed left in a temporary folder, and remove it."""
    kill_all_under(folder / "data")
    shutil.rmtree(folder, ignore_errors=True)


def sweep() -> None:
    """Remove this user's folders that a killed server left, and all but the newest of those kept."""
    kept: list[tuple[float, Path]] = []
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        try:
            found = folder.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid():
                continue
            if (folder / _KEPT).exists():
                kept.append((found.st_mtime, folder))
            elif time.time() - found.st_mtime > _JUST_MADE and _is_free(folder / "lock"):
                remove_scratch(folder)
        except OSError:  # another process removes it
            continue
    for _, folder in sorted(kept, reverse=True)[KEPT_FOLDERS:]:
        if _is_free(folder / "data" / "lock"):
            remove_scratch(folder)


def _is_free(lock: Path) -> bool:
    try:
        with lock.open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


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
