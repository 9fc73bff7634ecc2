"""The v2 job protocol as Python classes that can be read from and written to YAML.

The fields have the same names as in the protocol. OpenPAI's manual describes them ("Job protocol" and
"How to use advanced job settings"), and ``validate_protocol`` checks them. ``UNSET`` fields are not written.
A field whose default is an empty list, mapping or part is written only if it is not empty or if the document
that was read contained it. None is written as ``null``.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.dialects.yaml_text import Document, decoded, read_yaml, write_yaml
from luigi_pai.jobspec.job import UNSET, Unset
from luigi_pai.jobspec.parts import Part, part_from, plain
from luigi_pai.jobspec.protocol_parts import (
    Callback,
    DockerImage,
    Extras,
    HivedRole,
    HivedScheduler,
    LocalStorage,
    Prerequisite,
    RegistryAuth,
    RuntimePlugin,
    StatusNotification,
    Storage,
)

if TYPE_CHECKING:
    import os

    from luigi_pai.jobspec.paths import Path

__all__ = [
    "Callback",
    "Completion",
    "ContainerOptions",
    "Defaults",
    "Deployment",
    "DockerImage",
    "Extras",
    "HivedRole",
    "HivedScheduler",
    "JobProtocol",
    "LocalStorage",
    "Prerequisite",
    "RegistryAuth",
    "Resources",
    "Role",
    "RoleCommands",
    "RuntimePlugin",
    "StatusNotification",
    "Storage",
]


@dataclass(eq=False, repr=False, kw_only=True)
class Resources(Part):
    """The resources of each of a role's instances.

    Args:
        cpu: The number of CPUs.
        memoryMB: The memory in MB.
        gpu: The number of GPUs.
        ports: Label -> number of ports; every instance also has ``ssh`` and ``http``.
    """

    cpu: int
    memoryMB: int
    gpu: int = 0
    ports: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False, repr=False, kw_only=True)
class Completion(Part):
    """How many of a role's instances must fail or succeed to end the job; -1 and None mean never.

    Args:
        minFailedInstances: How many instances must fail for the job to fail; the server's default is 1.
        minSucceededInstances: How many instances must succeed for the job to complete; the server's default
            is all.
    """

    minFailedInstances: int | Unset | None = UNSET
    minSucceededInstances: int | Unset | None = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class ContainerOptions(Part):
    """Additional options for a role's containers.

    Args:
        shmMB: The shared memory in MB; the default is 512 on OpenPAI, 16384 on LTP.
        infiniband: Whether the container gets its host's InfiniBand devices.
    """

    shmMB: int | Unset = UNSET
    infiniband: bool | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class Role(Part):
    """A group of instances that run the same commands with the same resources.

    Args:
        dockerImage: The name of a prerequisite of type dockerimage.
        commands: The shell commands, at least one.
        resourcePerInstance: The resources of each instance.
        instances: The number of instances. The default, 1, is also sent, because release 1.8 responds with
            500 if a role lacks this field.
        completion: How many instances must fail or succeed to end the job.
        taskRetryCount: How often to restart an instance; works only with ``gangAllocation: false``.
        prerequisites: The names of prerequisites whose callbacks run in each instance, in this order (1.6 and
            later).
        data: The name of the prerequisite of type data to which ``<% $data... %>`` in the commands refers.
        output: The name of the prerequisite of type output to which ``<% $output... %>`` refers.
        script: The name of the prerequisite of type script to which ``<% $script... %>`` refers.
        extraContainerOptions: Shared memory and InfiniBand.
    """

    dockerImage: str = field(kw_only=False)
    commands: list[str]
    resourcePerInstance: Resources
    instances: int | Unset = 1
    completion: Completion = field(default_factory=Completion)
    taskRetryCount: int | Unset = UNSET
    prerequisites: list[str] = field(default_factory=list)
    data: str | Unset = UNSET
    output: str | Unset = UNSET
    script: str | Unset = UNSET
    extraContainerOptions: ContainerOptions = field(default_factory=ContainerOptions)
    protocolVersion: int | str | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class RoleCommands(Part):
    """Commands that a deployment runs before and after a role's commands."""

    preCommands: list[str] = field(default_factory=list)
    postCommands: list[str] = field(default_factory=list)


