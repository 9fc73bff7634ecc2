"""SshAccess: how to reach a job's containers by ssh, according to the server's responses."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.api.dialects.job_replies import task_index, tasks_of
from luigi_pai.api.wire.replies import objects_of
from luigi_pai.errors import InvalidReply
from luigi_pai.jobspec.paths import item_of, list_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_PLUGINS = "com.microsoft.pai.runtimeplugin"
_HOST = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:%-]*")  # no "-" at the start, because ssh reads it as an option
_PORT = re.compile(r"[0-9]{1,5}")
_LAST_PORT = 65535
_LONGEST_SHOWN = 200  # how many characters of an invalid address its error shows

Address = tuple[str, int]
"""Host and port."""


@dataclass(frozen=True)
class SshAccess:
    """How to reach a job's containers by ssh.

    Attributes:
        addresses: The ssh servers of the running containers, by role and index of the task.
        key: The private key for the login; None if users log in with their own keys.
        missing: Why no container can be reached, with advice; None if a container may be reachable.
        roles: The task roles with ssh servers; None if all roles may have ssh servers.
    """

    addresses: Mapping[tuple[str, int], Address]
    key: str | None = field(default=None, repr=False)
    missing: str | None = None
    roles: frozenset[str] | None = None


def container_access(body: Any, info: Any, key: str) -> SshAccess:
    """Return the ssh access to a job's containers on OpenPAI 0.7 to 0.14.

    Args:
        body: The response to ``GET .../jobs/NAME``, whose tasks have container ids.
        info: The response to ``GET .../jobs/NAME/ssh``, whose containers have the same ids.
        key: The private key.

    Raises:
        InvalidReply: A host or a port is not valid.
    """
    by_id = {
        str(each.get("id")): _address(each.get("sshIp"), each.get("sshPort"))
        for each in objects_of(info, "containers")
    }
    running = [((role, task_index(task)), str(task.get("containerId"))) for role, task in tasks_of(body)]
    return SshAccess({task: by_id[container] for task, container in running if container in by_id}, key)


def plugin_access(body: Any, protocol: Mapping[str, Any]) -> SshAccess:
    """Return the ssh access to a job's containers on 0.15 and later, where the ``ssh`` plugin provides it.

    Args:
        body: The response to ``GET .../jobs/NAME``; each task has an ssh port, even if no server listens.
        protocol: The job's protocol.

    Raises:
        InvalidReply: A host or a port is not valid.
    """
    plugins = [each for each in objects_of(protocol.get("extras"), _PLUGINS) if each.get("plugin") == "ssh"]
    open_to_users = [plugin for plugin in plugins if item_of(plugin.get("parameters"), "userssh")]
    if not open_to_users:
        inside = "its ssh plugin is for its containers only" if plugins else "it has no ssh plugin"
        how = "submit it with an ssh plugin that has your public key: RuntimePlugin.ssh(userssh=...)"
        return SshAccess({}, missing=f"{inside}; {how}")
    named = [list_of(plugin, "taskroles") for plugin in open_to_users]
    roles = frozenset(str(role) for some in named for role in some) if all(named) else None
    return SshAccess(
        {
            (role, task_index(task)): _address(
                task.get("containerIp"), item_of(task.get("containerPorts"), "ssh")
            )
            for role, task in tasks_of(body)
            if task.get("taskState") == "RUNNING" and (roles is None or role in roles)
        },
        roles=roles,
    )


def _address(host: Any, port: Any) -> Address:
    """Return host and port, checked because they become arguments of a command."""
    number = int(port) if isinstance(port, (int, str)) and _PORT.fullmatch(str(port)) else 0
    if not isinstance(host, str) or not _HOST.fullmatch(host) or not 0 < number <= _LAST_PORT:
        shown = f"{host!r}, port {port!r}"[:_LONGEST_SHOWN]
        raise InvalidReply(f"the server sent {shown}: not the address of an ssh server")
    return host, number
