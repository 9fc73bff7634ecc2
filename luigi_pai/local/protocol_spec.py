"""A job protocol as the launcher reads it: roles with their defaults, commands, plugins and storages."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from luigi_pai.spec import mustache
from luigi_pai.spec.references import PLUGIN
from luigi_pai.spec.template import entrypoints

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ALWAYS_PORTS", "fill_references", "job_spec", "server_name"]

ALWAYS_PORTS = ("ssh", "http")
"""Labels of the ports that every v2 task has."""

_REFERENCE = re.compile(r"<%\s*(\$[^%]*)%>")


def server_name(role: str) -> str:
    """Return a role's name as the server shows it: lower case, letters and digits only."""
    return re.sub(r"[^a-z0-9]", "", role.lower())


def job_spec(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the launcher needs to know of a valid protocol, without its secrets.

    Args:
        document: the protocol, as plain data.

    Returns:
        ``retryCount``, ``gang``, ``storages`` and ``taskRoles``; a role has the
        keys of a v1 role with the server's defaults filled in, its protocol's
        own name as ``shown``, and ``plugins`` in the order of their start.

    Raises:
        SpecError: the commands of a role cannot be rendered.
    """
    commands = entrypoints(document)
    extras = document.get("extras") or {}
    return {
        "retryCount": document.get("jobRetryCount") or 0,
        "gang": extras.get("gangAllocation") is not False,
        "storages": [item for item in extras.get("storages") or () if item.get("name")],
        "taskRoles": [
            _role(name, role, commands[name], document) for name, role in document["taskRoles"].items()
        ],
    }


def _role(name: str, role: Mapping[str, Any], command: str, document: Mapping[str, Any]) -> dict[str, Any]:
    instances = role.get("instances") or 1
    wanted = role["resourcePerInstance"]
    completion = role.get("completion") or {}
    return {
        "name": server_name(name),
        "shown": name,
        "taskNumber": instances,
        "cpuNumber": wanted["cpu"],
        "memoryMB": wanted["memoryMB"],
        "gpuNumber": wanted["gpu"],
        "shmMB": (role.get("extraContainerOptions") or {}).get("shmMB", 0),
        "portList": [
            {"label": label, "beginAt": 0, "portNumber": count} for label, count in _ports(wanted).items()
        ],
        "command": command,
        "minFailedTaskCount": completion.get("minFailedInstances") or 1,
        "minSucceededTaskCount": completion.get("minSucceededInstances") or instances,
        "taskRetryCount": role.get("taskRetryCount") or 0,
        "plugins": [_with_references(plugin, document, name) for plugin in _plugins(name, role, document)],
    }


def _ports(wanted: Mapping[str, Any]) -> dict[str, int]:
    """Return how many ports of each label a task has.

    The schema of 1.8 takes counts below 0, which give no port, and lists, whose labels are their indexes.
    """
    asked = wanted.get("ports") or {}
    labels = (
        asked.items() if isinstance(asked, dict) else ((str(at), count) for at, count in enumerate(asked))
    )
    counts = {label: max(0, count) if isinstance(count, int) else 0 for label, count in labels}
    return {**counts, **{label: counts.get(label, 1) for label in ALWAYS_PORTS}}


def _plugins(name: str, role: Mapping[str, Any], document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a role's runtime plugins: first its prerequisites that are plugins, then those of extras."""
    by_name = {item["name"]: item for item in document.get("prerequisites") or ()}
    plugins = []
    for wanted in role.get("prerequisites") or ():
        item = dict(by_name[wanted])
        kind = item.pop("plugin", None)
        if isinstance(kind, str) and kind.startswith(f"{PLUGIN}."):
            policy = item.pop("failurePolicy", "fail")
            item.pop("type", None)
            plugins.append(
                {"plugin": kind.removeprefix(f"{PLUGIN}."), "failurePolicy": policy, "parameters": item}
            )
    plugins.extend(
        {
            "plugin": item["plugin"],
            "failurePolicy": item.get("failurePolicy", "fail"),
            "parameters": item.get("parameters") or {},
        }
        for item in (document.get("extras") or {}).get(PLUGIN) or ()
        if name in item.get("taskroles", [name])
    )
    return plugins


def _with_references(plugin: dict[str, Any], document: Mapping[str, Any], role: str) -> dict[str, Any]:
    """Fill in what a plugin refers to, but for secrets, which wait for the start of the task."""
    view = {"$parameters": document.get("parameters") or {}}
    for kind in ("script", "output", "data"):
        chosen = document["taskRoles"][role].get(kind)
        for item in document.get("prerequisites") or ():
            if chosen is not None and (item["type"], item["name"]) == (kind, chosen):
                view[f"${kind}"] = item
    return {**plugin, "parameters": fill_references(plugin["parameters"], view)}


def fill_references(value: Any, view: Mapping[str, Any]) -> Any:
    """Return a value in whose texts the references that the view knows are filled in, exactly.

    Args:
        value: any plain data.
        view: what references can begin with, such as ``$secrets``.
    """
    if isinstance(value, dict):
        return {key: fill_references(item, view) for key, item in value.items()}
    if isinstance(value, list):
        return [fill_references(item, view) for item in value]
    if not isinstance(value, str):
        return value

    def filled(tag: re.Match[str]) -> str:
        found = mustache.look_up(view, mustache.steps(tag[1].rstrip()))
        return tag[0] if found is mustache.ABSENT or found is None else mustache.javascript_text(found)

    return _REFERENCE.sub(filled, value)
