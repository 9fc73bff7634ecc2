"""TaskRun: a run of a task: its job looked up or submitted, watched and recorded."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.api.job import lost_job
from luigi_pai.api.job_failure import NEXT_SUBMISSION, job_failure
from luigi_pai.api.retries import run_steps
from luigi_pai.api.submissions import LatestSubmission, Submissions
from luigi_pai.api.watcher import Outcome, Update
from luigi_pai.config import OpenPai
from luigi_pai.errors import ClusterUnreachable, PaiApiError, PaiError, PaiJobError, PaiJobFailed
from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.names import check_name
from luigi_pai.tasks.attempts import Attempts
from luigi_pai.tasks.definition import Forecast
from luigi_pai.tasks.events import PaiEvent, trigger
from luigi_pai.tasks.history import History, RunsInArrayError
from luigi_pai.tasks.job_watch import JobWatch
from luigi_pai.tasks.kept_logs import KeptLogs
from luigi_pai.tasks.outputs import Outputs, configured_hdfs
from luigi_pai.tasks.task_settings import TaskSettings

if TYPE_CHECKING:
    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.retries import Steps
    from luigi_pai.api.status import JobStatus
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.tasks.definition import JobDefinition

__all__ = ["Begun", "TaskRun"]

logger = logging.getLogger("luigi-interface")

_LOOKUP_PATIENCE = 2.0  # seconds for which complete() and forecast() retry transient errors


@dataclass(frozen=True, slots=True)
class Begun:
    """A submission that a run found or made.

    Attributes:
        number: 1 for NAME, 2 for NAME__attempt2, ...
        status: its last known status: it waits, runs or has ended.
        submitted: it was submitted just now, by this process.
    """

    number: int
    status: JobStatus
    submitted: bool


class TaskRun:
    """A run, or a lookup, of a task's job with the current settings.

    Args:
        definition: of the job.
        alone: it is not one of many: its submission is logged (INFO), and then looked up.

    Attributes:
        settings: of the task.
        outputs: of the task.

    Raises:
        ConfigError: a setting is wrong.
        SpecError: the task's name is not a valid job name.
    """

    def __init__(self, definition: JobDefinition, *, alone: bool = True) -> None:
        self._level = logging.INFO if alone else logging.DEBUG
        self._settings = OpenPai.current(definition.task.cluster)
        self._definition = definition
        self._name = definition.name
        check_name(self._name)
        cluster = self._settings.cluster()
        self._cluster = (
            cluster.with_api_version(definition.api_version) if definition.api_version else cluster
        )
        self._hdfs = configured_hdfs(self._settings, definition.task.cluster)
        self.outputs = Outputs(self._hdfs, definition.output_folder, definition.targets)
        self.settings = TaskSettings(definition.task, self._settings)
        self.settings.check()
        self._history = History(definition, self._cluster, self.outputs, self.settings)
        self._attempts = Attempts(self.settings)
        self._submissions = Submissions(self._cluster, self._name, alone=alone)

    @functools.cached_property
    def _watch(self) -> JobWatch:
        return self._new_watch()

    def _new_watch(self) -> JobWatch:
        return JobWatch(self._definition, self._cluster, self.outputs, self.settings)

    def is_complete(self) -> bool:
        """Return whether the task is complete; its ``complete()``."""
        found = self._found_soon()
        if found.status is None:
            return self._history.is_completed()
        if found.status.finished:
            self._keep_logs(found.status, watched=False)
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
        found = self._found_soon()
        if found.status is None:
            return Forecast("done" if self._history.is_completed() else "to submit", 1)
        if found.succeeded:
            return Forecast("done", found.number)
        if found.status.finished:
            return Forecast("to submit", found.number + 1)
        return Forecast("running", found.number)

    def _found_soon(self) -> LatestSubmission:
        """Find the latest submission; transient errors are retried for seconds, not as long as in a run."""
        patience = min(_LOOKUP_PATIENCE, self._settings.poll_patience)
        return run_steps(self._find(Submissions(self._cluster, self._name, patience)), self._watch.pause)

    def execute(self) -> None:
        """Find or submit the job, and wait for its end; ``run()`` of the task.

        Raises:
            PaiJobFailed: the job ended as FAILED or STOPPED.
            PaiJobForgotten: it was submitted earlier, and its result is not known.
        """
        run_steps(self.steps(), self._watch.pause)

    def steps(self) -> Steps[None]:
        """Do the same in steps that do not sleep; after a failure, up to ``max_attempts`` times."""
        while True:
            begun = yield from self.begin()
            if begun is None:
                return
            self._attempts.made += 1
            update = Update(begun.status.name, begun.status, Outcome.ENDED)
            if not begun.status.finished:
                update = yield from self._watch.steps(begun.status, submitted=begun.submitted)
            try:
                self.finish(begun, update, next_step=self._attempts.next_step(update))
            except PaiJobFailed as error:
                if not self._attempts.another_follows(update):
                    raise
                logger.warning("%s", error)
            else:
                return

    # the same in its three parts, for a program that watches many jobs

    @property
    def api_version(self) -> str | None:
        """``v1`` or ``v2`` if the job runs on such clusters only."""
        return self._definition.api_version

    @property
    def cluster(self) -> Cluster:
        """The cluster of the job, in the dialect that it needs."""
        return self._cluster

    def begin(self) -> Steps[Begun | None]:
        """Find the job or submit it: it waits, runs or has ended then. None if the outputs are complete.

        A job that is submitted or taken over gets its tags, and triggers an event.

        Raises:
            PaiJobForgotten: it was submitted earlier, and its result is not known.
            RunsInArrayError: it is an instance of an array, which waits or runs.
            PaiError: it was not submitted, or may have been: the text says which.
        """
        found = yield from self.find()
        if found is None:
            return None
        status, name = found.status, self.submission_name(found.number)
        if status is not None and not status.finished and status.name != name:
            raise RunsInArrayError.of(self._name, status, self._cluster.page(status.name))
        begun = yield from self._ensure(found)
        self.announce(begun)
        return begun

    def announce(self, begun: Begun, *, with_tags: bool = True) -> None:
        """Trigger the event of a job that was submitted or taken over, and give it its tags."""
        if not begun.submitted and begun.status.finished:
            return
        event = PaiEvent.SUBMITTED if begun.submitted else PaiEvent.TAKEN_OVER
        if with_tags:
            self._new_watch().announce(begun.status, event)
        else:
            self._trigger(event, begun.status)

    def find(self) -> Steps[LatestSubmission | None]:
        """Find the latest submission; None if the outputs are complete, and the server knows none."""
        found = self._submissions.cached()
        if found is None:
            found = yield from self._find(self._submissions)
        if found.status is None and self._history.is_completed():
            text = "Job %s is complete: its outputs show it; the server no longer knows the job"
            logger.log(self._level, text, self._name)
            return None
        return found

    def next_submission(self, found: LatestSubmission) -> tuple[int, str]:
        """Return the number and the name of the submission that comes after one that did not succeed.

        Raises:
            PaiJobForgotten: the job was submitted, and its result is not known.
        """
        number = found.number
        if found.status is None:
            number = self._history.last_submission_number(self.settings["on_forgotten"])
        return number + 1, self._submissions.job_name(number + 1)

    def submission_name(self, number: int) -> str:
        """Return the name of a submission on this cluster."""
        return self._submissions.job_name(number)

    def prepare(self, number: int) -> PaiJob | JobProtocol:
        """Return the job under a submission's name, after its uploads and its output folder were created."""
        return self._prepared(self._submissions.job_name(number), number)

    def record_submission(self, number: int, array: str) -> None:
        """Record a submission before the array is sent of which it is an instance."""
        self._history.record_submission(number, array)

    def undo_submission(self) -> None:
        """Undo the record of the last submission: the server refused the job."""
        self._history.undo_submission()

    def finish(self, begun: Begun, update: Update, *, next_step: str = NEXT_SUBMISSION) -> None:
        """Record how a submission has ended, and keep its logs; the end triggers an event.

        Args:
            begun: the submission, as ``begin`` returned it.
            update: its last one.
            next_step: last line of the error.

        Raises:
            PaiJobFailed: the job ended as FAILED or STOPPED.
            PaiJobLost: the server no longer knows it.
        """
        status, is_news = update.status, begun.submitted or not begun.status.finished
        error: PaiJobError
        if update.outcome is Outcome.LOST:
            error = lost_job(self._cluster, update.name)
            self._trigger(PaiEvent.FAILED, status, error)
            raise error
        if not begun.status.finished:
            self._submissions.cache_end(begun.number, status)
        self._keep_logs(status, watched=is_news)
        if status.succeeded:
            self._history.record_success(status)
            if is_news:
                self._trigger(PaiEvent.SUCCEEDED, status)
            return
        self._history.record_failure(status)
        error = job_failure(
            self._cluster,
            status,
            missed=update.missed,
            secrets=self._definition.secrets(),
            next_step=next_step,
        )
        self._trigger(PaiEvent.FAILED, status, error)
        raise error

    def _trigger(self, event: str, *arguments: object) -> None:
        trigger(self._definition.task, event, *arguments)

    def _keep_logs(self, status: JobStatus, *, watched: bool) -> None:
        """Keep the logs of an ended job, before its end is recorded: if this is killed, the next run does it.

        Args:
            status: of the job.
            watched: this process has watched its end; else they are kept if the end is not recorded yet.
        """
        if self.settings["keep_logs"] and (watched or self._history.lacks_end(status)):
            folder = self._definition.output_folder
            KeptLogs(self._cluster, self.outputs.hdfs_of(folder), folder).keep(status)

    def _find(self, submissions: Submissions) -> Steps[LatestSubmission]:
        """Find the latest submission by name, by the submission record, or in the user's list of jobs."""
        try:
            self._cluster.outage.check()
            found = yield from submissions.latest()
            if found.has_failed:
                found = yield from self._find_in_array(submissions, found)
                submissions.cache(found)
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
            self._cluster.outage.record(error)
            raise
        return found

    def _find_in_array(self, submissions: Submissions, found: LatestSubmission) -> Steps[LatestSubmission]:
        """Return a later submission in an array, by the record or the list of jobs; else what was found."""
        last = self._history.last
        if last is None and not self._cluster.dialect.can.shared_names:  # of v1
            return (yield from submissions.latest_in_arrays(found))
        if last is None or last.number <= found.number or last.job == submissions.job_name(last.number):
            return found
        status = yield from submissions.in_array(last.number, last.job)
        return found if status is None else LatestSubmission(last.number, status)

    def _ensure(self, found: LatestSubmission) -> Steps[Begun]:
        """Return a submission that is waiting, running or successful; submit the job if there is none."""
        submissions = self._submissions
        while True:
            status = found.status
            if status is not None and (found.submitted or not status.finished or status.succeeded):
                break
            number, name = self.next_submission(found)
            job = self._prepared(name, number)
            self._history.record_submission(number, name)
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
            logger.log(
                self._level,
                "Job %s already exists (%s); nothing is submitted",
                status.name,
                status.raw_state,
            )
            self._history.check_taken_over(status)
        return Begun(found.number, status, found.submitted)

    def _prepared(self, name: str, number: int) -> PaiJob | JobProtocol:
        """Return the job under a submission's name, after its uploads and its output folder were created."""
        definition = self._definition
        if not name.startswith(self._name):
            logger.log(
                logging.WARNING if self._level == logging.INFO else self._level,
                "Job %s has the name %s on this cluster: v2 names have letters, digits, _ and - only",
                self._name,
                name,
            )
        notify, api_version = self.settings.notify, self._cluster.dialect.version
        if notify and api_version == "v1":
            logger.warning(
                "Job %s: notify is ignored, clusters of OpenPAI 0.7 to 0.14 send no notifications", name
            )
        job = definition.job_for(name, api_version, notify)
        if isinstance(job, PaiJob):
            if number > 1 or not self._cluster.dialect.can.output_folders:
                job.outputDir = job.outputDir or definition.output_folder
            definition.send_uploads(job.codeDir, self._hdfs)
        flag = self.outputs.completion_flag()
        if flag is None and definition.output_folder is not None:
            fallback = self.outputs.completion_fallback()
            logger.log(self._level, "Job %s gets no completion flag: %s", name, fallback)
        elif flag is not None and number > 1:
            flag.discard(self._name)
        folder = job.outputDir if isinstance(job, PaiJob) else None
        hdfs = self.outputs.hdfs_of(folder) if folder else None
        if folder and hdfs is not None:
            hdfs.mkdir(folder)
        return job


def _submission_unknown(name: str) -> str:
    return f"job {name} may have been submitted; run the task again: it looks up the job first"
