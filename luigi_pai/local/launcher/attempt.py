"""One attempt of a job: its tasks are started, watched and ended."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import sqlite3
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

from luigi_pai.local.config.virtual_clusters import Resources
from luigi_pai.local.container import processes
from luigi_pai.local.container.environment import Place, task_environment
from luigi_pai.local.container.environment_v2 import task_environment_v2
from luigi_pai.local.container.exit_specs import EXIT_LOST
from luigi_pai.local.container.redaction import hider
from luigi_pai.local.container.role_scripts import role_scripts
from luigi_pai.local.container.runtime_exit import runtime_exit
from luigi_pai.local.container.storages import absolute_mounts, mount_notes
from luigi_pai.local.launcher.completion import Outcome, attempt_outcome, retry, retry_delay
from luigi_pai.local.store.jobs import now_ms
from luigi_pai.local.store.records import Task

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from luigi_pai.local.container.task_files import TaskFiles
    from luigi_pai.local.launcher.scheduler import Holding
    from luigi_pai.local.launcher.services import Surroundings
    from luigi_pai.local.store.records import Attempt, Job

__all__ = ["DELETE", "EXIT_NOT_STARTED", "SHUTDOWN", "STOP", "AttemptRun", "TaskLost"]

STOP = "stop"
DELETE = "delete"
SHUTDOWN = "shutdown"
EXIT_NOT_STARTED = 1

_SIGNALLED = 128
_SOON = 0.002
"""Seconds until the first process: by then the answer to the submission has reached its client."""
_AGAIN = 1.0
"""Seconds until the disk is asked again to take what it did not."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class TaskLost(Exception):
    """A task's process is gone and nobody knows how it ended."""


