"""Classes for the ``extras`` of a job protocol: runtime plugins, storages, scheduler, notifications."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.job import UNSET, Unset
from luigi_pai.jobspec.parts import Part, shaped
from luigi_pai.jobspec.protocol_prerequisites import callbacks_of
from luigi_pai.jobspec.templates.callbacks import PLUGIN

if TYPE_CHECKING:
    from collections.abc import Sequence

NOTIFICATION = "jobStatusChangeNotification"
"""The field of extras with the changes of state that the user is notified of."""


@dataclass(eq=False, repr=False, kw_only=True)
class RuntimePlugin(Part):
    """A plugin of the runtime in the containers.

    Args:
        plugin: ``ssh``, ``cmd``, ``tensorboard``, ``git``, ``teamwise_storage``; on LTP 1.2 and later
            ``dind``.
        parameters: of the plugin.
        taskroles: roles that it works in; all if there are none.
        failurePolicy: ``fail`` (the default) or ``ignore``.
    """

    plugin: str = field(kw_only=False)
    parameters: Any = field(default=UNSET, metadata={"hidden": True})
    taskroles: list[str] = field(default_factory=list, metadata=shaped("list", lenient=True))
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
        """Return the plugin for SSH between the containers, and from outside.

        Args:
            jobssh: the containers reach each other as ``ROLE-INDEX``.
            sshbarrier: the commands wait until all containers can be reached.
            sshbarrierTimeout: longest wait, in minutes; the server's default is 300.
            userssh: a public key that may log in from outside.
            taskroles: roles that it works in; all if there are none.
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
        """Return the plugin that runs commands before a role's own and after their success.

        Args:
            on_start: commands before.
            on_success: commands after.
            taskroles: roles that it works in; all if there are none.
            failurePolicy: ``fail`` or ``ignore``.
        """
        callbacks = [callback.to_dict() for callback in callbacks_of(on_start, on_success)]
        return cls(
            "cmd", parameters={"callbacks": callbacks}, taskroles=list(taskroles), failurePolicy=failurePolicy
        )


@dataclass(eq=False, repr=False, kw_only=True)
class Storage(Part):
    """A storage of the cluster, mounted in every container.

    Args:
        name: as the cluster calls it.
        mountPath: where; ``/mnt/NAME`` on the server.
        readOnly: nothing can be written. 1.8 writes over it what the storage's own configuration has.
        share: False: a folder of the user in it. 1.8 writes over it, too.
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
        affinityGroupName: roles with the same one are placed together.
        pinnedCellId: cell of the cluster's configuration to run in.
    """

    skuType: str | Unset | None = UNSET
    skuNum: int | Unset = UNSET
    affinityGroupName: str | Unset | None = UNSET
    pinnedCellId: str | Unset | None = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class HivedScheduler(Part):
    """A job's request to the HiveD scheduler.

    Args:
        jobPriorityClass: ``prod``, ``test`` or ``oppo``; left out, the default priority, that of ``test``.
            LTP accepts ``prod`` only from users with permission.
        taskRoles: role -> its request.
    """

    jobPriorityClass: str | Unset = UNSET
    taskRoles: dict[str, HivedRole] = field(
        default_factory=dict, metadata=shaped("mapping", HivedRole, lenient=True)
    )


@dataclass(eq=False, repr=False, kw_only=True)
class LocalStorage(Part):
    """Folders of the node, mounted in every container (LTP).

    Args:
        enabled: they are mounted only if this is True.
        hostpath: paths on the node, separated by ``:``.
        mntpath: as many paths in the container, separated by ``:``.
    """

    enabled: bool | Unset = True
    hostpath: str | Unset = UNSET
    mntpath: str | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class StatusNotification(Part):
    """Changes of the job's state that the cluster notifies its user of (1.5 and later)."""

    running: bool | Unset = UNSET
    succeeded: bool | Unset = UNSET
    stopped: bool | Unset = UNSET
    failed: bool | Unset = UNSET
    retried: bool | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class Extras(Part):
    """Fields outside of the protocol's core; the server accepts any value here.

    Args:
        runtimePlugins: ``com.microsoft.pai.runtimeplugin``.
        storages: mounts; an empty list mounts the user's default storages; left out, none is mounted.
        gangAllocation: whether all instances start together, the default, or each when it can.
        hivedScheduler: request to the HiveD scheduler.
        jobStatusChangeNotification: changes that the user is notified of.
        tensorBoard: of the web portal.
        submitFrom: the program that submitted the job.
        enableLocalStorage: folders of the node to mount (LTP).
        forceNodes: nodes to run on, separated by commas; each closed to other jobs (LTP).
        allowAzCopy: the containers get the credentials of AzCopy (LTP 1.2 and later).
    """

    runtimePlugins: list[RuntimePlugin] = field(
        default_factory=list, metadata=shaped("list", RuntimePlugin, lenient=True, key=PLUGIN)
    )
    storages: list[Storage] | Unset = field(default=UNSET, metadata=shaped("list", Storage, lenient=True))
    gangAllocation: bool | Unset = UNSET
    hivedScheduler: HivedScheduler = field(
        default_factory=HivedScheduler, metadata=shaped("object", HivedScheduler, lenient=True)
    )
    jobStatusChangeNotification: StatusNotification = field(
        default_factory=StatusNotification, metadata=shaped("object", StatusNotification, lenient=True)
    )
    tensorBoard: Any = UNSET
    submitFrom: Any = UNSET
    enableLocalStorage: LocalStorage | Unset = field(
        default=UNSET, metadata=shaped("object", LocalStorage, lenient=True)
    )
    forceNodes: str | Unset = UNSET
    allowAzCopy: bool | Unset = UNSET
