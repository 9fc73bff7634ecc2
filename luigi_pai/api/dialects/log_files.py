"""Fetches task logs over HTTP, as a whole or in parts."""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import TYPE_CHECKING
from urllib.parse import urljoin, urlsplit

from luigi_pai.api.wire.replies import is_success
from luigi_pai.errors import ClusterUnreachable, PaiHttpError

if TYPE_CHECKING:
    import requests

    from luigi_pai.api.session import Session

_FIRST_REST, _LONGEST_REST = 10.0, 300.0  # seconds
_TAIL = 16 * 1024  # bytes
_ADVICE = "logs are read from the web portal: set portal_url in [OpenPai] of luigi.cfg to its URL"
_PRE = re.compile(rb"<pre[^>]*>(.*?)</pre>", re.DOTALL)


@dataclass(frozen=True)
class LogFile:
    """A task's log.

    Attributes:
        name: ``stdout``, ``stderr``, ``all``, ``runtime.log``.
        uri: Its URL, relative to the web portal. It may contain a token, so messages leave out its query.
        paged: Whether it is a page of a YARN node (0.7 to 0.14), whose URL has ``start`` and ``end``.
    """

    name: str
    uri: str = field(repr=False)
    paged: bool = False

    @property
    def node(self) -> str:
        """Host and port of the server with the log; empty for the web portal."""
        return urlsplit(self.uri).netloc


class LogFiles:
    """Fetches logs. No token is sent, because a log's URL is enough to read it.

    Every method raises ``ClusterUnreachable`` if there is no response, and ``PaiHttpError`` for an error
    status. Workers often cannot reach the nodes of 0.7 to 0.14, so a node that does not respond gets no
    requests for 10 s. This pause doubles with each unanswered request, up to 5 minutes.

    Args:
        session: The connections.
        site: The URL of the cluster's site. Log URLs are relative to it.
    """

    def __init__(self, session: Session, site: str) -> None:
        self._session = session
        self._site = f"{site}/"
        self._resting: dict[str, tuple[float, float, str]] = {}  # node -> end of rest, seconds of rest, error

    def read(self, file: LogFile, *, tail: bool = False) -> str:
        """Return the content of a log, or its last 16 KB."""
        if file.paged:
            content = _shown_by_page(self._page(file, f"?start={-_TAIL if tail else 0}"))
        else:
            content = self.part(file, -_TAIL, _TAIL)[0] if tail else self._get(file).content
        return content.decode("utf-8", "replace")

    def part(self, file: LogFile, start: int, size: int) -> tuple[bytes, int]:
        """Return a part of a log and the current length of the log (for a page, the end of the part).

        Args:
            file: The log.
            start: The first byte. A negative number counts from the end, which pages do not support.
            size: The maximum number of bytes.
        """
        if file.paged:
            content = _shown_by_page(self._page(file, f"?start={start}&end={start + size}"))[:size]
            return content, start + len(content)
        wanted = f"bytes={start}" if start < 0 else f"bytes={start}-{start + size - 1}"
        response = self._get(file, part=wanted)
        if response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            return b"", _whole_length(response, 0)
        content = response.content
        if response.status_code == HTTPStatus.PARTIAL_CONTENT:
            return content, _whole_length(response, len(content))
        return (content[start:] if start < 0 else content[start : start + size]), len(content)

    def is_resting(self, file: LogFile) -> bool:
        """Return whether a log's node currently gets no requests because it did not respond before."""
        rest = self._resting.get(file.node) if file.paged else None
        return rest is not None and self._session.clock.monotonic() < rest[0]

    def _page(self, file: LogFile, query: str) -> requests.Response:
        _, seconds, reason = self._resting.get(file.node, (0.0, _FIRST_REST / 2, ""))
        if self.is_resting(file):
            raise ClusterUnreachable(reason)
        try:
            response = self._get(file, query)
        except ClusterUnreachable as error:
            seconds = min(2 * seconds, _LONGEST_REST)
            self._resting[file.node] = self._session.clock.monotonic() + seconds, seconds, str(error)
            raise
        self._resting.pop(file.node, None)
        return response

    def _get(self, file: LogFile, query: str = "", part: str | None = None) -> requests.Response:
        url = urljoin(self._site, file.uri) + query
        try:
            response = self._session.get(url, part=part)
        except ClusterUnreachable as error:
            advised = error if file.node else error.extended(_ADVICE)
            raise advised.in_section(self._session.account.section) from None
        past_the_end = part is not None and response.status_code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE
        if not is_success(response) and not past_the_end:
            # the query is left out, because it gives access to the log
            shown = f"{url.partition('?')[0]}: {response.status_code} {response.reason}"
            raise PaiHttpError(f"no log at {shown}", status=response.status_code)
        return response


def _shown_by_page(response: requests.Response) -> bytes:
    """Return the part of a log that a YARN page shows: the whole page, or the last ``<pre>`` in HTML."""
    if "html" not in response.headers.get("Content-Type", ""):
        return response.content
    shown = _PRE.findall(response.content)
    return html.unescape(shown[-1].decode("utf-8", "replace")).encode() if shown else b""


def _whole_length(response: requests.Response, default: int) -> int:
    """Return the total length in a ``Content-Range``: ``bytes 0-9/100``, ``bytes */100``."""
    whole = response.headers.get("Content-Range", "").rpartition("/")[2]
    return int(whole) if whole.isdecimal() else default
