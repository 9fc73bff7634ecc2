"""The environment variables of a task. They describe this machine, the job, its task roles and its tasks."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.local.container.processes import TASK_VARIABLE
from luigi_pai.local.store.records import framework_name, object_uid
from luigi_pai.runtime import variables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from luigi_pai.local.container.task_files import TaskStart
    from luigi_pai.local.store.records import Task

CONTAINER_IP = "127.0.0.1"
"""The address of every task."""

MOUNTS_VARIABLE = "LUIGI_PAI_MOUNTS"
"""Name of the variable with the folder that contains a task's storages; empty for the root folder."""

_INHERITED = (
    "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "LD_LIBRARY_PATH", "JAVA_HOME", "CUDA_HOME", "VIRTUAL_ENV",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
"""Variables that a task inherits from the server, plus ``LC_*``; others may contain credentials."""


def task_environment(start: TaskStart) -> dict[str, str]:
    """Return all of a task's environment variables, as in a container on the job's release."""
    job, task, api, hdfs = start.job, start.task, start.job.release.api, start.services.hdfs
    values = {
        "work_dir": start.files.work,
        "user": job.username,
        "virtual_cluster": job.virtual_cluster,
        "role_count": len(job.roles),
        "tasks": sum(role["taskNumber"] for role in job.roles),
        "index": task.index,
        "host": CONTAINER_IP,
        "http": task.ports["http"][0],
        "ssh": task.ports["ssh"][0],
    }
    environment = {
        **_machine_variables(start.services.bin),
        TASK_VARIABLE: str(start.files.folder),
        **({"LUIGI_PAI_WEBHDFS_URL": hdfs.webhdfs_url} if hdfs.webhdfs_url else {}),
        **variables("v1", "hadoop_user", job.username),
        **_all_variables(api, values),
        "PYTHONUNBUFFERED": "1",  # OpenPAI 0.7 runs commands on a terminal, so their output is not buffered
        "CUDA_VISIBLE_DEVICES": task.gpus,  # because no container hides the other GPUs from a task
        "NVIDIA_VISIBLE_DEVICES": task.gpus or "none",
    }
    for label, ports in task.ports.items():
        environment |= variables(api, "own_label", _commas(ports), label=label)
    if start.services.scripts.of(job.id) is not None:
        return environment  # without PAI_CODE_DIR, so that the task fetches no code
    return environment | (_v1_variables(start) if api == "v1" else _v2_variables(start))


def _all_variables(api: str, values: Mapping[str, object], **fields: object) -> dict[str, str]:
    """Return the `variables` for all keys and values of ``values``, in one dict."""
    found: dict[str, str] = {}
    for key, value in values.items():
        found |= variables(api, key, value, **fields)
    return found


def _commas(items: Iterable[object]) -> str:
    return ",".join(map(str, items))


def without_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment, changed so that requests to this machine bypass any proxies."""
    direct = dict(environment)
    if any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in direct):
        for name in ("no_proxy", "NO_PROXY"):
            direct[name] = ",".join(filter(None, (direct.get(name), "127.0.0.1,localhost,::1")))
    return direct


def _machine_variables(bin_folder: Path) -> Mapping[str, str]:
    """Return the variables that a task inherits. hdfs's and this Python's folders come first in PATH."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    kept |= {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    folders = [str(bin_folder), str(Path(sys.executable).parent), os.environ.get("PATH") or os.defpath]
    return without_proxies(kept) | {"PATH": os.pathsep.join(folders)}


def _hosts(api: str, role: str, tasks: Iterable[Task]) -> dict[str, str]:
    """Return the variable with the addresses of a role's tasks."""
    addresses = [f"{CONTAINER_IP}:{task.ports['http'][0]}" for task in tasks if task.role == role]
    return variables(api, "hosts", _commas(addresses), role=role)


def _v1_variables(start: TaskStart) -> dict[str, str]:
    """Return the variables that exist only in OpenPAI 0.7's containers.

    In the job's three HDFS folders, ``$PAI_DEFAULT_FS_URI`` is replaced, as in 0.7's rest-server. A missing
    or empty outputDir becomes ``URI/Output/USER/NAME``.
    """
    job, task, role, services = start.job, start.task, start.role, start.services
    fs_uri = services.hdfs.fs_uri
    output = job.spec["outputDir"] or f"{fs_uri}/Output/{job.username}/{job.name}"
    folders = {"data_dir": job.spec["dataDir"], "output_dir": output, "code_dir": job.spec["codeDir"]}
    values = {
        "application": start.attempt.application_id(services.store.cluster_timestamp),
        "job": job.name,
        "fs_uri": fs_uri,
        **{key: value.replace("$PAI_DEFAULT_FS_URI", fs_uri, 1) for key, value in folders.items()},
        "role": role["name"],
        "count": role["taskNumber"],
        "cpus": role["cpuNumber"],
        "memory_mb": role["memoryMB"],
        "shm_mb": role["shmMB"],
        "gpus": role["gpuNumber"],
        "min_failed": _or_empty(role["minFailedTaskCount"]),
        "min_succeeded": _or_empty(role["minSucceededTaskCount"]),
        "kill_all": "",
        "roles": _commas(item["name"] for item in job.roles),
        "container": task.container_id,
        "own_ports": ";".join(f"{label}:{_commas(ports)}" for label, ports in task.ports.items()),
    }
    environment = _all_variables("v1", values)
    for item in job.roles:
        environment |= _hosts("v1", item["name"], start.tasks)
    return environment


def _or_empty(value: int | None) -> str:
    return "" if value is None else str(value)


def _v2_variables(start: TaskStart) -> dict[str, str]:
    """Return the variables that exist only in OpenPAI 1.8's containers; roles' resources are by role name."""
    job, task = start.job, start.task
    values = {
        "job": job.full_name,
        "fs_uri": "",
        "roles": _commas(role["shown"] for role in job.roles),
        "role": start.role["shown"],
        "own_ports": "".join(f"{label}:{_commas(ports)};" for label, ports in task.ports.items()),
    }
    environment = {
        **_all_variables("v2", values),
        MOUNTS_VARIABLE: str(start.files.work),
        **_launcher_variables(start),
        **_instance_variables(start),
    }
    for role in job.roles:
        resources = (role["gpuNumber"], role["cpuNumber"], role["memoryMB"], role["shmMB"])
        values = {
            "count": role["taskNumber"],
            "resources": _commas(resources),
            "min_failed": role["minFailedTaskCount"],
            "min_succeeded": role["minSucceededTaskCount"],
        }
        environment |= _all_variables("v2", values, role=role["shown"])
    return environment


def _launcher_variables(start: TaskStart) -> dict[str, str]:
    """Return the variables that FrameworkController sets in containers: its objects' names and UIDs."""
    job, task = start.job, start.task
    name, number = framework_name(job), start.attempt.number - 1
    attempt_uid = object_uid(job.full_name, number)
    return {
        "FC_FRAMEWORK_NAMESPACE": "default",
        "FC_FRAMEWORK_NAME": name,
        "FC_TASKROLE_NAME": task.role,
        "FC_TASK_INDEX": str(task.index),
        "FC_CONFIGMAP_NAME": f"{name}-attempt",
        "FC_POD_NAME": f"{name}-{task.role}-{task.index}",
        "FC_FRAMEWORK_UID": object_uid(job.full_name),
        "FC_FRAMEWORK_ATTEMPT_ID": str(number),
        "FC_FRAMEWORK_ATTEMPT_INSTANCE_UID": f"{number}_{attempt_uid}",
        "FC_CONFIGMAP_UID": attempt_uid,
        "FC_TASKROLE_UID": object_uid(job.full_name, number, task.role),
        "FC_TASK_UID": object_uid(job.full_name, number, task.name),
        "FC_TASK_ATTEMPT_ID": str(task.number),
        "FC_POD_UID": task.container_id,
        "FC_TASK_ATTEMPT_INSTANCE_UID": f"{task.number}_{task.container_id}",
    }


def _instance_variables(start: TaskStart) -> dict[str, str]:
    """Return the variables with all tasks' hosts and ports; a task still without resources has no host."""
    found = variables("v2", "instances", _commas(f"{task.role}:{task.index}" for task in start.tasks))
    running = [
        task for task in start.tasks if task.launched is not None or task.container_id in start.allocated
    ]
    for task in start.tasks:
        for label, ports in task.ports.items():
            place = {"role": task.role, "index": task.index, "label": label}
            found |= variables("v2", "task_ports", _commas(ports), **place)
    for task in running:
        found |= variables("v2", "task_host", CONTAINER_IP, role=task.role, index=task.index)
    for role in start.job.roles:
        found |= _hosts("v2", role["name"], running)
    return found
