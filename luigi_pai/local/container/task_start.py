"""The start of a task: what its preparation works with, and what it returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping, Sequence
    from pathlib import Path

    from luigi_pai.local.config.settings import HdfsAddress
    from luigi_pai.local.container.storages import Storages
    from luigi_pai.local.container.task_files import TaskFiles
    from luigi_pai.local.store.records import Attempt, Job, Task

__all__ = ["ContainerExit", "Preparation", "TaskStart"]


@dataclass(frozen=True)
class TaskStart:
    """A task that is about to start.

    Attributes:
        tasks: all tasks of the attempt, with their ports.
        notes: sentences for the begin of its log.
        allocated: container ids of the tasks that have resources. A task that has
            none, and has not started, has no address yet.
        application_id: the attempt's id as YARN writes it.
        bin: the folder of the ``hdfs`` and ``hadoop`` commands.
    """

    job: Job
    attempt: Attempt
    tasks: Sequence[Task]
    task: Task
    files: TaskFiles
    notes: Sequence[str]
    allocated: Container[str]
    application_id: str
    secrets: Mapping[str, Any]
    bin: Path
    hdfs: HdfsAddress
    storages: Storages

    @property
    def role(self) -> Mapping[str, Any]:
        """The task's role."""
        return next(role for role in self.job.roles if role["name"] == self.task.role)


@dataclass(frozen=True)
class Preparation:
    """What a task needs before its process starts; ``make_files`` makes its files, or raises OSError."""

    make_files: Callable[[], None]
    environment: Mapping[str, str]


@dataclass(frozen=True)
class ContainerExit:
    """The end of a task as its release reports it.

    Attributes:
        code: the exit code that the job sees.
        info: what the runtime writes down about a failure, in the words of its termination message; of
            a task whose init container failed the end of that one's log, as ``init``. None if the
            release has no such runtime.
    """

    code: int
    info: Mapping[str, Any] | None = None
