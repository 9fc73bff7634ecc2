"""One attempt of a job: starts the attempt, and starts, watches, retries and ends its tasks."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any

from luigi_pai.local.config.settings import Resources
from luigi_pai.local.container import processes
from luigi_pai.local.launcher.completion import Outcome, attempt_outcome, retry_delay
from luigi_pai.local.launcher.task_runner import TaskLost, TaskRunner
from luigi_pai.local.store.records import COMPLETING, RUNNING, Task

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from luigi_pai.local.launcher.scheduler import Allocation
    from luigi_pai.local.launcher.task_runner import Services
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Attempt, Job

STOP = "stop"
DELETE = "delete"
SHUTDOWN = "shutdown"


class AttemptRun:
    """A running attempt.

    ``allocations`` maps container ids to allocations; tasks without one wait for resources. If ``is_new``
    is False, an earlier server started the tasks.

    Attributes:
        tasks: the attempt's tasks; when a task is retried, its retry replaces it in the list.
        waiting: the tasks that are waiting for resources; always empty for a gang.
        ending: why the attempt must end (STOP, DELETE or SHUTDOWN); empty if it may go on.
        is_decided: whether its outcome is known, so that its remaining processes are being ended.
    """

    def __init__(
        self,
        job: Job,
        attempt: Attempt,
        tasks: Sequence[Task],
        allocations: Mapping[str, Allocation],
        runner: TaskRunner,
        services: Services,
        *,
        is_new: bool,
    ) -> None:
        self.job = job
        self.attempt = attempt
        self.tasks = list(tasks)
        self.ending = ""
        self.is_decided = False
        self._roles = {role["name"]: role for role in job.roles}
        self._allocations = dict(allocations)
        self._runner = runner
        self._services = services
        self._is_new = is_new
        self.waiting = [
            task for task in self.tasks if task.exit_code is None and task.container_id not in allocations
        ]
        self._allocated = {task.container_id: asyncio.Event() for task in self.waiting}

    def request(self, task: Task) -> Resources:
        """Return the resources that a task needs."""
        return Resources.from_role(self._roles[task.role])

    def allocate(self, task: Task, allocation: Allocation) -> None:
        """Give a waiting task its resources, so that it can start."""
        self.waiting.remove(task)
        task.gpus = allocation.gpus
        self._allocations[task.container_id] = allocation
        self._allocated[task.container_id].set()

    def release(self, tasks: Iterable[Task] | None = None) -> None:
        """Release the resources of the given tasks, or of all tasks if ``tasks`` is None."""
        ids = [task.container_id for task in tasks] if tasks is not None else list(self._allocations)
        released = [self._allocations.pop(name) for name in ids if name in self._allocations]
        self._services.scheduler.release(released)

    def end(self, reason: str) -> None:
        """Make the attempt end. DELETE overrides STOP, and STOP overrides SHUTDOWN."""
        self.ending = max(self.ending, reason, key=("", SHUTDOWN, STOP, DELETE).index)
        self.waiting.clear()
        self._runner.must_end.set()

    async def outcome(self, schedule: Callable[[], None]) -> Outcome | None:
        """Start the tasks unless an earlier server did. Then wait for the attempt's outcome.

        ``schedule`` is called whenever a task ends, or needs resources for a retry. Returns None if the
        attempt must end before there is an outcome.

        Raises:
            TaskLost: a gang's task vanished without an exit code before there was an outcome.
        """
        if not await self._start_first():
            return None
        ended: list[Task] = []
        waits: dict[asyncio.Future[Any], Task] = {
            asyncio.create_task(self._life(task)): task for task in self.tasks
        }
        must_end: asyncio.Future[Any] = asyncio.create_task(self._runner.must_end.wait())
        try:
            while True:
                outcome = attempt_outcome(self._roles, ended, len(self.tasks))
                if outcome is not None or must_end.done():
                    return outcome
                done, _ = await asyncio.wait({must_end, *waits}, return_when=asyncio.FIRST_COMPLETED)
                done |= await self._ended_before(waits, done)
                now_ended = [(wait, waits[wait]) for wait in done if wait is not must_end]
                for wait, task in sorted(now_ended, key=lambda pair: self._runner.end_time(pair[1])):
                    error = wait.exception()
                    if error is not None:
                        return self._decided_before(error, ended)
                    del waits[wait]
                    following = self._next_attempt(task)
                    if following is None:
                        ended.append(task)
                    else:
                        waits[asyncio.create_task(self._retry(following, schedule))] = following
                schedule()
        finally:
            self.waiting.clear()
            for pending in (must_end, *waits):
                pending.cancel()
            await asyncio.gather(must_end, *waits, return_exceptions=True)

    def _decided_before(self, error: BaseException, ended: Sequence[Task]) -> Outcome:
        """Return the outcome if ``ended`` decided it before a task was lost; otherwise, raise ``error``."""
        outcome = attempt_outcome(self._roles, ended, len(self.tasks))
        if outcome is None or not isinstance(error, TaskLost):
            raise error
        return outcome

    async def _start_first(self) -> bool:
        """Start a new attempt's tasks that have resources. Return False if the attempt must end."""
        must_end = self._runner.must_end
        if not self._is_new:
            return not must_end.is_set()
        await asyncio.sleep(self._services.start_delay)
        for task in [item for item in self.tasks if item.container_id not in self._allocated]:
            if must_end.is_set():
                return False
            await self._runner.start(task, self.tasks, self._allocations)
        return True

    async def _ended_before(
        self, waits: Mapping[asyncio.Future[Any], Task], done: set[asyncio.Future[Any]]
    ) -> set[asyncio.Future[Any]]:
        """Wait for each task that exited before the last task in ``done`` did, and return these tasks.

        If the attempt must end, wait for every exited task.
        """
        ends = [self._runner.end_time(waits[wait]) for wait in done if wait in waits]
        latest = max(ends) if len(ends) == len(done) else float("inf")  # no limit if it must end
        earlier = {
            wait for wait, task in waits.items() if wait not in done and self._runner.end_time(task) < latest
        }
        return (await asyncio.wait(earlier))[0] if earlier else set()

    def _next_attempt(self, task: Task) -> Task | None:
        """Return the next attempt of a task, or None if the task is not retried.

        Single tasks of a gang are not retried. Without gang allocation, a single task is retried if its exit
        code and taskRetryCount allow it.
        """
        if self.job.gang or task.exit_code is None:
            return None
        limit = self._roles[task.role]["taskRetryCount"]
        decision = self.job.release.decide_retry(limit, task.exit_code, task.counted_retries)
        if not decision.retry:
            return None
        number = task.number + 1
        first = task.folder.removesuffix(f".{task.number}") if task.number else task.folder
        following = Task(
            container_id=str(uuid.uuid4()),
            attempt_id=task.attempt_id,
            role=task.role,
            index=task.index,
            folder=f"{first}.{number}",
            ports=task.ports,
            number=number,
            counted_retries=task.counted_retries + decision.counted,
        )
        self._runner.remove_scripts([task])
        self.tasks[self.tasks.index(task)] = following
        return following

    async def _life(self, task: Task) -> None:
        """Wait until a task has ended. If it has no resources yet, first wait for them and start the task."""
        if task.container_id in self._allocated:
            await self._allocated[task.container_id].wait()
            del self._allocated[task.container_id]
            await self._runner.start(task, self.tasks, self._allocations)
        await self._runner.ended(task)
        self.release([task])

    async def _retry(self, task: Task, schedule: Callable[[], None]) -> None:
        """Save a task's next attempt, run it after a delay, and wait until it has ended."""
        self._services.store.add_task(task)
        await asyncio.sleep(retry_delay(task.number))
        self._allocated[task.container_id] = asyncio.Event()
        self.waiting.append(task)
        schedule()
        await self._life(task)

    async def clean_up(self) -> None:
        """End the tasks' remaining processes."""
        await self._runner.clean_up(self.tasks)


