"""The logs of a job's tasks, read line by line: whole, their last lines, or as they grow."""

from __future__ import annotations

import collections
import contextlib
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.api.retries import TRANSIENT, Retry
from luigi_pai.api.wire.transport import at_most
from luigi_pai.errors import ClusterUnreachable, JobNotFound, PaiApiError, PaiHttpError
from luigi_pai.redaction import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.dialects.log_files import LogFile
    from luigi_pai.api.status import JobStatus, TaskStatus

__all__ = ["STREAMS", "LogLine", "LogReader", "UnreadableLog"]

logger = logging.getLogger(__name__)

STREAMS = ("stdout", "stderr")

_PART = 2 * 1024 * 1024  # bytes of one request
_TAIL = 64 * 1024  # bytes at the end of a log; the whole log is read only if these have too few lines
_LONGEST_LINE = 1024 * 1024
_SHORTEST, _LONGEST = 1.0, 10.0  # seconds between two rounds of reads; the wait doubles while no log grows
_SHORT = 5.0  # timeout in seconds of a request while the job is watched
_LONGEST_IN_VAIN = 10.0  # seconds without success after which the logs of an ended job are given up
_GONE = (403, 404, 410)  # statuses of an expired URL, or of a container that is not made yet or is removed


@dataclass(frozen=True)
class LogLine:
    """A line of a log.

    Attributes:
        role, index: the task.
        stream: ``stdout`` or ``stderr``.
        text: of the line, as the job wrote it, with control characters, but without the line end.
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
        reason: why its logs cannot be read.
    """

    task: str
    page: str | None
    reason: str

    def __str__(self) -> str:
        if not self.task:
            return f"{self.reason}; see {self.page}"
        return f"{self.task}: {self.reason}" + (f"; its page: {self.page}" if self.page else "")


@dataclass
class _Stream:
    """``stdout`` or ``stderr`` of one start of a task, and how far it has been read."""

    task: TaskStatus
    name: str
    status: JobStatus  # the job's, at this start
    last_lines: int | None  # the first read starts this many lines before the end; if None, at the first line
    offset: int = 0
    rest: bytes = b""  # an incomplete last line
    closed: bool = False
    reason: str | None = None  # why the last read failed
    cut_short: bool = False  # whether a transient error ended the last read

    @property
    def attempt(self) -> Hashable:
        """A key of this start. It has the task, the attempts of job and task and, on v1, the log's URL."""
        page = self.task.log_url if self.task.attempt is None else None
        return self.task.role, self.task.index, self.status.attempt or 0, self.task.attempt or 0, page


