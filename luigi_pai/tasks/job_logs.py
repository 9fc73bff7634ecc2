"""The output of a job's containers in Luigi's log, while the job runs: all lines, or the last ones."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from luigi_pai.api.logs.failed_task import log_end
from luigi_pai.api.logs.reader import LogLine, LogReader
from luigi_pai.api.status import JobState
from luigi_pai.errors import PaiApiError
from luigi_pai.redaction import printable, redact, redact_values

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.retries import Steps
    from luigi_pai.api.status import JobStatus

logger = logging.getLogger("luigi-interface")

_AFTER_ERROR = 10.0  # seconds
_ERRORS_AT_END = 3
_FIRST_TAIL, _NEXT_TAIL = 10.0, 60.0  # seconds
_TAIL_LINES = 10
_NOT_STARTED = (JobState.WAITING, JobState.UNKNOWN)


def job_logs(kind: str, book: Book, job: str, secrets: Sequence[str], show: Callable[[str], None]) -> JobLogs:
    """Return the object that shows the logs of a job.

    Args:
        kind: ``stream``, ``tail`` or ``none``, the values of the setting.
        book: of the cluster.
        job: its name.
        secrets: that its logs may contain.
        show: shows the last lines on Luigi's web page.
    """
    if kind == "stream":
        return LogStream(book, job, secrets)
    return LogTail(book, job, secrets, show) if kind == "tail" else JobLogs()


class JobLogs:
    """Shows nothing of a job's logs."""

    def idle(self, status: JobStatus) -> float:
        """Return the seconds until ``step`` has something to do; infinity as long as the job waits."""
        del status
        return math.inf

    def step(self, status: JobStatus) -> None:
        """Show new logs if a request is due; an error does not affect the job."""

    def end(self, status: JobStatus) -> Steps[None]:
        """Show the remaining logs of an ended job."""
        del status
        yield from ()


class LogStream(JobLogs):
    """Logs every line that the tasks of a job write, with the task in front where there are several.

    It makes at most two requests a second, and never sleeps: ``step`` is called when ``idle`` says.

    Args:
        book: of the cluster.
        job: its name.
        secrets: redacted.
    """

    def __init__(self, book: Book, job: str, secrets: Sequence[str]) -> None:
        self._api = book.api
        self._job = job
        self._secrets = secrets
        self._reader = LogReader(book, job)
        self._status: JobStatus | None = None
        self._steps: Iterator[LogLine | float] | None = None
        self._due = -math.inf

    def idle(self, status: JobStatus) -> float:
        """Return the seconds until the next request."""
        if status.state in _NOT_STARTED:
            return math.inf
        return max(0.0, self._due - self._api.clock.monotonic())

    def step(self, status: JobStatus) -> None:
        """Log the lines of the next request; after an error the logs are read again later."""
        self._status = status
        if self.idle(status) > 0:
            return
        try:
            self._advance(status)
        except PaiApiError as error:
            self._put_off(error)

    def end(self, status: JobStatus) -> Steps[None]:
        """Log the remaining lines of an ended job, and which tasks have unread lines."""
        self._status, self._steps = status, None  # a round that has begun does not include the end
        errors = 0
        while True:
            try:
                if self._advance(status):
                    break
            except PaiApiError as error:
                errors += 1
                if errors > _ERRORS_AT_END or self._reader.gave_up:
                    logger.warning("The logs of job %s could not be read to their end: %s", self._job, error)
                    return
                self._put_off(error)
            yield self.idle(status)
        for log in self._reader.unreadable:
            logger.warning("Job %s: a log could not be read: %s", self._job, log)

    def _advance(self, status: JobStatus) -> bool:
        """Log lines up to the next wait; return whether all was read."""
        if self._steps is None:
            self._steps = self._reader.follow_steps(lambda: self._status or status)
        for step in self._steps:
            if not isinstance(step, LogLine):
                self._due = self._api.clock.monotonic() + step
                return False
            self._log(step)
        return True

    def _put_off(self, error: PaiApiError) -> None:
        logger.debug("The logs of job %s cannot be read now: %s", self._job, error)
        self._steps = None
        self._due = self._api.clock.monotonic() + _AFTER_ERROR

    def _log(self, line: LogLine) -> None:
        tasks = self._reader.tasks()
        label = ""
        if len(tasks) > 1:
            width = max(len(f"{task.role}/{task.index}") for task in tasks)
            label = f"{f'{line.role}/{line.index}':{width}} | "
        logger.info("%s%s", label, _shown(line.text, self._secrets))


class LogTail(JobLogs):
    """Logs the last lines of a job's first task from time to time, and shows them on Luigi's page.

    Args:
        book: of the cluster.
        job: its name.
        secrets: redacted.
        show: shows a text on the page.
    """

    def __init__(self, book: Book, job: str, secrets: Sequence[str], show: Callable[[str], None]) -> None:
        self._api = book.api
        self._job = job
        self._secrets = secrets
        self._show = show
        self._due: float | None = None
        self._last = ""

    def idle(self, status: JobStatus) -> float:
        """Return the seconds until the next request."""
        if status.state in _NOT_STARTED:
            return math.inf
        now = self._api.clock.monotonic()
        self._due = now + _FIRST_TAIL if self._due is None else self._due
        return max(0.0, self._due - now)

    def step(self, status: JobStatus) -> None:
        """Show the last lines, if they have changed."""
        if self.idle(status) > 0:
            return
        self._due = self._api.clock.monotonic() + _NEXT_TAIL
        task = next(iter(status.tasks), None)
        if task is None:
            return
        try:
            text = log_end(self._api, status, task, _TAIL_LINES)
        except PaiApiError as error:
            logger.debug("The log of job %s cannot be read now: %s", self._job, error)
            return
        lines = _shown(text, self._secrets)
        if lines and lines != self._last:
            self._last = lines
            indented = lines.replace("\n", "\n    ")
            logger.info("Job %s, last lines of %s/%d:\n    %s", self._job, task.role, task.index, indented)
            self._show(lines)


def _shown(text: str, secrets: Sequence[str]) -> str:
    """Return what may be shown of a log: no control characters, no secrets."""
    return redact(redact_values(printable(text, of_log=True), secrets))
