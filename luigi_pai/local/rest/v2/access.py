"""Requests of the v2 API: whose they are, and what their body is."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from luigi_pai.local.node.http import NO_DATABASE, ApiError, basic_credentials
from luigi_pai.local.node.joi import Refused
from luigi_pai.local.rest.base.api import ApiHandler

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.local.accounts.tokens import Bearer
    from luigi_pai.local.node.joi import Object
    from luigi_pai.local.store.records import Job

__all__ = ["AccessV2", "Unchecked"]

_SHOWN = 10
"""Characters around an error that JavaScript's JSON.parse quotes."""


class Unchecked(dict[str, Any]):
    """An unchecked body: a missing field fails where it is used."""

    def __missing__(self, key: str) -> Any:
        raise ApiError(500, None, f"Cannot read properties of undefined (reading '{key}')")


class TooManyRequests(ApiError):
    """The answer to a request beyond a limit."""

    def __init__(self) -> None:
        super().__init__(429, None, "Too many requests, please try again later.")


class AccessV2(ApiHandler):
    """A request of the v2 API."""

    _limit_headers: Mapping[str, str] = MappingProxyType({})

    def set_default_headers(self) -> None:
        """Say what is left of a limit, in errors too."""
        super().set_default_headers()
        for name, value in self._limit_headers.items():
            self.set_header(name, value)

    def count_call(self) -> None:
        """Count the request of this address; raises as `count` does."""
        self.count("call", self.request.remote_ip or "")

    def count(self, kind: str, key: str) -> None:
        """Count a request as `RateLimits.count` does, if there are limits; headers say what is left.

        Raises:
            TooManyRequests: it is one too many.
        """
        if self.api.limits is None:
            return
        self._limit_headers, refused = self.api.limits.count(kind, key)
        for name, value in self._limit_headers.items():
            self.set_header(name, value)
        if refused:
            raise TooManyRequests

    def write_error(self, status_code: int, **kwargs: Any) -> None:
        """Send an error in OpenPAI's form; one of too many requests is a text."""
        error = kwargs.get("exc_info", (None, None, None))[1]
        if isinstance(error, TooManyRequests):
            self.answer_text("text/html", error.message, error.status)
        else:
            super().write_error(status_code, **kwargs)

    def body_value(self) -> Any:
        """Return the body: a text of any ``text/*`` as it is, all else as v1 has it."""
        kind = self.request.headers.get("Content-Type", "").strip().lower()
        if self.too_large or not kind.startswith("text/"):
            return self._checked_json(kind)
        return bytes(self.content).decode("utf-8", "replace") or {}

    def _checked_json(self, kind: str) -> Any:
        text = bytes(self.content).decode("utf-8", "replace")
        first = text.lstrip(" \t\r\n")[:1]
        if kind.startswith("application/json") and text and first not in ("{", "[") and not self.too_large:
            raise ApiError(400, None, self._refused_json(text, first))
        if not (self.content or self.too_large or self.api.release.checks_bodies):
            return None
        return super().body_value()

    def _refused_json(self, text: str, first: str) -> str:
        """Return what the server says of JSON that is neither an object nor a list."""
        shown = '"#"'
        if not self.api.release.checks_bodies:
            at, end = text.index(first), text.index(first) + _SHOWN
            start = max(0, at - _SHOWN)
            is_short = len(text) <= 2 * _SHOWN
            before = "" if is_short or not start else "..."
            after = "" if is_short or end >= len(text) else "..."
            quoted = text if is_short else text[start:end]
            shown = f'{before}"{quoted}"{after}'
        return f"Unexpected token '{first}', {shown} is not valid JSON"

    def checked(self, schema: Object) -> dict[str, Any]:
        """Return the body as a schema has it; where the release checks none, whatever it is.

        Raises:
            ApiError: 400 if the schema refuses it, 500 for a missing body that is not checked.
        """
        if self.api.release.checks_bodies:
            return super().checked(schema)
        if self.body is None:
            raise ApiError(500, None, "Cannot read properties of undefined")
        given = self.body if isinstance(self.body, dict) else {}
        try:
            return Unchecked(schema.check(given))
        except Refused:
            return Unchecked(given)

    def require_database(self) -> None:
        """Raise ApiError 500 where the request is to find no database: `faults` can have that."""
        if getattr(self.request.connection, NO_DATABASE, False):
            raise ApiError(
                500,
                None,
                "There is a problem with your database connection. Please contact your admin. "
                "Detailed message: connect ECONNREFUSED 127.0.0.1:5432",
            )

    def who(self) -> Bearer:
        """Return the authenticated user; raises ApiError 401 without a token that is in force."""
        if "Authorization" not in self.request.headers:
            raise ApiError(401, "UnauthorizedUserError", "Guest is not allowed to do this operation.")
        bearer = self._bearer()
        if bearer is None or self.api.users.get(bearer.username) is None:
            raise ApiError(401, "UnauthorizedUserError", "Your token is invalid.")
        return bearer

    def _bearer(self) -> Bearer | None:
        """Return who the Authorization header speaks for: ``Bearer TOKEN``, or ``Basic`` of USER:TOKEN."""
        scheme, credentials = self.credentials()
        if scheme == "bearer":
            return self.api.tokens.check(credentials)
        if scheme != "basic":
            return None
        name, token = basic_credentials(credentials)
        bearer = self.api.tokens.check(token)
        return bearer if bearer and bearer.application and bearer.username == name else None

    def is_admin(self, bearer: Bearer) -> bool:
        """Say whether a user is an administrator now."""
        user = self.api.users.get(bearer.username)
        return user is not None and self.api.groups.is_admin(user)

    def administered(self, bearer: Bearer) -> list[Any]:
        """Return the virtual clusters that a user administers."""
        user = self.api.users.get(bearer.username)
        named = None if user is None else user.extension.get("vcadmins")
        return named if self.api.release.caches_users and isinstance(named, list) else []

    def is_above(self, bearer: Bearer, job: Job) -> bool:
        """Say whether a user administers the cluster, or the virtual cluster of a job."""
        return self.is_admin(bearer) or job.virtual_cluster in self.administered(bearer)

    def storages(self, bearer: Bearer, *, default: bool = False) -> list[str]:
        """Return the storages that a user may mount, or the default ones; raises as `Groups.storages`."""
        user, groups = self.api.users.get(bearer.username), self.api.groups
        if user is None:
            return []
        named = groups.default_storages(user) if default else groups.storages(user)
        return [name for name in self.api.storages.names() if name in named]

    def person(self) -> Bearer:
        """Return the authenticated user; raises ApiError 401, or 403 for an application token."""
        bearer = self.who()
        if bearer.application:
            raise ApiError(403, "ForbiddenUserError", "Applications are not allowed to do this operation.")
        return bearer

    def require_admin(self, bearer: Bearer) -> None:
        """Refuse a user who is not an administrator; raises ApiError 403."""
        if not self.is_admin(bearer):
            raise ApiError(403, "ForbiddenUserError", "Non-admin is not allow to do this operation.")

    def checked_by_administrator(self, schema: Object) -> dict[str, Any]:
        """Return the checked body of an administrator's request; raises ApiError 401, 403 or 400."""
        bearer = self.person()
        asked = self.checked(schema)
        self.require_admin(bearer)
        return asked

    def is_patch(self) -> bool:
        """Say whether the body asks to change only what it names."""
        return isinstance(self.body, dict) and self.body.get("patch") in (True, "true")

    def answer_text(self, content_type: str, text: str, status: int = 200) -> None:
        """Send a text."""
        self.set_status(status)
        self.set_header("Content-Type", f"{content_type}; charset=utf-8")
        self.finish(text)

    def answer_as_yaml(self, value: Any) -> None:
        """Send JSON under the name of YAML, as GET config does."""
        self.answer_text("text/yaml", json.dumps(value, separators=(",", ":")))
