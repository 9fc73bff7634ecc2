"""Task processes: finding, identifying, waiting for and ending them.

A process belongs to a task if `TASK_VARIABLE` is in its environment, or in the environment of its session's
first process. Children inherit the variable even if they change session or parent, and a server that starts
later can read it. macOS hides the environment of system programs such as /bin/bash; if a task runs such a
program, the server finds only the task's first session. On Linux, orphans become the server's children, so
the server only needs to search its descendants to find its tasks' processes (see `Orphans`).

Pids are reused, so a process is identified by its pid and its start time.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Collection, Iterator, Mapping

TASK_VARIABLE = "LUIGI_PAI_LOCAL_TASK"
"""Name of the environment variable that holds the task's folder in all of a task's processes."""

_POLL_SECONDS = 0.1
_MAX_ROUNDS = 100
_MAX_READS = 5
_READ_PAUSE = 0.001
_ENDED = (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def started(pid: int) -> str | None:
    """Return when a running process started; None if it has ended.

    Two processes with the same pid have different values. Setting the clock does not change the value.
    """
    # On Linux, create_time() includes the boot time, which changes if the clock is set: subtract it.
    boot = psutil.boot_time() if psutil.LINUX else 0.0
    try:
        process = psutil.Process(pid)
        return None if process.status() in _ENDED else f"{process.create_time() - boot:.2f}"
    except psutil.Error:
        return None


async def wait_ended(pid: int, when_started: str | None) -> None:
    """Wait until a process, child or not, has ended; `started` returned ``when_started`` for it."""
    while when_started is not None and started(pid) == when_started:  # noqa: ASYNC110 - there is no event for it
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
        if not ended.done():  # if the caller was cancelled, so was this future
            ended.set_result(code)

    threading.Thread(target=wait, name=f"wait for process {child.pid}", daemon=True).start()
    code: int = await ended
    return code


def members(tasks: Mapping[str, int | None]) -> set[int]:
    """Return the pids of all running task processes. The argument is the same as for `Orphans.members`."""
    first = {pid: folder for folder, pid in tasks.items() if pid is not None}
    return set(_running_processes(lambda folder: folder in tasks, first))


def first_process(folder: str) -> int | None:
    """Find a task's first process by the task's folder, if its pid was not saved; None if none is running."""
    return next((pid for pid, found in _leaders() if found == folder and started(pid) is not None), None)


def _leaders() -> Iterator[tuple[int, str]]:
    """Yield each session's first process and its last argument, which for a task is the task's folder."""
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            if os.getsid(pid) == pid:
                yield pid, "".join(psutil.Process(pid).cmdline()[-1:])


def _running_processes(are_meant: Callable[[str], bool], first: Mapping[int, str]) -> Iterator[int]:
    """Yield the running processes of tasks whose folders ``are_meant`` accepts.

    ``first`` maps the pid of each task's first process, if known, to the task's folder.
    """
    own, sessions = os.getsid(0), {} if psutil.LINUX else dict(first)
    for pid in psutil.pids():
        with contextlib.suppress(psutil.Error, OSError):
            session = os.getsid(pid)
            if session in (0, own):
                continue  # a kernel thread, or a process in the server's session
            if session not in sessions:
                sessions[session] = _task_folder(session)
            folder = sessions[session] or (_task_folder(pid) if pid != session else "")
            if folder and are_meant(folder) and started(pid) is not None:
                yield pid


def _task_folder(pid: int) -> str:
    """Return the folder of a process's task; "" if it belongs to no task, or its environment is hidden.

    A process's environment is briefly empty while the process executes another program; then read it again.
    """
    with contextlib.suppress(psutil.Error, OSError):
        process = psutil.Process(pid)
        for _ in range(_MAX_READS):
            environment = process.environ()
            if environment or process.status() in _ENDED:
                return environment.get(TASK_VARIABLE, "")
            time.sleep(_READ_PAUSE)
    return ""


async def end(
    tasks: Mapping[str, int | None],
    grace: float,
    find: Callable[[Mapping[str, int | None]], set[int]] = members,
) -> None:
    """Send SIGTERM to all task processes and, after ``grace`` seconds, SIGKILL until no process is left.

    A task's first process gets SIGKILL only when no other process is left, because it reaps the command and
    then exits by itself. ``find`` returns the running processes of ``tasks``, like `members`.
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
        if loop.time() >= deadline:
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
    """Kill all task processes started from a data folder. Its server must already have ended."""
    start = f"{data}{os.sep}"
    first = {pid: folder for pid, folder in _leaders() if folder.startswith(start)}
    for _ in range(_MAX_ROUNDS):
        left = set(_running_processes(lambda folder: folder.startswith(start), first))
        if not left:
            return
        _send(left, signal.SIGKILL)
        time.sleep(0.01)


_PR_SET_CHILD_SUBREAPER = 36


class Orphans:
    """The descendants of this process, and the orphans among them, which it reaps.

    Attributes:
        children: pids of children that other code waits for; they are not reaped here.
        adopting: whether orphans become children of this process; if not, `members` searches all processes.
    """

    def __init__(self) -> None:
        self.children: set[int] = set()
        self.adopting = False

    def adopt(self) -> None:
        """Become the parent of orphaned descendants, if the system supports it; see `reap`."""
        if Path(f"/proc/self/task/{os.getpid()}/children").exists():
            self.adopting = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0

    def reap(self, *spared: int) -> None:
        """Reap ended orphans that are not in `children` or ``spared``. Call this on every SIGCHLD."""
        for pid in _adopted() if self.adopting else ():
            if pid not in self.children and pid not in spared:
                with contextlib.suppress(ChildProcessError):
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)

    def members(self, tasks: Mapping[str, int | None]) -> set[int]:
        """Return the pids of all running processes of this server's tasks.

        ``tasks`` maps each task's folder to the pid of its first process, or to None if the pid is unknown.
        """
        if not self.adopting:
            return members(tasks)
        # A search can miss a process whose parent ends during the search. If it finds none, search again.
        return self._below(tasks) or self._below(tasks)

    def _below(self, tasks: Mapping[str, int | None]) -> set[int]:
        sessions = {pid for pid in tasks.values() if pid is not None}
        left = [pid for pid in sessions if pid in self.children]
        left += [
            pid
            for pid in _adopted()
            if pid not in self.children and (_session(pid) in sessions or _task_folder(pid) in tasks)
        ]
        found: set[int] = set()
        while left:
            pid = left.pop()
            if pid not in found:
                found.add(pid)
                left += _children(pid)
        return {pid for pid in found if started(pid) is not None}


def _adopted() -> list[int]:
    """Return the main thread's children: orphans, and processes that it started itself."""
    return list(_thread_children(os.getpid(), os.getpid()))


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            yield from _thread_children(pid, thread.name)


def _thread_children(pid: int, thread: int | str) -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())


def _session(pid: int) -> int | None:
    with contextlib.suppress(OSError):  # it has ended
        return os.getsid(pid)
    return None
