"""TaskRun: a run of a task, which finds or submits the task's job, watches it, and records its end."""

from __future__ import annotations

import functools
import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from luigi_pai.api.job import lost_job
from luigi_pai.api.job_failure import NEXT_SUBMISSION, job_failure
from luigi_pai.api.retries import Retry
from luigi_pai.api.status import JobState
from luigi_pai.api.submitting import Posting
from luigi_pai.api.watching import Outcome, Update
from luigi_pai.config import OpenPai
from luigi_pai.errors import (
    PaiError,
    PaiHttpError,
    PaiJobError,
    PaiJobFailed,
)
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.jobspec.names import check_name
from luigi_pai.tasks.definition import Forecast, TaskJob
from luigi_pai.tasks.events import PaiEvent, add_tags, trigger
from luigi_pai.tasks.evidence import Evidence
from luigi_pai.tasks.options import Options
from luigi_pai.tasks.outputs import Outputs, configured_hdfs
from luigi_pai.tasks.refusals import RunsInArrayError
from luigi_pai.tasks.signals import TRY_AGAIN, OnKill, before_signals
from luigi_pai.work.lookup import newest_submission

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.book.entries import Entry
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.tasks.claims import ClaimStore
    from luigi_pai.tasks.definition import Definition
    from luigi_pai.tasks.job_watch import JobWatch
    from luigi_pai.tasks.signals import Note

logger = logging.getLogger("luigi-interface")

_LOOKUP_PATIENCE = 2.0  # seconds for which complete() and forecast() retry transient errors
RECENT = 30.0
"""Seconds for which a run reuses the lookup of ``complete()``. A reply 409 or a claim reveals newer jobs."""


