"""The routes of OpenPAI 1.8 and LTP for server information, logins and tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.local.node.http import ApiError
from luigi_pai.local.node.joi import Number, Object, String
from luigi_pai.local.rest.base.api import route
from luigi_pai.spec.dialects.javascript_text import javascript_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.local.rest.v2.access import AccessV2

__all__ = ["LTP_ROUTES", "ROUTES"]

_TYPES = {bool: "boolean", int: "number", float: "number"}
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
    version = handler.api.release.version
    handler.answer(
        200, {"name": "PAI RESTful API", "version": version, "launcherType": "k8s", "authnMethod": "basic"}
    )


async def _login_info(handler: AccessV2) -> None:
    handler.answer(
        200, {"authn_type": "basic", "loginURI": "/api/v1/authn/basic/login", "loginURIMethod": "post"}
    )


async def _login(handler: AccessV2) -> None:
    asked = handler.checked(_LOGIN)
    name, password = asked.get("username"), asked.get("password")
    if not isinstance(name, str):
        raise _no_text("data", "an instance of Buffer, TypedArray, or DataView", asked, "username")
    if not isinstance(password, str):
        instead = "an instance of ArrayBuffer, Buffer, TypedArray, or DataView"
        raise _no_text("password", instead, asked, "password")
    users = handler.api.users
    if users.get(name) is None:
        raise ApiError(400, "NoUserError", f"User {name} is not found.")
    user = await users.with_password(name, password)
    if user is None or not users.has_password(name):
        raise ApiError(400, "IncorrectPasswordError", "Password is incorrect.")
    admin = handler.api.groups.is_admin(user)
    token = handler.api.tokens.log_in(name, admin=admin, expiration=_WEEK)
    handler.answer(200, {"user": name, "token": token, "admin": admin})


def _no_text(argument: str, instead: str, asked: Mapping[str, Any], field: str) -> ApiError:
    """Return the error of an unchecked body: Node's complaint about an argument."""
    value = asked.get(field)
    if value is None:
        given = "null" if field in asked else "undefined"
    elif type(value) in _TYPES:
        given = f"type {_TYPES[type(value)]} ({javascript_text(value)})"
    else:
        given = f"an instance of {'Array' if isinstance(value, list) else 'Object'}"
    sentence = f'The "{argument}" argument must be of type string or {instead}. Received {given}'
    return ApiError(500, "ERR_INVALID_ARG_TYPE", sentence)


async def _logout(handler: AccessV2) -> None:
    handler.person()
    handler.api.tokens.revoke(handler.credentials()[1])
    handler.answer(200, {"message": "Logout successfully"})


async def _tokens(handler: AccessV2) -> None:
    handler.answer(200, {"tokens": handler.api.tokens.of_user(handler.person().username)})


async def _check_token(handler: AccessV2) -> None:
    bearer = handler.who()
    shown = {**bearer.claims, "admin": handler.is_admin(bearer)}
    if handler.api.release.caches_users:
        shown["vcadmins"] = handler.administered(bearer)
    handler.answer(200, shown)


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


async def _revoke_all(handler: AccessV2) -> None:
    handler.require_admin(handler.person())
    handler.api.tokens.revoke_all()
    handler.answer(200, {"message": "All tokens revoked successfully"})


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

LTP_ROUTES = (
    route("DELETE", "/api/v1/token", _revoke_all),
    route("DELETE", "/api/v2/tokens", _revoke_all),
)
"""Those that came with LTP 1.2."""
