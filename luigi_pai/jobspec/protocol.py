"""The v2 job protocol as Python classes, read from and written to YAML.

The fields have the names that the protocol gives them. OpenPAI's manual describes them ("Job protocol", and
"How to use advanced job settings"), and ``validate_protocol`` checks them. ``UNSET`` fields
are not written. If the default of a field is an empty list, mapping or part, the field is written only if it
is not empty, or if the document that was read had the field. None is written as ``null``.
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
    """Resources of each instance of a role.

    Args:
        cpu: CPUs.
        memoryMB: memory in MB.
        gpu: GPUs.
        ports: label -> number of ports; ``ssh`` and ``http`` are always there.
    """

    cpu: int
    memoryMB: int
    gpu: int = 0
    ports: dict[str, int] = field(default_factory=dict)


@dataclass(eq=False, repr=False, kw_only=True)
class Completion(Part):
    """How many failed or succeeded instances of a role end the job; -1 and None mean never.

    Args:
        minFailedInstances: failed instances that fail the job; the server's default is 1.
        minSucceededInstances: succeeded instances that complete it; the server's default is all.
    """

    minFailedInstances: int | Unset | None = UNSET
    minSucceededInstances: int | Unset | None = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class ContainerOptions(Part):
    """Further options of a role's containers.

    Args:
        shmMB: shared memory in MB; the default is 512 on OpenPAI, 16384 on LTP.
        infiniband: whether the container gets the InfiniBand devices of its host.
    """

    shmMB: int | Unset = UNSET
    infiniband: bool | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class Role(Part):
    """A group of instances that run the same commands with the same resources.

    Args:
        dockerImage: name of a prerequisite of type dockerimage.
        commands: shell commands, at least one.
        resourcePerInstance: what each instance gets.
        instances: number of instances. The default, 1, is also sent, because release 1.8 answers 500 if a
            role does not have this field.
        completion: how many failed or succeeded instances end the job.
        taskRetryCount: how often an instance is started again; works only with ``gangAllocation: false``.
        prerequisites: names of prerequisites whose callbacks run in each instance, in this order (1.6 on).
        data: name of the prerequisite of type data to which ``<% $data... %>`` in the commands refers.
        output: name of the prerequisite of type output to which ``<% $output... %>`` refers.
        script: name of the prerequisite of type script to which ``<% $script... %>`` refers.
        extraContainerOptions: shared memory, InfiniBand.
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
    """Commands that a deployment runs before and after the commands of a role."""

    preCommands: list[str] = field(default_factory=list)
    postCommands: list[str] = field(default_factory=list)


@dataclass(eq=False, repr=False, kw_only=True)
class Deployment(Part):
    """Commands to run before and after the roles' commands; ``defaults.deployment`` selects one deployment.

    Args:
        name: name of the deployment.
        taskRoles: role -> its additional commands.
    """

    name: str = field(kw_only=False)
    taskRoles: dict[str, RoleCommands] = field(default_factory=dict)
    protocolVersion: int | str | Unset = UNSET
    version: str | float | Unset = UNSET
    contributor: str | Unset = UNSET
    description: str | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class Defaults(Part):
    """Virtual cluster and deployment of the job."""

    virtualCluster: str | Unset = UNSET
    deployment: str | Unset = UNSET


@dataclass(eq=False, repr=False, kw_only=True)
class JobProtocol(Part):
    """A job of the v2 API, for OpenPAI 0.15 to 1.8 and for LTP.

    Args:
        name: name of the job, of letters, digits, ``-`` and ``_``; it is unique among the user's jobs.
        taskRoles: name -> task role, at least one.
        prerequisites: images, scripts, data and outputs that roles refer to.
        parameters: values for ``<% $parameters.key %>`` in commands.
        secrets: values for ``<% $secrets.key %>``; no repr, log or error contains them.
        jobType: ``inference``, ``training`` or ``others`` (LTP 1.4 and later; other servers refuse it). An
            inference job needs the parameters INTERNAL_SERVER_IP, INTERNAL_SERVER_PORT and API_KEY.
        jobRetryCount: how often the cluster starts a failed job again.
        deployments: additional commands of the roles.
        defaults: virtual cluster and deployment.
        extras: plugins, storages and other fields outside of the protocol's core.
        version: the author's version of the job.
        contributor: the author's name.
        description: the job's purpose.
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
        """Read a protocol from YAML as OpenPAI does.

        Args:
            text: one YAML document.
            source: a file's name, for errors.

        Raises:
            SpecError: the text is not YAML, a value has an invalid shape, servers lose or change a value, or
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
            OSError: the file cannot be read.
            SpecError: ``from_yaml`` raises it, or the file is not UTF-8.
        """
        return cls.from_yaml(decoded(FilePath(path).read_bytes(), str(path)), str(path))

    def to_yaml(self, document: dict[str, Any] | None = None) -> str:
        """Return the YAML text that was read. If there is none, or a value was changed, return a new text.

        If the caller has already called ``to_dict``, its result is given as ``document``.

        Raises:
            SpecError: a value cannot be written as JSON.
        """
        document = self.to_dict() if document is None else document
        if isinstance(self._text, Document) and _as_text(document) == _as_text(self._text.value):
            return self._text.text
        return write_yaml(document)

    @property
    def lines(self) -> Mapping[Path, int]:
        """Path of each value -> its line in the text that was read, from 1; empty if no text was read."""
        return {} if self._text is None else self._text.lines

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Scalars of the text that servers read in a surprising way."""
        return () if self._text is None else tuple(self._text.warnings)

    def renamed(self, name: str) -> JobProtocol:
        """Return a copy under another name."""
        other = copy.deepcopy(self)
        other.name = name
        return other

    def filled(
        self, parameters: Mapping[str, Any] | None = None, secrets: Mapping[str, Any] | None = None
    ) -> JobProtocol:
        """Return a copy with these parameters and secrets, which replace earlier values of the same names.

        Args:
            parameters: name -> value; values of Luigi parameters are converted to JSON values.
            secrets: name -> value; values are converted in the same way.

        Raises:
            SpecError: a value cannot be converted to a JSON value, or an argument is not a mapping.
        """
        for path, given in (("parameters", parameters), ("secrets", secrets)):
            if not isinstance(given or {}, Mapping):
                kind = type(given).__name__
                raise SpecError(self.name, [Problem(path, f"are a {kind}, not a dict of names and values")])
        other = copy.deepcopy(self)
        other.parameters = {**other.parameters, **plain(parameters or {}, ("parameters",))}
        other.secrets = {**other.secrets, **plain(secrets or {}, ("secrets",))}
        return other


def _as_text(document: Any) -> str:
    """Return a document as text to compare: keys are sorted, and True differs from 1, unlike in Python."""
    return json.dumps(document, sort_keys=True)
