"""The routes of OpenPAI 1.8 and LTP that show and change users."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from luigi_pai.local.accounts.users import hash_password, job_ssh
from luigi_pai.local.node.http import ApiError
from luigi_pai.local.node.joi import AnyObject, Array, Boolean, Object, Refused, String
from luigi_pai.local.rest.base.api import route
from luigi_pai.local.rest.v2.groups import GROUP_NAME, GROUPNAME
from luigi_pai.local.rest.v2.user_bodies import (
    EMAIL,
    NAME,
    NEW_USER,
    change_schema,
    mapping_of,
    names_of,
    no_record,
    password_of,
)
from luigi_pai.local.store.records import User

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from luigi_pai.local.rest.v2.access import AccessV2

__all__ = ["LTP_ROUTES", "OPENPAI_ROUTES", "ROUTES"]

# what is there


def _shown(handler: AccessV2, user: User) -> dict[str, Any]:
    groups = handler.api.groups
    try:
        storages = groups.storages(user)
    except ApiError as error:
        raise ApiError(500, "UnknownError", error.message) from None
    cached = handler.api.release.caches_users
    return {
        "username": user.name,
        "grouplist": groups.of(user),
        "email": user.email,
        "extension": {"jobSSH": job_ssh(user.name), **user.extension} if cached else user.extension,
        **({"history_vclist": groups.past_virtual_clusters(user)} if cached else {}),
        "admin": groups.is_admin(user),
        "virtualCluster": groups.virtual_clusters(user),
        "storageConfig": storages,
    }


async def _users(handler: AccessV2) -> None:
    handler.who()
    handler.answer(200, [_shown(handler, user) for user in handler.api.users.all()])


async def _user(handler: AccessV2, name: str) -> None:
    handler.who()
    user = handler.api.users.get(name)
    if user is None:
        raise ApiError(400, "NoUserError", f"User {name} is not found.")
    shown = _shown(handler, user)
    if handler.api.release.caches_users:
        handler.api.users.disable_password(name)
    handler.answer(200, shown)


# steps that several routes share


def _found(handler: AccessV2, name: str) -> User:
    user = handler.api.users.get(name)
    if user is None:
        raise ApiError(404, "NoUserError", f"User {name} not found.")
    return user


def _in_virtual_clusters(handler: AccessV2, user: User, names: list[str]) -> User:
    """Return a user who is in the groups of these virtual clusters and in no other."""
    groups = handler.api.groups
    if groups.unknown(names):
        raise ApiError(400, "NoVirtualClusterError", f"Try to update nonexist: {','.join(names)}")
    found = groups.of_virtual_clusters(names)
    if len(found) != len(names):
        message = f"Try to update: {','.join(names)}, but found: {','.join(found)}"
        raise ApiError(400, "NoVirtualClusterError", message)
    return groups.with_groups(user, found)


def _as_admin(handler: AccessV2, user: User, *, admin: bool) -> User:
    groups = handler.api.groups
    if admin:
        return user if groups.is_admin(user) else replace(user, admin=True)
    names = [name for name in groups.of(user) if not _is_for_administrators(handler, name)]
    return groups.with_groups(user, names)


def _is_for_administrators(handler: AccessV2, name: str) -> bool:
    group = handler.api.groups.get(name)
    return group is not None and (group.extension.get("acls") or {}).get("admin") is True


def _with_password(handler: AccessV2, user: User, password_hash: str) -> User:
    """Return a user with another password; their logins end, their application tokens do not."""
    handler.api.tokens.revoke_logins(user.name)
    return replace(user, password=password_hash)


def _own_or_administrator(handler: AccessV2, schema: Object, name: str, refusal: str) -> dict[str, Any]:
    """Return the body of a request of the user themselves, or of an administrator's."""
    bearer = handler.person()
    asked = handler.checked(schema)
    if bearer.username != name and not handler.is_admin(bearer):
        raise ApiError(403, "ForbiddenUserError", refusal)
    return asked


def _check_record(user: User) -> None:
    """Refuse with 500 a record that the server cannot write down: bodies are not checked before, with LTP."""
    record = {"username": user.name, "email": user.email, "extension": user.extension}
    try:
        Object({"username": NAME, "email": EMAIL, "extension": AnyObject()}).check(record)
    except Refused as refused:
        raise no_record(str(refused)) from None