@dataclass(eq=False, repr=False, kw_only=True)
class Deployment(Part):
    """Commands to run before and after the roles' commands; ``defaults.deployment`` selects a deployment.

    Args:
        name: The deployment's name.
        taskRoles: Role -> its additional commands.
    """

    name: str = field(kw_only=False)
    taskRoles: dict[str, RoleCommands] = field(default_factory=dict)
    protocolVersion: int | str | Unset = UNSET
    version: str | float | Unset = UNSET
    contributor: str | Unset = UNSET
    description: str | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class Defaults(Part):
    """The job's virtual cluster and deployment."""

    virtualCluster: str | Unset = UNSET
    deployment: str | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class JobProtocol(Part):
    """A job of the v2 API, for OpenPAI 0.15 to 1.8 and for LTP.

    Args:
        name: The job's name: letters, digits, ``-`` and ``_``; unique among the user's jobs.
        taskRoles: Name -> task role, at least one.
        prerequisites: The images, scripts, data and outputs that roles refer to.
        parameters: The values for ``<% $parameters.key %>`` in commands.
        secrets: The values for ``<% $secrets.key %>``. No repr, log or error contains them.
        jobType: ``inference``, ``training`` or ``others`` (LTP 1.4 and later; other servers reject it). An
            inference job needs the parameters INTERNAL_SERVER_IP, INTERNAL_SERVER_PORT and API_KEY.
        jobRetryCount: How often the cluster restarts a failed job.
        deployments: Additional commands for the roles.
        defaults: The virtual cluster and the deployment.
        extras: Plugins, storages and other fields outside the protocol's core.
        version: The author's version of the job.
        contributor: The author's name.
        description: The job's purpose.
        protocolVersion: 2.
        type: ``job``.
    """

    protocolVersion: int | str = 2
    name: str = field(kw_only=False)
    type: str = "job"
    version: str | float | Unset = UNSET
    contributor: str | Unset = UNSET
    description: str | Unset = UNSET
    jobType: str | Unset = UNSET
    parameters: dict[str, Any] = field(default_factory=dict)
    secrets: dict[str, Any] = field(default_factory=dict, metadata={"hidden": True})
    jobRetryCount: int | Unset = UNSET
    prerequisites: list[Prerequisite] = field(default_factory=list)
    taskRoles: dict[str, Role] = field(default_factory=dict)
    deployments: list[Deployment] = field(default_factory=list)
    defaults: Defaults = field(default_factory=Defaults)
    extras: Extras = field(default_factory=Extras)
    _text: Document | None = field(default=None, init=False)

    @classmethod
    def from_yaml(cls, text: str, source: str = "") -> JobProtocol:
        """Read a protocol from YAML, as OpenPAI does.

        Args:
            text: One YAML document.
            source: The file's name, for errors.

        Raises:
            SpecError: ``text`` is not YAML, a value has an invalid shape, servers drop or change a value, or
                OpenPAI and LTP read a value differently (such as ``012`` and ``1:30``).
        """
        document = read_yaml(text, source)
        found = part_from(cls, document.value, document.lines)
        found._text = document  # noqa: SLF001  its own
        return found

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> JobProtocol:
        """Read a protocol from a file.

        Raises:
            OSError: The file cannot be read.
            SpecError: See ``from_yaml``. Also raised if the file is not UTF-8.
        """
        return cls.from_yaml(decoded(FilePath(path).read_bytes(), str(path)), str(path))

    def to_yaml(self, document: dict[str, Any] | None = None) -> str:
        """Return the YAML that was read, or new YAML if none was read or a value has changed.

        If you have already called ``to_dict``, pass its result as ``document``.

        Raises:
            SpecError: A value cannot be written as JSON.
        """
        document = self.to_dict() if document is None else document
        if isinstance(self._text, Document) and _as_text(document) == _as_text(self._text.value):
            return self._text.text
        return write_yaml(document)

    @property
    def lines(self) -> Mapping[Path, int]:
        """Each value's path -> its line in the YAML that was read, from 1; empty if no YAML was read."""
        return {} if self._text is None else self._text.lines

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Scalars in the YAML that servers read in a surprising way."""
        return () if self._text is None else tuple(self._text.warnings)

    def renamed(self, name: str) -> JobProtocol:
        """Return a copy with another name."""
        other = copy.deepcopy(self)
        other.name = name
        return other

    def filled(
        self, parameters: Mapping[str, Any] | None = None, secrets: Mapping[str, Any] | None = None
    ) -> JobProtocol:
        """Return a copy with these parameters and secrets, which replace existing ones with the same names.

        Args:
            parameters: Name -> value; Luigi parameters' values are converted to JSON values.
            secrets: Name -> value, converted in the same way.

        Raises:
            SpecError: A value cannot be converted to a JSON value, or an argument is not a mapping.
        """
        for path, given in (("parameters", parameters), ("secrets", secrets)):
            if not isinstance(given or {}, Mapping):
                kind = type(given).__name__
                raise SpecError(self.name, [Problem(path, f"must be a dict of names to values, not {kind}")])
        other = copy.deepcopy(self)
        other.parameters = {**other.parameters, **plain(parameters or {}, ("parameters",))}
        other.secrets = {**other.secrets, **plain(secrets or {}, ("secrets",))}
        return other


def _as_text(document: Any) -> str:
    """Convert a document to a string for comparison. Keys are sorted, and True differs from 1."""
    return json.dumps(document, sort_keys=True)
