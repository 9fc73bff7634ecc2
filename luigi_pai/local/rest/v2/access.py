"""Requests of the v2 API: authentication, request limits, bodies."""

from __future__ import annotations

import base64
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from tornado.web import Finish

from luigi_pai.local.config.settings import FIRST_STORAGE
from luigi_pai.local.json_http import ApiError
from luigi_pai.local.rest.base import ApiHandler, not_allowed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.local.accounts.users import Bearer


class AccessV2(ApiHandler):
    """A request of the v2 API."""

    _limit_headers: Mapping[str, str] = MappingProxyType({})

    def set_default_headers(self) -> None:
        """Set the headers of the request limit, in errors too."""
        super().set_default_headers()
        for name, value in self._limit_headers.items():
            self.set_header(name, value)

    def count_call(self) -> None:
        """Count the request of this address."""
        self.count("call", self.request.remote_ip or "")

    def count(self, kind: str, key: str) -> None:
        """Count a request as `RateLimits.count` does, if there are limits; answer 429 beyond the limit."""
        if self.api.limits is None:
            return
        self._limit_headers, refused = self.api.limits.count(kind, key)
        for name, value in self._limit_headers.items():
            self.set_header(name, value)
        if refused:
            self.answer_text("text/html", "Too many requests, please try again later.", 429)
            raise Finish

    def body_value(self) -> Any:
        """Return the body: the text of a ``text/*``, anything else as in v1."""
        kind = self.request.headers.get("Content-Type", "").strip().lower()
        if self.too_large or not kind.startswith("text/"):
            return super().body_value()
        return bytes(self.content).decode("utf-8", "replace") or {}

    def authenticated(self) -> Bearer:
        """Return the authenticated user; raises ApiError 401 without a valid token."""
        if "Authorization" not in self.request.headers:
            raise ApiError(401, "UnauthorizedUserError", "Guest is not allowed to do this operation.")
        bearer = self._bearer()
        if bearer is None:
            raise ApiError(401, "UnauthorizedUserError", "Your token is invalid.")
        return bearer

    def _bearer(self) -> Bearer | None:
        """Return the user of the Authorization header: ``Bearer TOKEN``, or ``Basic`` of USER:TOKEN."""
        scheme, credentials = self.credentials()
        if scheme == "bearer":
            return self.api.tokens.check(credentials)
        if scheme != "basic":
            return None
        try:
            name, _, token = base64.b64decode(credentials).decode().partition(":")
        except ValueError:  # not base64, or not text
            return None
        bearer = self.api.tokens.check(token)
        return bearer if bearer and bearer.application and bearer.username == name else None

    def check_owner(self, bearer: Bearer, owner: str, action: str) -> None:
        """Raise ApiError 403 for an action on somebody else's job, unless by an administrator."""
        if bearer.username != owner and not self.api.users.is_admin(bearer.username):
            raise not_allowed(bearer.username, action)

    def default_storages(self) -> list[str]:
        """Return the storages of a job that asks for storages and names none."""
        names = self.api.storages.names()
        return [FIRST_STORAGE] if FIRST_STORAGE in names else names[:1]

    def authenticated_user(self) -> Bearer:
        """Return the authenticated user; raises ApiError 401, or 403 for an application token."""
        bearer = self.authenticated()
        if bearer.application:
            raise ApiError(403, "ForbiddenUserError", "Applications are not allowed to do this operation.")
        return bearer

    def answer_text(self, content_type: str, text: str, status: int = 200) -> None:
        """Send a text."""
        self.set_status(status)
        self.set_header("Content-Type", f"{content_type}; charset=utf-8")
        self.finish(text)
