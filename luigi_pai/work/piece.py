"""Work: a piece of work, which is a job that is to succeed once, and where its results are."""

from __future__ import annotations

import abc
import functools
import logging
from typing import TYPE_CHECKING, Any, Protocol

from luigi_pai.errors import PaiApiError
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.jobspec.names import attempt_name, check_name
from luigi_pai.runtime import attempt_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.status import JobStatus
    from luigi_pai.files.file_system import FileSystem
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.work.claims import Claim

logger = logging.getLogger("luigi-interface")

RECENT = 30.0
"""Seconds for which a run reuses the lookup of ``complete()``. A reply 409 or a claim reveals newer jobs."""

_NOTIFIED_SINCE = (1, 5)


class WorkOptions(Protocol):
    """The settings of a piece of work by the names of their keys in ``[OpenPai]``."""

    def __getitem__(self, name: str) -> Any:
        """Return a setting."""
        ...

    @property
    def tags(self) -> Sequence[str]:
        """The tags of its jobs."""
        ...

    @property
    def notify(self) -> Sequence[str]:
        """The changes of state that the cluster is to notify the user of."""
        ...

    def check(self) -> None:
        """Raise ConfigError if a setting is not valid."""
        ...

    def is_retried(self, status: JobStatus) -> bool:
        """Return whether the exit codes of an ended job allow the same run to submit it again."""
        ...


class WorkOutputs(Protocol):
    """Where the results of a piece of work are."""

    @property
    def fs(self) -> FileSystem | None:
        """The cluster's file system, if the output folder is on it; else None."""
        ...

    def are_complete(self) -> bool:
        """Return whether there are targets, and all of them exist."""
        ...

    def any_exists(self) -> bool:
        """Return whether any output exists, so that the job may have run before."""
        ...

    def missing(self) -> list[str]:
        """Return the paths of local targets that do not exist."""
        ...

    def reports(self, job: str) -> list[dict[str, Any]]:
        """Return what the containers of a submission have reported, oldest first."""
        ...


class Origin(Protocol):
    """The object that defines a piece of work, such as a Luigi task. Objects of equal ``task_id`` are one."""

    task_id: str


class Work(abc.ABC):
    """A piece of work. Its job is built once, so that the same job is checked, claimed, posted and compared.

    Args:
        name: of the work; its first submission has this name.
        folder: the job's output folder; None for a job of the YAML protocol, which does not name the folder.
        book: of the cluster, in the dialect that the job needs.
        options: of the work.
        outputs: of the work.

    Attributes:
        name, folder, book, options, outputs: as given.
        compares_stored_job: whether, if there is no claim, the job is compared with the server's copy.

    Raises:
        SpecError: the name is not a valid job name.
    """

    compares_stored_job = False

    def __init__(
        self, name: str, folder: str | None, book: Book, options: WorkOptions, outputs: WorkOutputs
    ) -> None:
        check_name(name)
        self.name, self.folder = name, folder
        self.book = book
        self.options = options
        self.outputs = outputs

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """``MODULE.CLASS`` of what defines the work, which tells it apart from other work of its name."""

    @property
    @abc.abstractmethod
    def origin(self) -> Origin:
        """The object that defines the work."""

    @abc.abstractmethod
    def of_origin(self, origin: Origin) -> Work:
        """Return the work that another object defines."""

    @property
    @abc.abstractmethod
    def with_runtime(self) -> bool:
        """Whether the containers have ``pai_runtime.py``."""

    @abc.abstractmethod
    def build_job(self) -> PaiJob | JobProtocol:
        """Build the job.

        Raises:
            SpecError: no job can be made from the definition of the work.
        """

    @abc.abstractmethod
    def check_job(self) -> list[str]:
        """Validate the job, and return warnings.

        Raises:
            SpecError: the job is not valid.
        """

    @abc.abstractmethod
    def prepare(self, number: int) -> PaiJob | JobProtocol:
        """Send the uploads, and return the job of a submission as it is posted."""

    @abc.abstractmethod
    def secrets(self) -> Sequence[str]:
        """Return the texts to redact in the job's logs and errors."""

    @functools.cached_property
    def job(self) -> PaiJob | JobProtocol:
        """The job as the work defines it; see ``build_job``."""
        return self.build_job()

    def forget_job(self) -> None:
        """Drop the job, which the many submitted points of a sweep would only hold in memory."""
        self.__dict__.pop("job", None)

    @functools.cached_property
    def digest(self) -> str:
        """The digest of the job, see ``jobspec.comparison.job_digest``."""
        from luigi_pai.jobspec.comparison import job_digest  # noqa: PLC0415  costs what only claims need

        return job_digest(self.job)

    @property
    def inputs(self) -> Mapping[str, str]:
        """Digests of what the result depends on besides the job's own text, such as uploads, by name."""
        return {}

    def changed_inputs(self, claim: Claim) -> list[str]:
        """Return the names of inputs that are others now than when a submission was claimed."""
        own = self.inputs if claim.inputs else {}
        return [name for name, digest in claim.inputs.items() if own.get(name, digest) != digest]

    def has_changed_since(self, claim: Claim) -> bool:
        """Return whether the job or an input is another one now than when a submission was claimed."""
        return claim.digest != self.digest or bool(self.changed_inputs(claim))

    def job_name(self, number: int) -> str:
        """Return the name of a submission on the server."""
        return self.book.job_name(self.name, number)

    def differing_fields(self, name: str, posted: PaiJob | JobProtocol | None = None) -> list[str]:
        """Return the fields in which the job differs from the one that the server has stored under a name.

        Args:
            name: of the stored job.
            posted: the job as ``prepare`` has returned it; default: the job before its uploads.

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
            name: of the job.
            is_posted: whether the job is about to be posted, so that what it loses is logged.
        """
        from luigi_pai.jobspec.containers import for_containers  # noqa: PLC0415  costs what only running needs

        if isinstance(self.job, PaiJob):  # its conversion for a v2 cluster changes its name
            name = attempt_name(self.name, attempt_of(name)[1])
        job = for_containers(self.job, name, with_runtime=self.with_runtime)
        notify = self.options.notify
        if notify and not self._is_notified():
            text = "Job %s: notify is ignored, clusters of OpenPAI before 1.5 send no notifications"
            logger.log(logging.WARNING if is_posted else logging.DEBUG, text, name)
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
            return self.book.api.detector.is_since(*_NOTIFIED_SINCE)
        except PaiApiError:
            return True
