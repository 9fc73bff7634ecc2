"""JobTask: what the tasks of both job formats share."""

from __future__ import annotations

import abc
import logging
from typing import TYPE_CHECKING

from luigi_pai.attributes import Task, attribute
from luigi_pai.luigi_page import has_page
from luigi_pai.spec.job import PaiJob

if TYPE_CHECKING:
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.work import Work

__all__ = ["JobTask"]

# What api logs, which knows no Luigi, is shown where Luigi's own lines are.
logging.getLogger("luigi_pai").parent = logging.getLogger("luigi-interface")


class JobTask(Task):
    """A Luigi task whose work is a job on an OpenPAI cluster; see ``PaiTask`` and ``PaiProtocolTask``."""

    @attribute
    def on_forgotten(self) -> str | None:
        """``fail`` or ``submit``: what to do if the job was submitted, and nobody knows how it ended.

        The setting of the same name where None.
        """
        return None

    @attribute
    def queue_timeout(self) -> float | None:
        """Seconds that the job may wait in the queue before it is stopped; the setting where None."""
        return None

    @attribute
    def run_timeout(self) -> float | None:
        """Seconds that the job may run before it is stopped; the setting where None."""
        return None

    @attribute
    def runtime(self) -> bool:
        """``pai_runtime.py``, a copy of ``luigi_pai.runtime``, is to be in the containers."""
        return False

    @attribute
    def accepts_messages(self) -> bool:
        """Luigi's page may send ``stop``, which stops the job."""
        return has_page()

    @abc.abstractmethod
    def job(self) -> PaiJob | JobProtocol:
        """Return the job that ``run()`` submits."""

    def render(self, *, filled: bool = False) -> str:
        """Return the job as it is sent, without sending it: JSON, or YAML with its secrets as ``******``.

        Args:
            filled: only the command of each role, as the server renders it.

        Raises:
            SpecError: the job cannot be sent as it is written.
        """
        from luigi_pai.spec.containers import for_containers  # noqa: PLC0415  costs what only looking needs
        from luigi_pai.spec.submission import rendered  # noqa: PLC0415  as above

        job = self.job()
        if isinstance(job, PaiJob):
            job = for_containers(job, job.jobName, with_runtime=self.runtime)
        else:
            job = for_containers(job, job.name, with_runtime=self.runtime)
        return rendered(job, filled=filled)

    def complete(self) -> bool:
        """Return whether the work is done.

        It is if a submission of this user's has succeeded. When the server no longer
        knows the job, the completion flag in the output folder tells; where there
        can be none (no HDFS is configured, or the output folder is elsewhere), it is
        complete if ``output()`` is overridden and all its targets exist.

        Raises:
            ConfigError: a setting is wrong.
            PaiNameTaken: the name belongs to somebody else.
            PaiOutputElsewhere: the job of this name wrote to another output folder.
            PaiApiError: the server did not say. That is not "no".
            HdfsError: HDFS did not say, and it was needed.
        """
        from luigi_pai.run import Run  # noqa: PLC0415  costs what constructing tasks does not need

        return Run(self._work()).is_complete()

    def _run(self) -> None:
        """Find or submit the job, and watch it to its end."""
        from luigi_pai.run import Run  # noqa: PLC0415  as above

        Run(self._work()).to_the_end()

    @abc.abstractmethod
    def _work(self) -> Work:
        """Return what is to be done."""
