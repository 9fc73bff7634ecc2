"""JobWatch: monitors a task's job, logs its progress, shows it on Luigi's page, and handles messages."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from luigi_pai.api.logs.reader import LogReader
from luigi_pai.api.status import JobState
from luigi_pai.api.waiting import WaitingReasons
from luigi_pai.api.watched import Outcome
from luigi_pai.api.watching import Watcher
from luigi_pai.errors import PaiApiError, PaiError
from luigi_pai.tasks.attributes import is_ours
from luigi_pai.tasks.events import PaiEvent, trigger
from luigi_pai.tasks.luigi_page import LuigiPage, responding
from luigi_pai.tasks.reports import Reports
from luigi_pai.work.stopping import continues

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.watched import Update
    from luigi_pai.errors import PaiJobError
    from luigi_pai.tasks.job_task import JobTask
    from luigi_pai.tasks.task_work import TaskWork
    from luigi_pai.work.submission import Submission

logger = logging.getLogger("luigi-interface")

_ERRORS_AT_END = 3
_NOT_STARTED = (JobState.WAITING, JobState.UNKNOWN)


class JobWatch:
    """Monitors one task's job, and shows its progress.

    Args:
        task: The task.
        work: The task's work.
    """

    def __init__(self, task: JobTask, work: TaskWork) -> None:
        self._task = task
        self._work = work
        self._api = work.book.api
        self._reasons = WaitingReasons(work.book, lambda: work.job)
        self._page = LuigiPage(task, self._api.clock)
        self._job: Submission | None = None  # while it is watched
        self._logged = ""
        self._event: tuple[str, str] | None = None
        self._progress: int | None = None

    def begun(self, entry: Entry) -> None:
        """Trigger the event for a job that was submitted or taken over."""
        event = PaiEvent.SUBMITTED if entry.posted else PaiEvent.TAKEN_OVER
        trigger(self._task, event, entry.known)

    def ended(self, status: JobStatus, error: PaiJobError | None) -> None:
        """Trigger the event for a finished job."""
        if error is None:
            self._warn_of_missing(status.name)
            trigger(self._task, PaiEvent.SUCCEEDED, status)
        else:
            trigger(self._task, PaiEvent.FAILED, status, error)

    def _warn_of_missing(self, name: str) -> None:
        """Warn about missing local targets in ``output()``, which the job should have written."""
        if not is_ours(type(self._task).run):
            return  # the user's own run() may write them
        for path in self._work.outputs.missing():
            logger.warning(
                "Job %s has succeeded, but %s of output() is not on this machine: does the job write it?",
                name,
                path,
            )

    def until_end(self, job: Submission, sleep: Callable[[float], None]) -> Update:
        """Monitor a job until it has finished, and return its last update.

        Args:
            job: The job.
            sleep: Waits for a number of seconds.

        Raises:
            PaiApiError: Lookups failed until their deadline; the message says that the job continues.
        """
        self._job, self._event = job, None
        self._page.link(self._api.page(job.name))
        try:
            return self._watch(job, sleep)
        except PaiApiError as error:
            raise error.extended(continues(self._api, job.name)) from None
        finally:
            self._job = None

    def _watch(self, job: Submission, sleep: Callable[[float], None]) -> Update:
        name, options, evidence = job.name, self._work.options, job.members[0].evidence
        status = job.status = evidence.with_start(job.status)
        watcher = Watcher(self._work.book)
        logs = None
        if options["logs"] == "stream":
            logs = LogStream(self._work.book, name, self._work.secrets())
        watcher.add(
            status,
            new=job.posted,
            queue_timeout=options["queue_timeout"],
            run_timeout=options["run_timeout"],
        )
        fs, folder, reports = self._work.outputs.fs, self._work.folder, None
        if fs is not None and folder is not None:
            reports = Reports(fs, folder, self._api.clock, self._page.report)
        self.show(status)
        last: Update | None = None
        while last is None:
            idle = math.inf if logs is None else logs.idle(status)
            sleep(min(watcher.idle(), self._reasons.idle(status), idle))
            updates = watcher.step()
            for update in updates:
                status = job.status = evidence.with_start(update.status)
                last = update if update.outcome is not Outcome.CHANGED else None
            if updates or status.state is JobState.WAITING:  # the reason may change without an update
                self.show(status)
            if last is None and logs is not None:
                logs.step(status)
            if last is None and reports is not None:
                reports.show(name, self._logged)
        self._job, job.is_over = None, True
        if logs is not None and last.outcome is Outcome.ENDED:
            logs.end(status, sleep)
        return last

    def show(self, status: JobStatus) -> None:
        """Log a changed status, show it on Luigi's web page, and trigger its event."""
        reason = self._reasons.reason(status)
        summary = f"{status.name}: {status.summary(reason)}"
        if summary != self._logged:
            self._logged = summary
            job = {"job": status.name, "state": status.state.value}
            logger.info("Job %s", summary, extra={"job": job})
            self._page.report("set_status_message", summary)
        progress = None if status.progress is None else round(100 * min(max(status.progress, 0.0), 1.0))
        if progress is not None and progress != self._progress:
            self._progress = progress
            self._page.report("set_progress_percentage", progress)
        known, self._event = self._event, None
        if status.state is JobState.RUNNING:
            self._event = PaiEvent.RUNNING, str(status.retries)
            if self._event != known:
                trigger(self._task, PaiEvent.RUNNING, status)
        elif status.state is JobState.WAITING:
            self._event = PaiEvent.WAITING, reason or ""
            if reason and self._event != known:
                trigger(self._task, PaiEvent.WAITING, status, reason)

    def pause(self, seconds: float) -> None:
        """Wait, handling messages from the scheduler in the meantime."""
        for _ in responding(self._task, seconds, self._api.clock, self._respond):
            pass

    def _respond(self, message: str) -> str:
        """Execute a message, and return the response."""
        if message.lower() != "stop":
            return f"{message!r} is not a valid message; send: stop"
        if self._job is None:
            return "the job has not been submitted yet; send the message again later"
        name = self._job.name
        try:
            self._api.stop_surely(name)
        except PaiError as error:
            return f"{name} could not be stopped: {error}"
        return f"{name} is being stopped"


