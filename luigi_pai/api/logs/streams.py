"""Stream: the standard output or error of one start of a task, split into lines."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from luigi_pai.api.status import JobStatus, TaskStatus

_LONGEST_LINE = 1024 * 1024


@dataclass(frozen=True)
class LogLine:
    """A line of a log.

    Attributes:
        role, index: The task.
        stream: ``stdout`` or ``stderr``.
        text: The line as the job wrote it, with control characters, but without the line end.
    """

    role: str
    index: int
    stream: str
    text: str


@dataclass(frozen=True)
class UnreadableLog:
    """A task whose logs cannot be read.

    Attributes:
        task: ``ROLE/INDEX``; "" for all tasks of the job.
        page: URL, for a browser, of the page with its logs, or of the job's page; None if there is no page.
        reason: Why its logs cannot be read.
    """

    task: str
    page: str | None
    reason: str

    def __str__(self) -> str:
        if not self.task:
            return f"{self.reason}; see {self.page}"
        return f"{self.task}: {self.reason}" + (f"; its page: {self.page}" if self.page else "")


@dataclass
class Stream:
    """``stdout`` or ``stderr`` of one start of a task, and how far it has been read.

    Attributes:
        task: The task.
        name: ``stdout`` or ``stderr``.
        status: The job's status, at this start.
        last_lines: The first read starts this many lines before the end; if None, at the first line.
        offset: How many bytes have been read.
        rest: The bytes of an incomplete last line.
        closed: Whether the cluster has started the task again, so that this log is complete.
        reason: Why the last read failed; None if it did not fail.
        cut_short: Whether a transient error ended the last read.
    """

    task: TaskStatus
    name: str
    status: JobStatus
    last_lines: int | None
    offset: int = 0
    rest: bytes = b""
    closed: bool = False
    reason: str | None = None
    cut_short: bool = False

    @property
    def attempt(self) -> Hashable:
        """A key of this start. It has the task, the attempts of job and task and, on v1, the log's URL."""
        page = self.task.log_url if self.task.attempt is None else None
        return self.task.role, self.task.index, self.status.attempt or 0, self.task.attempt or 0, page

    @property
    def unread(self) -> UnreadableLog | None:
        """The task and the reason, if nothing or only a part was read because of an error."""
        if self.reason is None or (self.offset and not self.cut_short):
            return None
        return UnreadableLog(f"{self.task.role}/{self.task.index}", self.task.log_url, self.reason)

    def split(self, part: bytes) -> Iterator[LogLine]:
        """Yield the lines that the next bytes of the log complete."""
        *lines, self.rest = (self.rest + part).split(b"\n")
        for line in lines:
            yield self._line(line)
        if len(self.rest) > _LONGEST_LINE:
            yield from self.last_line()

    def last_line(self) -> Iterator[LogLine]:
        """Yield the text after the last line end, if there is any."""
        if self.rest:
            rest, self.rest = self.rest, b""
            yield self._line(rest)

    def _line(self, line: bytes) -> LogLine:
        return LogLine(self.task.role, self.task.index, self.name, line.decode("utf-8", "replace"))
