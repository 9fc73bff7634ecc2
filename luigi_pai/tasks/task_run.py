"""TaskRun: a run of a task: its job looked up or submitted, watched and recorded."""

from __future__ import annotations

import logging
import queue
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.api.job import lost_job
from luigi_pai.api.job_failure import NEXT_SUBMISSION, job_failure
from luigi_pai.api.retries import run_steps
from luigi_pai.api.submissions import LatestSubmission, Submissions
from luigi_pai.api.waiting import WaitingReasons
from luigi_pai.api.watcher import Outcome, Watcher
from luigi_pai.config import OpenPai
from luigi_pai.errors import ClusterUnreachable, PaiApiError, PaiError
from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.names import check_name
from luigi_pai.tasks.history import History
from luigi_pai.tasks.luigi_page import link_job_page
from luigi_pai.tasks.outputs import Outputs
from luigi_pai.tasks.reports import Reports
from luigi_pai.tasks.signals import before_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.retries import Steps
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.watcher import Deadline, Update
    from luigi_pai.hdfs import WebHdfs
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.tasks.definition import JobDefinition

__all__ = ["Forecast", "TaskRun"]

logger = logging.getLogger("luigi-interface")

_LOOKUP_PATIENCE = 2.0  # seconds for which complete() retries transient errors


@dataclass(frozen=True)
class Forecast:
    """What a run of a task would do.

    Attributes:
        state: ``done``, ``running`` (it would be taken over), or ``to submit``.
        number: of the submission: 1 for NAME, 2 for NAME__attempt2.
    """

    state: str
    number: int