class LogStream:
    """Logs every line that a job's tasks write. If there are several tasks, each line names its task.

    It reads at most two logs per second and never sleeps: ``idle`` returns how long to wait before ``step``.

    Args:
        book: The book for the job's cluster.
        job: The job's name.
        secrets: Values to redact in the lines.
    """

    def __init__(self, book: Book, job: str, secrets: Sequence[str]) -> None:
        self._job = job
        self._reader = LogReader(book, job, secrets=secrets)

    def idle(self, status: JobStatus) -> float:
        """Return how long until the next request, in seconds; infinity before the job runs."""
        return math.inf if status.state in _NOT_STARTED else self._reader.idle()

    def step(self, status: JobStatus) -> None:
        """Log the new lines in the log that is due; after an error, read the logs again later."""
        if self.idle(status) > 0:
            return
        try:
            self._log_due(status)
        except PaiApiError as error:
            logger.debug("Cannot read the logs of job %s now: %s", self._job, error)

    def end(self, status: JobStatus, sleep: Callable[[float], None]) -> None:
        """Log a finished job's remaining lines, and which logs could not be read."""
        errors = 0
        wait = min(self.idle(status), self._reader.per_log)
        while not self._reader.is_complete:
            sleep(wait)
            try:
                self._log_due(status)
            except PaiApiError as error:
                errors += 1
                if errors > _ERRORS_AT_END or self._reader.gave_up:
                    logger.warning("The logs of job %s could not be read to their end: %s", self._job, error)
                    return
            wait = self._reader.idle()
        for log in self._reader.unreadable:
            logger.warning("Job %s: a log could not be read: %s", self._job, log)

    def _log_due(self, status: JobStatus) -> None:
        for line in self._reader.read_due(status):
            logger.info("%s", self._reader.shown(line))
