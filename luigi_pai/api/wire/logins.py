"""Logins: recognizes rejected logins, and checks tokens' validity and lifetime."""

from __future__ import annotations

import base64
import json
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from luigi_pai.api.wire.replies import error_of
from luigi_pai.errors import AuthenticationError
from luigi_pai.redaction import layout_hint, with_hint

if TYPE_CHECKING:
    from collections.abc import Callable

    import requests

    from luigi_pai.api.wire.transport import Account

_HINTS = {
    "IncorrectPasswordError": "set the correct password in [OpenPai] of luigi.cfg",
    "NoUserError": "set the correct username in [OpenPai] of luigi.cfg",
    "NoApiError": (
        "either the path in pai_url in [OpenPai] of luigi.cfg is incorrect, or this cluster has no login by "
        "password (OIDC): check pai_url, or make an application token on your profile page of the web "
        "portal and write token = ... in [OpenPai] of luigi.cfg"
    ),
    "InvalidParametersError": "check username, password and expiration in [OpenPai] of luigi.cfg",
}
_IF_IT_IS_RIGHT = (
    "if it is correct, set token = ... (an application token) instead: OpenPAI's successor LTP may refuse "
    "correct passwords"
)
_NOTHING_SET = "no password is set; write password = ... (or token = ...) in [OpenPai] of luigi.cfg"
_RENEWED_BEFORE_END = 30.0  # seconds


def is_refused(response: requests.Response, account: Account) -> bool:
    """Return whether the response to a login shows that another login would be rejected too."""
    status, code = response.status_code, error_of(response)[0]
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:  # LTP sends a 500 of Node.js if no password is set
        return account.password is None and (status, code) == (500, "ERR_INVALID_ARG_TYPE")
    # a 4xx without a code does not come from a rest-server
    return status >= HTTPStatus.BAD_REQUEST and status != HTTPStatus.TOO_MANY_REQUESTS and code is not None


def login_error(
    response: requests.Response, account: Account, redact: Callable[[str], str], *, may_be_ltp: bool
) -> AuthenticationError:
    """Return the error for a rejected login.

    Args:
        response: The server's response.
        account: The account.
        redact: A function that redacts the server's message, which may repeat secrets.
        may_be_ltp: Whether the server may be OpenPAI's successor.
    """
    code, message = error_of(response)
    password = account.password
    if password is None and code != "NoApiError":
        hint = _NOTHING_SET
    else:
        hint = _HINTS.get(code or "", "")
        if code in ("IncorrectPasswordError", "InvalidParametersError"):
            if_right = _IF_IT_IS_RIGHT if may_be_ltp and code == "IncorrectPasswordError" else ""
            hint = with_hint(hint, layout_hint(password or "") or if_right)
    message = redact(message)
    return AuthenticationError(
        f"login of user {account.username!r} at {account.url} was refused: {with_hint(message, hint)}",
        status=response.status_code,
        code=code,
        server_message=message,
    )


def is_valid(token: str) -> bool:
    """Return whether a header can contain a token. If not, errors from ``requests`` would quote it."""
    return token.isascii() and token.isprintable() and " " not in token


def lifetime(token: str) -> float:
    """Return how long a token may be reused, in seconds.

    Servers send JSON Web Tokens, which have ``iat`` and ``exp``. Any other token, as in mocked tests,
    is used for one request.
    """
    claims = _claims(token)
    try:
        life = float(claims["exp"]) - float(claims["iat"])
    except (KeyError, TypeError, ValueError):
        return 0.0
    return life - min(_RENEWED_BEFORE_END, life / 10)


def expiry(token: str) -> float | None:
    """Return when a token expires, in seconds since 1970 UTC; None if the token has no expiry."""
    try:
        return float(_claims(token)["exp"])
    except (KeyError, TypeError, ValueError):
        return None


def _claims(token: str) -> dict[str, Any]:
    """Return the claims of a JSON Web Token; an empty dict for any other token."""
    try:
        payload = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    except (IndexError, ValueError, RecursionError):
        return {}
    return claims if isinstance(claims, dict) else {}
