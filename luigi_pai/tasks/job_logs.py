"""LogStream: copies the output of a job's containers to Luigi's log while the job runs."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from luigi_pai.api.logs.reader import LogLine, LogReader
from luigi_pai.api.status import JobState
from luigi_pai.errors import PaiApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.status import JobStatus

logger = logging.getLogger("luigi-interface")

_AFTER_ERROR = 10.0  # seconds until the next try
_ERRORS_AT_END = 3
_NOT_STARTED = (JobState.WAITING, JobState.UNKNOWN)


class LogStream:
    """Logs every line that the tasks of a job write. If there are several tasks, each line names its task.

    It reads at most two logs a second, and never sleeps: ``idle`` returns how long to wait before ``step``.

    Args:
        book: of the cluster.
        job: its name.
        secrets: values to redact in the lines.
    """

    def __init__(self, book: Book, job: str, secrets: Sequence[str]) -> None:
        self._api = book.api
        self._job = job
        self._reader = LogReader(book, job, secrets=secrets)
        self._status: JobStatus | None = None
        self._steps: Iterator[LogLine | float] | None = None
        self._due = -math.inf

    def idle(self, status: JobStatus) -> float:
        """Return the seconds until the next request; infinity before the job runs."""
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

    def end(self, status: JobStatus, sleep: Callable[[float], None]) -> None:
        """Log the remaining lines of an ended job, and which logs could not be read."""
        self._status, self._steps = status, None  # steps begun before the job's end miss its last lines
        errors = 0
        sleep(min(self.idle(status), self._reader.per_log))
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
            sleep(self.idle(status))
        for log in self._reader.unreadable:
            logger.warning("Job %s: a log could not be read: %s", self._job, log)

    def _advance(self, status: JobStatus) -> bool:
        """Log lines until a wait is due; return whether all logs were read to their end."""
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
        logger.info("%s", self._reader.shown(line))
