"""One run of a task: find its job or submit it, follow it, remember its end."""

from __future__ import annotations

import logging
import queue
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.api.attempts import Attempts
from luigi_pai.api.client import PaiClient
from luigi_pai.api.failure import failure_text, without_secrets
from luigi_pai.api.session import Account
from luigi_pai.api.watch import Polling, past_limits, watch
from luigi_pai.config import OpenPai
from luigi_pai.errors import PaiError, PaiJobFailed
from luigi_pai.outputs import Outputs
from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.names import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import luigi

    from luigi_pai.api.status import JobStatus
    from luigi_pai.hdfs import WebHdfs
    from luigi_pai.spec.protocol import JobProtocol

__all__ = ["SERVER_OUTPUT", "Run", "Work"]

logger = logging.getLogger("luigi-interface")

SERVER_OUTPUT = "$PAI_DEFAULT_FS_URI/Output"
"""Where a server puts the output of a job that names no folder: in ``USER/NAME`` below."""

_clients: dict[tuple[object, ...], PaiClient] = {}
_flagged: set[tuple[str, str]] = set()  # (output folder, job) whose completion flag is known to be there
_cleared: set[tuple[str, str]] = set()  # the same, known not to be there


@dataclass(frozen=True)
class Work:
    """What a task wants done.

    Attributes:
        task: the Luigi task; the callbacks that a worker puts on it while it runs are called.
        name: of the job.
        make_job: returns the job under the name of an attempt.
        targets: returns what the task's own ``output()`` returns, flat; nothing where it has none.
        output_dir: the job's output folder; None where it has none that is known here.
        api_version: the dialect that the job is written in, where it is not for the cluster to say.
        secrets: returns values that no text may show.
        send_uploads: sends what a v1 job needs on HDFS, given its code folder and that HDFS.
    """

    task: luigi.Task
    name: str
    make_job: Callable[[str], PaiJob | JobProtocol]
    targets: Callable[[], Sequence[luigi.Target]]
    output_dir: str | None = None
    api_version: str | None = None
    secrets: Callable[[], Sequence[str]] = tuple
    send_uploads: Callable[[str | None, WebHdfs | None], None] | None = None


