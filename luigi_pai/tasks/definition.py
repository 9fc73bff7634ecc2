"""What a run needs of a task, and what it would do: Definition, Forecast."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import luigi

    from luigi_pai.hdfs import WebHdfs
    from luigi_pai.spec.job import PaiJob
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.tasks.job_task import JobTask

__all__ = ["Definition", "Forecast"]


@dataclass(frozen=True)
class Forecast:
    """What a run of a task would do.

    Attributes:
        state: ``done``, ``running`` (it would be taken over), or ``to submit``.
        number: of the submission: 1 for NAME, 2 for NAME__attempt2.
    """

    state: str
    number: int


@dataclass(frozen=True)
class Definition:
    """A task as a run sees it.

    Attributes:
        task: the Luigi task; the callbacks that a worker sets on it while it runs are called.
        name: of the task's job; its first submission has this name.
        folder: the job's output folder; None if it has none, or none that is known here.
        folder_is_set: the folder is not the default.
        check: validates a job, and returns warnings; raises SpecError.
        targets: returns the targets of the task's own ``output()``, flat; an empty list without one.
        secrets: returns the job's secrets, as its logs may show them.
        upload: sends the task's uploads to HDFS, given the job's code folder.
        api_version: ``v1`` or ``v2`` if the job runs on such clusters only.
        compares_stored_job: without a claim, compare the job that the server has stored.
    """

    task: JobTask
    name: str
    folder: str | None
    check: Callable[[PaiJob | JobProtocol], list[str]]
    targets: Callable[[], Sequence[luigi.Target]]
    secrets: Callable[[], Sequence[str]] = tuple
    upload: Callable[[str | None, WebHdfs | None], None] = lambda _folder, _hdfs: None
    folder_is_set: bool = True
    api_version: str | None = None
    compares_stored_job: bool = False
