"""LogSource and Stream: fetch logs in parts, split them into lines, and give up on unreadable logs."""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from luigi_pai.api.retries import TRANSIENT
from luigi_pai.api.wire.transport import at_most
from luigi_pai.errors import ClusterUnreachable, PaiApiError, PaiHttpError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator

    from luigi_pai.api.dialects.log_files import LogFile
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.status import JobStatus, TaskStatus

logger = logging.getLogger(__name__)

PART = 2 * 1024 * 1024
"""Maximum number of bytes per request."""
SHORT = 5.0
"""Timeout in seconds for requesting a log on which a job's result does not depend."""
_LONGEST_LINE = 1024 * 1024
_LONGEST_IN_VAIN = 10.0  # how long (s) to try to read an ended job's logs without success before giving up
_GONE = (403, 404, 410)  # statuses for an expired URL, or for a container that does not exist


@dataclass(frozen=True)
class LogLine:
    """A line in a log.

    Attributes:
        role, index: The task.
        stream: ``stdout`` or ``stderr``.
        text: The line as the job wrote it, with control characters but without the line break.
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
        page: The URL of the page with its logs, or of the job's page, for a browser; None if there is none.
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
    """``stdout`` or ``stderr`` of one start of a task, with the position read so far.

    Attributes:
        task: The task.
        name: ``stdout`` or ``stderr``.
        status: The job's status, at this start.
        last_lines: The first read starts this many lines before the end; if None, at the first line.
        offset: The number of bytes read so far.
        rest: The bytes of an incomplete last line.
        closed: Whether the cluster has restarted the task, so that this log is complete.
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
        """A key of this start: the task, the attempts of job and task and, on v1, the log's URL."""
        page = self.task.log_url if self.task.attempt is None else None
        return self.task.role, self.task.index, self.status.attempt or 0, self.task.attempt or 0, page

    @property
    def unread(self) -> UnreadableLog | None:
        """The task and the reason if an error prevented reading some or all of the log."""
        if self.reason is None or (self.offset and not self.cut_short):
            return None
        return UnreadableLog(f"{self.task.role}/{self.task.index}", self.task.log_url, self.reason)

    def split(self, part: bytes) -> Iterator[LogLine]:
        """Yield the lines completed by the log's next bytes."""
        *lines, self.rest = (self.rest + part).split(b"\n")
        for line in lines:
            yield self._line(line)
        if len(self.rest) > _LONGEST_LINE:
            yield from self.last_line()

    def last_line(self) -> Iterator[LogLine]:
        """Yield the characters after the last line break, if there are any."""
        if self.rest:
            rest, self.rest = self.rest, b""
            yield self._line(rest)

    def _line(self, line: bytes) -> LogLine:
        return LogLine(self.task.role, self.task.index, self.name, line.decode("utf-8", "replace"))


@dataclass(eq=False, repr=False)
class LogSource:
    """Fetches one job's logs.

    Attributes:
        api: The REST API of the job's cluster.
        raised: The transient errors that ``part`` raises. Other errors become the ``reason`` of the stream.
        has_ended: Whether the job has ended.
        is_watched: Whether requests have short timeouts, so that they do not delay the job's result.
        in_vain: How many seconds have passed without success since the job ended.
        no_logs: Why the server serves no logs at all; None if it may serve some.
    """

    api: RestApi
    raised: tuple[type[PaiApiError], ...] = TRANSIENT
    has_ended: bool = False
    is_watched: bool = False
    in_vain: float = 0.0
    no_logs: str | None = None
    _files: dict[Hashable, dict[str, LogFile]] = field(default_factory=dict)  # by attempt and name

    @property
    def gave_up(self) -> bool:
        """Whether the source gave up on the ended job's logs, because reading failed for 10 s."""
        return self.in_vain >= _LONGEST_IN_VAIN

    def part(self, stream: Stream, start: int, size: int) -> tuple[bytes, int]:
        """Return a part of a stream and the length of the stream; the part is empty if it cannot be read.

        Raises:
            PaiApiError: A transient error in ``raised``, or no response to the request for the log's URL.
        """
        if self.gave_up:
            in_vain = f"not read, because other logs could not be read for {_LONGEST_IN_VAIN:.0f} s"
            stream.reason, stream.cut_short = stream.reason or in_vain, True
            return b"", stream.offset
        stream.cut_short = False
        for is_last in (False, True):
            file = self.file_of(stream)
            if file is None:
                break
            try:
                with self._request():
                    part = self.api.log_files.part(file, start, size)
            except PaiApiError as error:
                if isinstance(error, PaiHttpError) and error.status in _GONE and not is_last:
                    del self._files[stream.attempt]  # its URL may have expired
                    continue
                stream.reason = str(error)
                stream.cut_short = isinstance(error, TRANSIENT) and not file.paged
                if stream.cut_short and isinstance(error, self.raised):
                    if self.is_watched and self.api.session.times("unreadable logs") == 1:
                        logger.warning("Logs cannot be read now, and are tried again: %s", error)
                    raise
                break
            stream.reason = None
            return part
        return b"", stream.offset

    def parts(self, stream: Stream) -> Iterator[bytes]:
        """Yield the new parts of a stream since it was last read; raises the same errors as ``part``."""
        while True:
            part, whole = self.part(stream, stream.offset, PART)
            if whole < stream.offset:  # the log was rotated, so read the new log from its start
                stream.offset, stream.rest = 0, b""
                continue
            stream.offset += len(part)
            yield part
            if not part or (len(part) < PART and stream.offset >= whole):
                return

    def file_of(self, stream: Stream) -> LogFile | None:
        """Return a stream's file. If there is none, return None and store the reason if it is known.

        Raises:
            ClusterUnreachable, InvalidReply: The server did not send the URL of the log.
        """
        task = stream.task
        if self.no_logs is not None:
            stream.reason = self.no_logs
            return None
        if stream.attempt not in self._files:
            try:
                with self._request():
                    files = self.api.dialect.task_logs(stream.status, task.role, task.index)
            except PaiHttpError as error:
                stream.reason, stream.cut_short = str(error), isinstance(error, TRANSIENT)
                if error.code == "NoApiError":  # releases before 1.4
                    self.no_logs = stream.reason
                return None
            self._files[stream.attempt] = {file.name: file for file in files}
        return self._files[stream.attempt].get(stream.name)

    def needs_no_request(self, stream: Stream) -> bool:
        """Return whether reading a stream again makes no request, so that no wait is needed after it."""
        if self.gave_up or self.no_logs is not None:
            return True
        file = self._files.get(stream.attempt, {}).get(stream.name)
        return file is not None and self.api.log_files.is_resting(file)

    @contextlib.contextmanager
    def _request(self) -> Iterator[None]:
        clock = self.api.clock
        began = clock.monotonic()
        with at_most(SHORT) if self.is_watched else contextlib.nullcontext():
            try:
                yield
            except ClusterUnreachable:
                self.in_vain += clock.monotonic() - began if self.has_ended else 0.0
                raise
