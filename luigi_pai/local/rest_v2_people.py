"""The routes of OpenPAI 1.8 for what it is and who asks: info, logins, tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.joi import Number, Object, String
from luigi_pai.local.rest import route
from luigi_pai.local.wire import ApiError

if TYPE_CHECKING:
    from luigi_pai.local.access_v2 import AccessV2

__all__ = ["ROUTES"]

_WEEK = 7 * 24 * 3600
_NAME = String(pattern="[A-Za-z0-9_.-]+", pattern_name="username", required=True)
_LOGIN = Object(
    {
        "username": _NAME,
        "password": String(min_length=6, required=True),
        "expiration": Number(minimum=60, maximum=_WEEK, default=24 * 3600),
    },
    root=True,
)


async def _welcome(handler: AccessV2) -> None:
    handler.answer_text("text/plain", "PAI RESTful API v2 (beta version)")


async def _info(handler: AccessV2) -> None:
    handler.answer(
        200, {"name": "PAI RESTful API", "version": "v1.8.0", "launcherType": "k8s", "authnMethod": "basic"}
    )


async def _login_info(handler: AccessV2) -> None:
    handler.answer(
        200, {"authn_type": "basic", "loginURI": "/api/v1/authn/basic/login", "loginURIMethod": "post"}
    )


async def _login(handler: AccessV2) -> None:
    asked = handler.checked(_LOGIN)
    name = asked["username"]
    if handler.api.users.get(name) is None:
        raise ApiError(400, "NoUserError", f"User {name} is not found.")
    user = await handler.api.users.with_password(name, asked["password"])
    if user is None:
        raise ApiError(400, "IncorrectPasswordError", "Password is incorrect.")
    admin = handler.api.groups.is_admin(user)
    token = handler.api.tokens.log_in(name, admin=admin, expiration=_WEEK)
    handler.answer(200, {"user": name, "token": token, "admin": admin})


async def _logout(handler: AccessV2) -> None:
    handler.person()
    handler.api.tokens.revoke(handler.credentials()[1])
    handler.answer(200, {"message": "Logout successfully"})


async def _tokens(handler: AccessV2) -> None:
    handler.answer(200, {"tokens": handler.api.tokens.of_user(handler.person().username)})


async def _check_token(handler: AccessV2) -> None:
    bearer = handler.who()
    handler.answer(200, {**bearer.claims, "admin": handler.is_admin(bearer)})


async def _new_application_token(handler: AccessV2) -> None:
    bearer = handler.person()
    token = handler.api.tokens.application(bearer.username, admin=handler.is_admin(bearer))
    handler.answer(200, {"token": token, "application": True})


async def _revoke(handler: AccessV2, token: str) -> None:
    bearer = handler.person()
    owner = handler.api.tokens.owner(token)
    if owner is None:
        raise ApiError(500, "UnknownError", "invalid token")
    if owner != bearer.username:
        raise ApiError(
            403, "ForbiddenUserError", f"User {bearer.username} is not allowed to do this operation."
        )
    handler.api.tokens.revoke(token)
    handler.answer(200, {"message": "revoke successfully"})


ROUTES = (
    route("*", "/api/v1", _info),
    route("*", "/api/v2", _welcome),
    route("GET", "/api/v2/info", _info),
    *(
        found
        for prefix in ("/api/v1", "/api/v2")
        for found in (
            route("GET", f"{prefix}/authn/info", _login_info),
            route("POST", f"{prefix}/authn/basic/login", _login),
            route("DELETE", f"{prefix}/authn/basic/logout", _logout),
        )
    ),
    *(
        found
        for prefix in ("/api/v1/token", "/api/v2/tokens")
        for found in (
            route("GET", prefix, _tokens),
            route("POST", prefix, _login),
            route("POST", f"{prefix}/application", _new_application_token),
            route("GET", f"{prefix}/check", _check_token),
            route("DELETE", f"{prefix}/:token", _revoke),
        )
    ),
)
