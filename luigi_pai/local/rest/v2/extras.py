"""The extras of a job protocol, of a shape that the launcher can rely on; the schema takes any."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.local.json_http import ApiError
from luigi_pai.spec.paths import list_of, mapping_of
from luigi_pai.spec.templates.callbacks import PLUGIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["read_extras"]

_TEAM_STORAGE = "teamwise_storage"
_NO_PLUGIN = "(none: its entry in extras is of a wrong shape)"


def read_extras(extras: Mapping[str, Any], known: Sequence[str], defaults: Sequence[str]) -> dict[str, Any]:
    """Return extras in which ``storages`` and plugins are lists of objects.

    Args:
        extras: those of a protocol.
        known: the names of all storages.
        defaults: the storages of a job that asks for storages and names none.

    Raises:
        ApiError: 500 for a shape that the server fails over, 404 for a storage that is not there.
    """
    plugins = [_plugin(item) for item in _list(extras, PLUGIN)] if extras.get(PLUGIN) else []
    wanted = extras.get("storages")
    teams = [item for item in plugins if item["plugin"] == _TEAM_STORAGE]
    if not wanted and not isinstance(wanted, list) and teams:
        names = list_of(mapping_of(teams[-1], "parameters"), "storageConfigNames")
        storages = [{"name": name} for name in names or defaults]
    elif not wanted and not isinstance(wanted, list):
        storages = []
    else:
        storages = _list(extras, "storages") or [{"name": name} for name in defaults]
    return {**extras, PLUGIN: plugins, "storages": _storages(storages, known)}


def _list(extras: Mapping[str, Any], field: str) -> list[Any]:
    if not isinstance(extras[field], list):
        raise ApiError(500, None, f"extras.{field}: is not a list")
    return list_of(extras, field)


def _storages(wanted: Sequence[Any], known: Sequence[str]) -> list[dict[str, Any]]:
    """Return the storages that are named, and where they are to be.

    What else a job says of a storage does not count: the server writes over
    ``share`` and ``readOnly`` what its own configuration has.
    """
    named = [item for item in wanted if mapping_of(item).get("name")]
    for item in named:
        if item["name"] not in known:
            raise ApiError(404, "NoStorageError", f"Storage {item['name']} is not found.")
    return [{key: item[key] for key in ("name", "mountPath") if key in item} for item in named]


def _plugin(item: Any) -> dict[str, Any]:
    """Return a plugin that the task's runtime can read; for any other one that it does not know."""
    if isinstance(item, dict) and isinstance(item.get("plugin"), str):
        roles, parameters = item.get("taskroles", []), item.get("parameters")
        if isinstance(roles, list) and (parameters is None or isinstance(parameters, dict)):
            return item
    return {"plugin": _NO_PLUGIN}
