"""The start of an attempt: the records of the attempt and of its tasks, with their ports and GPUs."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import TYPE_CHECKING

from luigi_pai.local.config.virtual_clusters import Resources
from luigi_pai.local.container import processes
from luigi_pai.local.launcher.attempt import AttemptRun
from luigi_pai.local.launcher.task_runner import TaskRunner
from luigi_pai.local.store.records import RUNNING, Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.local.container.ports import ReservedPorts
    from luigi_pai.local.launcher.scheduler import Allocation
    from luigi_pai.local.launcher.services import Services
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Attempt, Job

__all__ = ["begin_attempt", "resume_attempt"]


def begin_attempt(
    job: Job, reserved: Sequence[ReservedPorts], allocated: Mapping[int, Allocation], services: Services
) -> AttemptRun:
    """Save the next attempt of a job, and that the job runs.

    Ports are in the order of roles and indexes, and allocations by the tasks' numbers in that order; tasks
    without one wait for it.
    """
    notes: dict[str, Sequence[str]] = {}
    allocations: dict[str, Allocation] = {}
    tasks = []
    store = services.store
    with store.changing():
        attempt = store.add_attempt(job)
        app_id = attempt.application_id(store.cluster_timestamp)
        folder = f"{services.folders.of_job(job.id, job.name)}/attempt{attempt.number}"
        names = [(role["name"], index) for role in job.roles for index in range(role["taskNumber"])]
        for number, ((role, index), ports) in enumerate(zip(names, reserved, strict=True)):
            allocation = allocated.get(number)
            task = Task(
                container_id=job.release.launcher.container_id(app_id, number),
                attempt_id=attempt.id,
                role=role,
                index=index,
                folder=f"{folder}/{role}-{index}",
                ports=ports.by_label,
                gpus=0 if allocation is None else allocation.gpus,
                launched=None if allocation is None else attempt.launched,
            )
            if allocation is not None:
                allocations[task.container_id] = allocation
            notes[task.container_id] = ports.notes
            store.add_task(task)
            tasks.append(task)
        job.sub_state = RUNNING
        job.launched = job.launched or attempt.launched
        store.save_job(job)
        message = f"attempt {attempt.number - 1} began with {len(tasks)} tasks"
        services.events.record(job, "AttemptBegan", message)
    runner = TaskRunner(job, attempt, services, notes, services.orphans.members)
    return AttemptRun(job, attempt, tasks, allocations, runner, services, is_new=True)


def resume_attempt(job: Job, attempt: Attempt, services: Services) -> AttemptRun:
    """Return an attempt that an earlier server began; its running tasks keep their resources."""
    store = services.store
    tasks = store.tasks(attempt)
    roles = {role["name"]: role for role in job.roles}
    allocations = {}
    for task in tasks:
        folder = services.folders.of_task(task.folder).folder
        started = job.gang or task.pid is not None or folder.exists()
        if task.exit_code is None and task.pid is None and folder.exists():
            _find_process(task, str(folder), attempt, store)
        if task.exit_code is None and started:
            request = Resources.of_role(roles[task.role])
            allocations[task.container_id] = services.scheduler.restore(
                job.virtual_cluster, request, task.gpus
            )
    runner = TaskRunner(job, attempt, services, {}, processes.members)
    return AttemptRun(job, attempt, tasks, allocations, runner, services, is_new=False)


def _find_process(task: Task, folder: str, attempt: Attempt, store: Store) -> None:
    """Find the process of a task whose server was killed before it could save the pid."""
    task.pid = processes.first_process(folder)
    if task.pid is not None:
        task.pid_started = processes.started(task.pid)
        task.launched = attempt.launched
        with contextlib.suppress(sqlite3.Error):  # a full disk: the next server finds it again
            store.save_task(task)
