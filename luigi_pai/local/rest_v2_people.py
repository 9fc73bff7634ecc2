"""The routes of OpenPAI 1.8 for who it is and who may use it: info, logins, tokens, users, groups."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.local.joi import Array, Boolean, Number, Object, String
from luigi_pai.local.rest import route
from luigi_pai.local.users import hash_password, password_matches
from luigi_pai.local.wire import ApiError

if TYPE_CHECKING:
    from luigi_pai.local.access_v2 import AccessV2
    from luigi_pai.local.records import User

__all__ = ["ROUTES"]

_WEEK = 7 * 24 * 3600
_NAME = String(pattern=r"[\w.-]+", pattern_name="username", required=True)
_LOGIN = Object(
    {
        "username": _NAME,
        "password": String(min_length=6, required=True),
        "expiration": Number(minimum=60, maximum=_WEEK, default=24 * 3600),
    },
    root=True,
)
_NEW_USER = Object(
    {
        "username": _NAME,
        "email": String(allow_empty=True),
        "virtualCluster": Array(String(), default=[]),
        "admin": Boolean(default=False),
        "password": String(min_length=6, required=True),
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
    user = handler.api.users.get(name)
    if user is None:
        raise ApiError(400, "NoUserError", f"User {name} is not found.")
    if not await asyncio.to_thread(password_matches, user, asked["password"]):
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


def _shown(handler: AccessV2, user: User) -> dict[str, Any]:
    clusters = list(handler.api.virtual_clusters) if user.admin else _clusters(user)
    return {
        "username": user.name,
        "grouplist": [*_clusters(user), *(["admingroup"] if user.admin else [])],
        "email": "",
        "extension": {},
        "admin": user.admin,
        "virtualCluster": clusters,
        "storageConfig": handler.api.storages.names(),
    }


def _clusters(user: User) -> list[str]:
    return user.virtual_clusters.split(",") if user.virtual_clusters else ["default"]


async def _users(handler: AccessV2) -> None:
    handler.who()
    handler.answer(200, [_shown(handler, user) for user in handler.api.users.all()])


async def _user(handler: AccessV2, name: str) -> None:
    handler.who()
    user = handler.api.users.get(name)
    if user is None:
        raise ApiError(400, "NoUserError", f"User {name} is not found.")
    handler.answer(200, _shown(handler, user))


async def _new_user(handler: AccessV2) -> None:
    bearer = handler.person()
    asked = handler.checked(_NEW_USER)
    handler.require_admin(bearer)
    name, clusters = asked["username"], asked["virtualCluster"]
    if not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", name):
        raise ApiError(400, "InvalidParametersError", f"luigi-pai local cannot keep a user {name}")
    if not set(clusters) <= set(handler.api.virtual_clusters):
        raise ApiError(404, "NoGroupError", f"No groups for vc: {','.join(clusters)}")
    if handler.api.users.get(name) is not None:
        raise ApiError(409, "ConflictUserError", f"User name {name} already exists.")
    password = await asyncio.to_thread(hash_password, asked["password"])
    handler.api.users.create(name, password, admin=asked["admin"], virtual_clusters=clusters)
    handler.answer(201, {"message": "User is created successfully"})


async def _groups(handler: AccessV2) -> None:
    handler.who()
    clusters = handler.api.virtual_clusters
    groups = [_group("admingroup", "admin", handler, clusters, admin=True)]
    groups += [_group(name, f"group for {name} vc", handler, (name,), admin=False) for name in clusters]
    handler.answer(200, groups)


def _group(
    name: str, description: str, handler: AccessV2, clusters: tuple[str, ...], *, admin: bool
) -> dict[str, Any]:
    storages = handler.api.storages.names()
    acls = {"admin": admin, "virtualClusters": list(clusters), "storageConfigs": storages}
    return {
        "groupname": name,
        "description": description,
        "externalName": "",
        "extension": {"acls": acls},
    }


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
    route("GET", "/api/v1/user/:name", _user),
    route("GET", "/api/v2/users", _users),
    route("POST", "/api/v2/users", _new_user),
    route("GET", "/api/v2/users/:name", _user),
    route("GET", "/api/v2/groups", _groups),
)
