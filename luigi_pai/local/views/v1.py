"""Jobs and virtual clusters as the v1 API of OpenPAI 0.7.1 shows them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from luigi_pai.local.container.environment import CONTAINER_IP
from luigi_pai.local.store.records import COMPLETED, WAITING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from luigi_pai.local.config.settings import Address
    from luigi_pai.local.launcher.scheduler import Scheduler
    from luigi_pai.local.store.jobs import Store
    from luigi_pai.local.store.records import Attempt, Job, Task

_RULE = "_" * 200


_STATUS = "name username state subState executionType retries createdTime completedTime"


def job_facts(job: Job) -> dict[str, Any]:
    """Return the job fields common to both APIs, by their common names, and the job's v1 sub-state."""
    return {
        "name": job.name,
        "username": job.username,
        "state": job.state,
        "subState": job.sub_state,
        "executionType": job.execution_type,
        "retries": job.retries,
        "createdTime": job.created,
        "completedTime": job.completed,
        "appExitCode": job.exit_code,
        "virtualCluster": job.virtual_cluster,
    }


def chosen(facts: Mapping[str, Any], names: str) -> dict[str, Any]:
    """Return the facts with the given names (separated by spaces), in that order."""
    return {name: facts[name] for name in names.split()}


def job_row(job: Job, _tags: Sequence[str] = ()) -> dict[str, Any]:
    """Return a job as the list shows it. v1 jobs have no tags."""
    return job_facts(job)


def job_detail(job: Job, store: Store, address: Address, waits_for: str | None) -> dict[str, Any]:
    """Return a job as GET /jobs/NAME shows it.

    ``waits_for`` is why a WAITING job waits. It is shown as the job's diagnostics. (A real 0.7.1 shows null
    as the diagnostics until the job has ended.)
    """
    attempt = None if job.sub_state == WAITING else store.last_attempt(job)
    tasks = [] if attempt is None else store.tasks(attempt)
    diagnostics = _diagnostics(job, attempt, tasks, address) if waits_for is None else f"waiting: {waits_for}"
    return {
        "name": job.name,
        "jobStatus": {
            **chosen(job_facts(job), _STATUS),
            **_application(job, attempt, tasks, store, address),
            "appExitDiagnostics": diagnostics,
            "appExitType": job.exit_type,
            "virtualCluster": job.virtual_cluster,
        },
        "taskRoles": tasks_by_role(tasks, lambda task: _task_status(task, job, address)),
    }


def tasks_by_role(tasks: Iterable[Task], status: Callable[[Task], dict[str, Any]]) -> dict[str, Any]:
    """Return task roles by name, each with its tasks; ``status`` returns a task as the API shows it."""
    roles: dict[str, Any] = {}
    for task in tasks:
        role = roles.setdefault(task.role, {"taskRoleStatus": {"name": task.role}, "taskStatuses": []})
        role["taskStatuses"].append(status(task))
    return roles


def _application(
    job: Job, attempt: Attempt | None, tasks: Sequence[Task], store: Store, address: Address
) -> dict[str, Any]:
    ended = sum(task.exit_code is not None for task in tasks)
    done = job.sub_state == COMPLETED
    return {
        "appId": attempt and attempt.application_id(store.cluster_timestamp),
        "appProgress": 1 if done else ended / len(tasks) if tasks else 0,
        "appTrackingUrl": attempt and f"{address.url}{job_link(job)}",
        "appLaunchedTime": attempt and attempt.launched,
        "appCompletedTime": attempt and attempt.completed,
        "appExitCode": job.exit_code,
    }


def _diagnostics(job: Job, attempt: Attempt | None, tasks: Sequence[Task], address: Address) -> str | None:
    """Return why a job ended. If a task made it fail, the message looks like 0.7.1's launcher's."""
    decided = attempt and (attempt.trigger_role, attempt.trigger_index)
    task = next((each for each in tasks if (each.role, each.index) == decided), None)
    if task is None or not job.exit_code or not job.diagnostics:
        return job.diagnostics
    reason, _, report = job.diagnostics.partition("\n")
    status = {
        "taskIndex": task.index,
        "taskRoleName": task.role,
        "taskState": "TASK_COMPLETED",
        "containerId": task.container_id,
        "containerIp": CONTAINER_IP,
        "containerLogHttpAddress": log_url(task, job, address),
        "containerExitCode": task.exit_code,
        "containerExitDiagnostics": report,
        "containerExitType": job.exit_type,
    }
    last = f"[{task.role}]: [LastCompletedTask]: [TaskStatus]:\n{json.dumps(status, indent=1)}"
    return f"{last}\n{_RULE}\n[ApplicationCompletionReason]: {reason}"


def _task_status(task: Task, job: Job, address: Address) -> dict[str, Any]:
    return {
        "taskIndex": task.index,
        "containerId": task.container_id,
        "containerIp": CONTAINER_IP,
        "containerPorts": {label: ",".join(map(str, ports)) for label, ports in task.ports.items()},
        "containerGpus": sum(1 << int(number) for number in task.gpus.split(",") if number),
        "containerLog": log_url(task, job, address),
    }


def job_link(job: Job) -> str:
    """Return the path and query in the URL of a job's page."""
    return f"/job-detail.html?{urlencode({'username': job.username, 'jobName': job.name})}"


def log_url(task: Task, job: Job, address: Address) -> str:
    """Return the URL of a task's output, in the format of YARN's log URLs."""
    return f"{address.url}/node/containerlogs/{task.container_id}/{job.username}/"


def virtual_clusters(scheduler: Scheduler, unfinished: Sequence[Job]) -> dict[str, dict[str, Any]]:
    """Return virtual clusters with their unfinished job counts. Percentages are of memory, as on YARN."""
    shown = {}
    everything = scheduler.total.memory or 1
    for name, has in scheduler.clusters.items():
        here = [job for job in unfinished if job.virtual_cluster == name]
        waiting = sum(job.sub_state == WAITING for job in here)
        used = scheduler.used(name)
        shown[name] = {
            "capacity": 100 * has.memory / everything,
            "maxCapacity": 100 * has.memory / everything,
            "usedCapacity": 100 * used.memory / everything,
            "numActiveJobs": len(here) - waiting,
            "numJobs": len(here),
            "numPendingJobs": waiting,
            "resourcesUsed": {"memory": used.memory, "vCores": used.cpu, "GPUs": used.gpu},
        }
    return shown
