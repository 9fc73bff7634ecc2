"""The routes of OpenPAI 1.8 and LTP for users: their records, and new plain users."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.local.json_http import ApiError
from luigi_pai.local.rest.base.api import route
from luigi_pai.local.rest.base.bodies import checked_body

if TYPE_CHECKING:
    from luigi_pai.local.rest.v2.access import AccessV2

__all__ = ["ROUTES"]

_ADMINISTRATORS = "admingroup"
_NEW = {"username": "[A-Za-z0-9_-][A-Za-z0-9_.-]*", "password": ".{6,}"}
_PLAIN: dict[str, Any] = {
    "email": ("",),
    "virtualCluster": ([], ["default"]),
    "admin": (False,),
    "extension": ({},),
}


async def _user(handler: AccessV2, name: str) -> None:
    handler.who()
    users = handler.api.users
    user = users.get(name)
    if user is None:
        raise ApiError(400, "NoUserError", f"User {name} is not found.")
    clusters = list(users.virtual_clusters(user))
    shown = {
        "username": user.name,
        "grouplist": [*clusters, _ADMINISTRATORS] if user.admin else clusters,
        "email": "",
        "extension": {},
        "admin": user.admin,
        "virtualCluster": clusters,
        "storageConfig": handler.api.storages.names(),
    }
    handler.answer(200, shown)


async def _new_user(handler: AccessV2) -> None:
    """Add a plain user, who has the virtual cluster ``default``."""
    bearer = handler.person()
    asked = checked_body(handler.body, _NEW, _PLAIN)
    handler.require_admin(bearer)
    if not await handler.api.users.add(asked["username"], asked["password"]):
        raise ApiError(409, "ConflictUserError", f"User name {asked['username']} already exists.")
    handler.answer(201, {"message": "User is created successfully"})


ROUTES = (
    route("GET", "/api/v1/user/:name", _user),
    *(
        found
        for prefix in ("/api/v2/users", "/api/v2/user")
        for found in (route("POST", prefix, _new_user), route("GET", f"{prefix}/:name", _user))
    ),
)