def _done(handler: AccessV2, user: User, message: str) -> None:
    _check_record(user)
    known = handler.api.users.get(user.name)
    if known is not None:
        handler.api.groups.record_virtual_clusters(known)
    handler.api.users.save(user)
    handler.api.groups.record_virtual_clusters(user)
    handler.answer(201, {"message": message})


# changes


async def _new_user(handler: AccessV2) -> None:
    asked = handler.checked_by_administrator(NEW_USER)
    groups = handler.api.groups
    name, clusters = asked["username"], names_of(asked["virtualCluster"])
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9_.-]*", name):
        raise ApiError(400, "InvalidParametersError", f"luigi-pai local cannot keep a user {name}")
    if groups.unknown(clusters):
        raise ApiError(404, "NoGroupError", f"No groups for vc: {','.join(clusters)}")
    found = groups.of_virtual_clusters(clusters)
    if len(found) != len(clusters):
        message = f"Try to update: {','.join(clusters)}, but found {','.join(found)}"
        raise ApiError(400, "NoVirtualClusterError", message)
    password = await asyncio.to_thread(hash_password, password_of(asked, "password"))
    if handler.api.users.get(name) is not None:
        raise ApiError(409, "ConflictUserError", f"User name {name} already exists.")
    user = User(name, password, False, "", asked.get("email", ""), asked["extension"])  # noqa: FBT003 - a record
    user = replace(groups.with_groups(user, found), admin=bool(asked.get("admin")))
    _done(handler, user, "User is created successfully")


async def _change_user(handler: AccessV2) -> None:
    asked = handler.checked_by_administrator(change_schema(whole=not handler.is_patch(), own=False))["data"]
    _found(handler, asked["username"])
    password = password_of(asked, "password") if "password" in asked else None
    hashed = None if password is None else await asyncio.to_thread(hash_password, password)
    user = _found(handler, asked["username"])  # as it is now: there was time for another change
    extension = {**user.extension, **mapping_of(asked.get("extension", {}))}
    user = replace(user, email=asked.get("email", user.email), extension=extension)
    if "virtualCluster" in asked:
        user = _in_virtual_clusters(handler, user, names_of(asked["virtualCluster"]))
    if "admin" in asked:
        user = _as_admin(handler, user, admin=bool(asked["admin"]))
    if hashed is not None:
        user = _with_password(handler, user, hashed)
    _done(handler, user, f"Update user {user.name} successfully")


async def _change_user_by_name(handler: AccessV2, _name: str) -> None:
    """Change the user whom the body names, not the address: so it is with LTP."""
    await _change_user(handler)


async def _change_me(handler: AccessV2) -> None:
    """Change one's own email and extension; 1.8 takes a new password here, and does nothing with it."""
    bearer = handler.person()
    asked = handler.checked(change_schema(whole=not handler.is_patch(), own=True))["data"]
    if asked["username"] != bearer.username:
        raise ApiError(403, "ForbiddenUserError", "Can't update other user's data")
    user = _found(handler, bearer.username)
    extension = {**user.extension, **asked.get("extension", {})}
    user = replace(user, email=asked.get("email", user.email), extension=extension)
    _done(handler, user, f"Update user {user.name} successfully")


async def _delete_user(handler: AccessV2, name: str) -> None:
    handler.require_admin(handler.person())
    if handler.api.groups.is_admin(_found(handler, name)):
        raise ApiError(403, "RemoveAdminError", f"Admin {name} is not allowed to remove.")
    handler.api.users.remove(name)
    handler.api.tokens.revoke_of_user(name)
    handler.answer(200, {"message": "user is removed successfully"})


async def _change_extension(handler: AccessV2, name: str) -> None:
    refusal = "Non-admin is not allow to do this operation."
    asked = _own_or_administrator(
        handler, Object({"extension": AnyObject(required=True)}, root=True), name, refusal
    )
    user = _found(handler, name)
    user = replace(user, extension={**user.extension, **mapping_of(asked["extension"])})
    _done(handler, user, "Update user extension data successfully.")


async def _change_groups(handler: AccessV2, name: str) -> None:
    schema = Object({"grouplist": Array(String(), required=True)}, root=True)
    names = names_of(handler.checked_by_administrator(schema)["grouplist"])
    user = _found(handler, name)
    unknown = handler.api.groups.unknown(names)
    if unknown:
        raise ApiError(404, "NoGroupError", f"Updated nonexistent grouplist: {','.join(unknown)}")
    _done(handler, handler.api.groups.with_groups(user, names), "update user grouplist successfully.")


