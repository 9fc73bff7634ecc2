"""The errors with which an OpenPAI answers; part of the tree of ``luigi_pai.errors``, which exports them."""

from __future__ import annotations

from typing import Any

from requests.exceptions import HTTPError

from luigi_pai.errors import PaiApiError

__all__ = [
    "AuthenticationError",
    "JobNotFound",
    "NameConflict",
    "PaiHttpError",
    "PermissionRefused",
    "RateLimited",
    "ServerFault",
]


class PaiHttpError(PaiApiError, HTTPError):
    """An OpenPAI answered with an error.

    ``response``, inherited from requests, is always None: it would carry the
    token and the password of its request into whatever prints this error.

    Attributes:
        status: the HTTP status.
        code: OpenPAI's error code (``NoJobError``), or None where it sent none.
        server_message: OpenPAI's own words.
    """

    def __init__(
        self, message: str, *, status: int = 0, code: str | None = None, server_message: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.server_message = server_message


class AuthenticationError(PaiHttpError):
    """The login was refused, or the token is not taken."""


class PermissionRefused(PaiHttpError):
    """The user may not do this (403)."""


class JobNotFound(PaiHttpError):
    """The server knows no job of this name."""


class NameConflict(PaiHttpError):
    """The name is in use (409); OpenPAI never frees a name."""


class RateLimited(PaiHttpError):
    """Too many requests (429).

    Attributes:
        reset_at: when requests are taken again, in seconds since 1970 UTC, or None
            where the server did not say.
        sent: False if the request was not sent, because the limit is known to be used up.
    """

    def __init__(
        self, message: str, *, reset_at: float | None = None, sent: bool = True, **about: Any
    ) -> None:
        super().__init__(message, **about)
        self.reset_at = reset_at
        self.sent = sent


class ServerFault(PaiHttpError):
    """The server failed (5xx). What it was asked to do may be done or not."""
