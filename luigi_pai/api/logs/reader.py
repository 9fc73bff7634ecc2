"""Reads the logs of a job's tasks line by line: all lines, the last lines, or new lines as they arrive."""

from __future__ import annotations

import collections
import logging
import math
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, ClassVar

from luigi_pai.api.logs.source import LogLine, LogSource, Stream, UnreadableLog
from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.errors import ClusterUnreachable, PaiApiError
from luigi_pai.redaction import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.status import JobStatus, TaskStatus

__all__ = ["STREAMS", "LogLine", "LogReader", "UnreadableLog"]

logger = logging.getLogger(__name__)

STREAMS = ("stdout", "stderr")

_TAIL = 64 * 1024  # bytes at the end of a log; the whole log is read only if they contain too few lines
_SHORTEST, _LONGEST = 1.0, 10.0  # seconds between two rounds of reads; the wait doubles while no log grows
_AFTER_ERROR = 10.0  # seconds until the next read of a watched job's logs


@dataclass(eq=False, repr=False)
class LogReader:
    """Reads a job's logs.

    Attributes:
        book: The book of the job's cluster.
        name: The job's name.
        role: The role of the tasks to read; None for all roles.
        index: The index of the task to read in each role; None for all tasks.
        streams: ``stdout``, ``stderr`` or both.
        attempt: The number of a start of the job by the cluster, from 0 (v2); default: the last start.
        lines: How many of the last lines the first read of a stream yields; default: all lines.
        secrets: Values that ``shown`` redacts.
        unreadable: The tasks whose logs could not be read, with the reasons.
        status: The job's status at its last lookup.
        is_complete: Whether ``follow`` or ``read_due`` has read the logs of the ended job to the end.
        per_log: Seconds between the reads of two logs.
    """

    book: Book
    name: str
    _: KW_ONLY
    role: str | None = None
    index: int | None = None
    streams: Sequence[str] = STREAMS
    attempt: int | None = None
    lines: int | None = None
    secrets: Sequence[str] = ()
    unreadable: list[UnreadableLog] = field(default_factory=list, init=False)
    status: JobStatus | None = field(default=None, init=False)
    is_complete: bool = field(default=False, init=False)
    per_log: ClassVar[float] = 0.5

    def __post_init__(self) -> None:
        self._api = self.book.api
        self._source = LogSource(self._api)
        self._streams: dict[tuple[str, int, str], Stream] = {}
        self._first = True
        self._round: collections.deque[Stream] = collections.deque()  # not yet read in this round
        self._found_some = False  # whether a log of this round had new lines
        self._pause = _SHORTEST
        self._due = -math.inf

    @property
    def gave_up(self) -> bool:
        """Whether the reader gave up on the ended job's logs, because reading failed for 10 s."""
        return self._source.gave_up

    def tasks(self) -> list[TaskStatus]:
        """Return the tasks whose logs are read, according to the job's last lookup."""
        tasks = self.status.tasks if self.status is not None else ()
        return [task for task in tasks if self.role in (None, task.role) and self.index in (None, task.index)]

    def shown(self, line: LogLine) -> str:
        """Format a line for display, without control characters.

        If the logs of several tasks are read, a prefix such as ``worker/0 |`` names the task. ``secrets``,
        the account's password and token, private keys, and tokens in URLs are redacted.
        """
        shown = self._api.session.redacted(printable(line.text, of_log=True), self.secrets)
        tasks = self.tasks()
        if len(tasks) <= 1:
            return shown
        width = max(len(f"{task.role}/{task.index}") for task in tasks)
        return f"{f'{line.role}/{line.index}':{width}} | {shown}"

    def read(self) -> Iterator[LogLine]:
        """Yield the current lines of the logs, one task after the other.

        Raises:
            JobNotFound: There is no such job.
            PaiApiError: The server does not respond, or rejects the request.
        """
        self._look_up()
        self._source.raised = TRANSIENT
        for stream in self._refresh():
            yield from self._new_lines(stream, is_whole=True)
            yield from stream.last_line()
        self._collect_unreadable()

    def follow(self, sleep: Callable[[float], None] | None = None) -> Iterator[LogLine]:
        """Yield the lines of the logs, and new lines until the job ends; sleep between reads.

        Transient errors are retried for ``polling.patience`` seconds. At most two logs are read per second.
        If the cluster restarts a task, the task starts a new log, which is read from the beginning.

        Args:
            sleep: Waits for a number of seconds; default: the cluster's clock.
        """
        sleep = sleep or self._api.clock.sleep
        retry = Retry(self._api.polling.patience, self._api.clock, f"logs of {self.name}", sleep=sleep)
        while True:
            if not self._round:
                retry.call(self._look_up)
            yield from self._read_due(self.status, watched=False)
            if self.is_complete:
                return
            sleep(self.idle())

    def idle(self) -> float:
        """Return the seconds until the next call to ``read_due``."""
        return max(0.0, self._due - self._api.clock.monotonic())

    def read_due(self, status: JobStatus) -> Iterator[LogLine]:
        """Yield the new lines of the next log, for a caller that also watches the job; never sleep.

        Call it after ``idle`` seconds, until ``is_complete``. After an error, it resumes 10 s later where
        it stopped.

        Args:
            status: The job's last known status.

        Raises:
            PaiApiError: The server or the log's node does not respond.
        """
        try:
            yield from self._read_due(status, watched=True)
        except PaiApiError:
            self._round.clear()
            self._due = self._api.clock.monotonic() + _AFTER_ERROR
            raise

    def _read_due(self, status: JobStatus | None, *, watched: bool) -> Iterator[LogLine]:
        """Yield the new lines of the next log in this round. The last log of a round ends it.

        A round reads each log once. When the job has ended, a new round starts to read the last lines.
        """
        ended = status is not None and status.finished
        source = self._source
        if not self._round or ended is not source.has_ended:
            source.has_ended, source.is_watched = ended, ended or watched
            source.raised = (ClusterUnreachable,) if watched and not ended else ()
            self.status, self._found_some = status, False
            self._round = collections.deque(self._refresh())
        while self._round:
            stream = self._round.popleft()
            for line in self._new_lines(stream):
                self._found_some = True
                yield line
            if stream.closed or (ended and not stream.cut_short):
                yield from stream.last_line()
            if self._round and not source.needs_no_request(stream):
                self._due = self._api.clock.monotonic() + self.per_log
                return
        if ended and (source.gave_up or not any(each.cut_short for each in self._streams.values())):
            for stream in self._streams.values():
                yield from stream.last_line()
            self._collect_unreadable()
            self.is_complete = True
            return
        self._pause = _SHORTEST if self._found_some else min(2 * self._pause, _LONGEST)
        source.in_vain += self._pause if ended else 0.0
        self._due = self._api.clock.monotonic() + self._pause

    def _look_up(self) -> None:
        dialect = self._api.dialect
        if self.attempt is not None and dialect.gives_logs:
            self.status = self._api.attempt(self.name, self.attempt)
        else:
            self.status = self.book.status(self.name)

    def _refresh(self) -> list[Stream]:
        """Return the streams of each task's last start and, if that start is new, of the previous one."""
        found: list[Stream] = []
        if self.status is None:
            return found
        status = self.status
        for task in self.tasks():
            for name in self.streams:
                key = (task.role, task.index, name)
                known = self._streams.get(key)
                now = Stream(task, name, status, self.lines if self._first else None)
                if known is None or known.attempt != now.attempt:
                    if known is not None and (task.attempt is not None or known.task.log_url is not None):
                        known.closed = True
                        found.append(known)
                        logger.info("%s of job %s was started again", task, self.name)
                    known = self._streams[key] = now
                found.append(known)
        self._first = self._first and not found
        return found

    def _new_lines(self, stream: Stream, *, is_whole: bool = False) -> Iterator[LogLine]:
        """Yield the complete lines that were added to a stream since it was last read.

        Args:
            stream: The stream.
            is_whole: Whether characters after the last line break count as a line when last lines are
                counted.
        """
        if stream.last_lines is not None:
            count, stream.last_lines = stream.last_lines, None
            yield from self._last_lines(stream, count, is_whole=is_whole)
        for part in self._source.parts(stream):
            yield from stream.split(part)

    def _last_lines(self, stream: Stream, count: int, *, is_whole: bool) -> Iterator[LogLine]:
        """Yield the last lines of a stream; the next read continues after them."""
        file = self._source.file_of(stream)
        if file is None:
            return
        kept: collections.deque[LogLine] = collections.deque(maxlen=count)
        part, whole = (b"", 0) if file.paged else self._source.part(stream, -_TAIL, _TAIL)
        if part.count(b"\n") > count:
            stream.offset = whole
            kept.extend(stream.split(part.partition(b"\n")[2]))
        else:
            for part in self._source.parts(stream):
                kept.extend(stream.split(part))
        if is_whole:
            kept.extend(stream.last_line())  # without a line break
        yield from kept

    def _collect_unreadable(self) -> None:
        if self._source.no_logs is not None:
            self.unreadable = [UnreadableLog("", self._api.page(self.name), self._source.no_logs)]
            return
        unread: dict[str, UnreadableLog] = {}
        for log in filter(None, (stream.unread for stream in self._streams.values())):
            unread.setdefault(log.task, log)
        self.unreadable = list(unread.values())
