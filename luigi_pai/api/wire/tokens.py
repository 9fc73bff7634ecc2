"""Tokens of a rest-server: whether they can be sent, and their lifetime."""

from __future__ import annotations

import base64
import json
from typing import Any

_RENEWED_BEFORE_END = 30.0  # seconds


def is_valid(token: str) -> bool:
    """Return whether a header can contain a token. If not, errors of ``requests`` quote the token."""
    return token.isascii() and token.isprintable() and " " not in token


def lifetime(token: str) -> float:
    """Return the seconds for which a token may be kept.

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
