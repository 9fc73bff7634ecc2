"""Jobs and their attempts as the v2 API of OpenPAI 1.8 shows them.

The store only contains attempts that have started. This module adds the attempt that a job is waiting for,
or was waiting for when the job was stopped.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.dialects.yaml_text import write_yaml
from luigi_pai.local.container.environment import CONTAINER_IP
from luigi_pai.local.launcher.completion import ALL_ENDED
from luigi_pai.local.releases import EXIT_JOB_ENDED, EXIT_LOST, EXIT_STOPPED, STOPPED_MESSAGE, exit_spec
from luigi_pai.local.store.records import Attempt, Task, framework_name, object_uid
from luigi_pai.local.views.v1 import chosen, job_facts, tasks_by_role

if TYPE_CHECKING:
    import sqlite3
    from collections.abc import Callable, Sequence

    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Job


@dataclass(frozen=True)
class ShownAttempt:
    """An attempt of a job, as the API shows it.

    Attributes:
        created: when it was created, in milliseconds since 1970 UTC.
        launched: when it started or, if the job ended before that, when the job ended; None while the job
            waits.
        tasks: each task's latest try.
    """

    record: Attempt
    created: int
    launched: int | None
    tasks: Sequence[Task]

    @property
    def index(self) -> int:
        """Its number in the API, from 0."""
        return self.record.number - 1


def latest_attempt(job: Job, store: Store) -> ShownAttempt:
    """Return the attempt that a job runs, waits for, or ended with."""
    last = store.last_attempt(job)
    if last is not None and last.number > job.retries:
        return _shown(job, last, store)
    record = Attempt(0, job.id, job.retries + 1, 0, completed=job.completed, exit_code=job.exit_code)
    tasks = [
        Task(
            container_id="",
            attempt_id=0,
            role=role["name"],
            index=index,
            folder="",
            exit_code=None if job.completed is None else EXIT_JOB_ENDED,
            completed=job.completed,
        )
        for role in job.roles
        for index in range(role["taskNumber"])
    ]
    return ShownAttempt(record, _creation(job, last), job.completed, tasks)


def numbered_attempt(job: Job, index: int, store: Store) -> ShownAttempt | None:
    """Return an attempt by its number, from 0; None if there is no such attempt."""
    if index == job.retries:
        return latest_attempt(job, store)
    record = store.attempt(job, index + 1)
    return None if record is None else _shown(job, record, store)


def _shown(job: Job, record: Attempt, store: Store) -> ShownAttempt:
    created = _creation(job, store.attempt(job, record.number - 1))
    return ShownAttempt(record, created, record.launched, store.tasks(record))


def _creation(job: Job, before: Attempt | None) -> int:
    """Return when an attempt was created: with the job, or at the end of the previous attempt."""
    return job.created if before is None else before.completed or before.launched


_DIAGNOSTICS = {
    0: "Pod succeeded",
    EXIT_LOST: "Pod was deleted by others",
    EXIT_STOPPED: STOPPED_MESSAGE,
    EXIT_JOB_ENDED: "Stop to complete current FrameworkAttempt",
}
"""The launcher's diagnostics for these exit codes; `_diagnostics` composes them for other exit codes."""


def _ending(job: Job, shown: ShownAttempt) -> dict[str, Any]:
    """Return the job detail fields that show when an attempt ran and how it ended."""
    record = shown.record
    decided = (record.trigger_role, record.trigger_index)
    trigger = next((task for task in shown.tasks if (task.role, task.index) == decided), None)
    code, completed = record.exit_code, record.completed
    info = _info(trigger) if code else {}
    message = record.trigger_message or ""
    diagnostics = message if message.startswith(ALL_ENDED) else _diagnostics(code, info)
    runtime = None if "init" in info else info or None
    return {
        "appProgress": 0 if completed is None else 1,
        "appTrackingUrl": "",
        "appCreatedTime": shown.created,
        "appLaunchedTime": shown.launched,
        "appCompletedTime": completed,
        "appExitCode": code,
        "appExitSpec": exit_spec(code),
        "appExitDiagnostics": diagnostics,
        "appExitMessages": None
        if diagnostics is None
        else {"container": None, "runtime": runtime, "launcher": None if runtime else diagnostics},
        "appExitTriggerMessage": record.trigger_message,
        "appExitTriggerTaskRoleName": record.trigger_role,
        "appExitTriggerTaskIndex": record.trigger_index,
        "appExitType": None if code is None else job.release.exit_type(code),
    }


