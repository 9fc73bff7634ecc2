"""How tasks are prepared and what becomes of their exit codes, in a table by API."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.local.container import v1
from luigi_pai.local.container.v2 import runtime as v2

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.local.container.task_files import TaskFiles
    from luigi_pai.local.container.task_start import ContainerExit, Preparation, TaskStart
    from luigi_pai.local.store.records import Job

__all__ = ["Runtime", "runtime_of"]


@dataclass(frozen=True)
class Runtime:
    """What stands in for the containers of a job.

    Attributes:
        prepare: returns what a task needs before its process starts. Raises ValueError for a job that
            cannot start.
        exit_of: returns how the release reports a failed command, given its exit code, the task's files,
            and the function that redacts secrets; it reads the logs.
    """

    prepare: Callable[[TaskStart], Preparation]
    exit_of: Callable[[int, TaskFiles, Callable[[str], str]], ContainerExit]


_BY_API = {"v1": Runtime(v1.prepare, v1.exit_of), "v2": Runtime(v2.prepare, v2.exit_of)}


def runtime_of(job: Job) -> Runtime:
    """Return the runtime of the API that a job was submitted to."""
    return _BY_API[job.release.api]