class Run:
    """One look at, or one run of, a task: its job with the settings of this moment.

    Args:
        work: what is to be done.

    Attributes:
        attempts: what the cluster knows of its job.

    Raises:
        ConfigError: a setting is wrong.
        SpecError: the work's name is none that a job can have.
    """

    def __init__(self, work: Work) -> None:
        self._settings = OpenPai()
        self._settings.check()
        check_name(work.name)
        self._work = work
        self._client = _client(self._settings, work.api_version or self._settings.api_version)
        self._followed: str | None = None
        self._told = ""
        self._progress: int | None = None
        self._hdfs = _hdfs(self._settings)
        self._outputs = Outputs(self._hdfs, work.output_dir, work.targets)
        self._flag_key = (work.output_dir or "", work.name)
        self.attempts = Attempts(self._client, work.name, self._outputs.show_a_beginning)

    def is_complete(self) -> bool:
        """Return whether the work is done; ``complete()`` of the task."""
        newest = past_limits(self.attempts.newest, self._settings.poll_patience, self._pause)
        if newest is None:
            return self._outputs.show_completion(self._work.name)
        if newest.succeeded:
            self.set_flag()
        elif newest.finished:
            self.clear_flag()
        return newest.succeeded

    def to_the_end(self) -> None:
        """Find or submit the job, and follow it to its end; ``run()`` of the task.

        Raises:
            PaiJobFailed: the job ended as FAILED or STOPPED.
        """
        newest = past_limits(self.attempts.last_look, self._settings.poll_patience, self._pause)
        if newest is None and self._outputs.show_completion(self._work.name):
            logger.info(
                "Job %s is complete: the server does not know it, its output shows it", self._work.name
            )
            return
        status = self._follow(newest)
        if not status.succeeded:
            self.clear_flag()
            secrets = self._work.secrets()
            raise PaiJobFailed(failure_text(self._client, status, secrets), without_secrets(status, secrets))
        self.set_flag()

    def _follow(self, newest: JobStatus | None) -> JobStatus:
        """Take over the newest attempt or submit the next, and return its last status."""
        settings = self._settings
        status, submitted = self.attempts.ensure(newest, self._make_job, settings.poll_patience, self._pause)
        if not submitted:
            logger.info("Job %s is there already (%s); nothing is submitted", status.name, status.raw_state)
        self._followed = status.name
        _cleared.discard(self._flag_key)  # the command that runs may write a flag
        self._report("set_tracking_url", self._client.job_page(status.name))
        polling = Polling(settings.poll_min, settings.poll_max, settings.poll_patience)
        status = watch(
            self._client,
            status,
            polling,
            just_submitted=submitted,
            on_change=self._changed,
            pause=self._pause,
        )
        self._followed = None
        self.attempts.ended(status)
        return status

    def set_flag(self) -> None:
        """Write the completion flag, if it has a place, so that the end outlives the server's memory of it.

        What fails here fails nobody's task: the server knows the end for hours
        yet, and the next ``complete()`` writes the flag.
        """
        key = self._flag_key
        flag = None if key in _flagged else self._outputs.flag
        if flag is None:
            return
        try:
            flag.add(self._work.name)
        except PaiError as error:
            logger.warning(
                "Job %s has succeeded, but this could not be noted on HDFS (%s); once the server forgets "
                "the job, the task would run again",
                self._work.name,
                error,
            )
        else:
            _flagged.add(key)
            _cleared.discard(key)

    def clear_flag(self) -> None:
        """Take the job out of the completion flag: its newest attempt did not succeed.

        A flag may be there all the same: the job's own command may have written
        one (Spark does) and failed afterwards.
        """
        key = self._flag_key
        _flagged.discard(key)
        flag = None if key in _cleared else self._outputs.flag
        if flag is None:
            return
        try:
            flag.discard(self._work.name)
        except PaiError as error:
            logger.warning("The completion flag of failed job %s was not cleared: %s", self._work.name, error)
        else:
            _cleared.add(key)

    def _make_job(self, name: str, number: int) -> PaiJob | JobProtocol:
        """Return the job under an attempt's name, with its uploads and its output folder in place on HDFS."""
        work = self._work
        if not name.startswith(work.name):
            logger.warning(
                "Job %s is called %s on this cluster: v2 names have letters, digits, _ and - only",
                work.name,
                name,
            )
        job = work.make_job(name)
        if isinstance(job, PaiJob) and (number > 1 or self._client.speaks_v2):  # v2 servers choose no folder
            job.outputDir = job.outputDir or work.output_dir
        if isinstance(job, PaiJob) and work.send_uploads is not None:
            work.send_uploads(job.codeDir, self._hdfs)
        flag = self._outputs.flag
        if flag is None and work.output_dir is not None:
            logger.info("Job %s gets no completion flag, because %s", name, self._outputs.what_remembers())
        elif flag is not None and number > 1:
            flag.discard(work.name)
        folder = job.outputDir if isinstance(job, PaiJob) else None
        hdfs = self._outputs.hdfs_of(folder) if folder else None
        if folder and hdfs is not None:
            hdfs.mkdir(folder)
        return job

    def _changed(self, status: JobStatus) -> None:
        """Tell the log and Luigi's page what is new of the job."""
        summary = f"{status.name}: {status.summary()}"
        if summary != self._told:
            self._told = summary
            logger.info("Job %s", summary)
            self._report("set_status_message", summary)
        progress = None if status.progress is None else round(100 * min(max(status.progress, 0.0), 1.0))
        if progress is not None and progress != self._progress:
            self._progress = progress
            self._report("set_progress_percentage", progress)

    def _report(self, callback: str, value: object) -> None:
        """Call one of the callbacks that a Luigi worker puts on a task while it runs."""
        report: Callable[[object], None] | None = getattr(self._work.task, callback, None)
        if report is not None:
            report(value)

    def _pause(self, seconds: float) -> None:
        """Wait, and obey the scheduler's messages meanwhile."""
        messages = getattr(self._work.task, "scheduler_messages", None)
        if messages is None:
            time.sleep(seconds)
            return
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            try:
                message = messages.get(timeout=left)
            except queue.Empty:
                return
            message.respond(self._obey(str(message)))

    def _obey(self, message: str) -> str:
        """Carry out a message of the scheduler and return the answer to it."""
        if message.strip().lower() != "stop":
            return f"{message!r} is not understood; send: stop"
        if self._followed is None:
            return "the job is not submitted yet; send it again in a moment"
        try:
            self._client.stop(self._followed)
        except PaiError as error:
            return f"{self._followed} could not be stopped: {error}"
        return f"{self._followed} is being stopped"


def _client(settings: OpenPai, api_version: str) -> PaiClient:
    """Return this process's client for the user and cluster of the settings."""
    account = Account(
        url=settings.pai_url,
        username=settings.username,
        password=settings.password,
        token=settings.token,
        expiration=settings.expiration,
        verify=settings.tls_verify(),
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.read_timeout,
    )
    about = (account, settings.portal_url, api_version, settings.fs_uri)
    if about not in _clients:
        _clients[about] = PaiClient(*about)
    return _clients[about]


def _hdfs(settings: OpenPai) -> WebHdfs | None:
    """Return the cluster's HDFS, or None where no WebHDFS is configured."""
    if settings.hdfs_account() is None:
        return None
    from luigi_pai.hdfs import WebHdfs  # noqa: PLC0415  costs what only HDFS needs

    return WebHdfs.from_config()
