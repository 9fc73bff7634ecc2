"""NoResponse: a request without a response, from which the clients for all servers create their errors.

For a rest-server, ``explain_failure`` creates the error: one line, with the setting to correct.
"""

from __future__ import annotations

import functools
import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import NewConnectionError, ReadTimeoutError

from luigi_pai.api.wire.environment import CORRECT_PROXY, THROUGH
from luigi_pai.api.wire.timed_http import AnswerTimeout, OverLimit
from luigi_pai.errors import ClusterUnreachable, ConfigError, InvalidReply
from luigi_pai.redaction import redact, with_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from luigi_pai.api.wire.environment import Environment
    from luigi_pai.errors import PaiError

_UNSENT = (requests.exceptions.ProxyError, requests.exceptions.SSLError, requests.exceptions.ConnectTimeout)
_IN_CLEAR = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # OpenSSL's names in different releases
_PASSING = (requests.ConnectionError, requests.Timeout, requests.exceptions.ChunkedEncodingError)


@dataclass(eq=False, repr=False)
class NoResponse(Exception):
    """A request without a complete response.

    Attributes:
        method, url: The request's method and URL.
        timeouts: Seconds to wait for the connection, and for each part of the response.
        environment: Proxies and CA bundle.
        error: The exception from ``requests``, urllib3 or the system.
        sent: Whether any part of the request was written to a connected socket; None if not known.
    """

    method: str
    url: str
    timeouts: tuple[float, float]
    environment: Environment
    error: Exception
    sent: bool | None

    def __post_init__(self) -> None:
        self.args = ()  # str() must not show the request

    @functools.cached_property
    def causes(self) -> tuple[BaseException, ...]:
        """The error and all exceptions nested in it, the outermost first."""
        return tuple(_chain(self.error))

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
        """The URL that failed: the URL of the request or of a redirect."""
        request = self.error.request if isinstance(self.error, requests.RequestException) else None
        return (request.url if request is not None else None) or self.url

    def has(self, *kinds: type[BaseException]) -> bool:
        """Return whether the error or a nested one is of one of these kinds."""
        return any(isinstance(cause, kinds) for cause in self.causes)

    def over_limit(self) -> str:
        """Return which limit the response exceeded; empty if none."""
        return next((str(cause) for cause in self.causes if isinstance(cause, OverLimit)), "")

    def refused_certificate(self) -> str:
        """Return why the server's certificate was rejected; empty if it was not."""
        for cause in self.causes:
            if isinstance(cause, ssl.SSLCertVerificationError) or type(cause).__name__ == "CertificateError":
                return (getattr(cause, "verify_message", None) or str(cause)).rstrip(".")
        return ""

    def is_without_tls(self) -> bool:
        """Return whether a connected server answered a TLS handshake in plain text or not in time."""
        if not self.failed_url.startswith("https:"):
            return False
        is_in_clear = any(getattr(cause, "reason", None) in _IN_CLEAR for cause in self.causes)
        return is_in_clear or self.has(ReadTimeoutError)

    def is_late(self) -> bool:
        """Return whether one of this package's timeouts caused the failure, not a system ETIMEDOUT."""
        is_systems = any(isinstance(cause, TimeoutError) and cause.errno for cause in self.causes)
        return not is_systems and self.has(requests.Timeout, ReadTimeoutError, TimeoutError)

    def reason(self) -> str:
        """Return, on one line, the system's reason for a broken connection, or else the innermost cause."""
        for cause in self.causes:
            if isinstance(cause, OSError) and cause.strerror:
                return cause.strerror
        message = redact(str(self.causes[-1]).strip())
        return message.splitlines()[0] if message else type(self.causes[-1]).__name__

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
    """Yield an exception from ``requests`` and all exceptions nested in it, outermost first."""
    seen: list[BaseException] = []
    waiting: list[Any] = [error]
    while waiting:
        cause = waiting.pop(0)
        if isinstance(cause, BaseException) and not any(cause is other for other in seen):
            seen.append(cause)
            yield cause
            waiting += [*cause.args, getattr(cause, "reason", None), cause.__cause__, cause.__context__]


