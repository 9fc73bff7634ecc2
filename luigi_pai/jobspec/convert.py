"""Converts v1 job configs to v2 job protocols, and lists what is dropped or changed.

Compared with a v1 container, a v2 container has different variables, no HDFS, and a shell that stops at the
first failed command. Where possible, commands that run before the job's own undo these differences, and a
storage can replace HDFS. Every other difference is reported as a loss.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.jobspec.job import FS_URI, PaiJob, default_output
from luigi_pai.jobspec.names import v2_name
from luigi_pai.jobspec.paths import mapping_of
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.protocol_parts import NOTIFICATION
from luigi_pai.jobspec.storage import mount as storage_mount
from luigi_pai.jobspec.validate import validate_job
from luigi_pai.runtime import folded

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from luigi_pai.jobspec.storage.mount import StorageMount

_V1_SHELL = "set +o errexit +o nounset +o pipefail"
_FETCH_CODE = 'if command -v hdfs > /dev/null; then hdfs dfs -get "$PAI_CODE_DIR" .; fi'
_ONLY_PREREQUISITE = "default"
_LESS_PERCENT = "lessPercent"  # parameter that replaces "<%" in a command

_SHM_MB_V1, _SHM_MB_V2, _SHM_MB_LTP = 64, 512, 16384  # shared memory of a role without shmMB
_RDMA = "paiAzRDMA"  # key in jobEnvs that gives containers the host's InfiniBand devices

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFAULT_OUTPUT = re.compile(re.escape(repr(default_output("@"))).replace("@", "[^/]+"))
_PLAIN_PATH = re.compile(r"[\w$./:@%+=,~ -]*")  # in double quotes, only its variables are expanded

_WITHOUT_COUNTERPART = {
    "authFile": "is dropped; set auth in the dockerimage prerequisite, with the password in secrets",
    "gpuType": "{!r} is dropped; v2 selects GPUs by virtual cluster or hivedScheduler",
    "killAllOnCompletedTaskNumber": "is dropped; use a role's minSucceededTaskCount",
}
"""Field that v2 does not have -> message that it is dropped, a format string for the field's value."""

_FOLDERS = (
    # v1 field, prerequisite type (and role field), reference, variable in v1 containers
    ("dataDir", "data", "<% $data.uri[0] %>", "PAI_DATA_DIR"),
    ("outputDir", "output", "<% $output.uri %>", "PAI_OUTPUT_DIR"),
    ("codeDir", "script", "<% $script.uri %>", "PAI_CODE_DIR"),
)


@dataclass(frozen=True)
class Conversion:
    """A converted job.

    Attributes:
        protocol: The job as a job protocol, for OpenPAI 0.15 to 1.8 and for LTP.
        losses: The v1 fields that are dropped or changed, each with its path in the v1 job.
    """

    protocol: JobProtocol
    losses: tuple[Problem, ...]

    @property
    def notable_losses(self) -> list[Problem]:
        """The losses, without the loss of a task's default output folder if no command uses the folder."""
        is_used = any("PAI_OUTPUT_DIR" in role.commands[-1] for role in self.protocol.taskRoles.values())
        return [
            loss
            for loss in self.losses
            if is_used or loss.path != "outputDir" or _DEFAULT_OUTPUT.match(loss.message) is None
        ]


def convert(
    job: PaiJob | Mapping[str, Any],
    *,
    fs_uri: str | None = None,
    section: str = "OpenPai",
    storage: StorageMount | None = None,
) -> Conversion:
    """Convert a v1 job to a job protocol that every v2 release accepts; return the protocol and the losses.

    Args:
        job: A PaiJob, or the mapping read from a v1 job's JSON.
        fs_uri: The URI that replaces ``$PAI_DEFAULT_FS_URI``, because this variable is empty on v2 clusters.
        section: The luigi.cfg section (``OpenPai`` or ``OpenPai:NAME``) to name in messages about ``fs_uri``.
        storage: The storage that the job mounts instead of HDFS: ``$PAI_DEFAULT_FS_URI`` is the storage's
            folder, the code folder is copied from there, and ``hdfs dfs`` uses it in images without Hadoop.

    Raises:
        SpecError: The job is not a valid v1 job. The error lists all its problems.
    """
    problems = [problem for problem in validate_job(job) if problem.level is Level.REFUSED]
    if problems:
        name = job.jobName if isinstance(job, PaiJob) else job.get("jobName")
        raise SpecError(str(name), problems)
    document = job.to_dict() if isinstance(job, PaiJob) else job
    return _Converter(document, fs_uri, section, storage).convert()


