"""The routes of OpenPAI 1.8 that show and change groups."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from luigi_pai.local.node.http import ApiError
from luigi_pai.local.node.joi import AnyObject, Array, Boolean, Object, Refused, String
from luigi_pai.local.rest.base.api import route
from luigi_pai.local.store.records import Group

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from luigi_pai.local.node.joi import Rule
    from luigi_pai.local.rest.v2.access import AccessV2

__all__ = ["GROUPNAME", "GROUP_NAME", "ROUTES"]

GROUP_NAME = "groupname"
_NAME = String(pattern="[A-Za-z0-9_]+", pattern_name="groupname", required=True)
GROUPNAME = Object({GROUP_NAME: _NAME}, root=True)
"""The schema of a body that names a group."""

_TEXT = String(allow_empty=True)
_NEW = Object(
    {
        GROUP_NAME: _NAME,
        "description": _TEXT,
        "externalName": _TEXT,
        "extension": AnyObject(default={}),
    },
    root=True,
)


def _change(*, whole: bool) -> Object:
    """Return the schema of PUT group: with ``patch``, or of a whole group."""
    data: dict[str, Rule] = {
        GROUP_NAME: _NAME,
        "description": String(required=whole),
        "externalName": String(required=whole),
        "extension": AnyObject(required=whole),
    }
    return Object({"patch": Boolean(default=False), "data": Object(data, required=True)}, root=True)


_ACLS: dict[str, Rule] = {"admin": Boolean(default=False), "virtualClusters": Array(String(), default=[])}


def _checked_extension(extension: dict[str, Any]) -> dict[str, Any]:
    """Return a group's extension with access lists that can be read, or raise ApiError 500."""
    try:
        acls = AnyObject().check(extension.get("acls", {}), "acls", {})
        known = {key: value for key, value in acls.items() if key in _ACLS}
        checked = {**acls, **Object(_ACLS).check(known, "acls")}
    except Refused as refused:
        raise ApiError(500, "UnknownError", f"Group schema error\nValidationError: {refused}") from None
    return {**extension, "acls": checked}


def _shown(group: Group) -> dict[str, Any]:
    return {
        GROUP_NAME: group.name,
        "description": group.description,
        "externalName": group.external_name,
        "extension": group.extension,
    }


def _found(handler: AccessV2, name: str) -> Group:
    group = handler.api.groups.get(name)
    if group is None:
        raise ApiError(400, "NoGroupError", f"Group {name} is not found.")
    return group


def _found_by_older_route(handler: AccessV2, name: str) -> Group:
    """Return a group; if there is none, fail with the error that these routes get from Kubernetes."""
    group = handler.api.groups.get(name)
    if group is None:
        raise ApiError(500, "UnknownError", "[object Object]")
    return group


def _save(handler: AccessV2, group: Group) -> None:
    handler.api.groups.save(replace(group, extension=_checked_extension(group.extension)))


async def _groups(handler: AccessV2) -> None:
    handler.who()
    handler.answer(200, [_shown(group) for group in handler.api.groups.all()])


async def _group(handler: AccessV2, name: str) -> None:
    handler.who()
    handler.answer(200, _shown(_found(handler, name)))


async def _members(handler: AccessV2, name: str) -> None:
    handler.require_admin(handler.who())
    groups = handler.api.groups
    members = [user for user in handler.api.users.all() if name in groups.of(user)]
    handler.answer(200, [{"username": user.name, "clusterAdmin": groups.is_admin(user)} for user in members])


async def _new_group(handler: AccessV2) -> None:
    asked = handler.checked_by_administrator(_NEW)
    name = asked[GROUP_NAME]
    if handler.api.groups.get(name) is not None:
        raise ApiError(500, "UnknownError", "AlreadyExists")
    texts = asked.get("description", ""), asked.get("externalName", "")
    _save(handler, Group(name, *texts, asked["extension"]))
    handler.answer(201, {"message": "group is created successfully"})


async def _change_group(handler: AccessV2) -> None:
    patch = handler.is_patch()
    asked = handler.checked_by_administrator(_change(whole=not patch))["data"]
    group = _found(handler, asked[GROUP_NAME])
    extension = asked.get("extension", {})
    group = Group(
        group.name,
        asked.get("description", group.description),
        asked.get("externalName", group.external_name),
        {**group.extension, **extension} if patch else extension,
    )
    _save(handler, group)
    handler.answer(201, {"message": f"update group {group.name} successfully."})


async def _delete_group(handler: AccessV2, name: str) -> None:
    handler.require_admin(handler.person())
    if handler.api.groups.get(name) is None:
        raise ApiError(500, "UnknownError", "NotFound")
    handler.api.groups.remove(name)
    handler.answer(200, {"message": "group is removed successfully"})


async def _change_extension(handler: AccessV2, name: str) -> None:
    asked = handler.checked_by_administrator(Object({"extension": AnyObject(required=True)}, root=True))
    group = _found_by_older_route(handler, name)
    _save(handler, replace(group, extension={**group.extension, **asked["extension"]}))
    handler.answer(201, {"message": "update group extension data successfully."})


async def _change_text(handler: AccessV2, name: str, label: str, field: str, shown: str) -> None:
    asked = handler.checked_by_administrator(Object({label: _TEXT}, root=True))
    group = _found_by_older_route(handler, name)
    _save(handler, replace(group, **{field: asked.get(label, "")}))
    handler.answer(201, {"message": f"update group {shown} data successfully."})


async def _change_description(handler: AccessV2, name: str) -> None:
    await _change_text(handler, name, "description", "description", "description")


async def _change_external_name(handler: AccessV2, name: str) -> None:
    await _change_text(handler, name, "externalName", "external_name", "externalNameData")


_ACTIONS: tuple[tuple[str, str, Callable[..., Awaitable[None]]], ...] = (
    ("GET", "", _groups),
    ("POST", "", _new_group),
    ("PUT", "", _change_group),
    ("GET", "/:name", _group),
    ("DELETE", "/:name", _delete_group),
    ("GET", "/:name/userlist", _members),
    ("PUT", "/:name/extension", _change_extension),
    ("PUT", "/:name/description", _change_description),
    ("PUT", "/:name/externalname", _change_external_name),
)

ROUTES = tuple(
    route(method, prefix + path, action)
    for prefix in ("/api/v2/groups", "/api/v2/group")
    for method, path, action in _ACTIONS
)
