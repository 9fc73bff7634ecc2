"""JobWatch: watches a task's job, logs its changes, updates Luigi's page, answers messages from there."""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.api.status import JobState
from luigi_pai.api.waiting import WaitingReasons
from luigi_pai.api.watching import Outcome, Watcher
from luigi_pai.errors import PaiApiError, PaiError
from luigi_pai.tasks.events import PaiEvent, trigger
from luigi_pai.tasks.job_logs import LogStream
from luigi_pai.tasks.luigi_page import LuigiPage, answered_within
from luigi_pai.tasks.reports import Reports
from luigi_pai.tasks.signals import continues

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.watching import Update
    from luigi_pai.tasks.definition import Definition, TaskJob
    from luigi_pai.tasks.evidence import Evidence
    from luigi_pai.tasks.options import Options
    from luigi_pai.tasks.outputs import Outputs
    from luigi_pai.tasks.signals import OnKill

logger = logging.getLogger("luigi-interface")


@dataclass(eq=False)
class JobWatch:
    """Watches the job of one task, and shows its progress."""

    definition: Definition
    book: Book
    outputs: Outputs
    options: Options
    on_kill: OnKill
    evidence: Evidence
    job: TaskJob

    def __post_init__(self) -> None:
        self._api = self.book.api
        self._reasons = WaitingReasons(self.book, lambda: self.job.job)
        self._page = LuigiPage(self.definition.task, self._api.clock)
        self._logged = ""
        self._event: tuple[str, str] | None = None
        self._progress: int | None = None

    def until_end(self, status: JobStatus, *, submitted: bool, sleep: Callable[[float], None]) -> Update:
        """Watch a job, and return its last update.

        Args:
            status: its last known status.
            submitted: whether this process has submitted the job just now.
            sleep: waits for a number of seconds.

        Raises:
            PaiApiError: lookups failed until their deadline; the text says that the job continues.
        """
        name, status = status.name, self.evidence.with_start(status)
        self.on_kill.note(name, is_there=True)
        self._event = None
        self._page.link(self._api.page(name))
        watcher = Watcher(self.book)
        logs = None
        if self.options["logs"] == "stream":
            logs = LogStream(self.book, name, self.definition.secrets())
        watcher.add(
            status,
            new=submitted,
            queue_timeout=self.options["queue_timeout"],
            run_timeout=self.options["run_timeout"],
        )
        reports = Reports(self.outputs.hdfs, self.definition.folder, self._api.clock, self._page.report)
        last: Update | None = None
        try:
            self.show(status)
            self._tell(status)
            while last is None:
                idle = math.inf if logs is None else logs.idle(status)
                sleep(min(watcher.idle(), self._reasons.idle(status), idle))
                for update in watcher.step():
                    status = self.evidence.with_start(update.status)
                    last = update if update.outcome is not Outcome.CHANGED else None
                self.show(status)
                self._tell(status)
                if last is None:
                    if logs is not None:
                        logs.step(status)
                    reports.show(name, self._logged)
        except PaiApiError as error:
            raise error.extended(continues(self._api, name)) from None
        self.on_kill.note("")
        if logs is not None and last.outcome is Outcome.ENDED:
            logs.end(status, sleep)
        return last

    def show(self, status: JobStatus) -> None:
        """Log a changed status, and show it on Luigi's web page."""
        summary = f"{status.name}: {status.summary(self._reasons.of(status))}"
        if summary != self._logged:
            self._logged = summary
            job = {"job": status.name, "state": status.state.value}
            logger.info("Job %s", summary, extra={"job": job})
            self._page.report("set_status_message", summary)
        progress = None if status.progress is None else round(100 * min(max(status.progress, 0.0), 1.0))
        if progress is not None and progress != self._progress:
            self._progress = progress
            self._page.report("set_progress_percentage", progress)

    def _tell(self, status: JobStatus) -> None:
        """Trigger the event of a new status."""
        task, reason = self.definition.task, self._reasons.of(status)
        known, self._event = self._event, None
        if status.state is JobState.RUNNING:
            self._event = PaiEvent.RUNNING, str(status.retries)
            if self._event != known:
                trigger(task, PaiEvent.RUNNING, status)
        elif status.state is JobState.WAITING:
            self._event = PaiEvent.WAITING, reason or ""
            if reason and self._event != known:
                trigger(task, PaiEvent.WAITING, status, reason)

    def pause(self, seconds: float) -> None:
        """Wait, and answer messages of the scheduler meanwhile."""
        for _ in answered_within(self.definition.task, seconds, self._api.clock, self._answer):
            pass

    def _answer(self, message: str) -> str:
        """Do what a message says, and return the response."""
        if message.lower() != "stop":
            return f"{message!r} is not a valid message; send: stop"
        if not self.on_kill.is_there:
            return "the job is not submitted yet; send the message again later"
        name = self.on_kill.name
        try:
            self._api.stop_surely(name)
        except PaiError as error:
            return f"{name} could not be stopped: {error}"
        return f"{name} is being stopped"