class TaskRun:
    """A run, or a lookup, of a task's job with the current settings.

    Args:
        definition: of the job.

    Raises:
        ConfigError: a setting is wrong.
        SpecError: the task's name is not a valid job name.
    """

    def __init__(self, definition: JobDefinition) -> None:
        self._settings = OpenPai.current(definition.task.cluster)
        self._definition = definition
        self._name = definition.name
        check_name(self._name)
        cluster = self._settings.cluster()
        self._cluster = (
            cluster.with_api_version(definition.api_version) if definition.api_version else cluster
        )
        self._hdfs = _hdfs(self._settings, definition.task.cluster)
        self._outputs = Outputs(self._hdfs, definition.output_folder, definition.targets)
        self._history = History(definition, self._cluster, self._outputs)
        self._watched: str | None = None
        self._missed: Deadline | None = None
        self._reasons = WaitingReasons(self._cluster)
        self._logged = ""
        self._progress: int | None = None

    def is_complete(self) -> bool:
        """Return whether the task is complete; its ``complete()``."""
        patience = min(_LOOKUP_PATIENCE, self._settings.poll_patience)
        found = run_steps(self._find(Submissions(self._cluster, self._name, patience)), self._pause)
        if found.status is None:
            return self._history.is_completed()
        if found.status.succeeded:
            self._history.record_success(found.status)
        elif found.status.finished:
            self._history.record_failure(found.status)
        return found.succeeded

    def forecast(self) -> Forecast:
        """Return what ``execute`` would do now; nothing is submitted and nothing written.

        Raises:
            PaiNameTaken, PaiOutputElsewhere, PaiApiError, HdfsError: as ``complete()`` does.
        """
        found = run_steps(self._find(Submissions(self._cluster, self._name)), self._pause)
        if found.status is None:
            return Forecast("done" if self._history.is_completed() else "to submit", 1)
        if found.succeeded:
            return Forecast("done", found.number)
        if found.status.finished:
            return Forecast("to submit", found.number + 1)
        return Forecast("running", found.number)

    def execute(self) -> None:
        """Find or submit the job, and wait for its end; ``run()`` of the task.

        Raises:
            PaiJobFailed: the job ended as FAILED or STOPPED.
            PaiJobForgotten: it was submitted earlier, and its result is not known.
        """
        run_steps(self.steps(), self._pause)

    def steps(self) -> Steps[None]:
        """Do the same in steps that do not sleep."""
        submissions = Submissions(self._cluster, self._name)
        found = submissions.cached()
        if found is None:
            found = yield from self._find(submissions)
        if found.status is None and self._history.is_completed():
            logger.info(
                "Job %s is complete: its outputs show it; the server no longer knows the job", self._name
            )
            return
        found, status = yield from self._ensure(submissions, found)
        if not status.finished:
            status = yield from self._watch(status, submitted=found.submitted)
            submissions.cache_end(found.number, status)
        if status.succeeded:
            self._history.record_success(status)
        else:
            self._history.record_failure(status)
            raise self._failed(status)

    def _find(self, submissions: Submissions) -> Steps[LatestSubmission]:
        """Find the latest submission by name, by the submission record, or in the user's list of jobs."""
        try:
            self._cluster.check_reachable()
            found = yield from submissions.latest()
            if found.status is None:
                last = self._history.last
                if last is not None:
                    number = last.number
                elif not self._cluster.dialect.can.shared_names or self._history.may_have_run():
                    number = yield from submissions.latest_in_list()
                else:
                    number = 0
                if number > 1:
                    found = yield from submissions.latest(number)
        except ClusterUnreachable as error:
            self._cluster.record_unreachable(error)
            raise
        return found

    def _ensure(
        self, submissions: Submissions, found: LatestSubmission
    ) -> Steps[tuple[LatestSubmission, JobStatus]]:
        """Return a submission that is waiting, running or successful; submit the job if there is none."""
        while True:
            status = found.status
            if status is not None and (found.submitted or not status.finished or status.succeeded):
                break
            number = found.number
            if status is None:
                number = self._history.last_submission_number(self._settings_of("on_forgotten"))
            number += 1
            job = self._prepared(submissions.job_name(number), number)
            self._history.record_submission(number, submissions.job_name(number))
            try:
                found = yield from submissions.submit(number, job)
            except PaiApiError as error:
                if submissions.may_be_submitted:
                    raise error.extended(_submission_unknown(submissions.job_name(number))) from None
                self._history.undo_submission()
                text = f"job {submissions.job_name(number)!r} was not submitted: {error}"
                raise error.reworded(text) from None
            except PaiError:
                self._history.undo_submission()
                raise
            except BaseException:
                logger.warning("Interrupted: %s", _submission_unknown(submissions.job_name(number)))
                raise
        if not found.submitted:
            logger.info("Job %s already exists (%s); nothing is submitted", status.name, status.raw_state)
            self._history.check_taken_over(status)
        return found, status

    def _prepared(self, name: str, number: int) -> PaiJob | JobProtocol:
        """Return the job under a submission's name, after its uploads and its output folder were created."""
        definition = self._definition
        if not name.startswith(self._name):
            logger.warning(
                "Job %s has the name %s on this cluster: v2 names have letters, digits, _ and - only",
                self._name,
                name,
            )
        job = definition.job_named(name)
        if isinstance(job, PaiJob):
            if number > 1 or not self._cluster.dialect.can.output_folders:
                job.outputDir = job.outputDir or definition.output_folder
            definition.send_uploads(job.codeDir, self._hdfs)
        flag = self._outputs.completion_flag()
        if flag is None and definition.output_folder is not None:
            logger.info("Job %s gets no completion flag: %s", name, self._outputs.completion_fallback())
        elif flag is not None and number > 1:
            flag.discard(self._name)
        folder = job.outputDir if isinstance(job, PaiJob) else None
        hdfs = self._outputs.hdfs_of(folder) if folder else None
        if folder and hdfs is not None:
            hdfs.mkdir(folder)
        return job

    def _watch(self, status: JobStatus, *, submitted: bool) -> Steps[JobStatus]:
        """Watch a job until its end and return its last status."""
        self._watched = status.name
        link_job_page(self._definition.task, self._cluster.page(status.name))
        watcher = Watcher(self._cluster)
        watcher.add(
            status,
            new=submitted,
            queue_timeout=self._settings_of("queue_timeout"),
            run_timeout=self._settings_of("run_timeout"),
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
                            return self._end(update)
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

    def _end(self, update: Update) -> JobStatus:
        if update.outcome is Outcome.LOST:
            raise lost_job(self._cluster, update.name)
        self._missed = update.missed
        return update.status

    def _killed(self) -> None:
        """Stop the job if ``on_kill`` says so, or say that it goes on."""
        name = self._watched
        if name is None:
            return
        if self._settings_of("on_kill") != "stop":
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

    def _failed(self, status: JobStatus) -> PaiError:
        return job_failure(
            self._cluster,
            status,
            missed=self._missed,
            secrets=self._definition.secrets(),
            next_step=NEXT_SUBMISSION,
        )

    def _settings_of(self, name: str) -> Any:
        """Return a setting of the task; without one, that of its cluster in luigi.cfg."""
        own = getattr(self._definition.task, name)
        return getattr(self._settings, name) if own is None else own

    # Luigi's page and messages

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

    def _pause(self, seconds: float) -> None:
        """Wait, and handle messages of the scheduler meanwhile."""
        messages = getattr(self._definition.task, "scheduler_messages", None)
        if messages is None:
            self._cluster.clock.sleep(seconds)
            return
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                message = messages.get(timeout=left)
            except queue.Empty:
                return
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


def _submission_unknown(name: str) -> str:
    return f"job {name} may have been submitted; run the task again: it looks up the job first"


def _hdfs(settings: OpenPai, cluster: str | None) -> WebHdfs | None:
    """Return the cluster's HDFS; None if no WebHDFS is configured."""
    if settings.hdfs_account() is None:
        return None
    from luigi_pai.hdfs import WebHdfs  # noqa: PLC0415  only needed with HDFS

    return WebHdfs.from_config(cluster)