def start_attempt(
    job: Job,
    reserved: Sequence[dict[str, list[int]]],
    allocated: Mapping[int, Allocation],
    services: Services,
) -> AttemptRun:
    """Save a job's next attempt and mark the job as running. Return the attempt.

    ``reserved`` lists the tasks' ports in the order of roles and indexes. ``allocated`` maps a task's number
    in that order to its allocation. Tasks without an allocation wait for one.
    """
    store = services.store
    with store.changing():
        attempt = store.add_attempt(job)
        app_id = attempt.application_id(store.cluster_timestamp)
        folder = f"{services.folders.folder_name(job.id, job.name)}/attempt{attempt.number}"
        names = [(role["name"], index) for role in job.roles for index in range(role["taskNumber"])]
        tasks = [
            Task(
                container_id=job.release.container_id(app_id, number),
                attempt_id=attempt.id,
                role=role,
                index=index,
                folder=f"{folder}/{role}-{index}",
                ports=ports,
            )
            for number, ((role, index), ports) in enumerate(zip(names, reserved, strict=True))
        ]
        for number, allocation in allocated.items():
            tasks[number].gpus, tasks[number].launched = allocation.gpus, attempt.launched
        for task in tasks:
            store.add_task(task)
        script = services.scripts.of(job.id)
        is_completing = script is not None and script.completing and job.release.api == "v1"
        job.sub_state = COMPLETING if is_completing else RUNNING
        job.launched = job.launched or attempt.launched
        store.save_job(job)
        message = f"attempt {attempt.number - 1} began with {len(tasks)} tasks"
        services.store.record_event(job, "AttemptBegan", message)
    allocations = {tasks[number].container_id: allocation for number, allocation in allocated.items()}
    runner = TaskRunner(job, attempt, services, services.orphans.members)
    return AttemptRun(job, attempt, tasks, allocations, runner, services, is_new=True)


def resume_attempt(job: Job, attempt: Attempt, services: Services) -> AttemptRun:
    """Return an attempt started by an earlier server; its running tasks keep their resources."""
    store = services.store
    tasks = store.tasks(attempt)
    roles = {role["name"]: role for role in job.roles}
    allocations = {}
    for task in tasks:
        folder = services.folders.task_files(task.folder).folder
        started = job.gang or task.pid is not None or folder.exists()
        if task.exit_code is None and task.pid is None and folder.exists():
            _find_process(task, str(folder), attempt, store)
        if task.exit_code is None and started:
            request = Resources.from_role(roles[task.role])
            allocations[task.container_id] = services.scheduler.restore(
                job.virtual_cluster, request, task.gpus
            )
    runner = TaskRunner(job, attempt, services, processes.members)
    return AttemptRun(job, attempt, tasks, allocations, runner, services, is_new=False)


def _find_process(task: Task, folder: str, attempt: Attempt, store: Store) -> None:
    """Find a task's process if the earlier server was killed before it could save the pid."""
    task.pid = processes.first_process(folder)
    if task.pid is not None:
        task.pid_started = processes.started(task.pid)
        task.launched = attempt.launched
        store.save_task(task)
