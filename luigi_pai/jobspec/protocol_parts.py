"""Classes for a job protocol's ``prerequisites`` and ``extras``.

Prerequisites are images, scripts, data, outputs and callbacks. Extras are runtime plugins, storages, the
scheduler and notifications.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.job import UNSET, Unset
from luigi_pai.jobspec.parts import Part
from luigi_pai.jobspec.templates.prerequisites import CMD_PLUGIN, PLUGIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PartClass = type[Part]

NOTIFICATION = "jobStatusChangeNotification"
"""The field in extras that selects the state changes about which the cluster notifies the user."""


@dataclass(eq=False, repr=False, kw_only=True)
class Callback(Part):
    """Commands that a plugin runs when an event occurs.

    Args:
        event: ``taskStarts`` or ``taskSucceeds``.
        commands: Shell commands.
    """

    event: str = field(kw_only=False)
    commands: list[str] = field(kw_only=False, metadata={"hidden": True})


def callbacks_of(on_start: Sequence[str], on_success: Sequence[str]) -> list[Callback]:
    """Create the callbacks that run these commands.

    Raises:
        TypeError: An argument is a string instead of a list.
    """
    events = {"taskStarts": on_start, "taskSucceeds": on_success}
    for event, commands in events.items():
        if isinstance(commands, str):
            raise TypeError(f"{event}: must be a list of commands, not a string")
    return [Callback(event, list(commands)) for event, commands in events.items() if commands]


@dataclass(eq=False, repr=False, kw_only=True)
class Prerequisite(Part):
    """A script, data or output that roles use.

    Args:
        name: The name, unique among the prerequisites of its type.
        type: ``script``, ``data`` or ``output``; for ``dockerimage``, use DockerImage.
        uri: The address; for ``data``, a list of addresses.
        plugin: A runtime plugin (1.6 and later). ``com.microsoft.pai.runtimeplugin.cmd`` runs callbacks, and
            is the default if there are callbacks.
        require: Names of prerequisites whose callbacks run before this prerequisite's callbacks.
        failurePolicy: ``fail`` (the default) or ``ignore``.
        callbacks: Commands that run when a task starts, or after it succeeds (1.6 and later).
        more: Additional keys; ``uri`` and ``callbacks`` can refer to them as ``<% this.parameters.key %>``.
    """

    name: str = field(kw_only=False)
    type: str = "script"
    uri: str | list[str] | Unset = UNSET
    plugin: str | Unset = UNSET
    require: list[str] = field(default_factory=list)
    failurePolicy: str | Unset = UNSET
    callbacks: list[Callback] = field(default_factory=list)
    protocolVersion: int | str | Unset = UNSET
    version: str | float | Unset = UNSET
    contributor: str | Unset = UNSET
    description: str | Unset = UNSET

    @classmethod
    def _class_for(cls, document: Mapping[str, Any]) -> PartClass:
        return DockerImage if document.get("type") == "dockerimage" else cls

    @classmethod
    def cmd(
        cls,
        name: str,
        *,
        on_start: Sequence[str] = (),
        on_success: Sequence[str] = (),
        **fields: Any,
    ) -> Prerequisite:
        """Create a prerequisite that runs commands in every task of its roles.

        Args:
            name: The prerequisite's name.
            on_start: Commands that run before the role's own commands, in this order.
            on_success: Commands that run after the role's own commands have succeeded.
            fields: Values for any other fields of Prerequisite.
        """
        callbacks = callbacks_of(on_start, on_success)
        return cls(name, **{"plugin": CMD_PLUGIN, "callbacks": callbacks, **fields})


@dataclass(eq=False, repr=False, kw_only=True)
class RegistryAuth(Part):
    """An account at a Docker registry; write the password as ``<% $secrets.name %>``."""

    username: str | Unset = UNSET
    password: str | Unset = field(default=UNSET, metadata={"hidden": True})
    registryuri: str | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class DockerImage(Prerequisite):
    """A Docker image that roles run in.

    Args:
        name: The name by which roles refer to it.
        uri: The image, as in ``docker pull``.
        auth: An account at the image's registry.
    """

    uri: str = field(kw_only=False)
    type: str = "dockerimage"
    auth: RegistryAuth = field(default_factory=RegistryAuth)


@dataclass(eq=False, repr=False, kw_only=True)
class RuntimePlugin(Part):
    """A plugin for the runtime in the containers.

    Args:
        plugin: The plugin's name, ``ssh``, ``cmd``, ``tensorboard``, ``git`` or ``teamwise_storage``; on
            LTP 1.2 and later, also ``dind``.
        parameters: The plugin's parameters.
        taskroles: The roles in which the plugin works; all roles if the list is empty.
        failurePolicy: ``fail`` (the default) or ``ignore``.
    """

    _is_lenient = True

    plugin: str = field(kw_only=False)
    parameters: Any = field(default=UNSET, metadata={"hidden": True})
    taskroles: list[str] = field(default_factory=list)
    failurePolicy: str | Unset = UNSET

    @classmethod
    def ssh(
        cls,
        *,
        jobssh: bool = True,
        sshbarrier: bool | Unset = UNSET,
        sshbarrierTimeout: int | Unset = UNSET,
        userssh: str | Unset = UNSET,
        taskroles: Sequence[str] = (),
        failurePolicy: str | Unset = UNSET,
    ) -> RuntimePlugin:
        """Create the plugin that enables SSH between the containers, and from outside into the containers.

        Args:
            jobssh: Whether the containers can reach each other under the names ``ROLE-INDEX``.
            sshbarrier: Whether the commands wait until all containers can be reached.
            sshbarrierTimeout: The maximum wait in minutes; the server's default is 300.
            userssh: A public SSH key. With its private key, you can log in from outside.
            taskroles: Roles in which the plugin works; all if the list is empty.
            failurePolicy: ``fail`` or ``ignore``.
        """
        user = UNSET if isinstance(userssh, Unset) else {"type": "custom", "value": userssh}
        given = {
            "jobssh": jobssh,
            "sshbarrier": sshbarrier,
            "sshbarrierTimeout": sshbarrierTimeout,
            "userssh": user,
        }
        parameters = {key: value for key, value in given.items() if value is not UNSET}
        return cls("ssh", parameters=parameters, taskroles=list(taskroles), failurePolicy=failurePolicy)

    @classmethod
    def cmd(
        cls,
        *,
        on_start: Sequence[str] = (),
        on_success: Sequence[str] = (),
        taskroles: Sequence[str] = (),
        failurePolicy: str | Unset = UNSET,
    ) -> RuntimePlugin:
        """Create the plugin that runs commands before a role's own commands, and after these have succeeded.

        Args:
            on_start: The commands to run before the role's own commands.
            on_success: The commands to run after the role's own commands have succeeded.
            taskroles: Roles in which the plugin works; all if the list is empty.
            failurePolicy: ``fail`` or ``ignore``.
        """
        callbacks = [callback.to_dict() for callback in callbacks_of(on_start, on_success)]
        return cls(
            "cmd", parameters={"callbacks": callbacks}, taskroles=list(taskroles), failurePolicy=failurePolicy
        )


@dataclass(eq=False, repr=False, kw_only=True)
class Storage(Part):
    """One of the cluster's storages, mounted in every container.

    Args:
        name: The storage's name on the cluster.
        mountPath: The folder in the containers; the server's default is ``/mnt/NAME``.
        readOnly: Whether containers can only read it. Release 1.8 uses the cluster's setting instead.
        share: If False, only the user's folder on the storage is mounted. Release 1.8 also ignores this
            value.
    """

    name: str = field(kw_only=False)
    mountPath: str | Unset = UNSET
    readOnly: bool | Unset = UNSET
    share: bool | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class HivedRole(Part):
    """A role's request to the HiveD scheduler.

    Args:
        skuType: The kind of SKU; any if None.
        skuNum: The number of SKUs per instance.
        affinityGroupName: The group's name; roles with the same one are placed together.
        pinnedCellId: The ID of the cell to run in, from the cluster's configuration.
    """

    skuType: str | Unset | None = UNSET
    skuNum: int | Unset = UNSET
    affinityGroupName: str | Unset | None = UNSET
    pinnedCellId: str | Unset | None = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class HivedScheduler(Part):
    """A job's request to the HiveD scheduler.

    Args:
        jobPriorityClass: ``prod``, ``test`` or ``oppo``; if omitted, the priority is ``test``.
            LTP accepts ``prod`` only from users with permission.
        taskRoles: Role name -> the role's request.
    """

    _is_lenient = True

    jobPriorityClass: str | Unset = UNSET
    taskRoles: dict[str, HivedRole] = field(default_factory=dict)


@dataclass(eq=False, repr=False, kw_only=True)
class LocalStorage(Part):
    """Folders on the nodes that LTP mounts in every container.

    Args:
        enabled: Whether the folders are mounted.
        hostpath: Paths on the node, separated by ``:``.
        mntpath: Paths in the container, as many as in ``hostpath``, separated by ``:``.
    """

    enabled: bool | Unset = True
    hostpath: str | Unset = UNSET
    mntpath: str | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class StatusNotification(Part):
    """A job's state changes about which the cluster notifies the user (1.5 and later)."""

    running: bool | Unset = UNSET
    succeeded: bool | Unset = UNSET
    stopped: bool | Unset = UNSET
    failed: bool | Unset = UNSET
    retried: bool | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class Extras(Part):
    """Fields outside the protocol's core. The server accepts any value here.

    Args:
        runtimePlugins: Runtime plugins, in the ``com.microsoft.pai.runtimeplugin`` field.
        storages: Storages to mount. If the list is empty, the user's default storages are mounted; if the
            field is left out, no storages are mounted.
        gangAllocation: If True (the default), all instances start together; otherwise each starts as soon as
            it can.
        hivedScheduler: The request to the HiveD scheduler.
        jobStatusChangeNotification: The state changes about which the cluster notifies the user.
        tensorBoard: A field that the web portal uses.
        submitFrom: The program that submitted the job.
        enableLocalStorage: Folders on the node to mount (LTP).
        forceNodes: The nodes to run on, separated by commas; each must be cordoned (LTP).
        allowAzCopy: Whether the containers get AzCopy's credentials (LTP 1.2 and later).
    """

    _is_lenient = True

    runtimePlugins: list[RuntimePlugin] = field(default_factory=list, metadata={"key": PLUGIN})
    storages: list[Storage] | Unset = UNSET
    gangAllocation: bool | Unset = UNSET
    hivedScheduler: HivedScheduler = field(default_factory=HivedScheduler)
    jobStatusChangeNotification: StatusNotification = field(default_factory=StatusNotification)
    tensorBoard: Any = UNSET
    submitFrom: Any = UNSET
    enableLocalStorage: LocalStorage | Unset = UNSET
    forceNodes: str | Unset = UNSET
    allowAzCopy: bool | Unset = UNSET