def _info(task: Task | None) -> dict[str, Any]:
    return {**json.loads(task.exit_info), "name": "app"} if task is not None and task.exit_info else {}


def _diagnostics(code: int | None, info: dict[str, Any]) -> str | None:
    if code is None:
        return None
    if code in _DIAGNOSTICS:
        return _DIAGNOSTICS[code]
    if "init" in info:  # the launcher's patterns do not match a failed init container
        init = {"name": "init", "reason": "Error", "message": info["init"], "code": code}
        shown = write_yaml({"containers": [init, {"name": "app", "code": 0}]})
        return f"Pod failed: PodPattern unmatched:\n{shown}"
    container: dict[str, Any] = {"name": "app"}
    if info:
        shown = write_yaml({key: value for key, value in info.items() if key != "name"})
        container["message"] = f"[PAI_RUNTIME_ERROR_START]\n{shown}[PAI_RUNTIME_ERROR_END]"
    container["code"] = code
    return f"Pod failed: PodPattern matched:\n{write_yaml({'containers': [container]})}"


_NODE = "localhost"
_SECOND = 1000


def _sub_state(job: Job) -> str:
    """Return the launcher's name for a job's state."""
    return {
        "WAITING": "AttemptCreationPending" if job.retries else "AttemptPreparing",
        "RUNNING": "AttemptRunning",
        "STOPPING": "AttemptDeletionRequested",
    }.get(job.state, "Completed")


_ROW = (
    "debugId name username state subState executionType tags retries retryDetails retryDelayTime"
    " submissionTime createdTime launchedTime completedTime appExitCode virtualCluster"
    " totalGpuNumber totalTaskNumber totalTaskRoleNumber jobPriority"
)
_STATUS = (
    "username state subState executionType retries retryDetails retryDelayTime createdTime launchedTime"
    " completedTime"
)


def _facts(job: Job, tags: Sequence[str]) -> dict[str, Any]:
    platform = job.retries - job.counted_retries
    return {
        **job_facts(job),
        "debugId": framework_name(job),
        "subState": _sub_state(job),
        "tags": list(tags),
        "retryDetails": {"user": job.counted_retries, "platform": platform, "resource": 0},
        "retryDelayTime": None,
        "submissionTime": job.created // _SECOND * _SECOND,
        "launchedTime": job.launched or job.completed,
        "totalGpuNumber": job.total_gpus,
        "totalTaskNumber": job.total_tasks,
        "totalTaskRoleNumber": job.total_roles,
        "jobPriority": None,
    }


def job_row(job: Job, tags: Sequence[str]) -> dict[str, Any]:
    """Return a job as the list shows it."""
    return chosen(_facts(job, tags), _ROW)


def job_detail(
    job: Job, shown: ShownAttempt, tags: Sequence[str], tries: Callable[[Task], Sequence[Task]]
) -> dict[str, Any]:
    """Return a job as GET /jobs/USER~NAME shows it; ``tries`` returns all tries of a task, latest first."""
    facts = _facts(job, tags)
    return {
        **chosen(facts, "debugId name tags"),
        "jobStatus": {
            **chosen(facts, _STATUS),
            "attemptId": shown.index,
            "attemptState": _attempt_state(job, shown),
            "appId": f"{shown.index}_{object_uid(job.full_name, shown.index)}",
            **_ending(job, shown),
            **chosen(facts, "virtualCluster submissionTime"),
        },
        "taskRoles": tasks_by_role(shown.tasks, lambda task: _task_status(job, shown, tries(task))),
    }


