"""Work: a piece of work, which is a job that must succeed once, and where its results are."""

from __future__ import annotations

import abc
import functools
import logging
from typing import TYPE_CHECKING, Any, Protocol

from luigi_pai.errors import ConfigError, PaiApiError
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.jobspec.names import attempt_name, check_name
from luigi_pai.runtime import attempt_of
from luigi_pai.settings import OF_TASKS, exit_codes, words_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.status import JobStatus
    from luigi_pai.config import OpenPai
    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.work.claims import Claim

logger = logging.getLogger("luigi-interface")

RECENT = 30.0
"""How long a run reuses the lookup from ``complete()``, in seconds. A 409 or a claim reveals newer jobs."""

_NOTIFIED_SINCE = (1, 5)


class WorkOutputs(Protocol):
    """Where the results of a piece of work are stored."""

    @property
    def fs(self) -> FileSystem | None:
        """The cluster's file system, if the output folder is on it; else None."""

    def are_complete(self) -> bool:
        """Return whether there are targets, and all of them exist."""

    def any_exists(self) -> bool:
        """Return whether any output exists, so that the job may have run before."""

    def missing(self) -> list[str]:
        """Return the paths of local targets that do not exist."""

    def reports(self, job: str) -> list[dict[str, Any]]:
        """Return the reports of a submission's containers, oldest first."""


class Origin(Protocol):
    """The task that defines a piece of work. Tasks with the same ``task_id`` are the same task."""

    task_id: str

    @property
    def task_family(self) -> str:
        """The name of its class, which becomes a tag of the job."""

    @property
    def runtime(self) -> bool:
        """Whether the containers have ``pai_runtime.py``."""


class Options:
    """A piece of work's settings by name. If a task's attribute is None, luigi.cfg is used.

    Args:
        task: The task that defines the work.
        settings: The section of luigi.cfg.
    """

    def __init__(self, task: Origin, settings: OpenPai) -> None:
        self._task = task
        self._settings = settings

    def __getitem__(self, name: str) -> Any:
        own = getattr(self._task, name)
        return getattr(self._settings, name) if own is None else own

    def check(self) -> None:
        """Check only the task's attributes; the section of luigi.cfg was checked when it was read.

        Raises:
            ConfigError: Attributes are invalid; the message names each one and its valid values.
        """
        own = {key: getattr(self._task, key) for key in OF_TASKS}
        checks = [(key, OF_TASKS[key], value) for key, value in own.items() if value is not None]
        problems = [problem for key, check, value in checks for problem in check.problems(key, value)]
        if problems:
            raise ConfigError(f"{type(self._task).__name__}: {'; '.join(problems)}")

    @property
    def tags(self) -> tuple[str, ...]:
        """The job's tags: ``luigi``, ``luigi:FAMILY`` and the user's tags."""
        own = ("luigi", f"luigi:{self._task.task_family}")
        return tuple(dict.fromkeys((*own, *words_of(self["tags"]))))

    @property
    def notify(self) -> tuple[str, ...]:
        """The state changes that the cluster notifies the user about."""
        return words_of(self["notify"])

    def is_retried(self, status: JobStatus) -> bool:
        """Return whether a finished job's exit codes allow the same run to submit it again."""
        wanted, codes = self["retry_exit_codes"], (status.exit_code, status.command_exit_code)
        if wanted is None:
            return True
        return any(code in some for some in exit_codes(wanted) for code in codes if code is not None)