async def _add_group(handler: AccessV2, name: str) -> None:
    group = handler.checked_by_administrator(GROUPNAME)[GROUP_NAME]
    groups = handler.api.groups
    if groups.unknown([group]):
        raise ApiError(404, "NoGroupError", f"Updated nonexistent group: {group}")
    user = _found(handler, name)
    user = groups.with_groups(user, [*groups.of(user), group])
    _done(handler, user, f"User {name} is added into group {group}")


async def _leave_group(handler: AccessV2, name: str) -> None:
    group = handler.checked_by_administrator(GROUPNAME)[GROUP_NAME]
    groups = handler.api.groups
    user = _found(handler, name)
    user = groups.with_groups(user, [item for item in groups.of(user) if item != group])
    _done(handler, user, f"User {name} is removed from group {group}")


async def _change_virtual_clusters(handler: AccessV2, name: str) -> None:
    schema = Object({"virtualCluster": Array(String(), required=True)}, root=True)
    names = names_of(handler.checked_by_administrator(schema)["virtualCluster"])
    known = handler.api.users.get(name)
    blank = User(name, "", admin=False, virtual_clusters="")
    user = _in_virtual_clusters(handler, known or blank, names)
    if handler.api.groups.is_admin(_found(handler, name)):
        raise ApiError(403, "ForbiddenUserError", "Admin's virtual clusters cannot be updated.")
    _done(handler, user, "Update user virtualCluster data successfully.")


async def _change_password(handler: AccessV2, name: str) -> None:
    bearer = handler.person()
    schema = {
        "oldPassword": String(min_length=6, default="defaultpai"),
        "newPassword": String(min_length=6, required=True),
    }
    asked = handler.checked(Object(schema, root=True))
    user: User | None = _found(handler, name)
    if not handler.is_admin(bearer):
        user = await handler.api.users.with_password(name, password_of(asked, "oldPassword"))
        if not handler.api.users.has_password(name):
            user = None
    hashed = await asyncio.to_thread(hash_password, password_of(asked, "newPassword"))
    now = _found(handler, name)  # there was time for another change, even of the password
    if user is None or (not handler.is_admin(bearer) and now.password != user.password):
        raise ApiError(403, "ForbiddenUserError", "Pls input the correct password.")
    _done(handler, _with_password(handler, now, hashed), "update user password successfully.")


async def _change_email(handler: AccessV2, name: str) -> None:
    schema = Object({"email": EMAIL}, root=True)
    asked = _own_or_administrator(handler, schema, name, "Pls input the correct password.")
    user = replace(_found(handler, name), email=asked.get("email", ""))
    _done(handler, user, "Update user email data successfully.")


async def _change_admin(handler: AccessV2, name: str) -> None:
    asked = handler.checked_by_administrator(Object({"admin": Boolean(required=True)}, root=True))
    user = _as_admin(handler, _found(handler, name), admin=bool(asked["admin"]))
    _done(handler, user, "Update user admin permission successfully.")


_ACTIONS: tuple[tuple[str, str, Callable[..., Awaitable[None]]], ...] = (
    ("GET", "", _users),
    ("POST", "", _new_user),
    ("GET", "/:name", _user),
    ("DELETE", "/:name", _delete_user),
    ("PUT", "/:name/extension", _change_extension),
    ("PUT", "/:name/grouplist", _change_groups),
    ("PUT", "/:name/group", _add_group),
    ("DELETE", "/:name/group", _leave_group),
    ("PUT", "/:name/virtualcluster", _change_virtual_clusters),
    ("PUT", "/:name/password", _change_password),
    ("PUT", "/:name/email", _change_email),
    ("PUT", "/:name/admin", _change_admin),
)

_PREFIXES = ("/api/v2/users", "/api/v2/user")

ROUTES = (
    route("GET", "/api/v1/user/:name", _user),
    *(route(method, prefix + path, action) for prefix in _PREFIXES for method, path, action in _ACTIONS),
)

OPENPAI_ROUTES = (
    *(route("PUT", prefix, _change_user) for prefix in _PREFIXES),
    *(route("PUT", f"{prefix}/me", _change_me) for prefix in _PREFIXES),
)
"""Those that LTP has no more."""

LTP_ROUTES = tuple(route("PUT", f"{prefix}/:name", _change_user_by_name) for prefix in _PREFIXES)
"""Those that came with LTP; ``users/me`` is one of them."""
