"""KeptLogs: copies finished jobs' logs to their output folders, where they outlive the server's logs."""

from __future__ import annotations

import functools
import logging
import re
from typing import TYPE_CHECKING

from luigi_pai.api.logs.reader import STREAMS
from luigi_pai.api.logs.source import PART, SHORT
from luigi_pai.api.wire.transport import at_most
from luigi_pai.errors import ClusterUnreachable, PaiApiError, PaiError, PaiHttpError
from luigi_pai.redaction import redacted_parts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import TypeVar

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.dialects.log_files import LogFile
    from luigi_pai.api.status import JobStatus, TaskStatus
    from luigi_pai.files.file_system import FileSystem

    T = TypeVar("T")

logger = logging.getLogger("luigi-interface")

_FOLDER = "_logs"  # folder for the copies; Hadoop's own readers skip names that start with an underscore
_PATIENCE = 10.0  # how long to retry a transient cluster error, in seconds
_UNUSUAL = re.compile(r"[^A-Za-z0-9._~-]")


class KeptLogs:
    """Writes a finished job's logs to ``OUTPUT_DIR/_logs/JOB/ROLE-INDEX.stdout`` and ``.stderr``.

    A file becomes visible, or replaces an earlier one, only once its log was read to the end. If a task's
    log cannot be read, a ``ROLE-INDEX.unreadable.txt`` file contains the reason.

    Args:
        book: The book for the job's cluster.
        fs: The output folder's file system; None if this folder is elsewhere.
        folder: The output folder.
        secrets: Values to redact in the copies, besides the account's password and token.
    """

    def __init__(
        self, book: Book, fs: FileSystem | None, folder: str | None, secrets: Sequence[str] = ()
    ) -> None:
        self._book, self._api = book, book.api
        self._fs = fs
        self._folder = folder
        self._secrets = secrets
        self._given_up: PaiApiError | None = None  # why no more requests are made

    def keep(self, status: JobStatus) -> None:
        """Copy a job's logs. Only logs errors, because the result does not depend on the copies."""
        if self._fs is None or self._folder is None:
            if self._book.api.session.times("keep_logs without files") == 1:
                logger.warning(
                    "keep_logs: the logs of job %s, and of all jobs without an output folder on the cluster, "
                    "are not kept",
                    status.name,
                )
            return
        folder = f"{self._folder.rstrip('/')}/{_FOLDER}/{status.name}"
        unreadable = 0
        try:
            if not status.tasks:  # a status from a list of jobs does not contain the tasks
                status = self._request(lambda: self._api.status(status.name))
            for task in status.tasks:
                unreadable += not self._keep_task(self._fs, folder, status, task)
        except (PaiError, OSError) as error:
            logger.warning("The logs of job %s could not be kept in %s: %s", status.name, folder, error)
            return
        count = len(status.tasks)
        lost = f"; those of {unreadable} could not be read" if unreadable else ""
        tasks = f"{count} task{'' if count == 1 else 's'}"
        logger.info("Kept the logs of job %s, %s, in %s%s", status.name, tasks, folder, lost)

    def _keep_task(self, fs: FileSystem, folder: str, status: JobStatus, task: TaskStatus) -> bool:
        """Copy a task's logs, or write why they cannot be read; return whether they were read."""
        path = f"{folder}/{_UNUSUAL.sub('_', task.role)}-{task.index}"
        reasons = {}
        try:
            with at_most(SHORT):
                logs = self._request(lambda: self._api.dialect.task_logs(status, task.role, task.index))
            files = {file.name: file for file in logs}
            if not any(name in files for name in STREAMS):
                reasons["no log"] = "the task has not run, or the cluster has no log of it"
        except PaiApiError as error:
            files, reasons = {}, {"no log": str(error)}
        for name in STREAMS:
            if name in files:
                try:
                    self._copy(files[name], fs, f"{path}.{name}")
                except PaiApiError as error:
                    reasons[name] = str(error)
        if reasons:
            with fs.open_writer(f"{path}.unreadable.txt") as note:
                note.write("".join(f"{name}: {reason}\n" for name, reason in reasons.items()).encode())
        return not reasons

    def _copy(self, file: LogFile, fs: FileSystem, path: str) -> None:
        """Copy a log part by part; the file becomes visible when it is complete."""
        with fs.open_writer(path) as target:
            for part in redacted_parts(self._parts(file), self._api.session.with_own(self._secrets)):
                target.write(part)

    def _parts(self, file: LogFile) -> Iterator[bytes]:
        """Yield a log's parts."""
        start = 0
        while True:
            fetch = functools.partial(self._api.log_files.part, file, start, PART)
            with at_most(SHORT):
                part, whole = fetch() if file.paged else self._request(fetch)
            yield part
            start += len(part)
            if not part or (len(part) < PART and start >= whole):
                return

    def _request(self, request: Callable[[], T]) -> T:
        """Return the result of a request to the server, retrying transient errors for 10 s.

        After a request without a response, or if the server does not have the route, later calls only raise
        the same error.
        """
        if self._given_up is not None:
            raise self._given_up
        try:
            return self._api.repeat(request, _PATIENCE)
        except PaiApiError as error:
            no_such_request = isinstance(error, PaiHttpError) and error.code == "NoApiError"  # 0.15 to 1.3
            if isinstance(error, ClusterUnreachable) or no_such_request:
                self._given_up = error
            raise