class AttemptRun:
    """An attempt that goes on.

    Args:
        job: the job.
        attempt: the attempt.
        tasks: its tasks.
        notes: sentences for the log of a task, by container id; None if the
            tasks were started by an earlier server.
        holdings: what tasks have, by container id; the others wait.
        around: what all attempts run with.

    Attributes:
        tasks: its tasks, each at its latest try.
        waiting: the tasks that wait for resources (without gang allocation).
        ending: why it is made to end: STOP, DELETE, SHUTDOWN, or nothing.
        is_decided: its outcome is known, and what is left of it is being ended.
    """

    def __init__(
        self,
        job: Job,
        attempt: Attempt,
        tasks: Sequence[Task],
        notes: Mapping[str, Sequence[str]] | None,
        holdings: Mapping[str, Holding],
        around: Surroundings,
    ) -> None:
        self.job = job
        self.attempt = attempt
        self.tasks = list(tasks)
        self.ending = ""
        self.is_decided = False
        self._roles = {role["name"]: role for role in job.roles}
        self._is_gang = job.generation == 1 or bool(job.spec["gang"])
        self._notes = notes
        self._holdings = dict(holdings)
        self._around = around
        self._children: dict[str, subprocess.Popen[bytes]] = {}
        self._unwritten: dict[str, Task] = {}
        self._must_end = asyncio.Event()
        self.waiting = [
            task for task in self.tasks if task.exit_code is None and task.container_id not in holdings
        ]
        self._places = {task.container_id: asyncio.Event() for task in self.waiting}
        self._starts: set[asyncio.Task[None]] = set()

    def wanted(self, task: Task) -> Resources:
        """Return what a task needs to run."""
        return Resources.of_role(self._roles[task.role])

    def place(self, task: Task, holding: Holding) -> None:
        """Give a waiting task what it needs; it starts."""
        self.waiting.remove(task)
        task.gpus = holding.gpus
        self._holdings[task.container_id] = holding
        self._places[task.container_id].set()

    def give_back(self, tasks: Iterable[Task] | None = None) -> None:
        """Give back what tasks have: those that are named, or all that are left."""
        ids = [task.container_id for task in tasks] if tasks is not None else list(self._holdings)
        self._around.scheduler.release(self._holdings.pop(name) for name in ids if name in self._holdings)

    def end(self, reason: str) -> None:
        """Make the attempt end; a deletion outranks a stop, a stop a shutdown."""
        self.ending = max(self.ending, reason, key=("", SHUTDOWN, STOP, DELETE).index)
        self.waiting.clear()
        self._must_end.set()

    async def outcome(self, room: Callable[[], None]) -> Outcome | None:
        """Start the tasks, unless an earlier server did, and wait until the attempt is decided.

        Args:
            room: called whenever a task has ended, or waits for resources again.

        Returns:
            The outcome, or None if the attempt is made to end before there is one.

        Raises:
            TaskLost: a task of a gang is gone and left no exit code.
        """
        if not await self._start_first():
            return None
        ended: list[Task] = []
        waits: dict[asyncio.Future[Any], Task] = {
            asyncio.create_task(self._life(task)): task for task in self.tasks
        }
        told: asyncio.Future[Any] = asyncio.create_task(self._must_end.wait())
        try:
            while True:
                outcome = attempt_outcome(list(self._roles.values()), ended, len(self.tasks))
                if outcome is not None or told.done():
                    return outcome
                done, _ = await asyncio.wait({told, *waits}, return_when=asyncio.FIRST_COMPLETED)
                done |= await self._before(waits, done)
                now_ended = [(wait, waits[wait]) for wait in done if wait is not told]
                for wait, task in sorted(now_ended, key=lambda pair: self._files(pair[1]).end_time()):
                    error = wait.exception()
                    if error is not None:
                        return self._decided_before(error, ended)
                    del waits[wait]
                    another = self._another(task)
                    if another is None:
                        ended.append(task)
                    else:
                        waits[asyncio.create_task(self._try_again(another, room))] = another
                room()
        finally:
            self.waiting.clear()
            for pending in (told, *waits):
                pending.cancel()
            await asyncio.gather(told, *waits, return_exceptions=True)

    def _decided_before(self, error: BaseException, ended: Sequence[Task]) -> Outcome:
        """Return what tasks had decided that ended before one was lost; raise the error if they had not."""
        outcome = attempt_outcome(list(self._roles.values()), ended, len(self.tasks))
        if outcome is None or not isinstance(error, TaskLost):
            raise error
        return outcome

    async def _start_first(self) -> bool:
        """Start the tasks that have what they need, if no earlier server did; False if it has to end."""
        if self._notes is None:
            return not self._must_end.is_set()
        await asyncio.sleep(_SOON)
        for task in [item for item in self.tasks if item.container_id not in self._places]:
            if self._must_end.is_set():
                return False
            await self._start(task)
        return True

    async def _before(
        self, waits: Mapping[asyncio.Future[Any], Task], done: set[asyncio.Future[Any]]
    ) -> set[asyncio.Future[Any]]:
        """Wait for tasks that wrote an exit code before one that is done; at the end, for all that did."""
        ends = [self._files(waits[wait]).end_time() for wait in done if wait in waits]
        latest = max(ends) if len(ends) == len(done) else float("inf")  # told is among them
        earlier = {
            wait for wait, task in waits.items() if wait not in done and self._files(task).end_time() < latest
        }
        return (await asyncio.wait(earlier))[0] if earlier else set()

    def _another(self, task: Task) -> Task | None:
        """Return the next try of a task, or None if there is none.

        Only a job without gang allocation has one: by the class of the exit code, up to taskRetryCount.
        """
        if self._is_gang or task.exit_code is None:
            return None
        wanted = self._roles[task.role]["taskRetryCount"]
        again = retry(wanted, task.exit_code, task.counted_retries, self.job.generation)
        if not again.again:
            return None
        number = task.number + 1
        first = task.folder.removesuffix(f".{task.number}") if task.number else task.folder
        another = Task(
            container_id=str(uuid.uuid4()),
            attempt_id=task.attempt_id,
            role=task.role,
            index=task.index,
            folder=f"{first}.{number}",
            ports=task.ports,
            number=number,
            counted_retries=task.counted_retries + again.counted,
        )
        if self._around.store.secrets(self.job):
            self._files(task).forget_scripts()
        self.tasks[self.tasks.index(task)] = another
        return another

    async def _life(self, task: Task) -> None:
        """Wait until a task has resources, if it has none; start it then; wait until it has ended."""
        if task.container_id in self._places:
            await self._places[task.container_id].wait()
            del self._places[task.container_id]
            await self._start(task)
        await self._ended(task)
        self.give_back([task])

    async def _try_again(self, task: Task, room: Callable[[], None]) -> None:
        """Write a further try down, make it, later each time, and wait until it has ended."""
        while True:
            try:
                self._around.store.add_task(task)
                break
            except sqlite3.Error:  # a full disk, most likely: what the other tasks do is not lost for that
                await asyncio.sleep(_AGAIN)
        await asyncio.sleep(retry_delay(task.number))
        self._places[task.container_id] = asyncio.Event()
        self.waiting.append(task)
        room()
        await self._life(task)

    async def clean_up(self) -> None:
        """End every process that is left of the tasks, and leave no zombie."""
        self._must_end.set()  # what waits for room on the disk is not started any more
        await asyncio.gather(*self._starts, return_exceptions=True)
        await self._end(self.tasks, self._around.stop_grace)
        for child in self._children.values():
            await asyncio.to_thread(child.wait)
        if self._around.store.secrets(self.job):
            for task in self.tasks:
                self._files(task).forget_scripts()

    def end_tasks(self, code: int) -> None:
        """Write down of every task that did not end by itself why it was ended (v2)."""
        for task in self.tasks:
            if task.exit_code is None:
                task.exit_code = code
                task.completed = now_ms()
                self._around.store.save_task(task)

    def write_tasks(self) -> None:
        """Write down of tasks what the disk did not take before."""
        for task in self._unwritten.values():
            self._around.store.save_task(task)

    def _write(self, task: Task) -> None:
        """Write a task down; where the disk does not take it, with the end of the attempt."""
        try:
            self._around.store.save_task(task)
        except sqlite3.Error:
            self._unwritten[task.container_id] = task
        else:
            self._unwritten.pop(task.container_id, None)

    async def _start(self, task: Task) -> None:
        """Start the process of a task; once begun, that goes on even if nobody waits for it any more."""
        start = asyncio.create_task(self._start_now(task))
        self._starts.add(start)
        start.add_done_callback(self._starts.discard)
        await asyncio.shield(start)

    async def _start_now(self, task: Task) -> None:
        """Start the process of a task; one that cannot be started has failed.

        On a full disk it waits for room, or for the end of its attempt.
        """
        notes = (self._notes or {}).get(task.container_id, ())
        files = self._files(task)
        if task.launched is None:
            task.launched = now_ms()
            self._write(task)
        try:
            prepare, environment = self._preparation(task, files, notes)
            begun = await self._begin(files, prepare, environment)
        except Exception as error:  # noqa: BLE001 - a job may ask for what no code here has thought of
            said = str(error) if isinstance(error, OSError | ValueError) else repr(error)
            with contextlib.suppress(OSError):
                files.say(f"the task could not be started: {said}")
            task.exit_code = EXIT_NOT_STARTED
            task.completed = now_ms()
        else:
            if begun is None:
                return
            child, task.pid_started = begun
            self._children[task.container_id] = child
            task.pid = child.pid
        self._write(task)

    async def _begin(
        self, files: TaskFiles, prepare: Callable[[], None], environment: Mapping[str, str]
    ) -> tuple[subprocess.Popen[bytes], str | None] | None:
        """Start the process of a task once the disk takes its files; None if the attempt ends before."""
        while True:
            try:
                return await asyncio.to_thread(self._around.folders.start, files, prepare, environment)
            except OSError as error:
                if error.errno not in _FULL:
                    raise
            await asyncio.to_thread(files.remove)
            with contextlib.suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._must_end.wait(), _AGAIN)
                return None

    def _preparation(
        self, task: Task, files: TaskFiles, notes: Iterable[str]
    ) -> tuple[Callable[[], None], Mapping[str, str]]:
        """Return what makes the files of a task, and its environment."""
        place = Place(
            folder=files.folder,
            work=files.work,
            bin=self._around.bin,
            hdfs=self._around.hdfs,
            app_id=self.attempt.application_id(self._around.store.cluster_timestamp),
        )
        role = self._roles[task.role]
        if self.job.generation == 1:
            environment = task_environment(self.job, self.tasks, task, place)
            return partial(files.prepare, role["command"], notes), environment
        scripts = role_scripts(
            self.job.spec,
            role,
            self._around.store.secrets(self.job),
            [other.name for other in self.tasks if other is not task],
            os.fsencode(files.folder).decode("utf-8", "replace"),  # scripts are UTF-8 whatever the locale
        )
        links = self._around.storages.mounts(self.job.spec["storages"])
        environment = task_environment_v2(self.job, self.attempt, self.tasks, task, place, self._holdings)
        wrong = mount_notes(absolute_mounts(links, scripts.values()))
        return partial(files.prepare_role, scripts, links, [*mount_notes(links), *notes], wrong), environment

    async def _ended(self, task: Task) -> None:
        """Wait until a task has ended, end what it left behind, and write down its exit code.

        Raises:
            TaskLost: nobody knows how it ended. (Without gang allocation it has failed with -101, and is
                tried again by itself.)
        """
        if task.exit_code is not None:
            return
        if task.pid is None and self._must_end.is_set():  # it was not started
            await asyncio.Event().wait()
        if task.pid is not None:
            await processes.wait_ended(task.pid, task.pid_started)
        code = self._files(task).exit_code()
        child = self._children.get(task.container_id)
        if child is not None:
            status = await asyncio.to_thread(child.wait)
            del self._children[task.container_id]
            code = status if code is None else code
            code = code if code >= 0 else _SIGNALLED - code
        await self._end([task], grace=0)
        if code is None and self._is_gang:
            raise TaskLost(f"task {task.name} ended while no server was running, and left no exit code")
        task.completed = now_ms()
        if code is None:
            code = EXIT_LOST
        elif code and self.job.generation > 1:
            files = self._files(task)
            hide = hider(self._around.store.secrets(self.job))
            logs = (files.stdout, files.stderr)
            found = await asyncio.to_thread(runtime_exit, code, logs, files.runtime, hide)
            task.exit_info = json.dumps(found.info)
            code = found.code
        task.exit_code = code
        self._write(task)

    async def _end(self, tasks: Iterable[Task], grace: float) -> None:
        folders = {str(self._files(task).folder): task.pid for task in tasks}
        await processes.end(folders, grace, self._around.hurry)

    def _files(self, task: Task) -> TaskFiles:
        return self._around.folders.of_task(task.folder)
