"""The begin of an attempt, written down: the attempt, its tasks with their ports and GPUs."""

from __future__ import annotations

import contextlib
import sqlite3
import uuid
from typing import TYPE_CHECKING

from luigi_pai.local.config.virtual_clusters import Resources
from luigi_pai.local.container import processes
from luigi_pai.local.launcher.attempt import AttemptRun
from luigi_pai.local.store.records import RUNNING, Task

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.local.launcher.scheduler import Holding
    from luigi_pai.local.launcher.services import Surroundings
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Attempt, Job
    from luigi_pai.local.views.job_events import JobNotes

__all__ = ["begin_attempt", "take_over_attempt"]

_FIRST_CONTAINER = 2  # the first one of an application is its master's


def begin_attempt(
    job: Job,
    reserved: Sequence[tuple[dict[str, list[int]], Sequence[str]]],
    placed: Mapping[int, Holding],
    around: Surroundings,
    notes: JobNotes,
) -> AttemptRun:
    """Write the next attempt of a job down, and that the job runs.

    Args:
        job: the job.
        reserved: of each task, in the order of roles and indexes, its ports and what its log is to say.
        placed: what tasks have, by their numbers in that order; the others wait.
        around: what all attempts run with.
        notes: where events go.
    """
    said: dict[str, Sequence[str]] = {}
    holdings: dict[str, Holding] = {}
    tasks = []
    store = around.store
    with store.changing():
        attempt = store.add_attempt(job)
        app_id = attempt.application_id(store.cluster_timestamp)
        container = app_id.replace("application", "container")
        folder = f"{around.folders.of_job(job.id, job.name)}/attempt{attempt.number}"
        names = [(role["name"], index) for role in job.roles for index in range(role["taskNumber"])]
        for number, ((role, index), (ports, sentences)) in enumerate(zip(names, reserved, strict=True)):
            holding = placed.get(number)
            task = Task(
                container_id=f"{container}_01_{number + _FIRST_CONTAINER:06d}"
                if job.generation == 1
                else str(uuid.uuid4()),
                attempt_id=attempt.id,
                role=role,
                index=index,
                folder=f"{folder}/{role}-{index}",
                ports=ports,
                gpus=0 if holding is None else holding.gpus,
                launched=None if holding is None else attempt.launched,
            )
            if holding is not None:
                holdings[task.container_id] = holding
            said[task.container_id] = sentences
            store.add_task(task)
            tasks.append(task)
        job.sub_state = RUNNING
        job.launched = job.launched or attempt.launched
        store.save_job(job)
        if job.generation > 1:
            notes.happened(job, "AttemptBegan", f"attempt {attempt.number - 1} began with {len(tasks)} tasks")
    return AttemptRun(job, attempt, tasks, said, holdings, around)


def take_over_attempt(job: Job, attempt: Attempt, around: Surroundings) -> AttemptRun:
    """Return an attempt that an earlier server began; tasks of it that run have what they had."""
    store = around.store
    tasks = store.tasks(attempt)
    roles = {role["name"]: role for role in job.roles}
    gang = job.generation == 1 or job.spec["gang"]
    holdings = {}
    for task in tasks:
        folder = around.folders.of_task(task.folder).folder
        begun = gang or task.pid is not None or folder.exists()
        if task.exit_code is None and task.pid is None and folder.exists():
            _find(task, str(folder), attempt, store)
        if task.exit_code is None and begun:
            wanted = Resources.of_role(roles[task.role])
            holdings[task.container_id] = around.scheduler.hold(job.virtual_cluster, wanted, task.gpus)
    return AttemptRun(job, attempt, tasks, None, holdings, around)


def _find(task: Task, folder: str, attempt: Attempt, store: Store) -> None:
    """Find the process of a task whose server was killed before it could write it down."""
    task.pid = processes.first_process(folder)
    if task.pid is not None:
        task.pid_started = processes.started(task.pid)
        task.launched = attempt.launched
        with contextlib.suppress(sqlite3.Error):  # a full disk: the next server finds it once more
            store.save_task(task)
