"""The environment of a v2 task: what OpenPAI 1.8 sets in a container, per its rest-server and runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.environment import CONTAINER_IP, base_variables, commas
from luigi_pai.local.store.records import framework_name, object_uid, task_uid

if TYPE_CHECKING:
    from collections.abc import Container, Sequence

    from luigi_pai.local.container.task_start import TaskStart
    from luigi_pai.local.store.records import Attempt, Job, Task

__all__ = ["task_environment"]


_NAMESPACE = "default"


def task_environment(start: TaskStart) -> dict[str, str]:
    """Return every variable of a v2 task."""
    job, task = start.job, start.task
    return {
        **base_variables(start),
        "LUIGI_PAI_MOUNTS": str(start.files.work),
        **_of_the_launcher(job, start.attempt, task),
        **_of_the_job(job),
        **_of_all_tasks(job.roles, start.tasks, start.allocated),
        "PAI_CONTAINER_HOST_PORT_LIST": "".join(
            f"{label}:{commas(ports)};" for label, ports in task.ports.items()
        ),
        "PAI_CURRENT_TASK_ROLE_NAME": start.role["shown"],
    }


def _of_the_launcher(job: Job, attempt: Attempt, task: Task) -> dict[str, str]:
    """Return what FrameworkController sets in every container: the names and UIDs of its own objects."""
    name, number = framework_name(job), attempt.number - 1
    attempt_uid = object_uid(job.full_name, number)
    return {
        "FC_FRAMEWORK_NAMESPACE": _NAMESPACE,
        "FC_FRAMEWORK_NAME": name,
        "FC_TASKROLE_NAME": task.role,
        "FC_TASK_INDEX": str(task.index),
        "FC_CONFIGMAP_NAME": f"{name}-attempt",
        "FC_POD_NAME": f"{name}-{task.role}-{task.index}",
        "FC_FRAMEWORK_UID": object_uid(job.full_name),
        "FC_FRAMEWORK_ATTEMPT_ID": str(number),
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"{number}_{attempt_uid}",
        "FC_CONFIGMAP_UID": attempt_uid,
        "FC_TASKROLE_UID": task_uid(job, number, task.role),
        "FC_TASK_UID": task_uid(job, number, task.name),
        "FC_TASK_ATTEMPT_ID": str(task.number),
        "FC_POD_UID": task.container_id,
        "FC_TASK_ATTEMPT_INSTANCE_UID": f"{task.number}_{task.container_id}",
    }


def _of_the_job(job: Job) -> dict[str, str]:
    roles = job.roles
    names = ",".join(role["shown"] for role in roles)
    variables = {
        "PAI_FRAMEWORK_NAME": job.full_name,
        "PAI_JOB_NAME": job.full_name,
        "PAI_DEFAULT_FS_URI": "",
        "PAI_VIRTUAL_CLUSTER": job.virtual_cluster,
        "PAI_TASK_ROLE_COUNT": str(len(roles)),
        "PAI_TASK_ROLE_LIST": names,
        "PAI_JOB_TASK_ROLE_LIST": names,
    }
    for role in roles:
        name = role["shown"]
        resources = (role["gpuNumber"], role["cpuNumber"], role["memoryMB"], role["shmMB"])
        variables |= {
            f"PAI_TASK_ROLE_TASK_COUNT_{name}": str(role["taskNumber"]),
            f"PAI_RESOURCE_{name}": commas(resources),
            f"PAI_MIN_FAILED_TASK_COUNT_{name}": str(role["minFailedTaskCount"]),
            f"PAI_MIN_SUCCEEDED_TASK_COUNT_{name}": str(role["minSucceededTaskCount"]),
        }
    return variables


def _of_all_tasks(
    roles: Sequence[dict[str, Any]], tasks: Sequence[Task], allocated: Container[str]
) -> dict[str, str]:
    """Return how every task finds every other; one that waits for resources has ports, but no address."""
    variables = {"PAI_TASK_ROLE_INSTANCES": ",".join(f"{other.role}:{other.index}" for other in tasks)}
    hosts: dict[str, list[str]] = {role["name"]: [] for role in roles}
    for other in tasks:
        for label, ports in other.ports.items():
            numbers = commas(ports)
            variables[f"PAI_PORT_LIST_{other.role}_{other.index}_{label}"] = numbers
            variables[f"PAI_{other.role}_{other.index}_{label}_PORT"] = numbers
        if other.launched is not None or other.container_id in allocated:
            variables[f"PAI_HOST_IP_{other.role}_{other.index}"] = CONTAINER_IP
            hosts[other.role].append(f"{CONTAINER_IP}:{other.ports['http'][0]}")
    for name, addresses in hosts.items():
        variables[f"PAI_TASK_ROLE_{name}_HOST_LIST"] = ",".join(addresses)
    return variables
