"""Job: the handle of one job on a cluster."""

from __future__ import annotations

import contextlib
import math
import threading
from typing import TYPE_CHECKING, Any

from luigi_pai.api.job_failure import job_failure
from luigi_pai.api.retries import Retry
from luigi_pai.api.status import JobList
from luigi_pai.api.waiting import WaitingReasons
from luigi_pai.api.watched import Outcome
from luigi_pai.api.watching import Watcher
from luigi_pai.durations import duration
from luigi_pai.errors import JobNotFound, PaiApiError, PaiJobFailed, PaiJobLost
from luigi_pai.jobspec.hints import closest
from luigi_pai.notebook import Drawing, Link, html_table, is_notebook

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.dialects.log_files import LogFile
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.watched import Deadline

__all__ = ["FunctionJob", "Job", "lost_job"]


class Job:
    """A job on a cluster. Constructing a handle makes no requests.

    If a request fails, a method raises ``PaiApiError`` or one of its subclasses.

    Args:
        book: The cluster's book.
        name: The job's name on the server; ``NAME__attempt2`` for a later submission.
        submitted: The job's first status, if it was just submitted; used until the server knows the job.
        secrets: The job's secrets, if it was just submitted; they are redacted in its logs.

    Attributes:
        book, name, secrets: The constructor's arguments. ``book`` is for internal use.
    """

    def __init__(
        self, book: Book, name: str, submitted: JobStatus | None = None, secrets: Sequence[str] = ()
    ) -> None:
        self.name = name
        self.secrets = secrets
        self.book, self._api = book, book.api
        self._submitted = submitted
        self._last: JobStatus | None = None
        self._missed: Deadline | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self._api.url!r})"

    def _repr_html_(self) -> str:
        """Return a table with the last known status. Makes no requests."""
        known = self._last or self._submitted
        if known is not None:
            return JobList([known], self._api.page)._repr_html_()
        return html_table(("job",), [[Link(self.name, self._api.page(self.name))]])

    @property
    def url(self) -> str:
        """The URL of the job's page in the web portal; on 0.7 to 0.14, the first access looks up the job."""
        if self._last is None and self._submitted is None and self._api.dialect.version == "v1":
            with contextlib.suppress(PaiApiError):
                self._last = self.book.status(self.name)
        return self._api.page(self.name)

    def status(self) -> JobStatus:
        """Return the job's current status; the status of a finished job is cached for 10 s.

        Raises:
            JobNotFound: The server knows no job with this name.
        """
        self._last = self._api.repeat(lambda: self.book.status(self.name))
        return self._last

    def wait(
        self,
        timeout: float | None = None,
        *,
        queue_timeout: float | None = None,
        run_timeout: float | None = None,
        on_change: Callable[[JobStatus], None] | None = None,
        on_waiting: Callable[[JobStatus, str], None] | None = None,
    ) -> JobStatus:
        """Wait until the job ends and return its last status, even if it failed; see ``failure``.

        Transient errors are retried for the cluster's ``polling.patience`` (seconds).

        Args:
            timeout: How many seconds to wait before raising ``TimeoutError``; the job continues.
            queue_timeout: How many seconds the job may spend in the queue before it is stopped.
            run_timeout: How many seconds the job may run before it is stopped.
            on_change: Called with each new status, including the first one.
            on_waiting: Called with a queued job's status and the reason it is waiting, whenever the reason
                becomes known or changes. The reason is looked up after one second in the queue, then once a
                minute. Not all releases report reasons.

        In a notebook, each status is displayed below the cell unless you pass ``on_change``.

        Raises:
            JobNotFound: The server knows no job with this name, and this handle did not submit it.
            PaiJobLost: The server no longer knows the job.
            ClusterUnreachable: The server did not respond for too long.
            TimeoutError: The job did not end within ``timeout``.
        """
        end = math.inf if timeout is None else self._api.clock.monotonic() + timeout
        changed = on_change or (self._drawn() if is_notebook() else lambda _status: None)
        status = self._first_status()
        changed(status)
        if status.finished:
            return status
        watcher, reasons, reason = Watcher(self.book), WaitingReasons(self.book), None
        watcher.add(status, queue_timeout=queue_timeout, run_timeout=run_timeout)
        while (left := end - self._api.clock.monotonic()) > 0:
            idle = math.inf if on_waiting is None else reasons.idle(status)
            self._api.clock.sleep(min(watcher.idle(), idle, left))
            for update in watcher.step():
                status = update.status
                self._last, self._missed = status, update.missed
                if update.outcome is Outcome.LOST:
                    raise lost_job(self._api, self.name)
                changed(status)
                if update.outcome is Outcome.ENDED:
                    return status
            if on_waiting is not None and (now := reasons.reason(status)) != reason:
                reason = now
                if now is not None:
                    on_waiting(status, now)
        raise TimeoutError(f"job {self.name!r} has not ended within {timeout:g} s; it continues")

    def _drawn(self) -> Callable[[JobStatus], None]:
        drawing, began = Drawing(), self._api.clock.time()

        def draw(status: JobStatus) -> None:
            waited = duration(self._api.clock.time() - (status.created_ms or began * 1000) / 1000)
            drawing.draw(f"{self.name}: {status.summary()}, {waited} after its submission", status.progress)

        return draw

    def _first_status(self) -> JobStatus:
        clock = self._api.clock
        retry = Retry(self._api.polling.patience, clock, f"job {self.name}")
        try:
            status = retry.call(lambda: self.book.status(self.name))
        except JobNotFound as error:
            if self._submitted is not None:
                return self._submitted
            near = None
            with contextlib.suppress(PaiApiError):
                near = closest(self.name, (each.name for each in self._api.list()))
            if near is None:
                raise
            raise error.extended(f"did you mean {near}?") from None
        self._last = status
        return status

    def stop(self) -> None:
        """Ask the server to stop the job; its state becomes STOPPED a little later.

        Transient errors are retried for the cluster's ``polling.patience`` (seconds).
        """
        self._api.stop_surely(self.name, self._api.polling.patience)

    def config(self) -> dict[str, Any]:
        """Return the v1 job config or job protocol stored on the server, with secrets as ``******``."""
        return self._api.repeat(lambda: self._api.config(self.name))

    def events(self) -> list[dict[str, Any]]:
        """Return the job's events, such as why a task cannot start (1.3 and later; empty on v1)."""
        return self._api.repeat(lambda: self._api.events(self.name))

    def logs(self, role: str, index: int = 0, *, tail: bool = False) -> dict[str, str]:
        """Return the logs of one of the job's tasks by name: ``stdout``, ``stderr``, ``all``.

        On 0.7 to 0.14, they are read from the node where the task ran (``TaskStatus.log_url``); if this
        machine cannot reach the node, ``ClusterUnreachable`` is raised. 0.15 to 1.3 do not serve logs, so
        ``PaiHttpError`` is raised. Your password and token, and the secrets of a job that this handle
        submitted, are replaced by ``******``.

        Args:
            role: The task role, as in ``status().tasks``.
            index: The task's index in its role.
            tail: Whether to return only the last 16 KB of each log.

        Raises:
            JobNotFound: The server does not know the job, or the job has no such task role.
        """
        status = self._last if self._last is not None and self._last.finished else self.status()
        roles = sorted({task.role for task in status.tasks})
        if roles and role not in roles:
            message = f"job {status.name!r} has no task role {role!r}; it has {', '.join(roles)}"
            raise JobNotFound(message, status=404)
        files: tuple[LogFile, ...] = self._api.dialect.task_logs(status, role, index)
        logs = {file.name: self._api.log_files.read(file, tail=tail) for file in files}
        return {name: self._api.session.redacted(log, self.secrets) for name, log in logs.items()}

    def failure(self) -> PaiJobFailed | None:
        """Return the error for a job that ended as FAILED or STOPPED; otherwise None.

        The error contains the exit code, the task that ended the job, and the last lines of that task's log.
        """
        status = self._last if self._last is not None and self._last.finished else self.status()
        if not status.finished or status.succeeded:
            return None
        return job_failure(self._api, status, missed=self._missed, secrets=self.secrets)


