"""JobTask: what the tasks of both job formats share."""

from __future__ import annotations

import abc
import logging
from typing import TYPE_CHECKING

from luigi_pai.tasks.attributes import Task, attribute
from luigi_pai.tasks.luigi_page import has_page

if TYPE_CHECKING:
    from luigi_pai.spec.job import PaiJob
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.tasks.definition import JobDefinition
    from luigi_pai.tasks.task_run import Forecast

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
    def on_kill(self) -> str | None:
        """``leave`` or ``stop``: what becomes of the job when the process that watches it is ended.

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
        from luigi_pai.spec.submission import rendered  # noqa: PLC0415  costs what only looking needs

        return rendered(self.job(), filled=filled)

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
        from luigi_pai.tasks.task_run import TaskRun  # noqa: PLC0415  costs what constructing tasks does not need

        return TaskRun(self._definition()).is_complete()

    def forecast(self) -> Forecast:
        """Return what a run would do now: nothing, take over a job, or submit one; nothing is submitted.

        Raises:
            PaiError: as ``complete()``.
        """
        from luigi_pai.tasks.task_run import TaskRun  # noqa: PLC0415  as above

        return TaskRun(self._definition()).forecast()

    def _run(self) -> None:
        """Find or submit the job, and watch it to its end."""
        from luigi_pai.tasks.task_run import TaskRun  # noqa: PLC0415  as above

        TaskRun(self._definition()).execute()

    @abc.abstractmethod
    def _definition(self) -> JobDefinition:
        """Return what is to be done."""
