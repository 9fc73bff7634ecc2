"""Job: the handle of one job on a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.api.job_failure import job_failure
from luigi_pai.api.retries import Retry, run_steps
from luigi_pai.api.watcher import Outcome, Watcher
from luigi_pai.errors import JobNotFound, PaiJobLost

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.api.dialects.dialect import LogFile
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.watcher import Deadline
    from luigi_pai.errors import PaiJobFailed

__all__ = ["Job", "lost"]


class Job:
    """A job on a cluster. Making a handle makes no request.

    Every method raises the errors of ``PaiApiError``'s branch of the tree.

    Args:
        cluster: where it is.
        name: its name there; of a submission, ``NAME__attempt2``, too.
        submitted: its first status, if it was submitted just now: a server may need a moment to show it.

    Attributes:
        cluster, name: as given.
    """

    def __init__(self, cluster: Cluster, name: str, submitted: JobStatus | None = None) -> None:
        self.cluster = cluster
        self.name = name
        self._submitted = submitted
        self._last: JobStatus | None = None
        self._missed: Deadline | None = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, {self.cluster!r})"

    @property
    def url(self) -> str:
        """The address of its page in the web portal."""
        return self.cluster.page(self.name)

    def status(self) -> JobStatus:
        """Return its status now; that of a finished job is remembered.

        Raises:
            JobNotFound: the server knows no job of this name.
        """
        self._last = self.cluster.status(self.name)
        return self._last

    def wait(
        self,
        *,
        queue_timeout: float | None = None,
        run_timeout: float | None = None,
        on_change: Callable[[JobStatus], None] | None = None,
    ) -> JobStatus:
        """Wait until it has ended and return its last status, whichever that is: see ``failure``.

        Transient errors are retried for as long as the cluster's ``polling.patience`` says.

        Args:
            queue_timeout: seconds that it may wait in the queue; then it is stopped.
            run_timeout: seconds that it may run; then it is stopped.
            on_change: called with each status that says something new, the first one too.

        Raises:
            JobNotFound: the server knows no job of this name, and this handle did not submit it.
            PaiJobLost: the server knew it, and no longer does.
            ClusterUnreachable: nobody answers any more.
        """
        clock = self.cluster.clock
        retry = Retry(self.cluster.polling.patience, clock, f"job {self.name}")
        try:
            status = run_steps(retry.call(self.status), clock.sleep)
        except JobNotFound:
            if self._submitted is None:
                raise
            status = self._submitted
        if on_change is not None:
            on_change(status)
        if status.finished:
            return status
        watcher = Watcher(self.cluster)
        watcher.add(status, queue_timeout=queue_timeout, run_timeout=run_timeout)
        while True:
            clock.sleep(watcher.idle())
            for update in watcher.step():
                self._last, self._missed = update.status, update.missed
                if update.outcome is Outcome.LOST:
                    raise lost(self.cluster, self.name)
                if on_change is not None:
                    on_change(update.status)
                if update.outcome is Outcome.ENDED:
                    return update.status

    def stop(self) -> None:
        """Ask the server to stop it; its state is STOPPED soon, not at once."""
        self.cluster.stop(self.name)

    def config(self) -> dict[str, Any]:
        """Return it as the server has stored it: a v1 job config or a job protocol; secrets as ``******``."""
        return self.cluster.config(self.name)

    def events(self) -> list[dict[str, Any]]:
        """Return what the cluster recorded of it: why a task cannot start (1.3 and later; else nothing)."""
        return self.cluster.events(self.name)

    def logs(self, role: str, index: int = 0, *, tail: bool = False) -> dict[str, str]:
        """Return the logs of one of its tasks, by their names: ``stdout``, ``stderr``, ``all``.

        On 0.x they are read from the node where the task ran (``TaskStatus.log_url``), which a worker
        may not reach: then it is ``ClusterUnreachable``. 0.15 to 1.3 give none out: ``{}``.

        Args:
            role: the task role, as ``status().tasks`` has it.
            index: of the task in its role.
            tail: only the last 16 KB of each.
        """
        status = self._last if self._last is not None and self._last.finished else self.status()
        files: tuple[LogFile, ...] = self.cluster.dialect.task_logs(status, role, index, tail=tail)
        return {file.name: self.cluster.log_files.text(file) for file in files}

    def failure(self) -> PaiJobFailed | None:
        """Return the error that says why it ended as FAILED or STOPPED; None if it did not.

        It has the exit code, the task that decided it, the last lines of its log, and the next step.
        """
        status = self._last if self._last is not None and self._last.finished else self.status()
        if not status.finished or status.succeeded:
            return None
        return job_failure(self.cluster, status, missed=self._missed)


def lost(cluster: Cluster, name: str) -> PaiJobLost:
    """Return the error for a job that a server knew and no longer does."""
    return PaiJobLost(
        f"job {name!r} is no longer known to {cluster.url}: it was deleted, or it ended and was forgotten "
        "while nobody looked; if its results are complete, and on HDFS, put a file _SUCCESS into its output "
        "folder, else run the task again to submit it anew",
        name,
    )
