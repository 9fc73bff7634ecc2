r"""A job protocol as the launcher reads it: roles with their defaults, commands, plugins and storages.

1.8's runtime converts a plugin's parameters to a string with Python's ``repr``, replaces the references in it
with their values without escaping them, and parses the result as YAML (see ``replace_ref`` and
``init_plugins`` in its initializer). The task therefore fails if a string in the parameters contains both
kinds of quotes. It also fails if a reference is to a number, because only strings can be inserted. A line
break may become the two characters ``\n``.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.dialects import mustache
from luigi_pai.jobspec.paths import mapped
from luigi_pai.jobspec.templates.commands import Views, entrypoints
from luigi_pai.jobspec.templates.prerequisites import PLUGIN
from luigi_pai.jobspec.templates.secrets import replaced

if TYPE_CHECKING:
    from collections.abc import Mapping

_REFERENCE = re.compile(r"<%\s*\$([\s\S]*?)%>")
_SECRET = re.compile(r"<%\s*(\$secrets\b[^%]*)%>")

_ALWAYS_PORTS = ("ssh", "http")
"""Labels of the ports that every v2 task has."""


def server_name(role: str) -> str:
    """Return a role's name as the server shows it: only lower-case letters and digits."""
    return re.sub(r"[^a-z0-9]", "", role.lower())


def job_spec(document: Mapping[str, Any]) -> dict[str, Any]:
    """Translate a valid protocol to the launcher's form. Secrets are not filled in.

    Returns:
        ``retryCount``, ``gang``, ``storages`` and ``taskRoles``. A role has the keys of a v1 role, with
        the server's defaults filled in, and three more: ``taskRetryCount``; ``shown``, the role's name in
        the protocol; ``plugins``, the role's plugins in the order they start. If the runtime cannot read a
        plugin's parameters, the plugin's ``fault`` key gives the reason.

    Raises:
        SpecError: a role's commands cannot be rendered.
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
        "plugins": [_as_read(plugin, Views(document).of(name)) for plugin in _plugins(name, role, document)],
    }


def _ports(wanted: Mapping[str, Any]) -> dict[str, int]:
    """Return a task's number of ports for each label.

    1.8's schema allows negative counts (which mean 0) and lists of counts (each count's index is its label).
    """
    asked = wanted.get("ports") or {}
    labels = (
        asked.items() if isinstance(asked, dict) else ((str(at), count) for at, count in enumerate(asked))
    )
    counts = {label: max(0, count) if isinstance(count, int) else 0 for label, count in labels}
    return {**counts, **{label: counts.get(label, 1) for label in _ALWAYS_PORTS}}


def _plugins(name: str, role: Mapping[str, Any], document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return a role's runtime plugins: first those from its prerequisites, then those from ``extras``."""
    by_name = {item["name"]: item for item in document.get("prerequisites") or ()}
    plugins = []
    for wanted in role.get("prerequisites") or ():
        item = dict(by_name[wanted])
        kind = item.pop("plugin", None)
        if isinstance(kind, str) and kind.startswith(PLUGIN):
            policy = item.pop("failurePolicy", "fail")
            item.pop("type", None)
            kind = kind[len(PLUGIN) + 1 :]  # what follows the prefix and one more character; may be empty
            plugins.append({"plugin": kind, "failurePolicy": policy, "parameters": item})
    plugins.extend(
        {
            "plugin": item["plugin"],
            "failurePolicy": item.get("failurePolicy", "fail"),
            "parameters": item.get("parameters", ""),
        }
        for item in (document.get("extras") or {}).get(PLUGIN) or ()
        if name in item.get("taskroles", [name])
    )
    return plugins


def _as_read(plugin: dict[str, Any], view: Mapping[str, Any]) -> dict[str, Any]:
    """Return a plugin with its parameters filled in, except secrets, which are filled in at task start."""
    try:
        return {**plugin, "parameters": _read_parameters(plugin["parameters"], view)}
    except ValueError as error:
        return {**plugin, "parameters": None, "fault": str(error)}


def _read_parameters(parameters: Any, view: Mapping[str, Any]) -> Any:
    """Return a plugin's parameters with references filled in; references to secrets are only checked.

    Args:
        parameters: the parameters in the protocol; an empty string if the plugin has none.
        view: the values that references have in the plugin's role (`Views`).

    Raises:
        ValueError: the runtime cannot read the parameters. The message gives the reason, but no values.
    """

    def filled(tag: re.Match[str]) -> str:
        name = f"${tag[1].rstrip()}"
        value = mustache.look_up(view, mustache.steps(name))
        if value is mustache.ABSENT:
            raise ValueError(f"<% {mustache.shown(name)} %> refers to nothing")
        if not isinstance(value, str):
            raise ValueError(  # noqa: TRY004
                f"<% {mustache.shown(name)} %> is not a string, but a plugin may only refer to strings"
            )
        return tag[0] if name.startswith("$secrets") else value

    return _read(replaced(_REFERENCE, filled, str(parameters)))


def fill_plugin_secrets(value: Any, secrets: Mapping[str, Any]) -> Any:
    """Return the parameters with each reference to a secret replaced by the secret's exact value."""

    def filled(tag: re.Match[str]) -> str:
        found = mustache.look_up({"$secrets": secrets}, mustache.steps(tag[1].rstrip()))
        return found if isinstance(found, str) else tag[0]

    return mapped(value, lambda leaf: _SECRET.sub(filled, leaf) if isinstance(leaf, str) else leaf)


@lru_cache(maxsize=16)  # many roles may have the same plugin
def _read(written: str) -> Any:
    import yaml  # noqa: PLC0415  slow to import, and only needed here

    try:
        return json.loads(json.dumps(yaml.safe_load(written), default=str))
    except (yaml.YAMLError, ValueError, TypeError, RecursionError):
        raise ValueError(
            "a string in the parameters has both kinds of quotes, perhaps in the value of a reference, "
            "so 1.8's runtime cannot read the parameters"
        ) from None
