"""Work: what a task wants done, as a run of it asks for it."""

from __future__ import annotations

import abc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    import luigi

    from luigi_pai.hdfs import WebHdfs
    from luigi_pai.job_task import JobTask
    from luigi_pai.spec.job import PaiJob
    from luigi_pai.spec.protocol import JobProtocol

__all__ = ["Work"]


class Work(abc.ABC):
    """What a task wants done.

    Attributes:
        task: the Luigi task; the callbacks that a worker puts on it while it runs are called.
        name: of the work, and of its first job.
        api_version: the dialect that the job is written in, where it is not for the cluster to say.
        compares_stored_job: where nothing is recorded, the job that the server has stored is compared.
    """

    api_version: str | None = None
    compares_stored_job: bool = False

    def __init__(self, task: JobTask, name: str) -> None:
        self.task = task
        self.name = name

    @property
    def output_folder(self) -> str | None:
        """The job's output folder; None where it has none that is known here."""
        return None

    def job(self) -> PaiJob | JobProtocol:
        """Return the job as the task describes it."""
        return self.task.job()

    @abc.abstractmethod
    def job_named(self, name: str) -> PaiJob | JobProtocol:
        """Return the job under the name of a submission."""

    @abc.abstractmethod
    def targets(self) -> list[luigi.Target]:
        """Return what the task's own ``output()`` returns, flat; nothing where it has none."""

    def secret_texts(self) -> Sequence[str]:
        """Return values that no text may show."""
        return ()

    def send_uploads(self, code_dir: str | None, hdfs: WebHdfs | None) -> None:  # noqa: B027  most have none
        """Send what the job needs on HDFS, given its code folder and that HDFS."""