class LogReader:
    """Reads the logs of a job.

    Args:
        book: of the cluster.
        name: of the job.
        role: only tasks of this role.
        index: only this task of each role.
        streams: ``stdout``, ``stderr`` or both.
        attempt: number of a start of the job by the cluster, from 0 (v2); default: the last start.
        lines: the first read of a stream yields this many of the stream's last lines; default: all lines.
        secrets: values that ``shown`` redacts.

    Attributes:
        unreadable: the tasks whose logs could not be read, with the reasons.
        status: of the job, from its last lookup.
        per_log: seconds between the reads of two logs in ``follow``.
    """

    per_log = 0.5

    def __init__(
        self,
        book: Book,
        name: str,
        *,
        role: str | None = None,
        index: int | None = None,
        streams: Sequence[str] = STREAMS,
        attempt: int | None = None,
        lines: int | None = None,
        secrets: Sequence[str] = (),
    ) -> None:
        self._book, self._api = book, book.api
        self._name = name
        self._role, self._index = role, index
        self._names = streams
        self._attempt = attempt
        self._lines = lines
        self._secrets = secrets
        self._streams: dict[tuple[str, int, str], _Stream] = {}
        self._files: dict[Hashable, dict[str, LogFile]] = {}  # by name
        self._first = True
        self._retry = Retry(book.api.polling.patience, book.api.clock, f"logs of {name}")
        self._following = False
        self._has_ended = False  # whether the job has ended
        self._is_watched = False  # whether requests must be short, because a watcher waits or the job ended
        self._in_vain = 0.0  # seconds without success after the job's end
        self._no_logs: str | None = None  # why the server serves no logs at all
        self.unreadable: list[UnreadableLog] = []
        self.status: JobStatus | None = None

    @property
    def gave_up(self) -> bool:
        """Whether the logs of the ended job were given up, because they could not be read for 10 s."""
        return self._in_vain >= _LONGEST_IN_VAIN

    def tasks(self) -> list[TaskStatus]:
        """Return the tasks whose logs are read, according to the last lookup of the job."""
        tasks = self.status.tasks if self.status is not None else ()
        return [
            task for task in tasks if self._role in (None, task.role) and self._index in (None, task.index)
        ]

    def shown(self, line: LogLine) -> str:
        """Return a line as people see it, without control characters.

        If several tasks' logs are read, the prefix ``worker/0 |`` names its task. Secrets are redacted: the
        given ones, the account's password and token, private keys, and tokens in URLs.
        """
        text = self._api.session.redacted(printable(line.text, of_log=True), self._secrets)
        tasks = self.tasks()
        if len(tasks) <= 1:
            return text
        width = max(len(f"{task.role}/{task.index}") for task in tasks)
        return f"{f'{line.role}/{line.index}':{width}} | {text}"

    def read(self) -> Iterator[LogLine]:
        """Yield the present lines of the logs, task after task.

        Raises:
            JobNotFound: there is no such job.
            PaiApiError: the server does not answer, or refuses the request.
        """
        self._following = False
        self._look_up()
        for stream in self._refresh():
            yield from self._new_lines(stream)
            yield from self._last_line(stream)
        self._collect_unreadable()

    def follow(self) -> Iterator[LogLine]:
        """Yield the lines of the logs, and new lines until the job has ended; sleep between reads.

        Transient errors are retried for ``polling.patience`` seconds. At most two logs are read a second.
        A task that the cluster starts again begins a new log, which is read from its start.
        """
        for step in self.follow_steps():
            if isinstance(step, LogLine):
                yield step
            else:
                self._api.clock.sleep(step)

    def follow_steps(self, status: Callable[[], JobStatus] | None = None) -> Iterator[LogLine | float]:
        """Yield lines as ``follow`` does and, instead of sleeping, the seconds to wait before the next step.

        After an error it may be called again, and continues where the reading stopped.

        Args:
            status: returns the job's last known status; default: the status is looked up.
        """
        self._following = True
        pause = _SHORTEST
        while True:
            if status is None:
                self._retry.call(self._look_up)
            else:
                self.status = status()
            found_some, ended = False, self.status is not None and self.status.finished
            self._has_ended, self._is_watched = ended, ended or status is not None
            for stream in self._refresh():
                for line in self._new_lines(stream):
                    found_some = True
                    yield line
                if stream.closed or (ended and not stream.cut_short):
                    yield from self._last_line(stream)
                if not self._is_resting(stream):
                    yield self.per_log
            is_whole = not any(each.cut_short for each in self._streams.values())
            if ended and (is_whole or self.gave_up):
                for stream in self._streams.values():
                    yield from self._last_line(stream)
                self._collect_unreadable()
                return
            pause = _SHORTEST if found_some else min(2 * pause, _LONGEST)
            self._in_vain += pause if ended else 0.0
            yield pause

    def _look_up(self) -> None:
        dialect = self._api.dialect
        if self._attempt is not None and dialect.gives_logs:
            self.status = self._api.attempt(self._name, self._attempt)
        else:
            self.status = self._book.of(self._name)

    def _refresh(self) -> list[_Stream]:
        """Return the streams of each task's last start and, if that start is new, of the start before it."""
        found: list[_Stream] = []
        if self.status is None:
            return found
        status = self.status
        for task in self.tasks():
            for name in self._names:
                key = (task.role, task.index, name)
                known = self._streams.get(key)
                now = _Stream(task, name, status, self._lines if self._first else None)
                if known is None or known.attempt != now.attempt:
                    if known is not None and (task.attempt is not None or known.task.log_url is not None):
                        known.closed = True
                        found.append(known)
                        logger.info("%s of job %s was started again", task, self._name)
                    known = self._streams[key] = now
                found.append(known)
        self._first = self._first and not found
        return found

    def _new_lines(self, stream: _Stream) -> Iterator[LogLine]:
        """Yield the complete lines that were added to a stream since it was last read."""
        if stream.last_lines is not None:
            count, stream.last_lines = stream.last_lines, None
            yield from self._last_lines(stream, count)
        while True:
            part, whole = self._part(stream, stream.offset, _PART)
            if whole < stream.offset:  # the log was rotated, so read the new log from its start
                stream.offset, stream.rest = 0, b""
                continue
            stream.offset += len(part)
            yield from self._split(stream, part)
            if not part or (len(part) < _PART and stream.offset >= whole):
                return

    def _last_lines(self, stream: _Stream, count: int) -> Iterator[LogLine]:
        """Yield the last lines of a stream; the next read continues after them."""
        file = self._file_of(stream)
        if file is None:
            return
        kept: collections.deque[LogLine] = collections.deque(maxlen=count)
        is_enough = False
        if not file.paged:
            part, whole = self._part(stream, -_TAIL, _TAIL)
            is_enough = part.count(b"\n") > count
            if is_enough:
                stream.offset = whole
                kept.extend(self._split(stream, part.partition(b"\n")[2]))
        while not is_enough:
            part, _ = self._part(stream, stream.offset, _PART)
            stream.offset += len(part)
            kept.extend(self._split(stream, part))
            is_enough = len(part) < _PART
        if stream.rest and not self._following:  # a last line without a line end
            kept.append(self._line(stream, stream.rest))
            stream.rest = b""
        yield from kept

    def _split(self, stream: _Stream, part: bytes) -> Iterator[LogLine]:
        *lines, stream.rest = (stream.rest + part).split(b"\n")
        for line in lines:
            yield self._line(stream, line)
        if len(stream.rest) > _LONGEST_LINE:
            yield from self._last_line(stream)

    def _last_line(self, stream: _Stream) -> Iterator[LogLine]:
        """Yield the text of a stream after its last line end, if there is any."""
        if stream.rest:
            rest, stream.rest = stream.rest, b""
            yield self._line(stream, rest)

    def _line(self, stream: _Stream, line: bytes) -> LogLine:
        task = stream.task
        return LogLine(task.role, task.index, stream.name, line.decode("utf-8", "replace"))

    def _part(self, stream: _Stream, start: int, size: int) -> tuple[bytes, int]:
        """Return a part of a stream, and the length of the stream; the part is empty if it cannot be read."""
        if self.gave_up:
            stream.reason = stream.reason or (
                f"not read, because other logs could not be read for {_LONGEST_IN_VAIN:.0f} s"
            )
            stream.cut_short = True
            return b"", stream.offset
        stream.cut_short = False
        for is_last in (False, True):
            file = self._file_of(stream)
            if file is None:
                break
            try:
                with self._request():
                    answer = self._api.log_files.part(file, start, size)
            except PaiApiError as error:
                if isinstance(error, PaiHttpError) and error.status in _GONE and not is_last:
                    del self._files[stream.attempt]  # its URL may have expired
                    continue
                stream.reason = str(error)
                stream.cut_short = isinstance(error, TRANSIENT) and not file.paged
                is_away = isinstance(error, ClusterUnreachable) and self._is_watched
                if stream.cut_short and (not self._following or (is_away and not self._has_ended)):
                    raise
                break
            stream.reason = None
            return answer
        return b"", stream.offset

    def _file_of(self, stream: _Stream) -> LogFile | None:
        """Return the file of a stream. If there is none, return None, and store the reason if it is known."""
        task = stream.task
        if self._no_logs is not None:
            stream.reason = self._no_logs
            return None
        if stream.attempt not in self._files:
            try:
                with self._request():
                    files = self._api.dialect.task_logs(stream.status, task.role, task.index)
            except ClusterUnreachable:
                raise
            except (JobNotFound, PaiHttpError) as error:
                stream.reason = str(error)
                stream.cut_short = isinstance(error, TRANSIENT)
                if error.code == "NoApiError":  # releases before 1.4
                    self._no_logs = stream.reason
                return None
            self._files[stream.attempt] = {file.name: file for file in files}
        return self._files[stream.attempt].get(stream.name)

    def _is_resting(self, stream: _Stream) -> bool:
        file = self._files.get(stream.attempt, {}).get(stream.name)
        return file is not None and self._api.log_files.is_resting(file)

    @contextlib.contextmanager
    def _request(self) -> Iterator[None]:
        """Limit the time of requests for logs of a watched job, so that they do not delay its result."""
        clock = self._api.clock
        began = clock.monotonic()
        with at_most(_SHORT) if self._is_watched else contextlib.nullcontext():
            try:
                yield
            except ClusterUnreachable:
                self._in_vain += clock.monotonic() - began if self._has_ended else 0.0
                raise

    def _collect_unreadable(self) -> None:
        if self._no_logs is not None:
            self.unreadable = [UnreadableLog("", self._api.page(self._name), self._no_logs)]
            return
        unread: dict[tuple[str, int], UnreadableLog] = {}
        for stream in self._streams.values():
            if stream.reason is not None and (stream.offset == 0 or stream.cut_short):
                task = stream.task
                unread.setdefault(
                    (task.role, task.index),
                    UnreadableLog(f"{task.role}/{task.index}", task.log_url, stream.reason),
                )
        self.unreadable = list(unread.values())
