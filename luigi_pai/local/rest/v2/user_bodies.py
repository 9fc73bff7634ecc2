"""The bodies of requests that change users: their schemas, and fields that LTP does not check."""

from __future__ import annotations

from typing import Any

from luigi_pai.local.node.http import ApiError
from luigi_pai.local.node.joi import AnyObject, Array, Boolean, Object, String

__all__ = [
    "EMAIL",
    "NAME",
    "NEW_USER",
    "change_schema",
    "mapping_of",
    "names_of",
    "no_record",
    "password_of",
]

NAME = String(pattern="[A-Za-z0-9_.-]+", pattern_name="username", required=True)
EMAIL = String(allow_empty=True, email=True)
NEW_USER = Object(
    {
        "username": NAME,
        "email": EMAIL,
        "virtualCluster": Array(String(), default=[]),
        "admin": Boolean(default=False),
        "password": String(min_length=6, required=True),
        "extension": AnyObject(default={}),
    },
    root=True,
)


def change_schema(*, whole: bool, own: bool) -> Object:
    """Return the schema of PUT users, or of PUT users/me: of a patch, or of a whole user."""
    data: dict[str, Any] = {"username": NAME, "email": String(email=True, required=whole)}
    if own:
        data["newPassword"] = String(min_length=6, required=whole)
        data["oldPassword"] = String(min_length=6)
        data["extension"] = AnyObject()
    else:
        data["virtualCluster"] = Array(String(), required=whole)
        data["admin"] = Boolean(required=whole)
        data["password"] = String(min_length=6, required=whole)
        data["extension"] = AnyObject(required=whole)
    return Object({"patch": Boolean(default=False), "data": Object(data, required=True)}, root=True)


def names_of(value: Any) -> list[str]:
    """Return a list of names from a body, which LTP does not check; raises ApiError 500 for others."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise ApiError(500, "UnknownError", "grouplist.map is not a function")
    return value


def mapping_of(value: Any) -> dict[str, Any]:
    """Return a mapping from a body, which LTP does not check; any other value is empty, as in JavaScript."""
    return value if isinstance(value, dict) else {}


def password_of(asked: dict[str, Any], field: str) -> str:
    """Return a password, or empty, from a body that LTP does not check; ApiError 500 for no text."""
    password = asked.get(field, "")
    if not isinstance(password, str):
        raise no_record(f'"{field}" must be a string')
    return password


def no_record(complaint: str) -> ApiError:
    """Return the error of the servers for a user record that they cannot write."""
    return ApiError(500, "UnknownError", f"User schema error\nValidationError: {complaint}")
