"""Functions that return the JSON in a rest-server's response, or raise its error."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import urljoin, urlsplit

from luigi_pai.api.request_limits import reset_after
from luigi_pai.errors import (
    AuthenticationError,
    InvalidReply,
    JobNotFound,
    NameConflict,
    PaiHttpError,
    PermissionRefused,
    RateLimited,
    ServerFault,
    TokenLost,
)
from luigi_pai.jobspec.paths import item_of, list_of
from luigi_pai.json_bodies import TooLarge, parse_json
from luigi_pai.redaction import layout_hint, with_hint

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import requests

    from luigi_pai.api.wire.transport import Account

NOT_JSON = object()
"""What ``parsed`` returns for a response that is not JSON."""

_CLASSES: Mapping[int, type[PaiHttpError]] = {
    HTTPStatus.FORBIDDEN: PermissionRefused,
    HTTPStatus.CONFLICT: NameConflict,
}


def is_success(response: requests.Response) -> bool:
    """Return whether the status is 2xx."""
    return HTTPStatus.OK <= response.status_code < HTTPStatus.MULTIPLE_CHOICES


def parsed(response: requests.Response) -> Any:
    """Return a response's JSON; ``NOT_JSON`` if it is not JSON, too large, or nested too deeply."""
    try:
        return parse_json(response.content)
    except ValueError:  # dropped, because its message repeats the response, maybe with a token
        return NOT_JSON


def json_of(response: requests.Response, server: str, each: Callable[[Any], Any] | None = None) -> Any:
    """Return a response's JSON.

    Args:
        response: A response with a 2xx status.
        server: The URL in ``pai_url``.
        each: For a list that may be large, converts its entries; see ``parse_json``.

    Raises:
        InvalidReply: The response is not JSON, or too large.
    """
    try:
        return parse_json(response.content, each)
    except TooLarge as error:
        problem = f"the response of {response.url} is not accepted: {error}"
    except ValueError:
        kind = response.headers.get("Content-Type") or "something"
        sent = f"{response.url} responded {response.status_code} with {kind} instead of JSON"
        problem = f"{sent}; {_check_url(server)}"
    raise InvalidReply(problem)  # outside of except, because the message of that error repeats the response


def object_of(body: Any, path: str) -> dict[str, Any]:
    """Check that a response is a JSON object, and return it.

    Raises:
        InvalidReply: The response is not an object.
    """
    if not isinstance(body, dict):
        raise InvalidReply(f"the response to {path} is {type(body).__name__} instead of an object")
    return body


def objects_of(body: Any, key: str) -> list[dict[str, Any]]:
    """Return the objects in the list under a response's key; an empty list if there is no such list."""
    return [each for each in list_of(body, key) if isinstance(each, dict)]


def check_stop(body: Any, name: str) -> None:
    """Check that the response to a stop is an object with a message, as every release sends it.

    Raises:
        InvalidReply: The response has another form, so the job may not have been stopped.
    """
    if not isinstance(item_of(body, "message"), str):
        raise InvalidReply(
            f"the response to the stop of job {name!r} has no message, so it is not from an OpenPAI "
            "rest-server; the job may continue"
        )


_LONGEST_CODE, _LONGEST_MESSAGE = 100, 10_000  # characters
_REFUSED = (
    "the server does not accept the token of [OpenPai] in luigi.cfg: make a new application token on your "
    "profile page of the web portal, and write token = ... there"
)
_LOST = (
    "the password is correct, but the server does not accept the token that it has just issued; if this "
    "continues, make an application token on your profile page of the web portal, and write token = ... in "
    "[OpenPai] of luigi.cfg"
)


def raise_error(
    response: requests.Response,
    account: Account,
    redact: Callable[[str], str],
    now: float,
    *,
    mocked: bool,
) -> NoReturn:
    """Raise the error for a response without a 2xx status.

    Args:
        response: The response.
        account: The account that made the request.
        redact: A function that redacts the server's message, which may repeat secrets.
        now: The current time in seconds since 1970 UTC.
        mocked: Whether a test mocks the response. If so, a 404 to a GET with any code except ``NoApiError``
            means that the job is missing.

    Raises:
        InvalidReply: The response is not from OpenPAI.
        PaiHttpError: The server responded with an error. The status and the code choose the subclass.
    """
    status = response.status_code
    method = response.request.method or ""
    if HTTPStatus.MULTIPLE_CHOICES <= status < HTTPStatus.BAD_REQUEST:
        raise InvalidReply(
            f"{response.url} redirects {method} to {_redirect_target(response)}; "
            "set pai_url in [OpenPai] to where the rest-server is"
        )
    code, message = error_of(response)
    message = redact(message)
    about: dict[str, Any] = {"status": status, "code": code, "server_message": message}
    summary = f"{method} {response.url}: {status} {code or response.reason or ''}".rstrip()
    summary += f": {message}" if message else ""
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise ServerFault(summary, **about)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        wait = reset_after(response.headers, now)
        raise RateLimited(summary, reset_at=None if wait is None else now + wait, **about)
    is_mocked_job = mocked and method == "GET" and code != "NoApiError"
    is_bare = response.content.strip() in (b"", b"{}")  # other 404s without an error code are from a gateway
    if status == HTTPStatus.NOT_FOUND and (is_mocked_job or code == "NoJobError" or is_bare):
        raise JobNotFound(summary, **about)
    if code is None and (status == HTTPStatus.NOT_FOUND or parsed(response) is NOT_JSON):
        raise InvalidReply(
            f"{summary}: the response is not from an OpenPAI rest-server; {_check_url(account.url)}"
        )
    if status == HTTPStatus.UNAUTHORIZED:
        _refuse_token(summary, about, account.token)
    if code == "NoApiError":
        since = " (job protocols and API version v2 need 0.15)" if "/api/v2/" in response.url else ""
        hint = f"this release of OpenPAI does not have this API{since}"
        raise PaiHttpError(with_hint(summary, hint), **about)
    raise _CLASSES.get(status, PaiHttpError)(summary, **about)


def _refuse_token(summary: str, about: dict[str, Any], token: str | None) -> NoReturn:
    """Raise the error for a 401. ``token`` is None if the token comes from a login that just succeeded."""
    if token:
        raise AuthenticationError(with_hint(summary, with_hint(_REFUSED, layout_hint(token))), **about)
    if about["code"] in (None, "UnauthorizedUserError"):
        raise TokenLost(with_hint(summary, _LOST), **about)
    raise AuthenticationError(summary, **about)  # no later login changes that


def error_of(response: requests.Response) -> tuple[str | None, str]:
    """Return OpenPAI's error code, if the response has one, and the message."""
    body = parsed(response)
    if not isinstance(body, dict):
        return None, ""
    code = body.get("code")
    is_code = isinstance(code, str) and len(code) <= _LONGEST_CODE
    return (code if is_code else None), str(body.get("message") or "")[:_LONGEST_MESSAGE]


def _redirect_target(response: requests.Response) -> str:
    try:
        target = urlsplit(urljoin(response.url, response.headers.get("Location", "")))
    except ValueError:
        return "an invalid URL"
    return f"{target.scheme}://{target.netloc}{target.path}"


def _check_url(server: str) -> str:
    which = "Its port is usually 9186, or its path /rest-server"
    return f"is {server} (pai_url in [OpenPai]) the rest-server? {which}"
