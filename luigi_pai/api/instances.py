"""Jobs that run as instances of an array (``spec.arrays``): the status of one, by that of the array."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from luigi_pai.api.status import JobState, stopped_exit_code
from luigi_pai.errors import JobNotFound
from luigi_pai.spec.arrays import jobs_in

if TYPE_CHECKING:
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.status import JobStatus, TaskStatus

__all__ = ["find_instance", "instance_status", "jobs_of"]


def find_instance(cluster: Cluster, array: str, job: str) -> JobStatus | None:
    """Return the status of a job that was submitted as an instance of an array.

    Args:
        cluster: of the array.
        array: its name on the server.
        job: the name of the job's submission.

    Returns:
        the status as of ``instance_status``; None if the server has no such array.
    """
    try:
        status, jobs = cluster.status(array), jobs_of(cluster, array)
    except JobNotFound:
        return None
    return instance_status(status, jobs.index(job)) if job in jobs else None


def jobs_of(cluster: Cluster, array: str) -> list[str]:
    """Return the names of the jobs in an array, by index; none if it is another job. They are cached.

    Raises:
        JobNotFound: the server has no such job.
        PaiApiError: the lookup failed.
    """
    key = ("array", array)
    jobs: list[str] | None = cluster.cache.get(key)
    if jobs is None:
        jobs = jobs_in(cluster.config(array)) or []
        cluster.cache.put(key, jobs)
    return jobs


def instance_status(array: JobStatus, index: int) -> JobStatus:
    """Return the status of one instance of an array as that of a job.

    It has the array's name, for that is what the server knows, and the state, the exit code and the
    one task of the instance. When the array has ended, each instance has.
    """
    task = next((task for task in array.tasks if task.index == index), None)
    state = _state(array, task)
    if task is None:
        return replace(array, state=state, raw_state=state.value, tasks=())
    code = task.exit_code if state.finished else None
    return replace(
        array,
        state=state,
        raw_state=state.value,
        retries=task.attempt or 0,
        exit_code=code,
        diagnostics=task.diagnostics if code else None,
        launched_ms=task.launched_ms,
        completed_ms=task.completed_ms,
        exit_type=task.exit_type if code else None,
        exit_reason=task.exit_reason if code else None,
        exit_solution=task.exit_solution if code else None,
        exit_task=(task.role, task.index) if code else None,
        tasks=(task,),
    )


def _state(array: JobStatus, task: TaskStatus | None) -> JobState:
    state = JobState.UNKNOWN if task is None else JobState.of(task.state)
    if task is not None and state.finished and stopped_exit_code(task.exit_code):
        return JobState.STOPPED
    if state.finished or not array.finished:
        return state
    # the array has ended without a state of its own for this instance: it did not succeed
    return JobState.STOPPED if array.state is JobState.STOPPED else JobState.FAILED
