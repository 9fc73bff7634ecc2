"""The extras of a job protocol as OpenPAI 1.8's rest-server reads them: what its code can bear is taken.

The schema asks only that ``extras`` is an object. What the server's JavaScript cannot use is a 500 with
the error's own sentence and no code; what it does not look at is found out by the task's runtime.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.local.node.http import ApiError
from luigi_pai.spec.dialects.javascript_text import javascript_text
from luigi_pai.spec.templates.callbacks import PLUGIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["read_extras", "wanted_storages"]

_TEAM_STORAGE = "teamwise_storage"
_NO_PLUGIN = "(none: its entry in extras is of a wrong shape)"


def wanted_storages(extras: Mapping[str, Any]) -> Any:
    """Return what extras say of storages, in either way, or None; ApiError 500 where the server fails."""
    wanted = extras.get("storages")
    if not _true(wanted) and PLUGIN in extras:
        wanted = _team_storages(extras[PLUGIN], wanted)
    return wanted if _true(wanted) else None


def read_extras(extras: Mapping[str, Any], storages: Sequence[str]) -> dict[str, Any]:
    """Return extras of a shape that can be relied on: ``storages`` and plugins are lists of objects.

    Args:
        extras: those of a protocol.
        storages: the storages that the user may mount; those of who names none, where none is named.

    Raises:
        ApiError: 500 for a shape that the server fails over, 404 for a storage that the user has not.
    """
    checked = dict(extras)
    wanted = wanted_storages(extras)
    checked["storages"] = [] if wanted is None else _storages(wanted, storages)
    if PLUGIN in extras:
        checked[PLUGIN] = [_plugin(item) for item in _items(extras[PLUGIN])]
    return checked


def _true(value: Any) -> bool:
    """Say whether JavaScript takes a value for true: an empty list and an empty object are."""
    return isinstance(value, dict | list) or bool(value)


def _iterated(value: Any, name: str) -> Sequence[Any]:
    if not isinstance(value, list | str):
        raise ApiError(500, None, f"{name} is not iterable")
    return value


def _items(plugins: Any) -> list[Any]:
    """Return what a task's runtime finds as its plugins: of an object its keys, of a text its characters."""
    return list(plugins) if isinstance(plugins, list | dict | str) else [plugins]


def _property(value: Any, name: str) -> Any:
    """Return a property as JavaScript does: nothing's has none, and neither has a number or a text."""
    if value is None:
        raise ApiError(500, None, f"Cannot read properties of null (reading '{name}')")
    return value.get(name) if isinstance(value, dict) else None


def _team_storages(plugins: Any, otherwise: Any) -> Any:
    """Return the storages of the plugin ``teamwise_storage``; ``otherwise`` if it is not used."""
    wanted = otherwise
    for plugin in _iterated(plugins, f"config.extras.{PLUGIN}"):
        if _property(plugin, "plugin") != _TEAM_STORAGE:
            continue
        names = _property(plugin["parameters"], "storageConfigNames") if "parameters" in plugin else None
        if _true(names) and not isinstance(names, list):
            raise ApiError(500, None, "plugin.parameters.storageConfigNames.map is not a function")
        wanted = [{"name": name} for name in names or ()]
    return wanted


def _storages(wanted: Any, known: Sequence[str]) -> list[dict[str, Any]]:
    """Return the storages that are named, and where they are to be; all of them for an empty list.

    What else a job says of a storage does not count: the server writes over
    ``share`` and ``readOnly`` what its own configuration has.
    """
    if wanted == []:
        return [{"name": name} for name in known]
    named = []
    for item in _iterated(wanted, "config.extras.storages"):
        name = _property(item, "name")
        if not _true(name):
            continue
        if name not in known:
            raise ApiError(404, "NoStorageError", f"Storage {javascript_text(name)} is not found.")
        named.append({key: item[key] for key in ("name", "mountPath") if key in item})
    return named


def _plugin(item: Any) -> dict[str, Any]:
    """Return a plugin that the task's runtime can read; for any other one that it does not know."""
    if isinstance(item, dict) and isinstance(item.get("plugin"), str):
        roles, parameters = item.get("taskroles", []), item.get("parameters")
        if isinstance(roles, list) and (parameters is None or isinstance(parameters, dict)):
            return item
    return {"plugin": _NO_PLUGIN}
