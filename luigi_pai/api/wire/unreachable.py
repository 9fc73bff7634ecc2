"""The error for a request without a reply: one line that names the setting to correct."""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, replace
from http.client import BadStatusLine
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import LocationParseError, NewConnectionError, ReadTimeoutError

from luigi_pai.errors import ClusterUnreachable, ConfigError, InvalidReply
from luigi_pai.redaction import redact
from luigi_pai.timed_http import AnswerTimeout, OverLimit, chain

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.api.wire.environment import Environment
    from luigi_pai.errors import PaiError

_SETTING = "pai_url in [OpenPai] of luigi.cfg"
_REACH_HINT = f"check {_SETTING}, and that the rest-server runs"
_TLS_ALERT = ("\x15\x03", "\x16\x03")  # how a record of TLS begins


@dataclass(frozen=True)
class FailedRequest:
    """A request without a reply.

    Attributes:
        method, url: of the request.
        server: the URL in ``pai_url``.
        connect_timeout, read_timeout: seconds.
        proxy_variable: the environment variable of the proxy; None without a proxy.
        environment: proxies and CA bundle.
        sent: whether any of the request was written to a connected socket; None if not known.
        answered: whether the server has replied to an earlier request.
        redirected_to: the other server to which it was redirected before it failed.
    """

    method: str
    url: str
    server: str
    connect_timeout: float
    read_timeout: float
    proxy_variable: str | None
    environment: Environment
    sent: bool | None
    answered: bool
    redirected_to: str | None = None

    @property
    def is_servers(self) -> bool:
        """Whether the request is for the rest-server, not for a log or the target of a redirect."""
        below = self.url.startswith(self.server.rstrip("/") + "/")
        return self.redirected_to is None and (below or _origin(self.url) == _origin(self.server))

    @property
    def target(self) -> str:
        """The URL for error texts: the configured one, or the host of a log or a redirect."""
        if self.redirected_to is not None:
            return f"{self.redirected_to} (redirected from {_origin(self.url)})"
        return self.server if self.is_servers else _origin(self.url)

    def hint(self, advice: str) -> str:
        """Return advice about ``pai_url``, if the failed request was for it."""
        return f"; {advice}" if self.is_servers else ""


def explain_failure(failed: FailedRequest, error: Exception) -> PaiError:
    """Return the error for a request without a reply. Texts of the libraries name pools, not servers.

    Args:
        failed: the request.
        error: what requests, urllib3 or the system raised.

    Returns:
        ConfigError, InvalidReply or ClusterUnreachable.
    """
    causes = tuple(chain(error))
    if isinstance(error, ValueError):
        return error if isinstance(error, ConfigError) else _bad_url(failed, error)
    if failed.sent is None and type(error) is requests.exceptions.ConnectionError:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return ClusterUnreachable(
            f"{failed.method} {failed.url} was not sent: {lines[0]} A test that mocks the REST API has to "
            "mock this address, too"
        )
    failed = replace(failed, redirected_to=_redirect(failed, error))
    if _is_ca_problem(failed, error, causes):
        return ConfigError(failed.environment.ca_bundle_problem())
    for explain in _EXPLANATIONS:
        text = explain(failed, error, causes)
        if text:
            return ClusterUnreachable(text, answer_lost=_is_lost(failed, error, causes))
    if any(isinstance(cause, BadStatusLine) and str(cause).startswith(_TLS_ALERT) for cause in causes):
        return tls_port_error(failed)
    return _broken(failed, error, causes)


def _broken(failed: FailedRequest, error: Exception, causes: Sequence[BaseException]) -> PaiError:
    for cause in causes:
        if isinstance(cause, OverLimit):
            advice = failed.hint(f"is {failed.server} (pai_url in [OpenPai]) the rest-server?")
            return InvalidReply(f"{failed.method} {failed.url.partition('?')[0]}: {cause}{advice}")
    through = f" through the proxy of {failed.proxy_variable}" if failed.proxy_variable else ""
    may_be_tls = failed.url.startswith("http:") and not failed.answered
    advice = failed.hint(f"if it speaks TLS, write https:// in {_SETTING}") if may_be_tls else ""
    return ClusterUnreachable(
        f"the connection to {failed.target}{through} broke before a reply "
        f"({failed.method}): {_reason(causes)}{advice}",
        answer_lost=_is_lost(failed, error, causes),
    )


def tls_port_error(failed: FailedRequest) -> ClusterUnreachable:
    """Return the error for http to a server that speaks TLS; it cannot have read the request."""
    return ClusterUnreachable(
        f"{failed.target} speaks TLS, not http"
        + failed.hint(f"write https:// in place of http:// in {_SETTING}")
    )


def proxy_login_error(failed: FailedRequest) -> ClusterUnreachable:
    """Return the error for a proxy's 407; the request was not forwarded."""
    return ClusterUnreachable(_proxy_problem(failed, "it answered 407 Proxy Authentication Required"))


def _bad_url(failed: FailedRequest, error: Exception) -> PaiError:
    reason = redact(str(error))
    if isinstance(error, (requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema)):
        reason = "it must begin with http:// or https://"
    url = failed.url.partition("?")[0]
    followed = failed.sent or (
        failed.sent is None and not isinstance(error, (LocationParseError, requests.RequestException))
    )
    if followed:
        return InvalidReply(f"{url} redirects to an invalid URL: {reason}")
    if failed.is_servers:
        return ClusterUnreachable(f"pai_url = {failed.server!r} is not a valid URL: {reason}; {_REACH_HINT}")
    return ClusterUnreachable(f"{url!r} is not a valid URL: {reason}")