@dataclass(eq=False)
class _Converter:
    """One conversion."""

    _job: Mapping[str, Any]
    _fs_uri: str | None
    _section: str
    _storage: StorageMount | None
    _losses: list[Problem] = field(default_factory=list)
    _parameters: dict[str, Any] = field(default_factory=dict)
    _folders: dict[str, str] = field(default_factory=dict)  # prerequisite type -> folder
    _names: dict[str, str] = field(default_factory=dict)  # role name on v1 -> on v2

    def convert(self) -> Conversion:
        job = self._job
        name, described = v2_name(job["jobName"]), {}
        if name != job["jobName"]:
            self._add_loss("jobName", f"becomes {name!r}: v2 names contain only letters, digits, _ and -")
            described = {"description": job["jobName"]}
        self._add_losses_without_counterpart()
        self._folders = {kind: self._folder(key) for key, kind, _, _ in _FOLDERS if job.get(key)}
        self._names = dict(self._role_names())
        roles = {
            self._names[role["name"]]: self._role(f"taskRoles[{index}]", role)
            for index, role in enumerate(job["taskRoles"])
        }
        uris: dict[str, Any] = {"dockerimage": job["image"], **self._folders}
        cluster = {"virtualCluster": job["virtualCluster"]} if job.get("virtualCluster") else {}
        notification = mapping_of(job.get("extras")).get(NOTIFICATION)
        document = {
            "protocolVersion": 2,
            "name": name,
            "type": "job",
            "jobRetryCount": self._retry_count(),
            "prerequisites": [
                {"name": _ONLY_PREREQUISITE, "type": kind, "uri": [uri] if kind == "data" else uri}
                for kind, uri in uris.items()
            ],
            **described,
            "parameters": self._parameters,
            "taskRoles": roles,
            "defaults": cluster,
            "extras": {NOTIFICATION: notification} if isinstance(notification, dict) else {},
        }
        protocol = JobProtocol.from_dict({key: value for key, value in document.items() if value != {}})
        if self._storage is not None:
            protocol = storage_mount.with_storage(protocol, self._storage)
        return Conversion(protocol, tuple(self._losses))

    def _add_loss(self, path: str, message: str) -> None:
        self._losses.append(Problem(path, message, Level.WARNING))

    def _add_losses_without_counterpart(self) -> None:
        job = self._job
        for key, message in _WITHOUT_COUNTERPART.items():
            if job.get(key):
                self._add_loss(key, message.format(job[key]))
        others = [key for key in job.get("extras") or () if key != NOTIFICATION]
        if others:
            self._add_loss("extras", f"are dropped: {', '.join(others)}; extras mean something else in v2")

    def _retry_count(self) -> int:
        count = int(self._job.get("retryCount") or 0)
        if count < 0:
            meaning = "no limit" if count == -1 else "also after a success"
            self._add_loss("retryCount", f"{count} ({meaning}) becomes 0: v2 has no negative counts")
        return max(count, 0)

    def _folder(self, key: str) -> str:
        path = str(self._job[key])
        if self._storage is not None:
            path = storage_mount.container_paths(path, self._storage)
        elif FS_URI in path and self._fs_uri:
            path = path.replace(FS_URI, self._fs_uri.rstrip("/"))
        elif FS_URI in path:
            self._add_loss(
                key,
                f"{path!r} is unchanged, but {FS_URI} is empty on v2 clusters; "
                f"set storage (or, with an HDFS, fs_uri) in [{self._section}] of luigi.cfg",
            )
        if key == "codeDir" and not (self._storage and self._storage.has(path)):
            self._add_loss(
                key,
                "is copied to the working folder only if the image has the hdfs command: v2 copies no "
                "code folder",
            )
        return path

    def _role_names(self) -> Iterator[tuple[str, str]]:
        """Yield each role's name and its new, unique name of lower-case letters and digits."""
        names: set[str] = set()
        for index, role in enumerate(self._job["taskRoles"]):
            name = folded(role["name"]) or "role"
            name = name if name[0].isalpha() else f"role{name}"
            number = 1
            while name in names:
                number += 1
                name = f"{name.rstrip('0123456789') or 'role'}{number}"
            names.add(name)
            if name != role["name"]:
                self._add_loss(
                    f"taskRoles[{index}].name",
                    f"{role['name']!r} becomes {name!r}: roles contain only letters and digits",
                )
            yield role["name"], name

    def _role(self, path: str, role: Mapping[str, Any]) -> dict[str, Any]:
        defaults = {"taskNumber": 1, "cpuNumber": 1, "memoryMB": 100, "gpuNumber": 0}
        count, cpu, memory, gpu = (int(role.get(key) or default) for key, default in defaults.items())
        resources: dict[str, Any] = {"cpu": cpu, "memoryMB": memory, "gpu": gpu}
        if ports := self._ports(path, role):
            resources["ports"] = ports
        command = str(role["command"])
        if "<%" in command:
            self._parameters[_LESS_PERCENT] = "<%"
            command = command.replace("<%", f"<% $parameters.{_LESS_PERCENT} %>")
        return {
            "instances": count,
            "completion": {
                "minFailedInstances": _never_is_minus_one(role.get("minFailedTaskCount", 1)),
                "minSucceededInstances": _never_is_minus_one(role.get("minSucceededTaskCount")),
            },
            "dockerImage": _ONLY_PREREQUISITE,
            **dict.fromkeys(self._folders, _ONLY_PREREQUISITE),
            "resourcePerInstance": resources,
            "extraContainerOptions": self._container_options(path, role),
            "commands": [_V1_SHELL, *self._exports(role["name"], count, resources), command],
        }

    def _container_options(self, path: str, role: Mapping[str, Any]) -> dict[str, Any]:
        given = role.get("shmMB")
        options = {"shmMB": _SHM_MB_V1 if given is None else int(given)}
        if given is None:
            self._add_loss(
                f"{path}.shmMB",
                f"is missing, meaning {_SHM_MB_V1} MB on v1, {_SHM_MB_V2} on OpenPAI v2 and {_SHM_MB_LTP} on "
                f"LTP; the role gets {_SHM_MB_V1}",
            )
        if mapping_of(self._job.get("jobEnvs")).get(_RDMA) is True:  # servers accept no other value
            options["infiniband"] = True
        return options

    def _ports(self, path: str, role: Mapping[str, Any]) -> dict[str, int]:
        ports: dict[str, int] = {}
        for index, port in enumerate(role.get("portList") or ()):
            label = re.sub(r"[^A-Za-z0-9_]", "_", port["label"])
            label = f"_{label}" if label[:1].isdigit() else label
            if label != port["label"]:
                self._add_loss(f"{path}.portList[{index}].label", f"{port['label']!r} becomes {label!r}")
            if int(port.get("beginAt") or 0):
                self._add_loss(
                    f"{path}.portList[{index}].beginAt",
                    f"{port['beginAt']} is dropped: v2 chooses the ports; the command reads "
                    f"PAI_PORT_LIST_ROLE_INDEX_{label}",
                )
            ports[label] = int(port.get("portNumber") or 1)
        return ports

    def _exports(self, role: str, count: int, resources: Mapping[str, Any]) -> list[str]:
        """Return commands that set v1 variables that v2 containers lack or set differently."""
        variables = {
            "PAI_JOB_NAME": '"${PAI_JOB_NAME#*~}"',
            "PAI_JOB_VC_NAME": shlex.quote(self._job.get("virtualCluster") or "default"),
            "HADOOP_USER_NAME": '"$PAI_USER_NAME"',
            "PAI_TASK_ROLE_NAME": shlex.quote(role),
            "PAI_CURRENT_TASK_ROLE_NAME": shlex.quote(role),
            "PAI_CURRENT_TASK_ROLE_TASK_COUNT": count,
            "PAI_CURRENT_TASK_ROLE_CPU_COUNT": resources["cpu"],
            "PAI_CURRENT_TASK_ROLE_MEM_MB": resources["memoryMB"],
            "PAI_CURRENT_TASK_ROLE_GPU_COUNT": resources["gpu"],
        }
        if self._storage is not None:
            variables["PAI_DEFAULT_FS_URI"] = self._folder_word(self._storage.path)
        folders = {
            variable: self._folder_word(self._folders[kind], reference)
            for _, kind, reference, variable in _FOLDERS
            if self._folders.get(kind)
        }
        if self._storage is not None:
            folders = {**storage_mount.UNNAMED_FOLDERS, **folders}
        hosts = {
            f"PAI_TASK_ROLE_{old}_HOST_LIST": f'"$PAI_TASK_ROLE_{new}_HOST_LIST"'
            for old, new in self._names.items()
            if old != new and _VARIABLE.fullmatch(old)
        }
        groups = filter(None, (variables, folders, hosts, self._environment))
        return [*map(storage_mount.export, groups), *self._preparations()]

    def _folder_word(self, path: str, reference: str = "") -> str:
        """Return a folder as a shell word: a reference to its prerequisite, or the quoted path."""
        is_plain = _PLAIN_PATH.fullmatch(path) is not None
        if self._storage is not None:
            return storage_mount.shell_word(path, self._storage, expand=is_plain)
        return f'"{reference}"' if is_plain else shlex.quote(path)

    def _preparations(self) -> Iterator[str]:
        """Yield the commands that run between the exports and the job's command."""
        storage, code = self._storage, self._folders.get("script")
        if storage and "output" not in self._folders:
            yield storage_mount.MAKE_OUTPUT
        if code:
            yield storage_mount.COPY_CODE if storage and storage.has(code) else _FETCH_CODE
        if storage:
            yield storage_mount.hdfs_command()

    @functools.cached_property
    def _environment(self) -> dict[str, str]:
        """Return jobEnvs as shell words: parameter references or, if those are unsafe, the values."""
        values: dict[str, str] = {}
        for key, value in (self._job.get("jobEnvs") or {}).items():
            string = value if isinstance(value, str) else json.dumps(value)
            if not _VARIABLE.fullmatch(key):
                self._add_loss(f"jobEnvs.{key}", "is dropped: this is not a valid name for a shell variable")
            elif "'" in string or "<%" in string or key == _LESS_PERCENT:
                values[key] = shlex.quote(string.replace("<%", f"<% $parameters.{_LESS_PERCENT} %>"))
                self._parameters |= {_LESS_PERCENT: "<%"} if "<%" in string else {}
            else:
                values[key] = f"'<% $parameters.{key} %>'"
                self._parameters[key] = value
        return values


def _never_is_minus_one(count: Any) -> int:
    return -1 if count is None else int(count)
