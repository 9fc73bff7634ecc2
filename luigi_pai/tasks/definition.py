"""JobDefinition: what a run needs of a task; Forecast: what it would do."""

from __future__ import annotations

import abc
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.protocol_extras import NOTIFICATION

if TYPE_CHECKING:
    from collections.abc import Sequence

    import luigi

    from luigi_pai.hdfs import WebHdfs
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.tasks.job_task import JobTask

__all__ = ["Forecast", "JobDefinition"]


@dataclass(frozen=True)
class Forecast:
    """What a run of a task would do.

    Attributes:
        state: ``done``, ``running`` (it would be taken over), or ``to submit``.
        number: of the submission: 1 for NAME, 2 for NAME__attempt2.
    """

    state: str
    number: int


class JobDefinition(abc.ABC):
    """What a run needs of a task: its job, outputs, uploads and secrets.

    Attributes:
        task: the Luigi task; the callbacks that a worker sets on it while it runs are called.
        name: of the task's job; its first submission has this name.
        api_version: ``v1`` or ``v2`` if the job runs on such clusters only.
        compares_stored_job: without a submission record, compare the job that the server has stored.
    """

    api_version: str | None = None
    compares_stored_job: bool = False

    def __init__(self, task: JobTask, name: str) -> None:
        self.task = task
        self.name = name

    @property
    def output_folder(self) -> str | None:
        """The job's output folder; None if it has none, or none that is known here."""
        return None

    def job(self) -> PaiJob | JobProtocol:
        """Return the job as the task defines it."""
        return self.task.job()

    @abc.abstractmethod
    def job_named(self, name: str) -> PaiJob | JobProtocol:
        """Return the job under the name of a submission."""

    def job_for(self, name: str, api_version: str, notify: Sequence[str]) -> PaiJob | JobProtocol:
        """Return the job under the name of a submission, with the notifications that the user wants.

        Args:
            name: of the submission.
            api_version: of the cluster, ``v1`` or ``v2``; v1 clusters send no notifications.
            notify: the changes of the job's state, of which the cluster is to notify the user.
        """
        job = self.job_named(name)
        if not notify or api_version != "v2":
            return job
        if isinstance(job, PaiJob):
            job.extras = {**(job.extras or {}), NOTIFICATION: dict.fromkeys(notify, True)}
        else:
            for change in notify:
                setattr(job.extras.jobStatusChangeNotification, change, True)
        return job

    @abc.abstractmethod
    def targets(self) -> list[luigi.Target]:
        """Return the targets of the task's own ``output()``, flat; an empty list without one."""

    def secrets(self) -> Sequence[str]:
        """Return the job's secrets, as its logs may show them."""
        return ()

    def send_uploads(self, code_dir: str | None, hdfs: WebHdfs | None) -> None:  # noqa: B027  most have none
        """Send the task's uploads to HDFS; ``code_dir`` is the job's code folder."""
