"""LogStream: copies the output of a job's containers to Luigi's log while the job runs."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING

from luigi_pai.api.logs.reader import LogReader
from luigi_pai.api.status import JobState
from luigi_pai.errors import PaiApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.status import JobStatus

logger = logging.getLogger("luigi-interface")

_ERRORS_AT_END = 3
_NOT_STARTED = (JobState.WAITING, JobState.UNKNOWN)


class LogStream:
    """Logs every line that the tasks of a job write. If there are several tasks, each line names its task.

    It reads at most two logs a second, and never sleeps: ``idle`` returns how long to wait before ``step``.

    Args:
        book: The book of the job's cluster.
        job: The job's name.
        secrets: values to redact in the lines.
    """

    def __init__(self, book: Book, job: str, secrets: Sequence[str]) -> None:
        self._job = job
        self._reader = LogReader(book, job, secrets=secrets)

    def idle(self, status: JobStatus) -> float:
        """Return the seconds until the next request; infinity before the job runs."""
        return math.inf if status.state in _NOT_STARTED else self._reader.idle()

    def step(self, status: JobStatus) -> None:
        """Log the new lines of the log that is due; after an error the logs are read again later."""
        if self.idle(status) > 0:
            return
        try:
            self._log_due(status)
        except PaiApiError as error:
            logger.debug("The logs of job %s cannot be read now: %s", self._job, error)

    def end(self, status: JobStatus, sleep: Callable[[float], None]) -> None:
        """Log the remaining lines of an ended job, and which logs could not be read."""
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
