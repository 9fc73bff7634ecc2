"""What stands in for the containers of v1 jobs: their environment, script and exit codes on OpenPAI 0.7."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from luigi_pai.local.container.environment import CONTAINER_IP, base_variables
from luigi_pai.local.container.task_start import ContainerExit, Preparation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from luigi_pai.local.container.task_files import TaskFiles
    from luigi_pai.local.container.task_start import TaskStart
    from luigi_pai.local.store.records import Job

__all__ = ["exit_of", "prepare"]


def prepare(start: TaskStart) -> Preparation:
    """Return what a v1 task needs before its process starts."""
    make_files = partial(_make_files, start.files, start.role["command"], start.notes)
    return Preparation(make_files, _environment(start))


def exit_of(code: int, _files: TaskFiles, _redact: Callable[[str], str]) -> ContainerExit:
    """Return a command's exit code as it is, which is how OpenPAI 0.7 reports it."""
    return ContainerExit(code)


def _make_files(files: TaskFiles, command: str, notes: Iterable[str]) -> None:
    """Make the folder, the script and the two logs; the error log begins with notes.

    The command stands in the script as in OpenPAI 0.7's: its lines run one
    after the other, and the exit code of the last one counts.
    """
    files.work.mkdir(parents=True)
    script = f"{command} || exit $?\n\nexit 0\n"
    (files.folder / "command.sh").write_text(script, "utf-8", "surrogatepass")
    files.stdout.touch()
    files.stderr.write_text("".join(f"luigi-pai local: {note}\n" for note in notes), "utf-8")


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
    total = str(sum(item["taskNumber"] for item in roles))
    names = ",".join(item["name"] for item in roles)
    minimum_failed = _or_empty(role["minFailedTaskCount"])
    minimum_succeeded = _or_empty(role["minSucceededTaskCount"])
    http = str(task.ports["http"][0])
    index = str(task.index)
    environment = {
        **base_variables(start),
        "APP_ID": start.application_id,
        "FRAMEWORK_NAME": job.name,
        "PAI_DEFAULT_FS_URI": start.hdfs.fs_uri,
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
            f"{CONTAINER_IP}:{other.ports['http'][0]}" for other in start.tasks if other.role == item["name"]
        )
    return environment


def _commas(ports: Sequence[int]) -> str:
    return ",".join(map(str, ports))


def _or_empty(value: int | None) -> str:
    return "" if value is None else str(value)
