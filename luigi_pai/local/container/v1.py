"""What stands in for the containers of v1 jobs: their environment, script and exit codes on OpenPAI 0.7."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from luigi_pai.local.container.environment import CONTAINER_IP, base_variables, commas
from luigi_pai.local.container.task_start import ContainerExit, Preparation

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.local.container.task_files import TaskFiles
    from luigi_pai.local.container.task_start import TaskStart
    from luigi_pai.local.store.records import Job

__all__ = ["exit_of", "prepare"]


def prepare(start: TaskStart) -> Preparation:
    """Return what a v1 task needs before its process starts."""
    script = f"{start.role['command']} || exit $?\n\nexit 0\n"  # as in 0.7's: the last exit code counts
    make_files = partial(start.files.make, {"command.sh": script}, start.notes)
    return Preparation(make_files, _environment(start))


def exit_of(code: int, _files: TaskFiles, _redact: Callable[[str], str]) -> ContainerExit:
    """Return a command's exit code as it is, which is how OpenPAI 0.7 reports it."""
    return ContainerExit(code)


def _hdfs_directories(job: Job, fs_uri: str) -> dict[str, str]:
    """Return dataDir, outputDir and codeDir with ``$PAI_DEFAULT_FS_URI`` replaced, as the server does.

    An outputDir that is absent or empty becomes ``URI/Output/USER/NAME``.
    """
    output = job.spec["outputDir"] or f"{fs_uri}/Output/{job.username}/{job.name}"
    given = {"dataDir": job.spec["dataDir"], "outputDir": output, "codeDir": job.spec["codeDir"]}
    return {key: value.replace("$PAI_DEFAULT_FS_URI", fs_uri, 1) for key, value in given.items()}


def _environment(start: TaskStart) -> dict[str, str]:
    job, task, role = start.job, start.task, start.role
    roles = job.roles
    directories = _hdfs_directories(job, start.hdfs.fs_uri)
    names = ",".join(item["name"] for item in roles)
    minimum_failed = _or_empty(role["minFailedTaskCount"])
    minimum_succeeded = _or_empty(role["minSucceededTaskCount"])
    environment = {
        **base_variables(start),
        "APP_ID": start.application_id,
        "FRAMEWORK_NAME": job.name,
        "PAI_DEFAULT_FS_URI": start.hdfs.fs_uri,
        "PAI_JOB_NAME": job.name,
        "PAI_JOB_VC_NAME": job.virtual_cluster,
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
        "PAI_JOB_TASK_ROLE_LIST": names,
        "PAI_TASK_ROLE_NAME": role["name"],
        "PAI_TASK_ROLE_NUM": str(role["taskNumber"]),
        "PAI_TASK_ROLE_INDEX": str(task.index),
        "PAI_TASK_ROLE_LIST": names,
        "PAI_TASK_CPU_NUM": str(role["cpuNumber"]),
        "PAI_TASK_MEM_MB": str(role["memoryMB"]),
        "PAI_TASK_GPU_NUM": str(role["gpuNumber"]),
        "PAI_KILL_ALL_ON_COMPLETED_TASK_NUM": "",
        "PAI_CONTAINER_ID": task.container_id,
        "PAI_CONTAINER_HOST_PORT_LIST": ";".join(
            f"{label}:{commas(ports)}" for label, ports in task.ports.items()
        ),
    }
    for item in roles:
        environment[f"PAI_TASK_ROLE_{item['name']}_HOST_LIST"] = ",".join(
            f"{CONTAINER_IP}:{other.ports['http'][0]}" for other in start.tasks if other.role == item["name"]
        )
    return environment


def _or_empty(value: int | None) -> str:
    return "" if value is None else str(value)
