"""Server: finds out a server's name and version, its clock, the login, rate limits and storages."""

from __future__ import annotations

import contextlib
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit, urlunsplit

from luigi_pai.api.request_limits import Kind, server_time
from luigi_pai.api.wire.replies import error_of, parsed
from luigi_pai.errors import PaiApiError, PaiHttpError
from luigi_pai.jobspec.paths import mapping_of

if TYPE_CHECKING:
    from luigi_pai.api.dialects.detection import DialectDetector
    from luigi_pai.api.dialects.storages import StorageFacts
    from luigi_pai.api.session import Session
    from luigi_pai.api.status import JobStatus

_REST_PORT, _PORTAL_PORT = 9186, 9286  # of OpenPAI 0.7 to 0.14, without its reverse proxy
_TAGS_SINCE, _LOGS_SINCE = (1, 3), (1, 4)
_CREATED_WITHIN = 60.0  # seconds by which a job's creation may precede its request, because clocks may differ


@dataclass(frozen=True)
class Greeting:
    """The response from the URL where a rest-server is expected. It may come from another program.

    Attributes:
        status: The HTTP status code.
        is_page: Whether the response is HTML.
        info: The response's JSON object, since 0.15 with ``name``, ``version``, ``launcherType`` and
            ``authnMethod``; empty if the response is not a JSON object.
        error_code: The code if the response is a rest-server's error; otherwise None.
        skew: How many seconds the server's clock is ahead of this machine's; None without a Date header.
    """

    status: int
    is_page: bool
    info: dict[str, Any]
    error_code: str | None
    skew: float | None


class Server:
    """A cluster's server, for diagnostics.

    Args:
        session: The connection.
        detector: Detects which dialect (API version) the server speaks.
    """

    def __init__(self, session: Session, detector: DialectDetector) -> None:
        self._session = session
        self._detector = detector

    def greeting(self) -> Greeting:
        """Send a GET to the server's URL; return the response, even if it is not from a rest-server.

        Raises:
            ClusterUnreachable: There was no response in time.
        """
        response = self._session.get(self._session.url("/api/v1/"))
        date = server_time(response.headers)
        return Greeting(
            status=response.status_code,
            is_page="html" in response.headers.get("Content-Type", ""),
            info=mapping_of(parsed(response)),
            error_code=error_of(response)[0],
            skew=None if date is None else date - self._session.clock.time(),
        )

    def existed_before(self, job: JobStatus, moment: float) -> bool:
        """Return whether a job was created more than a minute before ``moment`` on this machine's clock.

        A request reads the server's clock. If the request fails, the two clocks are assumed to agree.
        """
        skew = None
        with contextlib.suppress(PaiApiError):
            skew = self.greeting().skew
        created = (job.created_ms or math.inf) / 1000
        return created < moment + (skew or 0.0) - _CREATED_WITHIN

    def token_life(self) -> float | None:
        """Return the token's remaining validity in seconds; None if it does not expire. Log in if necessary.

        Raises:
            AuthenticationError: The server rejected the login.
        """
        return self._session.token_life()

    def token_check(self) -> dict[str, Any] | None:
        """Return the server's information on the token (LTP adds ``vcadmins``); None if it has no such API.

        Raises:
            AuthenticationError: The server rejected the login or the token.
        """
        try:
            body = self._session.request("GET", "/api/v2/tokens/check")
        except PaiHttpError as error:
            if error.code != "NoApiError":
                raise
            return None
        return body if isinstance(body, dict) else None

    def api_version(self) -> str:
        """Return ``v1`` or ``v2``; if it is not known, request the server's version once."""
        return self._detector.detect()

    def gives_logs(self) -> bool:
        """Return whether task logs can be read: from servers since 1.4, or from nodes of 0.7 to 0.14.

        If a v2 server's release is not known, it is assumed to serve logs.
        """
        dialect = self._detector.current
        try:
            return dialect.version == "v1" or (dialect.gives_logs and self._detector.is_since(*_LOGS_SINCE))
        except PaiApiError:
            return True

    def has_tags(self) -> bool:
        """Return whether the server supports job tags (1.3 and later)."""
        return self._detector.detect() == "v2" and self._detector.is_since(*_TAGS_SINCE)

    def info(self) -> dict[str, Any]:
        """Return the server's ``name``, ``version`` and ``launcherType`` (1.0 and later; empty for v1)."""
        return self._detector.call_detected(lambda dialect: dialect.info())

    def storages(self) -> list[dict[str, Any]]:
        """Return the storages the user may mount (1.0 and later; v1 API: empty; 0.15 to 0.17: error)."""
        return self._detector.call_detected(lambda dialect: dialect.storages())

    def storage(self, name: str) -> StorageFacts:
        """Return the server's description of a storage (0.16 and later).

        Raises:
            ConfigError: There is no such storage, or the user may not use it.
        """
        return self._detector.storage(name).facts()

    def requests_left(self) -> dict[str, tuple[int, float]]:
        """Return the requests left and the seconds until the reset for each known rate limit."""
        windows = {kind.value: self._session.limits.window(kind) for kind in Kind}
        return {name: (window.left, window.ends_in) for name, window in windows.items() if window}


def default_portal(url: str) -> str:
    """Return the portal's likely URL: without ``/rest-server``, or with port 9286 instead of 9186."""
    parts = urlsplit(url.rstrip("/"))
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    netloc = f"{host}:{_PORTAL_PORT}" if parts.port == _REST_PORT and not parts.path else parts.netloc
    return urlunsplit((parts.scheme, netloc, re.sub(r"/rest-server$", "", parts.path), "", ""))