def _redirect(failed: FailedRequest, error: Exception) -> str | None:
    """Return the server of a redirect, if it is another one."""
    if not isinstance(error, requests.RequestException) or error.request is None:
        return None
    asked = error.request.url or ""
    try:
        first = requests.Request("GET", failed.url).prepare().url or ""
    except ValueError:
        return None
    return None if _host_of(asked) == _host_of(first) else _origin(asked)


def _is_ca_problem(failed: FailedRequest, error: Exception, causes: Sequence[BaseException]) -> bool:
    """Return whether the CA bundle is the cause; requests loads it when it connects."""
    bundle = failed.environment.verify
    may_be = isinstance(error, requests.exceptions.SSLError) or type(error) is OSError
    if not isinstance(bundle, str) or not may_be or _refused_certificate(causes) or Path(bundle).is_dir():
        return False
    try:
        ssl.create_default_context(cafile=bundle)
    except OSError:
        return True
    return False


def _proxy(failed: FailedRequest, error: Exception, causes: Sequence[BaseException]) -> str | None:
    if failed.proxy_variable is None or failed.sent:
        return None
    texts = " ".join(str(cause) for cause in causes)
    tunnel = re.search(r"Tunnel connection failed: (\d{3}[^'\")\r\n]*)", texts)
    if tunnel:
        reason = f"it answered {tunnel[1].rstrip()}"
    elif "appears to only use HTTP and not HTTPS" in texts:
        reason = "it speaks http, not TLS"
    elif isinstance(error, requests.exceptions.ConnectTimeout) or _is_timeout(causes):
        reason = f"no connection within {failed.connect_timeout:g} s"
    elif isinstance(error, requests.exceptions.ProxyError):
        reason = _system_reason(causes) or "it closed the connection"
    else:
        return None
    return _proxy_problem(failed, reason)


def _proxy_problem(failed: FailedRequest, reason: str) -> str:
    variable = failed.proxy_variable
    return (
        f"cannot reach {failed.target} through the proxy of {variable} in the environment: {reason}; "
        f"correct {variable} (http://USER:PASSWORD@HOST:PORT), or name the host in no_proxy"
    )


def _tls(failed: FailedRequest, error: Exception, causes: Sequence[BaseException]) -> str | None:
    if failed.sent:
        return None
    refused = _refused_certificate(causes)
    if refused:
        return _certificate(failed, refused)
    if isinstance(error, requests.exceptions.SSLError):
        return f"TLS with {failed.target} failed: {_reason(causes)}" + failed.hint(
            f"check https://, host and port of {_SETTING}"
        )
    if failed.url.startswith("https:") and failed.sent is False and _is_timeout(causes):
        return (
            f"{failed.target} accepted the connection but did not complete the TLS handshake within "
            f"{failed.connect_timeout:g} s" + failed.hint(f"check https://, host and port of {_SETTING}")
        )
    return None


def _certificate(failed: FailedRequest, refused: BaseException) -> str:
    reason = getattr(refused, "verify_message", None) or str(refused)
    source = failed.environment.verify_source
    trusted = f" (CAs are read from the file of {source})" if source else ""
    return (
        f"the certificate of {failed.target} was refused: {reason.rstrip('.')}{trusted}; correct the host in "
        "pai_url, or set verify in [OpenPai] of luigi.cfg to the file of the server's CA"
    )


def _timeouts(failed: FailedRequest, error: Exception, causes: Sequence[BaseException]) -> str | None:
    if isinstance(error, requests.exceptions.ConnectTimeout):
        return (
            f"{failed.target} did not accept a connection within {failed.connect_timeout:g} s"
            + failed.hint(_REACH_HINT)
        )
    too_long = [cause for cause in causes if isinstance(cause, AnswerTimeout)]
    if too_long:
        return f"{failed.target} did not complete its reply within {too_long[0].limit:g} s"
    if any(isinstance(cause, NewConnectionError) for cause in causes):
        return f"cannot reach {failed.target}: {_reason(causes)}" + failed.hint(_REACH_HINT)
    if _is_timeout(causes):
        return f"{failed.target} accepted the connection but did not reply within {failed.read_timeout:g} s"
    return None


_EXPLANATIONS: tuple[Callable[[FailedRequest, Exception, Sequence[BaseException]], str | None], ...] = (
    _proxy,
    _tls,
    _timeouts,
)


def _is_lost(failed: FailedRequest, error: Exception, causes: Sequence[BaseException]) -> bool:
    """Return whether the request may have reached the server."""
    if failed.sent is not None:
        return failed.sent
    unsent = (
        requests.exceptions.ProxyError,
        requests.exceptions.SSLError,
        requests.exceptions.ConnectTimeout,
    )
    return not isinstance(error, unsent) and not any(
        isinstance(cause, NewConnectionError) for cause in causes
    )


def _is_timeout(causes: Sequence[BaseException]) -> bool:
    return any(isinstance(cause, (requests.exceptions.Timeout, ReadTimeoutError)) for cause in causes)


def _refused_certificate(causes: Sequence[BaseException]) -> BaseException | None:
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError) or type(cause).__name__ == "CertificateError":
            return cause
    return None


def _origin(url: str) -> str:
    try:
        parts = urlsplit(url)
    except ValueError:
        return url
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else url


def _host_of(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _reason(causes: Sequence[BaseException]) -> str:
    """Return the system's text for a failure, else the library's."""
    return _system_reason(causes) or redact(str(causes[-1])) or type(causes[-1]).__name__


def _system_reason(causes: Sequence[BaseException]) -> str | None:
    for cause in causes:
        if isinstance(cause, OSError) and not isinstance(cause, requests.RequestException) and cause.strerror:
            return cause.strerror
    return None
