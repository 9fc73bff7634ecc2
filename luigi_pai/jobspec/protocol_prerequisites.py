"""Classes for the ``prerequisites`` of a job protocol: images, scripts, data, outputs, callbacks."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.job import UNSET, Unset
from luigi_pai.jobspec.parts import Part
from luigi_pai.jobspec.templates.callbacks import CMD_PLUGIN

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PartClass = type[Part]


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
        TypeError: a text was given in place of a list.
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
