"""NoResponse: a request without a response, from which the clients of all servers make their errors."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any

import requests
from urllib3.exceptions import NewConnectionError, ReadTimeoutError

from luigi_pai.api.wire.timed_http import OverLimit
from luigi_pai.redaction import redact

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.api.wire.environment import Environment

_UNSENT = (requests.exceptions.ProxyError, requests.exceptions.SSLError, requests.exceptions.ConnectTimeout)
_IN_CLEAR = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # OpenSSL's names, of different releases
_PASSING = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)


class NoResponse(Exception):
    """A request without a complete response.

    Attributes:
        method, url: The request's method and URL.
        timeouts: seconds to wait for the connection, and for each part of the response.
        environment: proxies and CA bundle.
        error: the exception of ``requests``, urllib3 or the system.
        sent: whether any part of the request was written to a connected socket; None if not known.
        causes: the error and all exceptions nested in it, the outermost first.
    """

    def __init__(
        self,
        method: str,
        url: str,
        timeouts: tuple[float, float],
        environment: Environment,
        error: Exception,
        *,
        sent: bool | None,
    ) -> None:
        super().__init__()
        self.method, self.url, self.timeouts = method, url, timeouts
        self.environment, self.sent, self.error = environment, sent, error
        self.causes = tuple(_chain(error))

    @property
    def is_lost(self) -> bool:
        """Whether the request may have reached the server."""
        if self.sent is not None:
            return self.sent
        error = self.error
        is_unsent = not isinstance(error, requests.RequestException) or isinstance(
            error, (*_UNSENT, ValueError)
        )
        return not is_unsent and not self.has(NewConnectionError)

    @property
    def transient(self) -> bool:
        """Whether the same request may soon succeed."""
        return isinstance(self.error, _PASSING) and not self.has(OverLimit, ssl.SSLCertVerificationError)

    @property
    def proxy(self) -> str | None:
        """The environment variable that names the proxy; None if there is no proxy."""
        return self.environment.proxy_variable(self.failed_url)

    @property
    def failed_url(self) -> str:
        """The URL that failed: that of the request, or of a redirect."""
        request = self.error.request if isinstance(self.error, requests.RequestException) else None
        return (request.url if request is not None else None) or self.url

    def has(self, *kinds: type[BaseException]) -> bool:
        """Return whether the error or a nested one is of one of these kinds."""
        return any(isinstance(cause, kinds) for cause in self.causes)

    def over_limit(self) -> str:
        """Return which limit the response has exceeded; empty if none."""
        return next((str(cause) for cause in self.causes if isinstance(cause, OverLimit)), "")

    def refused_certificate(self) -> str:
        """Return why the server's certificate was refused; empty if it was not."""
        for cause in self.causes:
            if isinstance(cause, ssl.SSLCertVerificationError) or type(cause).__name__ == "CertificateError":
                return (getattr(cause, "verify_message", None) or str(cause)).rstrip(".")
        return ""

    def is_without_tls(self) -> bool:
        """Return whether a connected server has answered a TLS handshake in clear, or not in time."""
        if not self.failed_url.startswith("https:"):
            return False
        is_in_clear = any(getattr(cause, "reason", None) in _IN_CLEAR for cause in self.causes)
        return is_in_clear or self.has(ReadTimeoutError)

    def is_late(self) -> bool:
        """Return whether a timeout of this package is the cause, and not the system's ETIMEDOUT."""
        is_systems = any(isinstance(cause, TimeoutError) and cause.errno for cause in self.causes)
        return not is_systems and self.has(requests.Timeout, ReadTimeoutError, TimeoutError)

    def reason(self) -> str:
        """Return, in one line, the system's reason for a broken connection, else the innermost cause."""
        for cause in self.causes:
            if isinstance(cause, OSError) and cause.strerror:
                return cause.strerror
        text = redact(str(self.causes[-1]).strip())
        return text.splitlines()[0] if text else type(self.causes[-1]).__name__

    def has_unreadable_bundle(self) -> bool:
        """Return whether the CA bundle cannot be read, which ``requests`` notices only when it connects."""
        bundle = self.environment.verify
        if not self.failed_url.startswith("https:") or not isinstance(bundle, str) or Path(bundle).is_dir():
            return False
        try:
            ssl.create_default_context(cafile=bundle)
        except OSError:
            return True
        return False


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception of ``requests`` and all exceptions nested in it, the outermost first."""
    seen: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and not any(cause is other for other in seen):
            seen.append(cause)
            yield cause
            waiting += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]
