"""One run of a task: find its job or submit it, follow it, remember its end."""

from __future__ import annotations

import logging
import queue
import time
from typing import TYPE_CHECKING

from luigi_pai.api.attempts import Attempts
from luigi_pai.api.client import PaiClient
from luigi_pai.api.session import Account
from luigi_pai.api.watch import Polling, watch
from luigi_pai.config import OpenPai
from luigi_pai.errors import PaiError
from luigi_pai.outputs import Outputs
from luigi_pai.spec.validate import check_name
from luigi_pai.uploads import send_uploads

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import luigi

    from luigi_pai.api.status import JobStatus
    from luigi_pai.hdfs import WebHdfs
    from luigi_pai.spec.job import PaiJob
    from luigi_pai.task import PaiTask

__all__ = ["SERVER_OUTPUT", "Run"]

logger = logging.getLogger("luigi-interface")

SERVER_OUTPUT = "$PAI_DEFAULT_FS_URI/Output"
"""Where a server puts the output of a job that names no folder: in ``USER/NAME`` below."""

_MOST_LOGS = 10  # addresses of tasks' output in one error
_LONGEST_DIAGNOSTICS = 4000  # characters of the server's text that an error repeats

_clients: dict[tuple[Account, str | None], PaiClient] = {}
_flagged: set[tuple[str, str]] = set()  # (output folder, job) whose completion flag is known to be there
_cleared: set[tuple[str, str]] = set()  # the same, known not to be there


class Run:
    """One look at, or one run of, a task: its job with the settings of this moment.

    Args:
        task: the task; its ``job()``, ``name`` and ``output_dir`` are read, and
            the callbacks that a Luigi worker puts on it while it runs.
        targets: returns what the task's own ``output()`` returns, flat; nothing where it has none.

    Attributes:
        attempts: what the cluster knows of its job.
        output_dir: where its output is, also where the server chooses that.

    Raises:
        ConfigError: a setting is wrong.
        SpecError: the task's name is none that a job can have.
    """

    def __init__(self, task: PaiTask, targets: Callable[[], Sequence[luigi.Target]]) -> None:
        self._settings = OpenPai()
        self._settings.check()
        check_name(task.name)
        self._task = task
        self._client = _client(self._settings)
        self._followed: str | None = None
        self._told = ""
        self._progress: int | None = None
        self.output_dir = task.output_dir or f"{SERVER_OUTPUT}/{self._settings.username}/{task.name}"
        self._hdfs = _hdfs(self._settings)
        self._outputs = Outputs(self._hdfs, self.output_dir, targets)
        self.attempts = Attempts(self._client, task.name, self._outputs.show_a_beginning)

    def to_the_end(self, newest: JobStatus | None) -> JobStatus:
        """Take over the newest attempt or submit the next, and return its last status."""
        settings = self._settings
        status, submitted = self.attempts.ensure(newest, self._make_job, settings.poll_patience, self._pause)
        if not submitted:
            logger.info("Job %s is there already (%s); nothing is submitted", status.name, status.raw_state)
        self._followed = status.name
        _cleared.discard((self.output_dir, self._task.name))  # the command that runs may write a flag
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

    def was_completed(self) -> bool:
        """Return whether the work is done though the server does not know the job.

        Raises:
            HdfsError: HDFS did not say.
        """
        return self._outputs.show_completion(self._task.name)

    def set_flag(self) -> None:
        """Write the completion flag, if it has a place, so that the end outlives the server's memory of it.

        What fails here fails nobody's task: the server knows the end for hours
        yet, and the next ``complete()`` writes the flag.
        """
        key = (self.output_dir, self._task.name)
        flag = None if key in _flagged else self._outputs.flag
        if flag is None:
            return
        try:
            flag.add(self._task.name)
        except PaiError as error:
            logger.warning(
                "Job %s has succeeded, but this could not be noted on HDFS (%s); once the server forgets "
                "the job, the task would run again",
                self._task.name,
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
        key = (self.output_dir, self._task.name)
        _flagged.discard(key)
        flag = None if key in _cleared else self._outputs.flag
        if flag is None:
            return
        try:
            flag.discard(self._task.name)
        except PaiError as error:
            logger.warning("The completion flag of failed job %s was not cleared: %s", self._task.name, error)
        else:
            _cleared.add(key)

    def failure_text(self, status: JobStatus) -> str:
        """Return what an error says of a job that did not succeed: what, why, where to look, what next."""
        text = f"job {status.name!r} ended as {status.raw_state}"
        if status.exit_code is not None:
            text += f" with exit code {status.exit_code}"
        if status.exit_type:
            text += f" ({status.exit_type})"
        if status.retries:
            text += f" after {status.retries} retr{'y' if status.retries == 1 else 'ies'}"
        if status.diagnostics:
            diagnostics = status.diagnostics.strip()
            cut = "... " if len(diagnostics) > _LONGEST_DIAGNOSTICS else ""
            text += f": {cut}{diagnostics[-_LONGEST_DIAGNOSTICS:]}"
        lines = [text, f"job page: {self._client.job_page(status.name)}"]
        logged = [task for task in status.tasks if task.log_url]
        lines += [f"output of {task.role}[{task.index}]: {task.log_url}" for task in logged[:_MOST_LOGS]]
        if len(logged) > _MOST_LOGS:
            lines.append(f"and {len(logged) - _MOST_LOGS} tasks more, on the job page")
        lines.append("run the task again to submit the next attempt")
        return "\n  ".join(lines)

    def _make_job(self, attempt: str) -> PaiJob:
        """Return the job under an attempt's name, with its uploads and its output folder in place on HDFS."""
        task = self._task
        job = task.job()
        send_uploads(task, job.codeDir, self._hdfs)
        job.jobName = attempt
        if attempt != task.name:
            job.outputDir = job.outputDir or self.output_dir
        flag = self._outputs.flag
        if flag is None:
            logger.info("Job %s gets no completion flag, because %s", attempt, self._outputs.what_remembers())
        elif attempt != task.name:
            flag.discard(task.name)
        if job.outputDir:
            hdfs = self._outputs.hdfs_of(job.outputDir)
            if hdfs is not None:
                hdfs.mkdir(job.outputDir)
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
        report: Callable[[object], None] | None = getattr(self._task, callback, None)
        if report is not None:
            report(value)

    def _pause(self, seconds: float) -> None:
        """Wait, and obey the scheduler's messages meanwhile."""
        messages = getattr(self._task, "scheduler_messages", None)
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


def _client(settings: OpenPai) -> PaiClient:
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
    key = (account, settings.portal_url)
    if key not in _clients:
        _clients[key] = PaiClient(account, settings.portal_url)
    return _clients[key]


def _hdfs(settings: OpenPai) -> WebHdfs | None:
    """Return the cluster's HDFS, or None where no WebHDFS is configured."""
    if settings.hdfs_account() is None:
        return None
    from luigi_pai.hdfs import WebHdfs  # noqa: PLC0415  costs what only HDFS needs

    return WebHdfs.from_config()
