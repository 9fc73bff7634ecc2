"""Classes for the ``prerequisites`` and the ``extras`` of a job protocol.

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
"""The field of extras that selects the state changes for which the cluster notifies the user."""


@dataclass(eq=False, repr=False, kw_only=True)
class Callback(Part):
    """Commands that a plugin runs on an event.

    Args:
        event: ``taskStarts`` or ``taskSucceeds``.
        commands: shell commands.
    """

    event: str = field(kw_only=False)
    commands: list[str] = field(kw_only=False, metadata={"hidden": True})


def callbacks_of(on_start: Sequence[str], on_success: Sequence[str]) -> list[Callback]:
    """Return the callbacks that run these commands.

    Raises:
        TypeError: a text was given instead of a list.
    """
    events = {"taskStarts": on_start, "taskSucceeds": on_success}
    for event, commands in events.items():
        if isinstance(commands, str):
            raise TypeError(f"{event}: is a text; it must be a list of commands")
    return [Callback(event, list(commands)) for event, commands in events.items() if commands]


@dataclass(eq=False, repr=False, kw_only=True)
class Prerequisite(Part):
    """A script, data or an output that roles use.

    Args:
        name: unique among the prerequisites of its type.
        type: ``script``, ``data`` or ``output``; for ``dockerimage``, use DockerImage.
        uri: its address; for ``data``, a list of addresses.
        plugin: a runtime plugin (1.6 and later). ``com.microsoft.pai.runtimeplugin.cmd`` runs callbacks, and
            is the default if there are callbacks.
        require: names of prerequisites whose callbacks run before the callbacks of this prerequisite.
        failurePolicy: ``fail`` (the default) or ``ignore``.
        callbacks: commands that run at the start of a task, or after its success (1.6 and later).
        more: further keys; ``uri`` and ``callbacks`` can refer to them by ``<% this.parameters.key %>``.
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
        """Return a prerequisite that runs commands in each task of its roles.

        Args:
            name: name of the prerequisite.
            on_start: commands that run before the commands of the role, in this order.
            on_success: commands that run after the commands of the role have succeeded.
            fields: values of any other fields of Prerequisite.
        """
        callbacks = callbacks_of(on_start, on_success)
        return cls(name, **{"plugin": CMD_PLUGIN, "callbacks": callbacks, **fields})


@dataclass(eq=False, repr=False, kw_only=True)
class RegistryAuth(Part):
    """An account of a Docker registry; write the password as ``<% $secrets.name %>``."""

    username: str | Unset = UNSET
    password: str | Unset = field(default=UNSET, metadata={"hidden": True})
    registryuri: str | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class DockerImage(Prerequisite):
    """A Docker image that roles run in.

    Args:
        name: the name by which roles refer to it.
        uri: the image, as in ``docker pull``.
        auth: account of the image's registry.
    """

    uri: str = field(kw_only=False)
    type: str = "dockerimage"
    auth: RegistryAuth = field(default_factory=RegistryAuth)


@dataclass(eq=False, repr=False, kw_only=True)
class RuntimePlugin(Part):
    """A plugin of the runtime in the containers.

    Args:
        plugin: the plugin's name, ``ssh``, ``cmd``, ``tensorboard``, ``git`` or ``teamwise_storage``; on
            LTP 1.2 and later, also ``dind``.
        parameters: the plugin's parameters.
        taskroles: roles in which the plugin works; all if the list is empty.
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
        """Return the plugin that permits SSH between the containers, and from outside to the containers.

        Args:
            jobssh: whether the containers can reach each other, by the names ``ROLE-INDEX``.
            sshbarrier: whether the commands wait until all containers can be reached.
            sshbarrierTimeout: how long they wait at most, in minutes; the server's default is 300.
            userssh: a public SSH key; with its private key, a user can log in from outside.
            taskroles: roles in which the plugin works; all if the list is empty.
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
        """Return the plugin that runs commands before a role's own commands, and after these have succeeded.

        Args:
            on_start: commands before the role's own.
            on_success: commands after the role's own have succeeded.
            taskroles: roles in which the plugin works; all if the list is empty.
            failurePolicy: ``fail`` or ``ignore``.
        """
        callbacks = [callback.to_dict() for callback in callbacks_of(on_start, on_success)]
        return cls(
            "cmd", parameters={"callbacks": callbacks}, taskroles=list(taskroles), failurePolicy=failurePolicy
        )


@dataclass(eq=False, repr=False, kw_only=True)
class Storage(Part):
    """A storage of the cluster that is mounted in every container.

    Args:
        name: the storage's name on the cluster.
        mountPath: folder in the containers; the server's default is ``/mnt/NAME``.
        readOnly: True forbids writing. Release 1.8 ignores the value, and uses the cluster's setting.
        share: False mounts only the user's folder in the storage. Release 1.8 also ignores this value.
    """

    name: str = field(kw_only=False)
    mountPath: str | Unset = UNSET
    readOnly: bool | Unset = UNSET
    share: bool | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class HivedRole(Part):
    """A role's request to the HiveD scheduler.

    Args:
        skuType: kind of SKU; any if None.
        skuNum: SKUs of one instance.
        affinityGroupName: roles with the same group name are placed together.
        pinnedCellId: ID of the cell to run in, from the cluster's configuration.
    """

    skuType: str | Unset | None = UNSET
    skuNum: int | Unset = UNSET
    affinityGroupName: str | Unset | None = UNSET
    pinnedCellId: str | Unset | None = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class HivedScheduler(Part):
    """A job's request to the HiveD scheduler.

    Args:
        jobPriorityClass: ``prod``, ``test`` or ``oppo``; if it is left out, the priority is ``test``.
            LTP accepts ``prod`` only from users with permission.
        taskRoles: name of a role -> the request of the role.
    """

    _is_lenient = True

    jobPriorityClass: str | Unset = UNSET
    taskRoles: dict[str, HivedRole] = field(default_factory=dict)


@dataclass(eq=False, repr=False, kw_only=True)
class LocalStorage(Part):
    """Folders of the nodes that LTP mounts in every container.

    Args:
        enabled: the folders are mounted only if this is True.
        hostpath: paths on the node, separated by ``:``.
        mntpath: paths in the container, as many as in ``hostpath``, separated by ``:``.
    """

    enabled: bool | Unset = True
    hostpath: str | Unset = UNSET
    mntpath: str | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class StatusNotification(Part):
    """State changes of a job for which the cluster notifies the user (1.5 and later)."""

    running: bool | Unset = UNSET
    succeeded: bool | Unset = UNSET
    stopped: bool | Unset = UNSET
    failed: bool | Unset = UNSET
    retried: bool | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class Extras(Part):
    """Fields outside of the protocol's core; the server accepts any value here.

    Args:
        runtimePlugins: plugins of the runtime, in the field ``com.microsoft.pai.runtimeplugin``.
        storages: storages to mount. If the list is empty, the user's default storages are mounted; if the
            field is left out, no storages are mounted.
        gangAllocation: if True (the default), all instances start together; else each as soon as it can.
        hivedScheduler: request to the HiveD scheduler.
        jobStatusChangeNotification: state changes for which the cluster notifies the user.
        tensorBoard: a field that the web portal uses.
        submitFrom: the program that submitted the job.
        enableLocalStorage: folders of the node to mount (LTP).
        forceNodes: nodes to run on, separated by commas; each must be cordoned (LTP).
        allowAzCopy: whether the containers get the credentials of AzCopy (LTP 1.2 and later).
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
