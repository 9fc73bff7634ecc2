"""The processes of tasks that lose their parent: on Linux they become children of this server.

So the processes that a task of this server leaves are all below this server, and finding them reads nothing
of the machine's other processes. A task that an earlier server started is not: `processes.members` finds it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.local.container import processes

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

__all__ = ["Orphans"]

_PR_SET_CHILD_SUBREAPER = 36
_MAX_READS = 5
_READ_PAUSE = 0.001


class Orphans:
    """The processes below this one.

    Attributes:
        children: pids of children that are waited for elsewhere; they are not reaped here.
        adopting: whether orphans come to this process; else the whole machine is searched.
    """

    def __init__(self) -> None:
        self.children: set[int] = set()
        self.adopting = False

    def adopt(self) -> None:
        """Become the parent of all orphans below this process, where the system has that; see `reap`."""
        if Path(f"/proc/self/task/{os.getpid()}/children").exists():
            self.adopting = ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0

    def reap(self, *spared: int) -> None:
        """Reap the orphans that have ended; to be called at SIGCHLD. ``spared`` are further `children`."""
        for pid in _adopted() if self.adopting else ():
            if pid not in self.children and pid not in spared:
                with contextlib.suppress(ChildProcessError):
                    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)

    def members(self, tasks: Mapping[str, int | None]) -> set[int]:
        """Return the running processes of tasks of this server: the folder of each, its first process."""
        if not self.adopting:
            return processes.members(tasks)
        # twice: while they are listed, one whose parent ends moves up to this process
        return self._below(tasks) or self._below(tasks)

    def _below(self, tasks: Mapping[str, int | None]) -> set[int]:
        sessions = {pid for pid in tasks.values() if pid is not None}
        left = [pid for pid in sessions if pid in self.children]
        left += [pid for pid in _adopted() if pid not in self.children and _is_of(pid, sessions, tasks)]
        found: set[int] = set()
        while left:
            pid = left.pop()
            if pid not in found:
                found.add(pid)
                left += _children(pid)
        return {pid for pid in found if processes.runs(pid)}


def _adopted() -> list[int]:
    """Return the children of the main thread: orphans, and what it has started itself."""
    return list(_of_thread(os.getpid(), os.getpid()))


def _children(pid: int) -> Iterator[int]:
    with contextlib.suppress(OSError):  # it has ended
        for thread in Path(f"/proc/{pid}/task").iterdir():
            yield from _of_thread(pid, thread.name)


def _of_thread(pid: int, thread: int | str) -> Iterator[int]:
    with contextlib.suppress(OSError):
        yield from map(int, Path(f"/proc/{pid}/task/{thread}/children").read_bytes().split())


def _is_of(pid: int, sessions: Collection[int], folders: Collection[str]) -> bool:
    """Say whether an orphan belongs to one of some tasks: by its session, or by its environment.

    That is empty for a moment while the process executes another program.
    """
    with contextlib.suppress(OSError):  # it has ended, or is another user's
        if os.getsid(pid) in sessions:
            return True
        for _ in range(_MAX_READS):
            environment = Path(f"/proc/{pid}/environ").read_bytes()
            if environment or not processes.runs(pid):
                variable = f"{processes.TASK_VARIABLE}=".encode()
                values = [
                    word[len(variable) :] for word in environment.split(b"\0") if word.startswith(variable)
                ]
                return any(os.fsdecode(value) in folders for value in values)
            time.sleep(_READ_PAUSE)
    return False
