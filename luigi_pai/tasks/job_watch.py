"""JobWatch: the job of a task is watched to its end: log lines, Luigi's page, messages and signals."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from luigi_pai.api.waiting import WaitingReasons
from luigi_pai.api.watcher import Outcome, Watcher
from luigi_pai.errors import PaiApiError, PaiError
from luigi_pai.tasks.luigi_page import link_job_page, messages_within
from luigi_pai.tasks.reports import Reports
from luigi_pai.tasks.signals import before_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.retries import Steps
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.watcher import Update
    from luigi_pai.tasks.definition import JobDefinition
    from luigi_pai.tasks.outputs import Outputs
    from luigi_pai.tasks.task_settings import TaskSettings

__all__ = ["JobWatch"]

logger = logging.getLogger("luigi-interface")


class JobWatch:
    """Watches the job of one task, and shows what becomes of it.

    Args:
        definition: of the job.
        cluster: of the job.
        outputs: of the task.
        settings: of the task.
    """

    def __init__(
        self, definition: JobDefinition, cluster: Cluster, outputs: Outputs, settings: TaskSettings
    ) -> None:
        self._definition = definition
        self._cluster = cluster
        self._outputs = outputs
        self._settings = settings
        self._reasons = WaitingReasons(cluster)
        self._watched: str | None = None
        self._logged = ""
        self._progress: int | None = None

    def steps(self, status: JobStatus, *, submitted: bool) -> Steps[Update]:
        """Watch a job, and return its last update.

        Args:
            status: its last known status.
            submitted: it was submitted just now.

        Raises:
            PaiApiError: lookups failed for too long; the text says that the job continues.
        """
        self._watched = status.name
        link_job_page(self._definition.task, self._cluster.page(status.name))
        watcher = Watcher(self._cluster)
        watcher.add(
            status,
            new=submitted,
            queue_timeout=self._settings["queue_timeout"],
            run_timeout=self._settings["run_timeout"],
        )
        folder = self._definition.output_folder
        reports = Reports(self._outputs.hdfs_of(folder), folder, self._cluster.clock, self._report)
        self._show(status)
        try:
            with before_signals(self._killed):
                while True:
                    yield min(watcher.idle(), self._reasons.idle(status))
                    for update in watcher.step():
                        status = update.status
                        if update.outcome is not Outcome.CHANGED:
                            self._show(status)
                            return update
                    self._show(status)
                    reports.show(status.name, self._logged)
        except PaiApiError as error:
            raise error.extended(self._continues(status.name)) from None
        except PaiError:
            raise
        except KeyboardInterrupt:  # said already
            raise
        except BaseException:
            logger.warning("Interrupted: %s", self._continues(status.name))
            raise
        finally:
            self._watched = None

    def _killed(self) -> None:
        """Stop the job if ``on_kill`` says so, or say that it goes on."""
        name = self._watched
        if name is None:
            return
        if self._settings["on_kill"] != "stop":
            logger.warning("Interrupted: %s", self._continues(name))
            return
        try:
            self._cluster.stop(name)
        except PaiError as error:
            logger.warning(
                "Interrupted: job %s could not be stopped (%s): %s", name, error, self._continues(name)
            )
        else:
            logger.warning("Interrupted: job %s was asked to stop", name)

    def _continues(self, name: str) -> str:
        page = self._cluster.page(name)
        return f"job {name} continues ({page}); to take it over, run the task again; to stop it, use its page"

    def _show(self, status: JobStatus) -> None:
        """Log a changed status, and show it on Luigi's web page."""
        summary = f"{status.name}: {status.summary(self._reasons.of(status))}"
        if summary != self._logged:
            self._logged = summary
            job = {"job": status.name, "state": status.state.value}
            logger.info("Job %s", summary, extra={"job": job})
            self._report("set_status_message", summary)
        progress = None if status.progress is None else round(100 * min(max(status.progress, 0.0), 1.0))
        if progress is not None and progress != self._progress:
            self._progress = progress
            self._report("set_progress_percentage", progress)

    def _report(self, callback: str, value: object) -> None:
        """Call one of the callbacks that a Luigi worker sets on a running task."""
        report: Callable[[object], None] | None = getattr(self._definition.task, callback, None)
        if report is not None:
            report(value)

    def pause(self, seconds: float) -> None:
        """Wait, and handle messages of the scheduler meanwhile."""
        for message in messages_within(self._definition.task, seconds, self._cluster.clock):
            message.respond(self._handle(str(message)))

    def _handle(self, message: str) -> str:
        """Handle a message of the scheduler and return the response."""
        if message.strip().lower() != "stop":
            return f"{message!r} is not a valid message; send: stop"
        if self._watched is None:
            return "the job is not submitted yet; send the message again later"
        try:
            self._cluster.stop(self._watched)
        except PaiError as error:
            return f"{self._watched} could not be stopped: {error}"
        return f"{self._watched} is being stopped"
