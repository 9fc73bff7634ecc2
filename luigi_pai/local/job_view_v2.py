"""Jobs as the v2 API of OpenPAI 1.8 shows them."""

from __future__ import annotations

import hashlib
import uuid
from typing import TYPE_CHECKING, Any

from luigi_pai.local.ending_view_v2 import diagnostics, ending
from luigi_pai.local.environment import CONTAINER_IP
from luigi_pai.local.exit_specs import EXIT_JOB_ENDED, EXIT_STOPPED, exit_spec
from luigi_pai.local.records import COMPLETED, WAITING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.local.records import Attempt, Job, Task
    from luigi_pai.local.store import Store

__all__ = [
    "attempt_summary",
    "framework_name",
    "job_detail_v2",
    "job_row_v2",
    "job_state_v2",
    "object_uid",
    "sub_state_v2",
    "task_attempts",
]

_NODE = "localhost"
_SECOND = 1000


def framework_name(job: Job) -> str:
    """Return the name under which a job's launcher knows it: a hash of ``USER~NAME``."""
    return hashlib.md5(job.full_name.encode(), usedforsecurity=False).hexdigest()


def job_state_v2(job: Job) -> str:
    """Return WAITING, RUNNING, STOPPING, SUCCEEDED, STOPPED or FAILED."""
    if job.sub_state == COMPLETED:
        return _ended_state(job.exit_code)
    if job.sub_state == WAITING:
        return "WAITING"
    return "STOPPING" if job.execution_type == "STOP" else "RUNNING"


def _ended_state(exit_code: int | None) -> str:
    return {0: "SUCCEEDED", EXIT_STOPPED: "STOPPED", EXIT_JOB_ENDED: "STOPPED"}.get(
        1 if exit_code is None else exit_code, "FAILED"
    )


def sub_state_v2(job: Job) -> str:
    """Return the launcher's own word for a job's state; before the first attempt, that it lacks resources."""
    return {
        "WAITING": "AttemptCreationPending" if job.retries else "AttemptPreparing",
        "RUNNING": "AttemptRunning",
        "STOPPING": "AttemptDeletionRequested",
    }.get(job_state_v2(job), "Completed")


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


def job_row_v2(job: Job, tags: Sequence[str]) -> dict[str, Any]:
    """Return a job as the list shows it."""
    return {
        "debugId": framework_name(job),
        "name": job.name,
        "username": job.username,
        "state": job_state_v2(job),
        "subState": sub_state_v2(job),
        "executionType": job.execution_type,
        "tags": list(tags),
        **_counts(job),
        "submissionTime": _submitted(job),
        "createdTime": job.created,
        "launchedTime": job.launched,
        "completedTime": job.completed,
        "appExitCode": job.exit_code,
        "virtualCluster": job.virtual_cluster,
        "totalGpuNumber": job.total_gpus,
        "totalTaskNumber": job.total_tasks,
        "totalTaskRoleNumber": job.total_roles,
        "jobPriority": None,
    }


def job_detail_v2(job: Job, attempt: Attempt | None, store: Store, tags: Sequence[str]) -> dict[str, Any]:
    """Return a job as GET /jobs/USER~NAME shows it.

    Args:
        job: the job.
        attempt: the attempt to show; None before the first.
        store: what knows its tasks.
        tags: the job's tags.
    """
    tasks = [] if attempt is None else store.tasks(attempt)
    number = attempt_number(attempt)
    roles: dict[str, Any] = {}
    for task in tasks:
        role = roles.setdefault(task.role, {"taskRoleStatus": {"name": task.role}, "taskStatuses": []})
        role["taskStatuses"].append(_task_status(job, attempt, task))
    return {
        "debugId": framework_name(job),
        "name": job.name,
        "tags": list(tags),
        "jobStatus": {
            "username": job.username,
            "state": job_state_v2(job),
            "subState": sub_state_v2(job),
            "executionType": job.execution_type,
            **_counts(job),
            "createdTime": job.created,
            "launchedTime": job.launched,
            "completedTime": job.completed,
            "attemptId": number,
            "attemptState": _attempt_state(job, attempt),
            "appId": f"{number}_{object_uid(job.full_name, number)}",
            **ending(job, attempt, tasks),
            "virtualCluster": job.virtual_cluster,
            "submissionTime": _submitted(job),
        },
        "taskRoles": roles,
    }


def attempt_number(attempt: Attempt | None) -> int:
    """Return the number that the v2 API gives an attempt: 0 for the first."""
    return 0 if attempt is None else attempt.number - 1


