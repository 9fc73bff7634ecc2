"""The error for a request without a response: one line, with the reason and the setting to correct."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests
from urllib3.exceptions import NewConnectionError, ReadTimeoutError

from luigi_pai.api.wire.environment import CORRECT_PROXY, THROUGH
from luigi_pai.api.wire.timed_http import AnswerTimeout, OverLimit, chain, reason_of
from luigi_pai.errors import ClusterUnreachable, ConfigError, InvalidReply
from luigi_pai.redaction import with_hint

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.api.wire.environment import Environment
    from luigi_pai.errors import PaiError

_SETTING = "pai_url in [OpenPai] of luigi.cfg"
_IN_CLEAR = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE")  # OpenSSL's names, of different releases
_WITHOUT_SCHEME = (requests.exceptions.InvalidSchema, requests.exceptions.MissingSchema)
_UNSENT = (requests.exceptions.ProxyError, requests.exceptions.SSLError, requests.exceptions.ConnectTimeout)


@dataclass(frozen=True)
class FailedRequest:
    """A request without a response.

    Attributes:
        method, url: The request's method and URL.
        server: the URL in ``pai_url``.
        connect_timeout, read_timeout: seconds.
        environment: proxies and CA bundle.
        sent: whether any part of the request was written to a connected socket; None if not known.
        answered: whether the server has responded to an earlier request.
    """

    method: str
    url: str
    server: str
    connect_timeout: float
    read_timeout: float
    environment: Environment
    sent: bool | None
    answered: bool


def explain_failure(failed: FailedRequest, error: Exception) -> PaiError:
    """Return an error for a request without a response. It names the server; urllib3's names only a pool.

    Args:
        failed: the request.
        error: the exception of ``requests``, urllib3 or the system.

    Returns:
        ConfigError, InvalidReply or ClusterUnreachable.
    """
    if isinstance(error, ConfigError):
        return error
    causes = tuple(chain(error))
    shown = failed.url.partition("?")[0]
    if failed.sent is None and type(error) is requests.exceptions.ConnectionError:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        return ClusterUnreachable(
            f"{failed.method} {failed.url} was not sent: {lines[0]} A test that mocks the REST API has to "
            "mock this address, too"
        )
    if failed.sent and isinstance(error, ValueError):
        return InvalidReply(f"{shown} redirects to an invalid URL")
    for cause in causes:
        if isinstance(cause, OverLimit) and not isinstance(cause, AnswerTimeout):
            advice = f"is {failed.server} (pai_url in [OpenPai]) the rest-server?"
            return InvalidReply(f"{failed.method} {shown}: {cause}; {advice}")
    return _unreachable(failed, error, causes)


def _unreachable(failed: FailedRequest, error: Exception, causes: Sequence[BaseException]) -> PaiError:
    url = _failed_url(failed, error)
    target, is_servers = _target(failed, url)
    proxy = failed.environment.proxy_variable(url)
    through = THROUGH.format(proxy) if proxy else ""
    if _is_lost(failed, error, causes):
        may_be_tls = is_servers and failed.url.startswith("http:") and not failed.answered
        advice = f"; if it speaks TLS, write https:// in {_SETTING}" if may_be_tls else ""
        reason = _reason(error, causes, f"no reply within {failed.read_timeout:g} s")
        text = f"the connection to {target}{through} broke before a reply ({failed.method}): {reason}{advice}"
        return ClusterUnreachable(text, answer_lost=True)
    if refused := _refused_certificate(causes):
        return ClusterUnreachable(_certificate(target, refused, failed.environment.verify_source))
    bundle = failed.environment.verify
    if url.startswith("https:") and isinstance(bundle, str) and _is_unreadable(bundle):
        return ConfigError(
            f"{failed.environment.verify_source} = {bundle!r} is not a readable file of CA certificates "
            "(PEM); correct it, or set verify in [OpenPai] of luigi.cfg to true, false or such a file"
        )
    advice = f"check {_SETTING}, and that the rest-server runs" if is_servers else ""
    if is_servers and url.startswith("https:") and not failed.answered and _is_without_tls(causes):
        advice = f"the server there does not answer in TLS: check the scheme and the port of {_SETTING}"
    reason = _reason(error, causes, f"no connection within {failed.connect_timeout:g} s")
    text = f"cannot reach {target}{through}: {reason}"
    if isinstance(error, _WITHOUT_SCHEME) and is_servers:
        text = f"pai_url = {failed.server!r} is not a valid URL: it must begin with http:// or https://"
    return ClusterUnreachable(with_hint(text, CORRECT_PROXY.format(proxy) if proxy else advice))


def _failed_url(failed: FailedRequest, error: Exception) -> str:
    """Return the URL that failed, which is the requested URL or the target of a redirect."""
    request = error.request if isinstance(error, requests.RequestException) else None
    return (request.url if request is not None else None) or failed.url


def _target(failed: FailedRequest, url: str) -> tuple[str, bool]:
    """Return the URL of a request's server for error texts, and whether it is the rest-server."""
    try:
        place, asked, server = _origin(url), _origin(failed.url), _origin(failed.server)
    except ValueError:
        return failed.server, True
    if place == server or not place[1]:
        return failed.server, True
    origin = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
    return origin if place == asked else f"{origin} (redirected from {failed.server})", False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _is_unreadable(bundle: str) -> bool:
    """Return whether a CA bundle cannot be read, which ``requests`` notices only when it connects."""
    if Path(bundle).is_dir():
        return False
    try:
        ssl.create_default_context(cafile=bundle)
    except OSError:
        return True
    return False


def _certificate(target: str, refused: BaseException, source: str | None) -> str:
    reason = getattr(refused, "verify_message", None) or str(refused)
    trusted = f" (CAs are read from the file of {source})" if source else ""
    return (
        f"the certificate of {target} was refused: {reason.rstrip('.')}{trusted}; correct the host in "
        "pai_url, or set verify in [OpenPai] of luigi.cfg to the file of the server's CA"
    )


def _refused_certificate(causes: Sequence[BaseException]) -> BaseException | None:
    for cause in causes:
        if isinstance(cause, ssl.SSLCertVerificationError) or type(cause).__name__ == "CertificateError":
            return cause
    return None


def _is_without_tls(causes: Sequence[BaseException]) -> bool:
    """Return whether a connected server has answered a TLS handshake in clear, or not in time."""
    is_in_clear = any(getattr(cause, "reason", None) in _IN_CLEAR for cause in causes)
    return is_in_clear or any(isinstance(cause, ReadTimeoutError) for cause in causes)


def _is_lost(failed: FailedRequest, error: Exception, causes: Sequence[BaseException]) -> bool:
    """Return whether the request may have reached the server."""
    if failed.sent is not None:
        return failed.sent
    is_unsent = not isinstance(error, requests.RequestException) or isinstance(error, (*_UNSENT, ValueError))
    return not is_unsent and not any(isinstance(cause, NewConnectionError) for cause in causes)


def _reason(error: Exception, causes: Sequence[BaseException], timeout: str) -> str:
    """Return the system's text for a failure, or the library's text if the system has none.

    Args:
        error: the exception as it was raised. For an invalid URL, a fixed text is returned, because the
            error's text may contain a password.
        causes: the error and its causes.
        timeout: the text to return for a timeout.
    """
    if isinstance(error, ValueError):
        return "the URL is not valid"
    too_long = [str(cause) for cause in causes if isinstance(cause, AnswerTimeout)]
    if any(isinstance(cause, (requests.exceptions.Timeout, ReadTimeoutError)) for cause in causes):
        return too_long[0] if too_long else timeout
    return reason_of(causes)