def _attempt_state(job: Job, shown: ShownAttempt) -> str:
    if shown.record.completed is not None:
        return job.release.ended_state(shown.record.exit_code)
    return job.state


def _task_state(job: Job, task: Task) -> str:
    if task.exit_code is not None:
        return job.release.ended_state(task.exit_code)
    return "RUNNING" if task.launched else "WAITING"


def _container(job: Job, shown: ShownAttempt, task: Task) -> dict[str, Any]:
    path = f"/attempts/{shown.index}/taskRoles/{task.role}/taskIndex/{task.index}/attempts/{task.number}"
    return {
        "containerId": task.container_id or None,
        "containerIp": CONTAINER_IP if task.launched else None,
        "containerNodeName": _NODE if task.launched else None,
        "containerPorts": {label: ",".join(map(str, ports)) for label, ports in task.ports.items()},
        "containerGpus": None,
        "containerLog": f"/api/v2/jobs/{job.full_name}{path}/logs",
        "containerExitCode": task.exit_code,
        "containerExitSpec": exit_spec(task.exit_code),
        "containerExitDiagnostics": _diagnostics(task.exit_code, _info(task)),
    }


def _task_history(job: Job, shown: ShownAttempt, tried: Sequence[Task]) -> dict[str, Any]:
    """Return a task's index, state and retries, when its first try started, and when its latest try ended."""
    task = tried[0]
    return {
        "taskIndex": task.index,
        "taskUid": object_uid(job.full_name, shown.index, task.name),
        "taskState": _task_state(job, task),
        "retries": task.number,
        "accountableRetries": task.counted_retries,
        "createdTime": shown.created,
        "launchedTime": tried[-1].launched or task.completed,
        "completedTime": task.completed,
    }


def _try_times(job: Job, shown: ShownAttempt, tried: Sequence[Task]) -> dict[str, Any]:
    """Return ``tried[0]``'s number, state and times; a retry is created when the previous try ends."""
    task = tried[0]
    return {
        "attemptId": task.number,
        "attemptState": _task_state(job, task),
        "currentAttemptCreatedTime": tried[1].completed if len(tried) > 1 else shown.created,
        "currentAttemptLaunchedTime": task.launched or task.completed,
        "currentAttemptCompletedTime": task.completed,
    }


def _task_status(job: Job, shown: ShownAttempt, tried: Sequence[Task]) -> dict[str, Any]:
    return {
        **_task_history(job, shown, tried),
        **_container(job, shown, tried[0]),
        **_try_times(job, shown, tried),
    }


def task_attempts(job: Job, shown: ShownAttempt, tried: Sequence[Task]) -> dict[str, Any]:
    """Return a task and its tries in the API's format; ``tried`` lists all tries, latest first."""
    return {
        "username": job.username,
        "jobName": job.name,
        "jobAttemptId": shown.index,
        "taskRoleName": tried[0].role,
        **_task_history(job, shown, tried),
        "attempts": [
            {**_try_times(job, shown, tried[at:]), **_container(job, shown, item)}
            for at, item in enumerate(tried)
        ],
    }


def event_row(job: Job, row: sqlite3.Row) -> dict[str, Any]:
    """Return a job's event as the API shows it."""
    moment = datetime.fromtimestamp(row["at"] / 1000, timezone.utc)
    written = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return {
        "uid": str(row["id"]),
        "frameworkName": framework_name(job),
        "podUid": row["container_id"],
        "taskroleName": row["role"],
        "taskName": None if row["role"] is None else f"{row['role']}-{row['task_index']}",
        "taskIndex": row["task_index"],
        "type": row["type"],
        "reason": row["reason"],
        "message": row["message"],
        "firstTimestamp": written,
        "lastTimestamp": written,
        "count": 1,
        "sourceComponent": "luigi-pai-local",
        "sourceHost": "localhost",
    }
