"""The errors that are also requests' own; part of the tree of ``luigi_pai.errors``, which exports them."""

from __future__ import annotations

from typing import Any

from requests.exceptions import ConnectionError as RequestsConnectionError
from requests.exceptions import HTTPError

from luigi_pai.errors import PaiApiError, PaiJobError

__all__ = [
    "AuthenticationError",
    "ClusterUnreachable",
    "InvalidReply",
    "JobNotFound",
    "NameConflict",
    "PaiHttpError",
    "PaiJobLost",
    "PaiNameTaken",
    "PermissionRefused",
    "RateLimited",
    "ServerFault",
]


class ClusterUnreachable(PaiApiError, RequestsConnectionError):
    """There was no reply: connection refused, unknown host, timeout, TLS failure.

    Attributes:
        answer_lost: the request was or may have been sent, but no reply arrived: the
            server may have executed it.
        never_replied: no request to the server has ever had a reply: usually its URL is wrong, so none is
            retried.
    """

    never_replied = False

    def __init__(self, message: str, *, answer_lost: bool = False) -> None:
        super().__init__(message)
        self.answer_lost = answer_lost


class InvalidReply(PaiApiError, HTTPError):
    """There was a reply, but not from an OpenPAI rest-server."""


class PaiHttpError(PaiApiError, HTTPError):
    """An error reply of an OpenPAI.

    ``response``, inherited from requests, is always None: it would expose the
    token and the password of its request wherever the error is printed.

    Attributes:
        status: the HTTP status.
        code: OpenPAI's error code (``NoJobError``); None without one.
        server_message: OpenPAI's own text.
    """

    def __init__(
        self, message: str, *, status: int = 0, code: str | None = None, server_message: str = ""
    ) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.server_message = server_message


class AuthenticationError(PaiHttpError):
    """The login or the token was refused."""


class PermissionRefused(PaiHttpError):
    """The user has no permission (403)."""


class JobNotFound(PaiHttpError):
    """The server has no job of this name."""


class NameConflict(PaiHttpError):
    """The name is in use (409); OpenPAI never frees a name."""


class RateLimited(PaiHttpError):
    """Too many requests (429).

    Attributes:
        reset_at: end of the limit in seconds since 1970 UTC; None if the server did not send it.
        sent: False if the request was not sent because the limit was known to be reached.
    """

    def __init__(
        self, message: str, *, reset_at: float | None = None, sent: bool = True, **about: Any
    ) -> None:
        super().__init__(message, **about)
        self.reset_at = reset_at
        self.sent = sent


class ServerFault(PaiHttpError):
    """The server failed (5xx). It may or may not have executed the request."""


class PaiNameTaken(PaiJobError, HTTPError):
    """The job's name belongs to another user of the cluster."""


class PaiJobLost(PaiJobError, HTTPError):
    """The server no longer knows a job that this process was watching."""
