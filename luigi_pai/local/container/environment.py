"""The environment variables that a task gets on every release, about this machine, the job and the task."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from luigi_pai.local.container.processes import TASK_VARIABLE
from luigi_pai.runtime import variables

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from luigi_pai.local.container.task_files import TaskStart

CONTAINER_IP = "127.0.0.1"
"""The address of every task."""

_INHERITED = (
    "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TZ", "TMPDIR",
    "LD_LIBRARY_PATH", "JAVA_HOME", "CUDA_HOME", "VIRTUAL_ENV",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE",
    "http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY",
)  # fmt: skip
"""Variables that a task inherits from the server, besides ``LC_*``; others may contain credentials."""


def base_variables(start: TaskStart) -> dict[str, str]:
    """Return the environment variables that have the same values on all releases."""
    job, task, api = start.job, start.task, start.job.release.api
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
        **_of_this_machine(start.bin),
        TASK_VARIABLE: str(start.files.folder),
        **({"LUIGI_PAI_WEBHDFS_URL": start.hdfs.webhdfs_url} if start.hdfs.webhdfs_url else {}),
        **variables("v1", "hadoop_user", job.username),
        **all_variables(api, values),
        "PYTHONUNBUFFERED": "1",  # OpenPAI 0.7 runs commands on a terminal, so their output is not buffered
        "CUDA_VISIBLE_DEVICES": task.gpus,  # because no container hides the other GPUs from a task
        "NVIDIA_VISIBLE_DEVICES": task.gpus or "none",
    }
    for label, ports in task.ports.items():
        environment |= variables(api, "own_label", commas(ports), label=label)
    return environment


def all_variables(api: str, values: Mapping[str, object], **fields: object) -> dict[str, str]:
    """Return what `variables` returns for each key and value of ``values``, in one dict."""
    found: dict[str, str] = {}
    for key, value in values.items():
        found |= variables(api, key, value, **fields)
    return found


def commas(numbers: Iterable[int]) -> str:
    """Return numbers with commas between them."""
    return ",".join(map(str, numbers))


def without_proxies(environment: Mapping[str, str]) -> dict[str, str]:
    """Return an environment whose proxies, if any, are not used for requests to this machine."""
    direct = dict(environment)
    if any(name.lower() in ("http_proxy", "https_proxy", "all_proxy") for name in direct):
        for name in ("no_proxy", "NO_PROXY"):
            direct[name] = ",".join(filter(None, (direct.get(name), "127.0.0.1,localhost,::1")))
    return direct


def _of_this_machine(bin_folder: Path) -> Mapping[str, str]:
    """Return what a task inherits from the server. The folders of hdfs and this Python come first in PATH."""
    kept = {name: os.environ[name] for name in _INHERITED if name in os.environ}
    kept |= {name: value for name, value in os.environ.items() if name.startswith("LC_")}
    folders = [str(bin_folder), str(Path(sys.executable).parent), os.environ.get("PATH") or os.defpath]
    return without_proxies(kept) | {"PATH": os.pathsep.join(folders)}
