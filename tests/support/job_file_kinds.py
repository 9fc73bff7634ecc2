"""Which fields a job file has, and of which types."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.protocol_parts import (
    Extras,
    HivedRole,
    HivedScheduler,
    LocalStorage,
    RuntimePlugin,
    StatusNotification,
    Storage,
)
from luigi_pai.jobspec.schema_problems import schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["field_paths", "known_paths", "typed_paths"]

_PLUGIN = "com.microsoft.pai.runtimeplugin"
_OF_EXTRAS = {
    "extras": Extras,
    f"extras.{_PLUGIN}[]": RuntimePlugin,
    "extras.storages[]": Storage,
    "extras.hivedScheduler": HivedScheduler,
    "extras.hivedScheduler.taskRoles.*": HivedRole,
    "extras.jobStatusChangeNotification": StatusNotification,
    "extras.enableLocalStorage": LocalStorage,
}
_FREE = ("parameters", "secrets", "jobEnvs", f"extras.{_PLUGIN}[].parameters.logdir")
"""Mappings whose keys are the user's own, with values of any shape."""


def known_paths(name: str) -> set[str]:
    """Return the path of each field that a schema (``job.v1``, ``protocol.v2``) or a class of extras has.

    ``[]`` stands for an item of a list, ``*`` for a name that the user chooses.
    """
    whole = schema(name)
    found = set(_schema_paths(whole, "", whole))
    if name == "protocol.v2":
        for place, chosen in _OF_EXTRAS.items():
            names = [each.metadata.get("key", each.name) for each in fields(chosen)]
            found |= {f"{place}.{name}" for name in names if name != "more" and not name.startswith("_")}
    return {path for path in found if "." not in path or not path.startswith(_FREE)}


def _schema_paths(schema: Any, path: str, whole: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if path:
        yield path
    for key, item in schema.get("properties", {}).items():
        below = f"{path}.{key}" if path else key
        yield below
        yield from _schema_paths(item, below, whole)
    if "$ref" in schema:
        yield from _schema_paths(whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], path, whole)
    yield from _schema_paths(schema.get("additionalProperties"), f"{path}.*", whole)
    yield from _schema_paths(schema.get("items"), f"{path}[]", whole)
    same = [schema.get(keyword) for keyword in ("then", "stricter", "warning", "tightened")]
    for item in [*schema.get("allOf", []), *same]:
        yield from _schema_paths(item, path, whole)


def typed_paths(document: Any, name: str) -> set[str]:
    """Return ``PATH: TYPE`` of each field of a job, with the type that JSON calls it by."""
    return {f"{path}: {kind}" for path, kind in _paths(document, "", known_paths(name))}


def field_paths(document: Any, name: str) -> set[str]:
    """Return the path of each field of a job, in the words of ``known_paths``."""
    return {path for path, _ in _paths(document, "", known_paths(name))}


def _paths(value: Any, path: str, known: set[str]) -> Iterator[tuple[str, str]]:
    if path:
        yield path, _type(value)
    if isinstance(value, list):
        for item in value:
            yield from _paths(item, f"{path}[]", known)
    elif isinstance(value, dict) and not path.startswith(_FREE):
        for key, item in value.items():
            named = f"{path}.{key}" if path else str(key)
            is_chosen = named not in known and f"{path}.*" in known
            yield from _paths(item, f"{path}.*" if is_chosen else named, known)


def _type(value: Any) -> str:
    if isinstance(value, dict | list):
        kind = "mapping" if isinstance(value, dict) else "list"
        return kind if value else f"empty {kind}"
    return "null" if value is None else type(value).__name__
