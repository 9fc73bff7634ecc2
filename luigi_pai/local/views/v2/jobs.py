"""Jobs as the v2 API of OpenPAI 1.8 shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.environment import CONTAINER_IP
from luigi_pai.local.releases.launchers import exit_spec
from luigi_pai.local.store.records import framework_name, object_uid, task_uid
from luigi_pai.local.views.job_states import ended_state, job_state
from luigi_pai.local.views.v2.attempts import diagnostics, ending

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.local.store.records import Job, Task
    from luigi_pai.local.views.v2.attempts import ShownAttempt

__all__ = [
    "exit_phrase",
    "is_placed",
    "job_detail",
    "job_row",
    "sub_state",
    "task_attempts",
]

_NODE = "localhost"
_SECOND = 1000


def sub_state(job: Job) -> str:
    """Return the launcher's own word for a job's state; before the first attempt, that it lacks resources."""
    return {
        "WAITING": "AttemptCreationPending" if job.retries else "AttemptPreparing",
        "RUNNING": "AttemptRunning",
        "STOPPING": "AttemptDeletionRequested",
    }.get(job_state(job), "Completed")


def exit_phrase(job: Job) -> str:
    """Return the name of an ended job's exit code in the exit specification."""
    spec = exit_spec(job.exit_code)
    return str(spec and spec["phrase"])


def _counts(job: Job) -> dict[str, Any]:
    return {
        "retries": job.retries,
        "retryDetails": {
            "user": job.counted_retries,
            "platform": job.retries - job.counted_retries,
            "resource": 0,
        },
        "retryDelayTime": None,
    }


def _submitted(job: Job) -> int:
    return job.created // _SECOND * _SECOND


def job_row(job: Job, tags: Sequence[str]) -> dict[str, Any]:
    """Return a job as the list shows it."""
    return {
        "debugId": framework_name(job),
        "name": job.name,
        "username": job.username,
        "state": job_state(job),
        "subState": sub_state(job),
        "executionType": job.execution_type,
        "tags": list(tags),
        **_counts(job),
        "submissionTime": _submitted(job),
        "createdTime": job.created,
        "launchedTime": job.launched or job.completed,
        "completedTime": job.completed,
        "appExitCode": job.exit_code,
        "virtualCluster": job.virtual_cluster,
        "totalGpuNumber": job.total_gpus,
        "totalTaskNumber": job.total_tasks,
        "totalTaskRoleNumber": job.total_roles,
        "jobPriority": None,
    }


def job_detail(
    job: Job, shown: ShownAttempt, tags: Sequence[str], tries: Callable[[Task], Sequence[Task]]
) -> dict[str, Any]:
    """Return a job as GET /jobs/USER~NAME shows it; ``tries`` returns all tries of a task, latest first."""
    return {
        "debugId": framework_name(job),
        "name": job.name,
        "tags": list(tags),
        "jobStatus": {
            "username": job.username,
            "state": job_state(job),
            "subState": sub_state(job),
            "executionType": job.execution_type,
            **_counts(job),
            "createdTime": job.created,
            "launchedTime": job.launched or job.completed,
            "completedTime": job.completed,
            "attemptId": shown.index,
            "attemptState": _attempt_state(job, shown),
            "appId": f"{shown.index}_{object_uid(job.full_name, shown.index)}",
            **ending(shown),
            "virtualCluster": job.virtual_cluster,
            "submissionTime": _submitted(job),
        },
        "taskRoles": _by_role(shown, lambda task: _task_status(job, shown, tries(task))),
    }


def _by_role(shown: ShownAttempt, status: Callable[[Task], dict[str, Any]]) -> dict[str, Any]:
    roles: dict[str, Any] = {}
    for task in shown.tasks:
        role = roles.setdefault(task.role, {"taskRoleStatus": {"name": task.role}, "taskStatuses": []})
        role["taskStatuses"].append(status(task))
    return roles


def _attempt_state(job: Job, shown: ShownAttempt) -> str:
    if shown.record.completed is not None:
        return ended_state(job.release, shown.record.exit_code)
    return job_state(job)


def _log_list(job: Job, shown: ShownAttempt, task: Task) -> str:
    return (
        f"/api/v2/jobs/{job.full_name}/attempts/{shown.index}"
        f"/taskRoles/{task.role}/taskIndex/{task.index}/attempts/{task.number}/logs"
    )


def _task_state(job: Job, task: Task) -> str:
    if task.exit_code is not None:
        return ended_state(job.release, task.exit_code)
    return "RUNNING" if task.launched else "WAITING"


def is_placed(task: Task) -> bool:
    """Say whether a task has, or had, a machine to run on."""
    return task.launched is not None


def _container(job: Job, shown: ShownAttempt, task: Task) -> dict[str, Any]:
    return {
        "containerId": task.container_id or None,
        "containerIp": CONTAINER_IP if is_placed(task) else None,
        "containerNodeName": _NODE if is_placed(task) else None,
        "containerPorts": {label: ",".join(map(str, ports)) for label, ports in task.ports.items()},
        "containerGpus": None,
        "containerLog": _log_list(job, shown, task),
        "containerExitCode": task.exit_code,
        "containerExitSpec": exit_spec(task.exit_code),
        "containerExitDiagnostics": diagnostics(task),
    }


def _task_history(shown: ShownAttempt, tried: Sequence[Task]) -> dict[str, Any]:
    completed = tried[0].completed
    return {
        "retries": tried[0].number,
        "accountableRetries": tried[0].counted_retries,
        "createdTime": shown.started,
        "launchedTime": tried[-1].launched or completed,
        "completedTime": completed,
    }


def _try_times(job: Job, shown: ShownAttempt, tried: Sequence[Task]) -> dict[str, Any]:
    """Return the times of the first of some tries; the one before it is the second."""
    task = tried[0]
    return {
        "attemptId": task.number,
        "attemptState": _task_state(job, task),
        "currentAttemptCreatedTime": tried[1].completed if len(tried) > 1 else shown.started,
        "currentAttemptLaunchedTime": task.launched or task.completed,
        "currentAttemptCompletedTime": task.completed,
    }


def _task_status(job: Job, shown: ShownAttempt, tried: Sequence[Task]) -> dict[str, Any]:
    task = tried[0]
    return {
        "taskIndex": task.index,
        "taskUid": task_uid(job, shown.index, task.name),
        "taskState": _task_state(job, task),
        **_container(job, shown, task),
        **_task_history(shown, tried),
        **_try_times(job, shown, tried),
    }


def task_attempts(job: Job, shown: ShownAttempt, tried: Sequence[Task]) -> dict[str, Any]:
    """Return a task with its tries, the latest of which comes first."""
    task = tried[0]
    return {
        "username": job.username,
        "jobName": job.name,
        "jobAttemptId": shown.index,
        "taskRoleName": task.role,
        "taskIndex": task.index,
        "taskUid": task_uid(job, shown.index, task.name),
        "taskState": _task_state(job, task),
        **_task_history(shown, tried),
        "attempts": [
            {**_try_times(job, shown, tried[at:]), **_container(job, shown, item)}
            for at, item in enumerate(tried)
        ],
    }
