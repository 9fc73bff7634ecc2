"""Starts the processes of an attempt's tasks, waits for them, and ends them."""

from __future__ import annotations

import asyncio
import contextlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.local.container import processes
from luigi_pai.local.container.environment import task_environment
from luigi_pai.local.container.runtime import prepare, runtime_exit
from luigi_pai.local.container.task_files import TaskStart, redactor
from luigi_pai.local.store.database import now_ms

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence
    from pathlib import Path

    from luigi_pai.local.config.rules import JobScripts
    from luigi_pai.local.config.settings import HdfsAddress
    from luigi_pai.local.container.processes import Orphans
    from luigi_pai.local.container.storages import Storages
    from luigi_pai.local.container.task_files import JobFolders, TaskFiles
    from luigi_pai.local.launcher.scheduler import Scheduler
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Attempt, Job, Task


@dataclass(frozen=True, kw_only=True)
class Services:
    """A server's services.

    Attributes:
        orphans: finds and reaps the processes of this server's tasks.
        bin: the folder with the ``hdfs`` and ``hadoop`` commands.
        stop_grace: seconds between SIGTERM and SIGKILL for a task's processes.
        scripts: the job scripts, which replace jobs' commands in tests.
        start_delay: seconds until an attempt's first process starts, so that the client gets the response
            to its submission first.
        retry_seconds: seconds before the server tries again if the disk is full or too few ports are free.
    """

    store: Store
    folders: JobFolders
    orphans: Orphans
    bin: Path
    hdfs: HdfsAddress
    storages: Storages
    scheduler: Scheduler
    stop_grace: float
    scripts: JobScripts
    start_delay: float = 0.002
    retry_seconds: float = 1.0


_EXIT_NOT_STARTED = 1
"""Exit code of a task whose process cannot be started."""

_SIGNALLED = 128


class TaskLost(Exception):
    """A task's process vanished without leaving an exit code."""


class TaskRunner:
    """Runs an attempt's tasks. ``must_end`` is set when no more tasks may start.

    ``find`` returns the tasks' running processes: `Orphans.members` if this server started all of them, else
    `processes.members`.
    """

    def __init__(
        self,
        job: Job,
        attempt: Attempt,
        services: Services,
        find: Callable[[Mapping[str, int | None]], set[int]],
    ) -> None:
        self._job = job
        self._attempt = attempt
        self._services = services
        self._find = find
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._starts: set[asyncio.Task[None]] = set()
        self.must_end = asyncio.Event()

    def end_time(self, task: Task) -> float:
        """Return when a task wrote its exit code, in seconds since 1970; infinity if it has not done so."""
        return self._files(task).end_time()

    async def start(self, task: Task, tasks: Sequence[Task], allocated: Container[str]) -> None:
        """Start a task's process. The start is completed even if the caller is cancelled.

        ``tasks`` are all the attempt's tasks; ``allocated`` holds the container ids of tasks with resources.
        """
        start = asyncio.create_task(self._start(task, tasks, allocated))
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)
        await asyncio.shield(start)

    async def _start(self, task: Task, tasks: Sequence[Task], allocated: Container[str]) -> None:
        """Start a task's process. If it cannot be started, the task fails."""
        files = self._files(task)
        if task.launched is None:
            task.launched = now_ms()
            self._services.store.save_task(task)
        try:
            start = TaskStart(self._job, self._attempt, tasks, task, files, allocated, self._services)
            child, task.pid_started = await asyncio.to_thread(
                self._services.folders.start, files, prepare(start), task_environment(start)
            )
        except Exception as error:  # noqa: BLE001 - a job may ask for something unforeseen
            reason = str(error) if isinstance(error, OSError | ValueError) else repr(error)
            with contextlib.suppress(OSError):
                files.log_error(f"the task could not be started: {reason}")
            task.exit_code, task.exit_info = _EXIT_NOT_STARTED, json.dumps({"init": reason})
            task.completed = now_ms()
        else:
            self._children[task.container_id] = child
            self._services.orphans.children.add(child.pid)
            task.pid = child.pid
        self._services.store.save_task(task)

    async def ended(self, task: Task) -> None:
        """Wait until a task has ended, end its remaining processes, and save its exit code.

        Raises:
            TaskLost: a gang's task left no exit code. (Outside a gang, the task fails with -101 instead, and
                only this task is retried.)
        """
        if task.exit_code is not None:
            return
        if task.pid is None and self.must_end.is_set():  # the task will never start, so wait to be cancelled
            await asyncio.Event().wait()
        code = await self._exit_code(task)
        await self._end([task], grace=0)
        if code is None and self._job.gang:
            raise TaskLost(f"task {task.name} ended while no server was running, and left no exit code")
        task.completed = now_ms()
        if code is None:
            task.exit_code = self._job.release.exit_lost
        else:
            await self._set_exit(task, code)
        self._services.store.save_task(task)

    async def _exit_code(self, task: Task) -> int | None:
        """Wait until a task's process has ended, and return the exit code that the task wrote.

        If the task wrote none, return the process's exit code. If an earlier server started the process, that
        exit code is unknown, so return None.
        """
        child = self._children.get(task.container_id)
        if child is None:
            if task.pid is not None:
                await processes.wait_ended(task.pid, task.pid_started)
            return self._files(task).exit_code()
        status = await processes.wait_child(child)
        self._services.orphans.children.discard(child.pid)
        del self._children[task.container_id]
        code = self._files(task).exit_code()
        code = status if code is None else code
        return code if code >= 0 else _SIGNALLED - code

    async def _set_exit(self, task: Task, code: int) -> None:
        if code and self._job.release.api == "v2":
            redact, files = redactor(self._services.store.secrets(self._job)), self._files(task)
            logs = (files.stdout, files.stderr)
            code, info = await asyncio.to_thread(runtime_exit, code, logs, files.runtime, redact)
            task.exit_info = json.dumps(info)
        task.exit_code = code

    async def clean_up(self, tasks: Iterable[Task]) -> None:
        """End and reap the tasks' remaining processes, and remove scripts that contain secrets."""
        self.must_end.set()
        await asyncio.gather(*self._starts, return_exceptions=True)
        await self._end(tasks, self._services.stop_grace)
        for child in self._children.values():
            await asyncio.to_thread(child.wait)
            self._services.orphans.children.discard(child.pid)
        self.remove_scripts(tasks)

    def remove_scripts(self, tasks: Iterable[Task]) -> None:
        """If the job has secrets, remove the tasks' scripts, because they contain the secrets."""
        if self._services.store.secrets(self._job):
            for task in tasks:
                self._files(task).remove_scripts()

    async def _end(self, tasks: Iterable[Task], grace: float) -> None:
        folders = {str(self._files(task).folder): task.pid for task in tasks}
        await processes.end(folders, grace, self._find)

    def _files(self, task: Task) -> TaskFiles:
        return self._services.folders.task_files(task.folder)
