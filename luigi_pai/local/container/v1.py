"""Environment, script and exit codes of v1 tasks, as in the containers of OpenPAI 0.7."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from luigi_pai.local.container.environment import CONTAINER_IP, all_variables, base_variables, commas
from luigi_pai.runtime import variables

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.local.container.task_files import Preparation, TaskFiles, TaskStart
    from luigi_pai.local.store.records import Job


def prepare(start: TaskStart) -> Preparation:
    """Return a function that makes a v1 task's files; also return the environment of the task's process."""
    # as in 0.7: the task gets the exit code of the command's last line
    script = f"{start.role['command']} || exit $?\n\nexit 0\n"
    ports = start.task.ports
    notes = [
        f"port {wanted} ({port['label']}) is in use on this machine; this task has {given}"
        for port in start.role["portList"]
        for wanted, given in enumerate(ports[port["label"]], port["beginAt"])
        if port["beginAt"] and wanted != given
    ]
    return partial(start.files.make, {"command.sh": script}, notes), _environment(start)


def exit_of(code: int, _files: TaskFiles, _redact: Callable[[str], str]) -> tuple[int, None]:
    """Return a command's exit code unchanged, as OpenPAI 0.7 reports it."""
    return code, None


def _hdfs_directories(job: Job, fs_uri: str) -> dict[str, str]:
    """Return the job's three HDFS folders with ``$PAI_DEFAULT_FS_URI`` replaced, as 0.7's rest-server does.

    An outputDir that is absent or empty becomes ``URI/Output/USER/NAME``.
    """
    output = job.spec["outputDir"] or f"{fs_uri}/Output/{job.username}/{job.name}"
    given = {"data_dir": job.spec["dataDir"], "output_dir": output, "code_dir": job.spec["codeDir"]}
    return {key: value.replace("$PAI_DEFAULT_FS_URI", fs_uri, 1) for key, value in given.items()}


def _environment(start: TaskStart) -> dict[str, str]:
    job, task, role = start.job, start.task, start.role
    values = {
        "application": start.application_id,
        "job": job.name,
        "fs_uri": start.hdfs.fs_uri,
        **_hdfs_directories(job, start.hdfs.fs_uri),
        "role": role["name"],
        "count": role["taskNumber"],
        "cpus": role["cpuNumber"],
        "memory_mb": role["memoryMB"],
        "shm_mb": role["shmMB"],
        "gpus": role["gpuNumber"],
        "min_failed": _or_empty(role["minFailedTaskCount"]),
        "min_succeeded": _or_empty(role["minSucceededTaskCount"]),
        "kill_all": "",
        "roles": ",".join(item["name"] for item in job.roles),
        "container": task.container_id,
        "own_ports": ";".join(f"{label}:{commas(ports)}" for label, ports in task.ports.items()),
    }
    environment = base_variables(start) | all_variables("v1", values)
    for item in job.roles:
        addresses = (
            f"{CONTAINER_IP}:{other.ports['http'][0]}" for other in start.tasks if other.role == item["name"]
        )
        environment |= variables("v1", "hosts", ",".join(addresses), role=item["name"])
    return environment


def _or_empty(value: int | None) -> str:
    return "" if value is None else str(value)
