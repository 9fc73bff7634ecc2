"""The base class of the handler of the v2 API."""

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
    """What the routes of the v2 API share: authentication, request limits, bodies."""

    _limit_headers: Mapping[str, str] = MappingProxyType({})

    def set_default_headers(self) -> None:
        """Set the headers of the request limit here, so that error replies have these headers, too."""
        super().set_default_headers()
        for name, value in self._limit_headers.items():
            self.set_header(name, value)

    def count_call(self) -> None:
        """Count the request as a call of its IP address."""
        self.count("call", self.request.remote_ip or "")

    def count(self, kind: str, key: str) -> None:
        """Count a request if the server has limits (`RateLimits.count`); beyond the limit, answer 429."""
        if self.api.limits is None:
            return
        self._limit_headers, refused = self.api.limits.count(kind, key)
        for name, value in self._limit_headers.items():
            self.set_header(name, value)
        if refused:
            self.answer_text("text/html", "Too many requests, please try again later.", 429)
            raise Finish

    def body_value(self) -> Any:
        """Return the body as a text if its content type is ``text/*``; if not, read it as v1 does."""
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
        """Return the user of ``Bearer TOKEN`` or ``Basic USER:APPLICATION_TOKEN``; None if it is invalid."""
        scheme, credentials = self.credentials()
        if scheme == "bearer":
            return self.api.tokens.check(credentials)
        if scheme != "basic":
            return None
        try:
            name, _, token = base64.b64decode(credentials).decode().partition(":")
        except ValueError:  # not base64, or base64 of something that is not UTF-8
            return None
        bearer = self.api.tokens.check(token)
        return bearer if bearer and bearer.application and bearer.username == name else None

    def check_owner(self, bearer: Bearer, owner: str, action: str) -> None:
        """Raise ApiError 403 if a user is neither the owner of the job nor an administrator."""
        if bearer.username != owner and not self.api.users.is_admin(bearer.username):
            raise not_allowed(bearer.username, action)

    def default_storages(self) -> list[str]:
        """Return the names of the storages that a job with an empty list of storages gets."""
        names = self.api.storages.names()
        return [FIRST_STORAGE] if FIRST_STORAGE in names else names[:1]

    def authenticated_user(self) -> Bearer:
        """Return the user as `authenticated` does, but raise ApiError 403 for an application token."""
        bearer = self.authenticated()
        if bearer.application:
            raise ApiError(403, "ForbiddenUserError", "Applications are not allowed to do this operation.")
        return bearer

    def answer_text(self, content_type: str, text: str, status: int = 200) -> None:
        """Send a text."""
        self.set_status(status)
        self.set_header("Content-Type", f"{content_type}; charset=utf-8")
        self.finish(text)
