"""Dialect: the requests that both dialects of the REST API have."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import builtins
    from collections.abc import Iterable

    from luigi_pai.api.dialects.ssh import SshAccess
    from luigi_pai.api.status import JobStatus
    from luigi_pai.jobspec.job import PaiJob
    from luigi_pai.jobspec.protocol import JobProtocol

__all__ = ["Capabilities", "Dialect", "LogFile"]


@dataclass(frozen=True)
class Capabilities:
    """Capabilities of the servers of a dialect beyond submit, status, list, stop and config.

    Attributes:
        logs: logs of tasks (1.4 and later).
        events: events of a job (1.3 and later).
        tags: tags of a job (1.3 and later).
        whole_lists: a list has every job of a user. LTP omits jobs in virtual clusters that the user may
            no longer use; it is recognised on 1.5.
        shared_names: job names are unique among all users, not per user.
        output_folders: the server chooses an output folder on HDFS for a job without one.
        retention: seconds for which an ended job is kept, by default.
    """

    logs: bool
    events: bool
    tags: bool
    whole_lists: bool
    shared_names: bool
    output_folders: bool
    retention: float


@dataclass(frozen=True)
class LogFile:
    """A log of a task.

    Attributes:
        name: ``stdout``, ``stderr``, ``all``, ``runtime.log``.
        uri: its URL, relative to the web portal. It may contain a token and is never shown.
        paged: it is a page of a YARN node (0.x), which shows parts of the log by ``start`` and ``end``.
        start: of a page, the byte that its text begins with; from the end, if negative.
    """

    name: str
    uri: str = field(repr=False)
    paged: bool = False
    start: int = field(default=0, repr=False)

    @property
    def node(self) -> str:
        """Host and port that have it; "" for those of the web portal."""
        return urlsplit(self.uri).netloc


class Dialect(Protocol):
    """A dialect of the REST API.

    Every method takes the plain NAME of a job of the session's user and raises the errors
    of ``Session.request``.

    Attributes:
        version: ``v1`` or ``v2``, as in ``api_version``.
        can: the capabilities of its servers.
    """

    version: str
    can: Capabilities

    def job_name(self, name: str) -> str:
        """Return the name of a job on servers of this dialect."""
        ...

    def document(self, job: PaiJob | JobProtocol) -> dict[str, Any]:
        """Return the document that is posted for a job, secrets as ``******``.

        Raises:
            SpecError: the job cannot be written in this dialect.
        """
        ...

    def submit(self, job: PaiJob | JobProtocol) -> None:
        """Post a job; the server has accepted it when this returns.

        Raises:
            SpecError: the job cannot be written in this dialect; nothing was sent.
        """
        ...

    def status(self, name: str) -> JobStatus:
        """Return the status of a job."""
        ...

    def attempt(self, name: str, number: int) -> JobStatus:
        """Return what the server says of a start of a job by the cluster, counted from 0.

        Raises:
            JobNotFound: there is no such job, or no such start of it.
        """
        ...

    def list(
        self, username: str | None, *, states: Iterable[str] = (), tags: Iterable[str] = ()
    ) -> list[JobStatus]:
        """Return the jobs of a user, or of all, that the server still knows, in its order.

        A server that cannot filter by states or tags answers with more.
        """
        ...

    def stop(self, name: str) -> None:
        """Ask the server to stop a job."""
        ...

    def config(self, name: str) -> dict[str, Any]:
        """Return the job as the server has stored it."""
        ...

    def output_folder(self, config: dict[str, Any]) -> str | None:
        """Return the output folder of a stored job; None if it has none."""
        ...

    def events(self, name: str) -> builtins.list[dict[str, Any]]:
        """Return the events of a job; an empty list without ``can.events``."""
        ...

    def add_tag(self, name: str, tag: str) -> None:
        """Add a tag to a job; nothing is sent without ``can.tags``."""
        ...

    def task_logs(self, status: JobStatus, role: str, index: int, *, tail: bool) -> tuple[LogFile, ...]:
        """Return the logs of a task of a job; empty without ``can.logs``."""
        ...

    def ssh(self, name: str) -> SshAccess:
        """Return how the running containers of a job are reached by ssh."""
        ...

    def virtual_clusters(self) -> dict[str, Any]:
        """Return the virtual clusters by name, with their capacity and usage."""
        ...

    def info(self) -> dict[str, Any]:
        """Return the server's ``name`` and ``version``; nothing where it does not say."""
        ...

    def storages(self) -> builtins.list[dict[str, Any]]:
        """Return the storages that the user may mount; none where there are no storages."""
        ...

    def page(self, name: str, username: str) -> str:
        """Return the path of a job's page in the web portal."""
        ...
