"""Definition: what a run needs from a task. TaskJob: the task's job. Forecast: what a run would do now."""

from __future__ import annotations

import functools
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.console import is_users
from luigi_pai.errors import PaiApiError, Problem, SpecError
from luigi_pai.jobspec.job import PaiJob

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import luigi

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.book.entries import Entry
    from luigi_pai.hdfs import WebHdfs
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.tasks.claims import Claim
    from luigi_pai.tasks.job_task import JobTask
    from luigi_pai.tasks.options import Options

logger = logging.getLogger("luigi-interface")

_MOST_COMPARED = 10  # jobs without claims that a process and its forks compare with the server's copies
_NOTIFIED_SINCE = (1, 5)


class _NoJobError(SpecError, TypeError):
    """No job can be made from a task. The error is also a TypeError, because luigi.contrib.pai raised one."""


def not_returned(name: str, job: object, wanted: str) -> SpecError:
    """Return the error of a task whose ``job()`` has returned None, or an object that is not ``wanted``."""
    what = "nothing: end it with return" if job is None else f"{type(job).__name__}, not {wanted}"
    return _NoJobError(name, [Problem("job()", f"returned {what}")])


@dataclass(frozen=True)
class Forecast:
    """What a run of a task would do if it started now.

    Attributes:
        state: ``done``, ``running`` (a run takes the job over), or ``to submit``.
        number: of the submission: 1 for NAME, 2 for NAME__attempt2.
    """

    state: str
    number: int


@dataclass(frozen=True)
class Definition:
    """The settings and functions of a task that a run needs.

    Attributes:
        task: the Luigi task; a run calls the callbacks that Luigi's worker has set on it.
        name: of the task's job; its first submission has this name.
        folder: the job's output folder; None for a job of the YAML protocol, which does not name the folder.
        folder_is_set: whether the task's ``output_dir`` is set to a folder other than the default one.
        check: validates a job, and returns warnings; raises SpecError.
        targets: returns the targets of ``output()`` as a flat list; empty if the task does not override it.
        secrets: returns the texts to redact in the job's logs and errors.
        prepare: sends the uploads of a v1 job to HDFS, and returns the job as it is posted; called with the
            job, the cluster's API version and the cluster's HDFS.
        api_version: ``v1`` or ``v2`` if the job runs only on clusters with this version; None if on both.
        compares_stored_job: whether, if there is no claim, the task's job is compared with the server's copy.
    """

    task: JobTask
    name: str
    folder: str | None
    check: Callable[[PaiJob | JobProtocol], list[str]]
    targets: Callable[[], Sequence[luigi.Target]]
    secrets: Callable[[], Sequence[str]] = tuple
    prepare: Callable[[PaiJob, str, WebHdfs | None], PaiJob | JobProtocol] = lambda job, _version, _hdfs: job
    folder_is_set: bool = True
    api_version: str | None = None
    compares_stored_job: bool = False


class TaskJob:
    """The job of a task, built once, so that the same job is checked, claimed, posted and compared."""

    def __init__(self, definition: Definition, book: Book, options: Options) -> None:
        self._definition = definition
        self._task, self._name = definition.task, definition.name
        self._book = book
        self._options = options

    @functools.cached_property
    def job(self) -> PaiJob | JobProtocol:
        """The job as the task defines it.

        Raises:
            SpecError: no job can be made from the task's definition.
        """
        try:
            return self._task.job()
        except TypeError as error:
            if is_users(error):
                raise
            text = str(error).removeprefix(f"job {self._name!r}: ")
            raise _NoJobError(self._name, [Problem("job()", text)]) from None

    @functools.cached_property
    def digest(self) -> str:
        """The digest of the job, see ``jobspec.comparison.job_digest``."""
        from luigi_pai.jobspec.comparison import job_digest  # noqa: PLC0415  costs what only HDFS needs

        return job_digest(self.job)

    def changed_fields(self, entry: Entry, claim: Claim | None, *, has_claims: bool) -> list[str] | None:
        """Compare the task's job with a submission that has succeeded.

        Without a claim, the server's copy is compared, for the first ten jobs of a process and its forks.

        Args:
            entry: the submission.
            claim: the job's last claim; None if there is none.
            has_claims: whether submissions of the job are claimed.

        Returns:
            The changed fields, [] if they are not known; None if none changed or nothing is compared.

        Raises:
            PaiApiError: without a claim, the server's copy cannot be read.
            OSError, TypeError: the task's job cannot be compared.
        """
        api = self._book.api
        if claim is not None:
            if claim.number != entry.number or claim.digest == self.digest:
                return None
        elif (
            has_claims
            or not self._definition.compares_stored_job
            or api.session.times("compared") > _MOST_COMPARED
        ):
            return None
        if entry.index is not None:  # the stored job is the whole array
            return [] if claim is not None else None
        try:
            fields = self.differing_fields(entry.job)
        except PaiApiError:
            if claim is None:
                raise
            return []
        return fields or ([] if claim is not None else None)

    def differing_fields(self, name: str) -> list[str]:
        """Return the fields in which the job differs from the one that the server has stored under a name."""
        from luigi_pai.jobspec.comparison import differing_fields  # noqa: PLC0415  costs what only HDFS needs

        api = self._book.api
        return differing_fields(api.dialect.document(self.named(name)), api.config(name))

    def named(self, name: str) -> PaiJob | JobProtocol:
        """Return the job as it is posted under a name on this cluster."""
        from luigi_pai.jobspec.containers import for_containers  # noqa: PLC0415  costs what only running needs

        job = for_containers(self.job, name, with_runtime=self._task.runtime)
        notify = self._options.notify
        if notify and not self._is_notified():
            text = "Job %s: notify is ignored, clusters of OpenPAI before 1.5 send no notifications"
            logger.warning(text, name)
        elif notify and isinstance(job, PaiJob):
            from luigi_pai.jobspec.protocol_extras import NOTIFICATION  # noqa: PLC0415  only few want any

            job.extras = {**(job.extras or {}), NOTIFICATION: dict.fromkeys(notify, True)}
        elif notify and not isinstance(job, PaiJob):
            for change in notify:
                setattr(job.extras.jobStatusChangeNotification, change, True)
        return job

    def _is_notified(self) -> bool:
        """Return whether the cluster sends notifications (1.5 and later)."""
        try:
            return self._book.api.detector.is_since(*_NOTIFIED_SINCE)
        except PaiApiError:
            return True

    def check_owner(self) -> None:
        """Check that no other task of this process has this name and a different job.

        Nothing is checked if the last submission of this name failed, because the next may be another job.

        Raises:
            SpecError: another task has this name and a different job.
        """
        key = "task", self._name
        other = self._book.remembered(key, lambda: self._task)
        if other is self._task or other.task_id == self._task.task_id:
            return
        known = self._book.known(self._name)
        if known is not None and known.failed:  # the next submission may be another job
            self._book.remember(key, self._task)
            return
        from luigi_pai.jobspec.comparison import job_digest  # noqa: PLC0415  only a mistake needs it

        if job_digest(other.job()) != self.digest:
            wrong = (
                f"two different tasks have it: {other} and {self._task}. One of them would get the result of "
                'the other; put what tells them apart into the name, such as name = f"train-{self.rate}"'
            )
            raise SpecError(self._name, [Problem("name", wrong)])
