"""Processes of tasks: found, identified, waited for, ended.

A task's first process begins a session of its own. A session belongs to a task
if its processes have a variable in their environment (`TASK_VARIABLE`), which
children inherit, whatever session or parent they get, and which another server
can read after a restart. On Linux the server that started a task need not search
the machine for it: `orphans`. macOS does not show the environment of its own
programs, such as /bin/bash; there only the first session of such a task is known.

Pids are reused, so a process is identified by its pid and its start time.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from pathlib import Path

__all__ = [
    "TASK_VARIABLE",
    "end",
    "first_process",
    "kill_all_under",
    "members",
    "runs",
    "started",
    "wait_child",
    "wait_ended",
]

TASK_VARIABLE = "LUIGI_PAI_LOCAL_TASK"
"""Variable in the environment of every process of a task: the task's folder."""

_POLL_SECONDS = 0.1
_MAX_ROUNDS = 100
_MAX_SCANS = 5
_SCAN_PAUSE = 0.001
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def started(pid: int) -> str | None:
    """Return when a running process started; None if it has ended.

    Two processes that had the same pid differ in it, and it stays the same if the clock is set.
    """
    # On Linux psutil adds the boot time to what the kernel counts, and the boot time changes with the clock.
    boot = psutil.boot_time() if psutil.LINUX else 0.0
    try:
        process = psutil.Process(pid)
        return None if process.status() in _ENDED else f"{process.create_time() - boot:.2f}"
    except psutil.Error:
        return None


async def wait_ended(pid: int, when_started: str | None) -> None:
    """Wait until a process has ended, which need not be a child; `started` returned when it started."""
    while when_started is not None and started(pid) == when_started:  # noqa: ASYNC110 - no event tells it
        await asyncio.sleep(_POLL_SECONDS)


async def wait_child(child: subprocess.Popen[bytes]) -> int:
    """Wait in a thread until a child has ended, and return its exit code."""
    loop = asyncio.get_running_loop()
    ended = loop.create_future()

    def wait() -> None:
        code = child.wait()
        with contextlib.suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(set_code, code)

    def set_code(code: int) -> None:
        if not ended.done():  # the caller may be cancelled
            ended.set_result(code)

    threading.Thread(target=wait, name=f"wait for process {child.pid}", daemon=True).start()
    code: int = await ended
    return code


def members(tasks: Mapping[str, int | None]) -> set[int]:
    """Return the running processes of tasks: the folder of each, and its first process where known."""
    first = {pid: folder for folder, pid in tasks.items() if pid is not None}
    return {pid for folder, pids in _task_sessions(first) if folder in tasks for pid in pids if runs(pid)}


def first_process(folder: str) -> int | None:
    """Return the process that was started for a task and runs, if its pid was not saved."""
    return next((pid for pid, found in _leaders() if found == folder and runs(pid)), None)


def runs(pid: int) -> bool:
    """Say whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() not in _ENDED
    except psutil.Error:
        return False


def _sessions() -> dict[int, list[int]]:
    """Return the processes of this machine by session, but for kernel threads and our own session."""
    sessions: dict[int, list[int]] = {}
    for pid in psutil.pids():
        with contextlib.suppress(OSError):  # it has ended
            sessions.setdefault(os.getsid(pid), []).append(pid)
    for other in (0, os.getsid(0)):
        sessions.pop(other, None)
    return sessions


def _leaders() -> Iterator[tuple[int, str]]:
    """Yield the first process of every session, with the last word of its command: a task's is its folder."""
    for session in _sessions():
        with contextlib.suppress(psutil.Error):
            yield session, "".join(psutil.Process(session).cmdline()[-1:])


def _task_sessions(first: Mapping[int, str]) -> Iterator[tuple[str, list[int]]]:
    """Yield the folder of a task, and processes, for every session that belongs to a task.

    A process has no environment for a moment while it executes another program; its session is looked at
    again. ``first`` has the folders of tasks by their first processes, whose environment may not be shown.
    """
    sessions = _sessions()
    for _ in range(_MAX_SCANS):
        unclear = {}
        for session, pids in sessions.items():
            folder = _folder_of(session, pids)
            if folder:
                yield folder, pids
            elif folder is None and session in first and not psutil.LINUX:
                yield first[session], pids
            elif folder is None:
                unclear[session] = pids
        sessions = unclear
        if not sessions or not psutil.LINUX:
            return
        time.sleep(_SCAN_PAUSE)


def _folder_of(session: int, pids: Sequence[int]) -> str | None:
    """Return the folder of the task that a session belongs to, empty for none, None if it is not clear.

    Its first process decides or, where that has ended, any process that has the variable.
    """
    is_clear = True
    for pid in sorted(pids, key=lambda pid: pid != session):
        try:
            process = psutil.Process(pid)
            environment = process.environ()
            if TASK_VARIABLE in environment:
                return environment[TASK_VARIABLE]
            if not environment and process.status() in _ENDED:
                continue
        except (psutil.NoSuchProcess, psutil.ZombieProcess):
            continue
        except (psutil.AccessDenied, OSError):  # another user's, or a program of macOS
            return "" if psutil.LINUX else None
        is_clear = is_clear and bool(environment)
        if pid == session:
            break
    return "" if is_clear else None


async def end(
    tasks: Mapping[str, int | None],
    grace: float,
    hurry: asyncio.Event,
    find: Callable[[Mapping[str, int | None]], set[int]] = members,
) -> None:
    """End all processes of tasks: SIGTERM, after ``grace`` seconds SIGKILL, until none is left.

    A task's first process is killed last: it reaps the command, and ends by itself. The tasks are those of
    `members`, or of what ``find``s their processes; no further grace is given once ``hurry`` is set.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + grace
    first = set(tasks.values())
    signalled: set[int] = set()
    pause = 0.005
    for _ in range(_MAX_ROUNDS + int(grace / _POLL_SECONDS)):
        running = await asyncio.to_thread(find, tasks)
        if not running:
            return
        if hurry.is_set() or loop.time() >= deadline:
            _send(running - first or running, signal.SIGKILL)
        else:
            _send(running - signalled, signal.SIGTERM)
            signalled |= running
        await asyncio.sleep(pause)
        pause = min(pause * 2, _POLL_SECONDS)


def _send(pids: Collection[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def kill_all_under(data: Path) -> None:
    """Kill every task process of a data folder whose server is gone."""
    start = f"{data}{os.sep}"
    first = {pid: folder for pid, folder in _leaders() if folder.startswith(start)}
    for _ in range(_MAX_ROUNDS):
        sessions = _task_sessions(first)
        left = {pid for folder, pids in sessions if folder.startswith(start) for pid in pids if runs(pid)}
        if not left:
            return
        _send(left, signal.SIGKILL)
        time.sleep(0.01)
