"""The error for a request to a rest-server without a response: one line, and the setting to correct."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests

from luigi_pai.api.wire.environment import CORRECT_PROXY, THROUGH
from luigi_pai.api.wire.faults import NoResponse
from luigi_pai.api.wire.timed_http import AnswerTimeout, OverLimit
from luigi_pai.errors import ClusterUnreachable, ConfigError, InvalidReply
from luigi_pai.redaction import with_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.errors import PaiError

_SETTING = "pai_url in [OpenPai] of luigi.cfg"
_LOST = "the connection to {target}{through} broke before a reply ({method}): {reason}"
_INVALID_URL = "pai_url = {server!r} is not a valid URL: it must begin with http:// or https://"
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
        "{method} {url} was not sent: {line} A test that mocks the REST API has to mock this address, too",
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
"""The signs of a failure, its error, and its text; the first row that fits counts."""


def explain_failure(no: NoResponse, server: str, *, answered: bool) -> PaiError:
    """Return an error for a request without a response. It names the server; urllib3's names only a pool.

    Args:
        no: the request without a response.
        server: the URL in ``pai_url``.
        answered: whether the server has responded to an earlier request.

    Returns:
        ConfigError, InvalidReply or ClusterUnreachable.
    """
    kind, text = next((kind, text) for fits, kind, text in _ERRORS if fits(no))
    target, is_servers = _target(no, server)
    if text is _INVALID_URL and not is_servers:
        text = _NO_CONNECTION
    source = no.environment.verify_source
    message = text.format(
        method=no.method,
        url=no.url,
        shown=no.url.partition("?")[0],
        server=server,
        target=target,
        through=THROUGH.format(no.proxy) if no.proxy else "",
        reason=_reason(no, is_lost=text is _LOST),
        limit=no.over_limit(),
        line=next(iter(str(no.error).strip().splitlines()), type(no.error).__name__),
        refused=no.refused_certificate(),
        trusted=f" (CAs are read from the file of {source})" if source else "",
        source=source,
        bundle=no.environment.verify,
    )
    if text is _LOST:
        may_be_tls = is_servers and no.url.startswith("http:") and not answered
        advice = f"; if it speaks TLS, write https:// in {_SETTING}" if may_be_tls else ""
        return ClusterUnreachable(message + advice, answer_lost=True)
    if text in (_INVALID_URL, _NO_CONNECTION):
        advice = f"check {_SETTING}, and that the rest-server runs" if is_servers else ""
        if is_servers and not answered and no.is_without_tls():
            advice = f"the server there does not answer in TLS: check the scheme and the port of {_SETTING}"
        message = with_hint(message, CORRECT_PROXY.format(no.proxy) if no.proxy else advice)
    return kind(message)


def _target(no: NoResponse, server: str) -> tuple[str, bool]:
    """Return the URL of a request's server for error texts, and whether it is the rest-server."""
    url = no.failed_url
    try:
        place, asked = _origin(url), _origin(no.url)
        if place == _origin(server) or not place[1]:
            return server, True
    except ValueError:
        return server, True
    origin = f"{urlsplit(url).scheme}://{urlsplit(url).netloc}"
    return origin if place == asked else f"{origin} (redirected from {server})", False


def _origin(url: str) -> tuple[str, str | None, int | None]:
    parts = urlsplit(url)
    return parts.scheme, parts.hostname, parts.port or {"http": 80, "https": 443}.get(parts.scheme)


def _reason(no: NoResponse, *, is_lost: bool) -> str:
    """Return the system's text for a failure, or the library's text if the system has none.

    For an invalid URL, a fixed text is returned, because the error's text may contain a password.
    """
    if isinstance(no.error, ValueError):
        return "the URL is not valid"
    timeout = (
        f"no reply within {no.timeouts[1]:g} s" if is_lost else f"no connection within {no.timeouts[0]:g} s"
    )
    return (no.over_limit() or timeout) if no.is_late() else no.reason()