class TaskRun:
    """A run or a lookup of a task's job, with the settings that are valid when the object is made.

    Args:
        definition: of the task.
        single: False for points of a sweep. If true, a submission is logged at INFO, and the new job is
            looked up.
        claims: the store of the job's claims if the output folder is not on HDFS; see ``Evidence``.

    Attributes:
        book: of the cluster, in the dialect that the job needs.
        outputs, options: of the task.

    Raises:
        ConfigError: a setting is wrong.
        SpecError: the task's name is not a valid job name.
    """

    def __init__(
        self, definition: Definition, *, single: bool = True, claims: ClaimStore | None = None
    ) -> None:
        check_name(definition.name)
        self._definition = definition
        self._task, self._name = definition.task, definition.name
        self._single = single
        self._claims = claims
        self._settings = OpenPai.current(self._task.cluster)
        self.book = self._settings.cluster().book
        if definition.api_version:
            self.book = self.book.with_version(definition.api_version)
        self._hdfs = configured_hdfs(self._settings, self._task.cluster)
        self.outputs = Outputs(self._hdfs, definition)
        self.options = Options(self._task, self._settings)
        self._job = TaskJob(definition, self.book, self.options)
        self._on_kill = OnKill(self.book.api, self.options, self._stop_sent)
        self._made = 0  # attempts of this run
        self._sleep = self.book.api.clock.sleep
        self._check_signals: Callable[[], None] = lambda: None

    @functools.cached_property
    def evidence(self) -> Evidence:
        """Information about the job that its server does not have."""
        return Evidence(self._definition, self.outputs, self.book, self._job, self._claims, self._sleep)

    @functools.cached_property
    def _watch(self) -> JobWatch:
        from luigi_pai.tasks.job_watch import JobWatch  # noqa: PLC0415  only runs need it

        of_task = self.outputs, self.options, self._on_kill, self.evidence, self._job
        return JobWatch(self._definition, self.book, *of_task)

    def _stop_sent(self, job: str) -> None:
        self.evidence.stop_sent(job)

    # what is known

    def is_complete(self) -> bool:
        """Return whether the task is complete, for its ``complete()``."""
        self._job.check_owner()
        entry = self._newest_now()
        if entry is None or entry.status is None:
            return self.evidence.is_complete()
        if entry.status.finished:
            self._record(entry, watched=False)
        return entry.succeeded

    def forecast(self) -> Forecast:
        """Return what a run would do now; nothing is submitted and nothing written.

        Raises:
            PaiNameTaken, PaiOutputElsewhere, PaiApiError, HdfsError: for the reasons given in ``complete()``.
        """
        self._job.check_owner()
        entry = self._newest_now()
        if entry is None or entry.status is None:
            return Forecast("done" if self.evidence.is_complete() else "to submit", 1)
        if entry.succeeded:
            return Forecast("done", entry.number)
        if entry.failed:
            return Forecast("to submit", entry.number + 1)
        return Forecast("running", entry.number)

    def _newest_now(self) -> Entry | None:
        """Look up the newest submission; transient errors are retried for 2 s at most."""
        patience = min(_LOOKUP_PATIENCE, self._settings.poll_patience)
        return self._latest(patience=patience)

    # a run

    def pause(self, seconds: float) -> None:
        """Wait, and answer messages of the scheduler meanwhile."""
        self._check_signals()
        self._watch.pause(seconds)

    def execute(self) -> None:
        """Find or submit the job, and wait for its end; if it fails, submit it again (``max_attempts``).

        Raises:
            SpecError: the job is not valid; nothing was sent.
            PaiJobFailed: the job ended as FAILED or STOPPED.
            PaiJobForgotten: it was submitted earlier, and its result is not known.
        """
        for warning in self._definition.check(self._job.job):
            logger.warning("Job %s: %s", self._name, warning)
        self._sleep = self.pause
        with before_signals(self._on_kill.act) as self._check_signals:
            while True:
                entry = self.begin()
                if entry is None or entry.status is None:
                    return
                self._made += 1
                update = Update(entry.job, entry.status, Outcome.ENDED)
                if not entry.status.finished:
                    update = self._watch.until_end(entry.status, submitted=entry.posted, sleep=self._sleep)
                elif entry.posted:  # it has ended before it was watched
                    self._watch.show(entry.status)
                retry = Retry(
                    self.book.api.polling.patience, self.book.api.clock, f"job {entry.job}", sleep=self._sleep
                )
                self.record(entry, update, retry)
                try:
                    self.finish(entry, update, next_step=self._next_step(update))
                except PaiJobFailed as error:
                    if self._obstacle(update) is not None:
                        raise
                    logger.warning("%s", error)
                else:
                    return

    def begin(self) -> Entry | None:
        """Find or submit the job, and return its newest submission; None if the outputs are complete.

        A job that is submitted or taken over gets its tags, and triggers an event.

        Raises:
            PaiJobForgotten: it was submitted earlier, and its result is not known.
            RunsInArrayError: it waits or runs in an array, or is claimed for an array unknown to the server.
            PaiError: the job was not submitted, or may have been submitted; the text says which.
        """
        self.options.check()
        entry = self.newest()
        if self.is_done(entry):
            return None
        while entry is None or entry.status is None or entry.failed:
            entry = self.submit(self.evidence.next_number(entry, self.options["on_forgotten"]))
            if entry is not None and entry.posted:
                break
        assert entry is not None
        if entry.status is not None and not entry.posted:
            if entry.index is not None and not entry.status.finished:
                raise RunsInArrayError.of(self._name, entry, self.book.api.page(entry.job))
            self._log("Job %s already exists (%s); nothing is submitted", entry.job, entry.status.raw_state)
            self.evidence.check_taken_over(entry.status)
        self.announce(entry)
        return entry

    def newest(self, *, max_age: float = RECENT) -> Entry | None:
        """Return the newest submission, from a lookup or as ``complete()`` has just found it.

        Until this run has made an attempt, a reply that lacks owner or submission time, as in mocked tests,
        does not count as a submission.

        Args:
            max_age: seconds for which an answer may be reused.
        """
        self._job.check_owner()
        entry = self._latest(max_age=max_age)
        is_one = entry is None or entry.status is None or entry.status.identified or self._made > 0
        return entry if is_one else None

    def _latest(self, *, max_age: float = 0.0, patience: float | None = None) -> Entry | None:
        """Find the newest submission: by its names, then by the last claim, then in the list of jobs."""
        return newest_submission(
            self.book, self._name, self.evidence, max_age=max_age, patience=patience, sleep=self._sleep
        )

    def is_done(self, entry: Entry | None) -> bool:
        """Return whether the outputs are complete, for a job that the server does not know."""
        if (entry is not None and entry.status is not None) or not self.evidence.is_complete():
            return False
        self._log("Job %s is complete: its outputs show it; the server no longer knows the job", self._name)
        return True

    def submit(self, number: int, note: Note | None = None) -> Entry | None:
        """Claim and post a submission. Return it, or the existing submission with the same name or claim.

        Args:
            number: of the submission.
            note: called with the name of the job, and with "" if it is certainly not submitted; default:
                ``OnKill.note`` of this run.
        """
        note = note or self._on_kill.note
        name = self.book.job_name(self._name, number)
        job = self.prepare(number)
        if self.evidence.claim(number, name) != name:
            return self._in_array()
        posting = Posting(self.book, name, single=self._single, before_post=note, sleep=self._sleep)
        spoken = self.book.api.dialect.version
        try:
            status = posting.post(job)
        except PaiError as error:
            if not posting.may_be_submitted:
                note("")
                self.evidence.release()
                if isinstance(error, PaiHttpError) and self.book.api.dialect.version != spoken:
                    # The refusal showed that the server has the other API version; use it for the lookup.
                    return self._latest()
            raise posting.outcome(error, TRY_AGAIN) from None
        if status is None:
            return self.book.holder(self._name, number, self._sleep)
        note(name, is_there=True)
        self.evidence.posted(status)
        return self.book.posted(self._name, number, status)

    def _in_array(self) -> Entry:
        """Return the submission that another process has claimed for an array.

        Raises:
            RunsInArrayError: the server does not know that array.
        """
        claim = self.evidence.last()
        assert claim is not None
        entry = self.book.submission(self._name, claim, self._sleep)
        if entry.status is None:
            raise RunsInArrayError.of(self._name, entry)
        return entry

    def prepare(self, number: int) -> PaiJob | JobProtocol:
        """Send the job's uploads, and return the job with the name of the submission."""
        api, definition = self.book.api, self._definition
        name = self.book.job_name(self._name, number)
        if not name.startswith(self._name):
            text = "Job %s has the name %s on this cluster: v2 names have letters, digits, _ and - only"
            logger.log(logging.WARNING if self._single else logging.DEBUG, text, self._name, name)
        job = self._job.named(name)
        if isinstance(job, PaiJob):
            if number > 1 or api.dialect.version == "v2":
                job.outputDir = job.outputDir or definition.folder
            job = definition.prepare(job, api.dialect.version, self._hdfs)
        if definition.folder is not None and not self.evidence.has_flag:
            is_set = self._hdfs is not None or definition.folder_is_set
            if is_set and self.book.api.session.times("jobs without completion flag") == 1:
                fallback = self.outputs.completion_fallback()
                self._log("Job %s, as others after it, gets no completion flag: %s", name, fallback)
        return job

    def announce(self, entry: Entry, *, with_tags: bool = True) -> None:
        """Trigger the event of a job that was submitted or taken over, and give it its tags."""
        status = entry.status
        if status is None or (not entry.posted and status.finished):
            return
        event = PaiEvent.SUBMITTED if entry.posted else PaiEvent.TAKEN_OVER
        if with_tags:
            add_tags(self.book.api, status, self.options.tags)
        trigger(self._task, event, status)

    # the end

    def record(self, entry: Entry, update: Update, retry: Retry) -> None:
        """Copy the logs and record the end on HDFS. If this process is killed before, the next run does both.

        Args:
            entry: the submission, as ``begin`` returned it.
            update: its last update.
            retry: used for transient errors.

        Raises:
            PaiOutputElsewhere: the job wrote to another output folder.
        """
        if update.outcome is Outcome.LOST:
            return
        ended, is_news = replace(entry, status=update.status, posted=False), _is_news(entry)
        if is_news:
            self.book.take(self._name, ended)
        self._record(ended, watched=is_news, retry=retry)

    def _record(self, entry: Entry, *, watched: bool, retry: Retry | None = None) -> None:
        """Keep the logs if this process ``watched`` the job or no end is recorded; then record the end."""
        if entry.status is not None and self.options["keep_logs"]:
            from luigi_pai.tasks.kept_logs import KeptLogs  # noqa: PLC0415  only few want them

            if watched or self.evidence.lacks_end(entry):
                secrets = self._definition.secrets()
                KeptLogs(self.book, self.outputs.hdfs, self._definition.folder, secrets).keep(entry.status)
        self.evidence.record(entry, retry)

    def finish(self, entry: Entry, update: Update, *, next_step: str = NEXT_SUBMISSION) -> None:
        """Trigger the event of a submission's end, which ``record`` must have recorded before.

        Args:
            entry: the submission, as ``begin`` returned it.
            update: its last update.
            next_step: last line of the error's text.

        Raises:
            PaiJobFailed: the job ended as FAILED or STOPPED.
            PaiJobLost: the server no longer knows the job.
        """
        status = update.status
        error: PaiJobError
        if update.outcome is Outcome.LOST:
            error = lost_job(self.book.api, update.name)
        elif status.succeeded:
            if _is_news(entry):
                trigger(self._task, PaiEvent.SUCCEEDED, status)
            return
        else:
            error = job_failure(
                self.book.api,
                status,
                missed=update.missed,
                secrets=self._definition.secrets(),
                next_step=next_step,
            )
        trigger(self._task, PaiEvent.FAILED, status, error)
        raise error

    # further attempts of this run

    def _next_step(self, update: Update) -> str:
        """Return the last line of a failed job's error. It says what to do next, and which attempt failed."""
        most = self.options["max_attempts"]
        if most == 1:
            return NEXT_SUBMISSION
        obstacle = self._obstacle(update)
        if obstacle is None:
            return f"attempt {self._made} of {most} of this run; the job is submitted again"
        return f"attempt {self._made} of {most} of this run, the last one: {obstacle}; {NEXT_SUBMISSION}"

    def _obstacle(self, update: Update) -> str | None:
        """Return why this run makes no further attempt; None if it makes one."""
        status = update.status
        if update.missed is not None:
            return f"{update.missed.value} was missed"
        if status.state is JobState.STOPPED:
            return "the job was stopped"
        if self._made >= self.options["max_attempts"]:
            return "there are no more (max_attempts)"
        if not self.options.is_retried(status):
            return "its exit code is not in retry_exit_codes"
        return None

    def _log(self, text: str, *arguments: object) -> None:
        logger.log(logging.INFO if self._single else logging.DEBUG, text, *arguments)


def _is_news(entry: Entry) -> bool:
    """Return whether a submission was posted by this process, or had not ended when it was found."""
    return entry.posted or entry.status is None or not entry.status.finished
