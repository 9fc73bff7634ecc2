"""The environment of a task: what OpenPAI's v1 containers see, and the little of this machine that stays."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.local.container.processes import TASK_VARIABLE
from luigi_pai.local.store.records import gpu_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.local.config.settings import HdfsAddress
    from luigi_pai.local.store.records import Job, Task

__all__ = [
    "CONTAINER_IP",
    "Place",
    "gpu_variables",
    "of_this_machine",
    "past_proxies",
    "task_environment",
]

CONTAINER_IP = "127.0.0.1"
"""The address of every task."""

_INHERITED = (
    "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "LD_LIBRARY_PATH", "JAVA_HOME", "CUDA_HOME", "VIRTUAL_ENV",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
"""Variables of the server that a task sees too; all others, credentials among them, it does not."""


@dataclass(frozen=True)
class Place:
    """Where a task runs.

    Attributes:
        folder: the task's folder.
        work: its working folder.
        bin: the folder of the ``hdfs`` and ``hadoop`` commands.
        hdfs: its HDFS.
        app_id: the attempt's application id.
    """

    folder: Path
    work: Path
    bin: Path
    hdfs: HdfsAddress
    app_id: str


def _hdfs_directories(job: Job, fs_uri: str) -> dict[str, str]:
    """Return dataDir, outputDir and codeDir with ``$PAI_DEFAULT_FS_URI`` replaced, as the server does.

    An outputDir that is absent or empty becomes ``URI/Output/USER/NAME``.
    """
    output = job.spec["outputDir"] or f"{fs_uri}/Output/{job.username}/{job.name}"
    given = {"dataDir": job.spec["dataDir"], "outputDir": output, "codeDir": job.spec["codeDir"]}
    return {key: value.replace("$PAI_DEFAULT_FS_URI", fs_uri, 1) for key, value in given.items()}


def task_environment(job: Job, tasks: Sequence[Task], task: Task, place: Place) -> dict[str, str]:
    """Return every variable of a task.

    Args:
        job: the job.
        tasks: all tasks of the attempt, with their ports.
        task: the task whose environment is wanted.
        place: where it runs.
    """
    roles = job.roles
    role = next(item for item in roles if item["name"] == task.role)
    directories = _hdfs_directories(job, place.hdfs.fs_uri)
    total = str(sum(item["taskNumber"] for item in roles))
    names = ",".join(item["name"] for item in roles)
    minimum_failed = _or_empty(role["minFailedTaskCount"])
    minimum_succeeded = _or_empty(role["minSucceededTaskCount"])
    http = str(task.ports["http"][0])
    index = str(task.index)
    environment = {
        **of_this_machine(place.bin),
        TASK_VARIABLE: str(place.folder),
        "LUIGI_PAI_WEBHDFS_URL": place.hdfs.webhdfs_url,
        "HADOOP_USER_NAME": job.username,
        "PYTHONUNBUFFERED": "1",  # OpenPAI 0.7 runs commands on a terminal: their output is seen at once
        "APP_ID": place.app_id,
        "FRAMEWORK_NAME": job.name,
        "PAI_WORK_DIR": str(place.work),
        "PAI_DEFAULT_FS_URI": place.hdfs.fs_uri,
        "PAI_JOB_NAME": job.name,
        "PAI_JOB_VC_NAME": job.virtual_cluster,
        "PAI_USER_NAME": job.username,
        "PAI_USERNAME": job.username,
        "PAI_DATA_DIR": directories["dataDir"],
        "PAI_OUTPUT_DIR": directories["outputDir"],
        "PAI_CODE_DIR": directories["codeDir"],
        "PAI_CURRENT_TASK_ROLE_NAME": role["name"],
        "PAI_CURRENT_TASK_ROLE_TASK_COUNT": str(role["taskNumber"]),
        "PAI_CURRENT_TASK_ROLE_CPU_COUNT": str(role["cpuNumber"]),
        "PAI_CURRENT_TASK_ROLE_MEM_MB": str(role["memoryMB"]),
        "PAI_CURRENT_TASK_ROLE_SHM_MB": str(role["shmMB"]),
        "PAI_CURRENT_TASK_ROLE_GPU_COUNT": str(role["gpuNumber"]),
        "PAI_CURRENT_TASK_ROLE_MIN_FAILED_TASK_COUNT": minimum_failed,
        "PAI_CURRENT_TASK_ROLE_MIN_SUCCEEDED_TASK_COUNT": minimum_succeeded,
        "PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": index,
        "PAI_JOB_TASK_COUNT": total,
        "PAI_JOB_TASK_ROLE_COUNT": str(len(roles)),
        "PAI_JOB_TASK_ROLE_LIST": names,
        "PAI_TASK_INDEX": index,
        "PAI_TASK_ROLE_NAME": role["name"],
        "PAI_TASK_ROLE_NUM": str(role["taskNumber"]),
        "PAI_TASK_ROLE_INDEX": index,
        "PAI_TASK_ROLE_LIST": names,
        "PAI_TASK_CPU_NUM": str(role["cpuNumber"]),
        "PAI_TASK_MEM_MB": str(role["memoryMB"]),
        "PAI_TASK_GPU_NUM": str(role["gpuNumber"]),
        "PAI_TASKS_NUM": total,
        "PAI_TASK_ROLES_NUM": str(len(roles)),
        "PAI_KILL_ALL_ON_COMPLETED_TASK_NUM": "",
        "PAI_CONTAINER_ID": task.container_id,
        "PAI_CONTAINER_HOST_IP": CONTAINER_IP,
        "PAI_CONTAINER_HOST_PORT": http,
        "PAI_CONTAINER_HOST_PORT_LIST": ";".join(
            f"{label}:{_commas(ports)}" for label, ports in task.ports.items()
        ),
        "PAI_CONTAINER_SSH_PORT": str(task.ports["ssh"][0]),
        "PAI_CURRENT_CONTAINER_IP": CONTAINER_IP,
        "PAI_CURRENT_CONTAINER_PORT": http,
    }
    for label, ports in task.ports.items():
        environment[f"PAI_CONTAINER_HOST_{label}_PORT_LIST"] = _commas(ports)
    for item in roles:
        environment[f"PAI_TASK_ROLE_{item['name']}_HOST_LIST"] = ",".join(
            f"{CONTAINER_IP}:{other.ports['http'][0]}" for other in tasks if other.role == item["name"]
        )
    return environment | gpu_variables(task)


def gpu_variables(task: Task) -> dict[str, str]:
    """Return which GPUs a task sees; without a container, CUDA_VISIBLE_DEVICES is what hides the others."""
    numbers = gpu_numbers(task.gpus)
    return {"CUDA_VISIBLE_DEVICES": numbers, "NVIDIA_VISIBLE_DEVICES": numbers or "none"}


def _tool_path(bin_folder: Path, inherited: str) -> str:
    """Return a PATH: the hdfs command first, then this Python, then what was there."""
    return os.pathsep.join([str(bin_folder), str(Path(sys.executable).parent), inherited or os.defpath])


def past_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment in which this machine is reached without the proxies that it names."""
    past = dict(environment)
    if any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in past):
        for name in ("no_proxy", "NO_PROXY"):
            past[name] = ",".join(filter(None, (past.get(name), "127.0.0.1,localhost,::1")))
    return past


def of_this_machine(bin_folder: Path) -> Mapping[str, str]:
    """Return the variables of the server that a task sees too, with a PATH of its own."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    kept |= {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    return past_proxies(kept) | {"PATH": _tool_path(bin_folder, os.environ.get("PATH", ""))}


def _commas(ports: Sequence[int]) -> str:
    return ",".join(map(str, ports))


def _or_empty(value: int | None) -> str:
    return "" if value is None else str(value)
