"""The environment of a v2 task: what OpenPAI 1.8 sets in a container, per its rest-server and runtime."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.local.container.environment import CONTAINER_IP, base_variables, commas
from luigi_pai.local.store.records import framework_name, object_uid, task_uid
from luigi_pai.runtime import variables

if TYPE_CHECKING:
    from collections.abc import Container, Mapping, Sequence

    from luigi_pai.local.container.task_start import TaskStart
    from luigi_pai.local.store.records import Attempt, Job, Task

__all__ = ["task_environment"]


_NAMESPACE = "default"


def task_environment(start: TaskStart) -> dict[str, str]:
    """Return every variable of a v2 task."""
    job, task = start.job, start.task
    environment = {
        **base_variables(start),
        "LUIGI_PAI_MOUNTS": str(start.files.work),
        **_of_the_launcher(job, start.attempt, task),
        **_of_all_tasks(job.roles, start.tasks, start.allocated),
    }
    for key, value in (_of_the_job(job) | _of_the_task(task)).items():
        environment |= variables("v2", key, value)
    environment |= variables("v2", "role", start.role["shown"])
    for role in job.roles:
        environment |= _of_a_role(role)
    for label, ports in task.ports.items():
        environment |= variables("v2", "own_label", commas(ports), label=label)
    return environment


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


def _of_the_job(job: Job) -> dict[str, object]:
    """Return what the variables of the job say, by key."""
    roles = job.roles
    return {
        "job": job.full_name,
        "user": job.username,
        "fs_uri": "",
        "virtual_cluster": job.virtual_cluster,
        "role_count": len(roles),
        "roles": ",".join(role["shown"] for role in roles),
        "tasks": sum(role["taskNumber"] for role in roles),
    }


def _of_a_role(role: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a role; they have its own name, not the one in lower case."""
    resources = (role["gpuNumber"], role["cpuNumber"], role["memoryMB"], role["shmMB"])
    values = {
        "count": role["taskNumber"],
        "resources": ",".join(map(str, resources)),
        "min_failed": role["minFailedTaskCount"],
        "min_succeeded": role["minSucceededTaskCount"],
    }
    found: dict[str, str] = {}
    for key, value in values.items():
        found |= variables("v2", key, value, role=role["shown"])
    return found


def _of_all_tasks(
    roles: Sequence[dict[str, Any]], tasks: Sequence[Task], allocated: Container[str]
) -> dict[str, str]:
    """Return where each task finds every other; one that waits for resources has ports, but no address."""
    found = variables("v2", "instances", ",".join(f"{other.role}:{other.index}" for other in tasks))
    hosts: dict[str, list[str]] = {role["name"]: [] for role in roles}
    for other in tasks:
        place = {"role": other.role, "index": other.index}
        for label, ports in other.ports.items():
            found |= variables("v2", "task_ports", commas(ports), **place, label=label)
        if other.launched is not None or other.container_id in allocated:
            found |= variables("v2", "task_host", CONTAINER_IP, **place)
            hosts[other.role].append(f"{CONTAINER_IP}:{other.ports['http'][0]}")
    for name, addresses in hosts.items():
        found |= variables("v2", "hosts", ",".join(addresses), role=name)
    return found


def _of_the_task(task: Task) -> dict[str, object]:
    """Return what the variables of the task itself say, by key."""
    return {
        "index": task.index,
        "host": CONTAINER_IP,
        "http": task.ports["http"][0],
        "ssh": task.ports["ssh"][0],
        "own_ports": "".join(f"{label}:{commas(ports)};" for label, ports in task.ports.items()),
    }