class FunctionJob(Job):
    """A job that runs a function; see ``Cluster.call``.

    Args:
        book: The cluster's book.
        name: The job's name on the server.
        submitted: The job's first status; None if the outputs show that it has already succeeded.
        finish: Waits until the job ends, and updates ``name`` if there were more attempts.
        value: Reads the function's return value.
    """

    def __init__(
        self,
        book: Book,
        name: str,
        submitted: JobStatus | None,
        finish: Callable[[], None],
        value: Callable[[], Any],
    ) -> None:
        super().__init__(book, name, submitted)
        self._finish, self._value = finish, value
        self._is_over = submitted is None
        self._error: PaiJobFailed | None = None
        self._lock = threading.Lock()

    def result(self) -> Any:
        """Wait until the job ends and return the function's result, converted to JSON and back.

        Tuples become lists, dict keys become strings, and NumPy numbers become Python numbers.

        Raises:
            PaiJobFailed: The job failed or was stopped; the error contains the function's traceback.
            PaiJobLost: The server no longer knows the running job.
            PaiApiError: Requests kept failing until their deadline; the job continues.
            PaiError: The result cannot be read.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            try:
                self._finish()
            except PaiJobFailed as error:
                self._error = error
                raise error.with_traceback(None)  # noqa: B904  the message is the function's traceback
            self._is_over, self._finish = True, lambda: None
            return self._value()

    def exception(self) -> PaiJobFailed | None:
        """Wait until the job ends; return the ``PaiJobFailed`` that ``result`` would raise, if any.

        Other errors are raised, as in ``result``.
        """
        try:
            self.result()
        except PaiJobFailed as error:
            return error
        return None

    def cancel(self) -> None:
        """Stop the job; the same as ``stop``, under the name that futures use."""
        self.stop()

    def done(self) -> bool:
        """Return whether the job has ended, successfully or not."""
        return self._is_over or self.status().finished


def lost_job(api: RestApi, name: str) -> PaiJobLost:
    """Return the error for a job that the server no longer knows."""
    return PaiJobLost(
        f"job {name!r} is no longer on {api.url}: it was deleted, or it ended longer ago than the "
        "server keeps jobs; if its results are complete, put a file _SUCCESS into its output folder, "
        "else run the task again to submit it again",
        name,
    )