def object_uid(*words: object) -> str:
    """Return the UID of one of the launcher's objects by what is its own, such as the full name of a job."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, "/".join(map(str, words))))


def _attempt_state(job: Job, attempt: Attempt | None) -> str:
    if attempt is not None and attempt.completed is not None:
        return _ended_state(attempt.exit_code)
    return job_state_v2(job)


def _log_list(job: Job, attempt: Attempt | None, task: Task) -> str:
    return (
        f"/api/v2/jobs/{job.full_name}/attempts/{attempt_number(attempt)}"
        f"/taskRoles/{task.role}/taskIndex/{task.index}/attempts/{task.number}/logs"
    )


def _task_state(task: Task) -> str:
    if task.exit_code is not None:
        return _ended_state(task.exit_code)
    return "RUNNING" if task.launched else "WAITING"


def _container(job: Job, attempt: Attempt | None, task: Task) -> dict[str, Any]:
    return {
        "containerId": task.container_id,
        "containerIp": CONTAINER_IP,
        "containerNodeName": _NODE,
        "containerPorts": {label: ",".join(map(str, ports)) for label, ports in task.ports.items()},
        "containerGpus": None,
        "containerLog": _log_list(job, attempt, task),
        "containerExitCode": task.exit_code,
        "containerExitSpec": exit_spec(task.exit_code),
        "containerExitDiagnostics": diagnostics(task),
    }


def _task_times(attempt: Attempt | None, task: Task) -> dict[str, Any]:
    return {
        "createdTime": attempt and attempt.launched,
        "launchedTime": task.launched,
        "completedTime": task.completed,
    }


def _task_attempt_times(attempt: Attempt | None, task: Task) -> dict[str, Any]:
    return {
        "attemptId": task.number,
        "attemptState": _task_state(task),
        "currentAttemptCreatedTime": attempt and attempt.launched,
        "currentAttemptLaunchedTime": task.launched,
        "currentAttemptCompletedTime": task.completed,
    }


def _task_status(job: Job, attempt: Attempt | None, task: Task) -> dict[str, Any]:
    return {
        "taskIndex": task.index,
        "taskUid": object_uid(task.attempt_id, task.name),
        "taskState": _task_state(task),
        **_container(job, attempt, task),
        "retries": task.number,
        "accountableRetries": task.counted_retries,
        **_task_times(attempt, task),
        **_task_attempt_times(attempt, task),
    }


def task_attempts(job: Job, attempt: Attempt, tries: Sequence[Task]) -> dict[str, Any]:
    """Return a task with its tries, the latest of which comes first."""
    task = tries[0]
    return {
        "username": job.username,
        "jobName": job.name,
        "jobAttemptId": attempt_number(attempt),
        "taskRoleName": task.role,
        "taskIndex": task.index,
        "taskUid": object_uid(task.attempt_id, task.name),
        "taskState": _task_state(task),
        "retries": task.number,
        "accountableRetries": task.counted_retries,
        **_task_times(attempt, task),
        "attempts": [
            {**_task_attempt_times(attempt, item), **_container(job, attempt, item)} for item in tries
        ],
    }


def attempt_summary(job: Job, attempt: Attempt, store: Store) -> dict[str, Any]:
    """Return an attempt as GET job-attempts lists it."""
    detail = job_detail_v2(job, attempt, store, [])
    status = detail["jobStatus"]
    code = attempt.exit_code
    spec = exit_spec(code)
    return {
        "jobName": job.name,
        "frameworkName": framework_name(job),
        "uid": object_uid(job.full_name),
        "userName": job.username,
        "state": status["attemptState"],
        "originState": "Completed" if attempt.completed else status["subState"],
        "attemptIndex": status["attemptId"],
        "jobStartedTime": job.created,
        "attemptStartedTime": attempt.launched,
        "attemptCompletedTime": attempt.completed,
        "exitCode": code,
        "exitPhrase": spec and spec["phrase"],
        "exitType": status["appExitType"],
        "exitDiagnostics": None
        if status["appExitDiagnostics"] is None
        else {
            "diagnosticsSummary": status["appExitDiagnostics"],
            "runtime": status["appExitMessages"]["runtime"],
            "launcher": status["appExitMessages"]["launcher"],
        },
        **{key: status[key] for key in status if key.startswith(("appExitTrigger", "appExitSpec"))},
        "appExitDiagnostics": status["appExitDiagnostics"],
        "appExitMessages": status["appExitMessages"],
        "totalGpuNumber": job.total_gpus,
        "totalTaskNumber": job.total_tasks,
        "totalTaskRoleNumber": job.total_roles,
        "jobPriority": None,
        "taskRoles": detail["taskRoles"],
    }