_SETTING = "pai_url in [OpenPai] of luigi.cfg"
_LOST = "the connection to {target}{through} broke before a response ({method}): {reason}"
_INVALID_URL = "pai_url = {server!r} is not a valid URL: it must start with http:// or https://"
_NO_CONNECTION = "cannot reach {target}{through}: {reason}"
_WITHOUT_SCHEME = (requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema)
_UNTRUSTED = (
    "the certificate of {target} was refused: {refused}{trusted}; correct the host in pai_url, or set "
    "verify in [OpenPai] of luigi.cfg to the file of the server's CA"
)
_UNREADABLE = (
    "{source} = {bundle!r} is not a readable file of CA certificates (PEM); correct it, or set verify in "
    "[OpenPai] of luigi.cfg to true, false or such a file"
)
_ERRORS: Sequence[tuple[Callable[[NoResponse], bool], type[PaiError], str]] = (
    (
        lambda no: isinstance(no.error, requests.TooManyRedirects),
        InvalidReply,
        "{url} redirects without end; is {server} the rest-server?",
    ),
    (
        lambda no: no.sent is None and type(no.error) is requests.ConnectionError,
        ClusterUnreachable,
        "{method} {url} was not sent: {line} A test that mocks the REST API must also mock this address",
    ),
    (
        lambda no: bool(no.sent) and isinstance(no.error, ValueError),
        InvalidReply,
        "{shown} redirects to an invalid URL",
    ),
    (
        lambda no: no.has(OverLimit) and not no.has(AnswerTimeout),
        InvalidReply,
        "{method} {shown}: {limit}; is {server} (pai_url in [OpenPai]) the rest-server?",
    ),
    (lambda no: no.is_lost, ClusterUnreachable, _LOST),
    (lambda no: bool(no.refused_certificate()), ClusterUnreachable, _UNTRUSTED),
    (NoResponse.has_unreadable_bundle, ConfigError, _UNREADABLE),
    (lambda no: isinstance(no.error, _WITHOUT_SCHEME), ClusterUnreachable, _INVALID_URL),
    (lambda _no: True, ClusterUnreachable, _NO_CONNECTION),
)
"""A check for a kind of failure, its error class and its message. The first row whose check passes counts."""


def explain_failure(failure: NoResponse, server: str, *, answered: bool) -> PaiError:
    """Return the error for a request without a response. Unlike urllib3's error, it names the server.

    Args:
        failure: The request without a response.
        server: The URL in ``pai_url``.
        answered: Whether the server has responded to an earlier request.

    Returns:
        ConfigError, InvalidReply or ClusterUnreachable.
    """
    kind, template = next((kind, template) for fits, kind, template in _ERRORS if fits(failure))
    target, is_servers = _target(failure, server)
    if template is _INVALID_URL and not is_servers:
        template = _NO_CONNECTION
    source = failure.environment.verify_source
    message = template.format(
        method=failure.method,
        url=failure.url,
        shown=failure.url.partition("?")[0],
        server=server,
        target=target,
        through=THROUGH.format(failure.proxy) if failure.proxy else "",
        reason=_reason(failure, is_lost=template is _LOST),
        limit=failure.over_limit(),
        line=next(iter(str(failure.error).strip().splitlines()), type(failure.error).__name__),
        refused=failure.refused_certificate(),
        trusted=f" (CAs are read from the file of {source})" if source else "",
        source=source,
        bundle=failure.environment.verify,
    )
    if template is _LOST:
        may_be_tls = is_servers and failure.url.startswith("http:") and not answered
        advice = f"; if it speaks TLS, write https:// in {_SETTING}" if may_be_tls else ""
        return ClusterUnreachable(message + advice, answer_lost=True)
    if template in (_INVALID_URL, _NO_CONNECTION):
        advice = f"check {_SETTING}, and that the rest-server runs" if is_servers else ""
        if is_servers and not answered and failure.is_without_tls():
            advice = f"the server there does not speak TLS: check the scheme and the port of {_SETTING}"
        message = with_hint(message, CORRECT_PROXY.format(failure.proxy) if failure.proxy else advice)
    return kind(message)


def _target(failure: NoResponse, server: str) -> tuple[str, bool]:
    """Return the URL of a request's server for error messages, and whether it is the rest-server."""
    url = failure.failed_url
    try:
        place, asked = _origin(url), _origin(failure.url)
        if place == _origin(server) or not place[1]:
            return server, True
    except ValueError:
        return server, True
    origin = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
    return origin if place == asked else f"{origin} (redirected from {server})", False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _reason(failure: NoResponse, *, is_lost: bool) -> str:
    """Return the system's message for a failure, or the library's message if the system has none.

    For an invalid URL, the result is a fixed message, because the error's message may contain a password.
    """
    if isinstance(failure.error, ValueError):
        return "the URL is not valid"
    timeout = (
        f"no response within {failure.timeouts[1]:g} s"
        if is_lost
        else f"no connection within {failure.timeouts[0]:g} s"
    )
    return (failure.over_limit() or timeout) if failure.is_late() else failure.reason()
