"""Processes of tasks: which are there, whether one is still the one that was started, how to end them.

A task's processes are known by a variable in their environment
(`TASK_VARIABLE`), which children inherit whatever session or group they move
to, and which a server that was killed and started again can still read. Where
there is no /proc (macOS) the process group stands in for it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["TASK_VARIABLE", "end", "first_process", "kill_all_under", "members", "started", "wait_ended"]

TASK_VARIABLE = "LUIGI_PAI_LOCAL_TASK"
"""Variable in the environment of every process of a task: the task's folder."""

_PROC = Path("/proc")
_POLL = 0.1
_MAX_ROUNDS = 100
_SESSION, _FLAGS, _START_TIME = 3, 6, 19  # in /proc/PID/stat, counted from the state
_KERNEL_THREAD = 0x0020_0000
_LOOKS = 5
_LOOK_AGAIN = 0.001


def started(pid: int) -> str | None:
    """Return when a running process was started, as the kernel writes it; None if it has ended.

    Two processes that had the same pid differ in it.
    """
    if not sys.platform.startswith("linux"):
        words = _ps("-o", "stat=,lstart=", "-p", str(pid)).split(maxsplit=1)
        return words[1].strip() if words and not words[0].startswith("Z") else None
    stat = _stat(pid)
    return stat[_START_TIME] if stat else None


def _stat(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the name; nothing for a process that has ended."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text("utf-8", "replace")
    except OSError:
        return []
    fields = stat.rpartition(")")[2].split()
    return [] if fields[0] in "ZX" else fields


async def wait_ended(pid: int, when_started: str | None) -> None:
    """Wait until the process of this pid and start has ended; it need not be a child."""
    if sys.platform.startswith("linux"):
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            return
        except OSError:  # an old kernel, or one that does not let us
            await _ended_by_looking(pid, when_started)
            return
        try:
            if started(pid) == when_started:
                await _readable(descriptor)
        finally:
            os.close(descriptor)
    else:
        await _ended_by_looking(pid, when_started)


async def _ended_by_looking(pid: int, when_started: str | None) -> None:
    while started(pid) == when_started:  # noqa: ASYNC110 - nothing tells about a process that is no child
        await asyncio.sleep(_POLL)


async def _readable(descriptor: int) -> None:
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(descriptor, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(descriptor)


def members(tasks: Mapping[str, int | None]) -> set[int]:
    """Return the running processes of tasks.

    Args:
        tasks: the folder of each task, and its first process where known.
    """
    if not sys.platform.startswith("linux"):
        return _group_members({pid for pid in tasks.values() if pid is not None})
    marks = {os.fsencode(f"{TASK_VARIABLE}={folder}") for folder in tasks}
    return {pid for pid, mark in _marked() if mark in marks}


def first_process(folder: str) -> int | None:
    """Return the process that was started for a task and runs, if its pid was never written down."""
    if not sys.platform.startswith("linux"):
        return None
    mark, last_word = os.fsencode(f"{TASK_VARIABLE}={folder}"), b"\0%s\0" % os.fsencode(folder)
    for pid, found in _marked():
        if found == mark and _read(pid, "cmdline").endswith(last_word):
            stat = _stat(pid)
            if stat and int(stat[_SESSION]) == pid:
                return pid
    return None


_kernel_threads: set[int] = set()  # they never have an environment; not looked at again


def _marked() -> Iterator[tuple[int, bytes]]:
    """Yield every running process that belongs to a task, with the variable that says to which.

    A process has no environment for a moment while it begins another program;
    such a one is looked at again.
    """
    pids = {int(entry) for entry in os.listdir(_PROC) if entry.isdigit()}  # noqa: PTH208 - names only
    _kernel_threads.intersection_update(pids)
    pids -= _kernel_threads
    for _ in range(_LOOKS):
        empty = set()
        for pid in pids:
            environment = b"\0" + _read(pid, "environ")
            start = environment.find(f"\0{TASK_VARIABLE}=".encode()) + 1
            if start and started(pid) is not None:
                yield pid, environment[start:].partition(b"\0")[0]
            elif environment == b"\0":
                empty.add(pid)
        pids = set()
        for pid in empty:
            stat = _stat(pid)
            if stat and int(stat[_FLAGS]) & _KERNEL_THREAD:
                _kernel_threads.add(pid)
            elif stat:
                pids.add(pid)
        if not pids:
            return
        time.sleep(_LOOK_AGAIN)


def _read(pid: int, name: str) -> bytes:
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:  # noqa: PTH123 - this runs at the end of every task
            return file.read()
    except OSError:  # gone, or another user's
        return b"?"


async def end(tasks: Mapping[str, int | None], grace: float, hurry: asyncio.Event) -> None:
    """End all processes of tasks: SIGTERM, after ``grace`` seconds SIGKILL, until none is left.

    A task's first process is killed last: it reaps the command, and ends by itself.

    Args:
        tasks: the folder of each task, and its first process where known.
        grace: seconds that SIGTERM is given; 0 kills at once.
        hurry: set when there is to be no further grace.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace
    first = set(tasks.values())
    told: set[int] = set()
    pause = 0.005
    for _ in range(_MAX_ROUNDS + int(grace / _POLL)):
        running = await asyncio.to_thread(members, tasks)
        if not running:
            return
        if hurry.is_set() or loop.time() >= deadline:
            _send(running - first or running, signal.SIGKILL)
        else:
            _send(running - told, signal.SIGTERM)
            told |= running
        await asyncio.sleep(pause)
        pause = min(pause * 2, _POLL)


def _send(pids: set[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _group_members(groups: set[int]) -> set[int]:
    found = set()
    for line in _ps("-A", "-o", "pid=,pgid=,stat=").splitlines():
        pid, group, state = line.split(maxsplit=2)
        if int(group) in groups and not state.startswith("Z"):
            found.add(int(pid))
    return found


def _ps(*arguments: str) -> str:
    program = shutil.which("ps")
    if program is None:
        return ""
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)  # noqa: S603 - fixed words
    return done.stdout


def kill_all_under(data: Path) -> None:
    """Kill every task process of a data folder whose server is gone (where there is a /proc)."""
    if not sys.platform.startswith("linux"):
        return
    mark = os.fsencode(f"{TASK_VARIABLE}={data}/")
    for _ in range(_MAX_ROUNDS):
        left = {pid for pid, found in _marked() if found.startswith(mark)}
        if not left:
            return
        _send(left, signal.SIGKILL)
        time.sleep(0.01)
