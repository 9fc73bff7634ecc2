"""Types of both dialects of the REST API: the capabilities of servers, and the logs of tasks."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit


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
    """

    name: str
    uri: str = field(repr=False)
    paged: bool = False

    @property
    def node(self) -> str:
        """Host and port of its server; empty for the web portal."""
        return urlsplit(self.uri).netloc
