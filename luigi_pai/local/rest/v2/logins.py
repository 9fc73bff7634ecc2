"""The routes of OpenPAI 1.8 and LTP for server information, logins and tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.local.json_http import ApiError
from luigi_pai.local.rest.base.api import route

if TYPE_CHECKING:
    from luigi_pai.local.rest.v2.access import AccessV2

__all__ = ["LTP_ROUTES", "ROUTES"]

_WEEK = 7 * 24 * 3600
_LOGIN = {"username": "[A-Za-z0-9_.-]+", "password": ".{6,}"}
_EXPIRATION = {"expiration": range(60, _WEEK + 1)}


async def _welcome(handler: AccessV2) -> None:
    handler.answer_text("text/plain", "PAI RESTful API v2 (beta version)")


async def _info(handler: AccessV2) -> None:
    version = handler.release.version
    handler.answer(
        200, {"name": "PAI RESTful API", "version": version, "launcherType": "k8s", "authnMethod": "basic"}
    )


async def _login_info(handler: AccessV2) -> None:
    handler.answer(
        200, {"authn_type": "basic", "loginURI": "/api/v1/authn/basic/login", "loginURIMethod": "post"}
    )


async def _login(handler: AccessV2) -> None:
    """Log in for a week: ``expiration`` is checked, and changes nothing."""
    asked = handler.checked(_LOGIN, _EXPIRATION)
    name, password = asked.get("username"), asked.get("password")
    if not isinstance(name, str) or not isinstance(password, str):
        raise ApiError(500, "ERR_INVALID_ARG_TYPE", "username and password have to be texts")
    if handler.api.users.get(name) is None:
        raise ApiError(400, "NoUserError", f"User {name} is not found.")
    user = await handler.api.users.with_password(name, password)
    if user is None:
        raise ApiError(400, "IncorrectPasswordError", "Password is incorrect.")
    token = handler.api.tokens.log_in(name, admin=user.admin, expiration=_WEEK)
    handler.answer(200, {"user": name, "token": token, "admin": user.admin})


async def _logout(handler: AccessV2) -> None:
    handler.person()
    handler.api.tokens.revoke(handler.credentials()[1])
    handler.answer(200, {"message": "Logout successfully"})


async def _tokens(handler: AccessV2) -> None:
    handler.answer(200, {"tokens": handler.api.tokens.of_user(handler.person().username)})


async def _check_token(handler: AccessV2) -> None:
    bearer = handler.who()
    shown = {**bearer.claims, "admin": handler.is_admin(bearer)}
    if handler.release.private_jobs:  # LTP: the virtual clusters whose jobs the user administers
        shown["vcadmins"] = []
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
