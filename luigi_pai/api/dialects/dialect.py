"""LogFile: a log of a task, in both dialects of the REST API."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit


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