class Work(abc.ABC):
    """Work that must succeed once as a job, in one or more submissions.

    The job is built once, so the same job is checked, claimed, posted and compared.

    Args and attributes:
        origin: The task that defines the work.
        kind: The task's ``MODULE.CLASS``, which distinguishes it from other work with the same name.
        name: The work's name, which is the name of its first submission.
        folder: The job's output folder; None for a job protocol that does not name one.
        book: The cluster's record of known jobs, in the dialect that the job needs.
        options: The task's settings, with luigi.cfg as the default.
        outputs: The outputs of the task.

    Raises:
        SpecError: The name is not a valid job name.
    """

    def __init__(
        self,
        origin: Origin,
        kind: str,
        name: str,
        folder: str | None,
        book: Book,
        options: Options,
        outputs: WorkOutputs,
    ) -> None:
        check_name(name)
        self.origin, self.kind = origin, kind
        self.name, self.folder = name, folder
        self.book = book
        self.options = options
        self.outputs = outputs

    @abc.abstractmethod
    def from_origin(self, origin: Origin) -> Work:
        """Return the work that another task defines."""

    @abc.abstractmethod
    def build_job(self) -> PaiJob | JobProtocol:
        """Build the job.

        Raises:
            SpecError: a job cannot be built from the work's definition.
        """

    @abc.abstractmethod
    def check_job(self) -> list[str]:
        """Validate the job, and return warnings.

        Raises:
            SpecError: the job is invalid.
        """

    @abc.abstractmethod
    def prepare(self, number: int) -> PaiJob | JobProtocol:
        """Upload the files, and return a submission's job in the form to post."""

    @abc.abstractmethod
    def secrets(self) -> Sequence[str]:
        """Return the strings to redact in the job's logs and errors."""

    @functools.cached_property
    def job(self) -> PaiJob | JobProtocol:
        """The job as the work defines it; see ``build_job``."""
        return self.build_job()

    def forget_job(self) -> None:
        """Drop the job, so that a sweep's many submitted points do not keep their jobs in memory."""
        self.__dict__.pop("job", None)

    @functools.cached_property
    def digest(self) -> str:
        """The job's digest, see ``jobspec.comparison.job_digest``."""
        from luigi_pai.jobspec.comparison import job_digest  # noqa: PLC0415  only claims need it

        return job_digest(self.job)

    @property
    def inputs(self) -> Mapping[str, str]:
        """Digests of everything the result depends on besides the job, such as uploads, by name."""
        return {}

    def changed_inputs(self, claim: Claim) -> list[str]:
        """Return the names of the inputs that changed since a submission was claimed."""
        own = self.inputs if claim.inputs else {}
        return [name for name, digest in claim.inputs.items() if own.get(name, digest) != digest]

    def has_changed_since(self, claim: Claim) -> bool:
        """Return whether the job or an input changed since a submission was claimed."""
        return claim.digest != self.digest or bool(self.changed_inputs(claim))

    def job_name(self, number: int) -> str:
        """Return a submission's name on the server."""
        return self.book.job_name(self.name, number)

    def differing_fields(self, name: str, posted: PaiJob | JobProtocol | None = None) -> list[str]:
        """Return the fields in which the job differs from the server's stored job with this name.

        Args:
            name: The stored job's name.
            posted: The job that ``prepare`` returned; by default, the job before its uploads.

        Raises:
            PaiApiError: the stored job cannot be read.
        """
        from luigi_pai.jobspec.comparison import differing_fields  # noqa: PLC0415  as in digest

        api = self.book.api
        own = posted or self.named(name, is_posted=False)
        return differing_fields(api.dialect.document(own), api.config(name))

    def named(self, name: str, *, is_posted: bool = True) -> PaiJob | JobProtocol:
        """Return the job as it is posted under a name on this cluster, before its uploads.

        Args:
            name: The job's name.
            is_posted: Whether the job is about to be posted, so that dropped fields are logged as warnings.
        """
        from luigi_pai.jobspec.containers import for_containers  # noqa: PLC0415  only runs need it

        if isinstance(self.job, PaiJob):  # converting it for a v2 cluster changes its name
            name = attempt_name(self.name, attempt_of(name)[1])
        job = for_containers(self.job, name, with_runtime=self.origin.runtime)
        notify = self.options.notify
        if notify and not self._is_notified():
            message = "Job %s: notify is ignored, because OpenPAI before 1.5 does not send notifications"
            logger.log(logging.WARNING if is_posted else logging.DEBUG, message, name)
        elif notify and isinstance(job, PaiJob):
            from luigi_pai.jobspec.protocol_parts import NOTIFICATION  # noqa: PLC0415  few tasks use it

            job.extras = {**(job.extras or {}), NOTIFICATION: dict.fromkeys(notify, True)}
        elif notify and not isinstance(job, PaiJob):
            for change in notify:
                setattr(job.extras.jobStatusChangeNotification, change, True)
        return job

    def _is_notified(self) -> bool:
        """Return whether the cluster sends notifications (1.5 and later)."""
        try:
            return self.book.api.detector.is_since(*_NOTIFIED_SINCE)
        except PaiApiError:
            return True
