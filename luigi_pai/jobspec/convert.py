"""Conversion of v1 job configs to v2 job protocols, with a list of losses.

A v2 container has other variables than a v1 container, no HDFS, and a shell that
stops at the first failed command. Lines before the command restore what they can;
the rest is reported as a loss.
"""

from __future__ import annotations

import functools
import json
import re
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.jobspec.job import FS_URI, PaiJob, default_output
from luigi_pai.jobspec.names import folded, v2_name
from luigi_pai.jobspec.protocol import JobProtocol
from luigi_pai.jobspec.protocol_extras import NOTIFICATION
from luigi_pai.jobspec.validate import validate_job

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_V1_SHELL = "set +o errexit +o nounset +o pipefail"
_FETCH_CODE = 'if command -v hdfs > /dev/null; then hdfs dfs -get "$PAI_CODE_DIR" .; fi'
_ONLY_PREREQUISITE = "default"
_LESS_PERCENT = "lessPercent"  # the parameter that stands for "<%" in a command

_SHM_MB_V1, _SHM_MB_V2, _SHM_MB_LTP = 64, 512, 16384  # of a role without shmMB
_RDMA = "paiAzRDMA"  # of jobEnvs: the containers get the host's InfiniBand devices

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEFAULT_OUTPUT = re.compile(re.escape(repr(default_output("@"))).replace("@", "[^/]+"))
_PLAIN_PATH = re.compile(r"[\w$./:@%+=,~ -]*")  # unchanged within double quotes, except for variables

_FOLDERS = (
    # v1 field, prerequisite type (and field of a role), reference, variable of v1 containers
    ("dataDir", "data", "<% $data.uri[0] %>", "PAI_DATA_DIR"),
    ("outputDir", "output", "<% $output.uri %>", "PAI_OUTPUT_DIR"),
    ("codeDir", "script", "<% $script.uri %>", "PAI_CODE_DIR"),
)


@dataclass(frozen=True)
class Conversion:
    """A converted job.

    Attributes:
        protocol: the job, for OpenPAI 0.15 to 1.8 and LTP.
        losses: fields of the v1 job that are lost or changed, each with the path of the v1 field.
    """

    protocol: JobProtocol
    losses: tuple[Problem, ...]

    @property
    def notable_losses(self) -> list[Problem]:
        """The losses, except that of the output folder of a task that sets none."""
        return [
            loss
            for loss in self.losses
            if loss.path != "outputDir" or _DEFAULT_OUTPUT.match(loss.message) is None
        ]


def convert(
    job: PaiJob | Mapping[str, Any], *, fs_uri: str | None = None, section: str = "OpenPai"
) -> Conversion:
    """Return a v1 job as a job protocol that every v2 release accepts.

    Args:
        job: a PaiJob, or the document as JSON gives it.
        fs_uri: what ``$PAI_DEFAULT_FS_URI`` stands for, which v2 servers do not define.
        section: of luigi.cfg, where ``fs_uri`` is set: ``OpenPai`` or ``OpenPai:NAME``.

    Raises:
        SpecError: it is not a valid v1 job; it has every problem.
    """
    problems = [problem for problem in validate_job(job) if problem.level is Level.REFUSED]
    document = job.to_dict() if isinstance(job, PaiJob) and not problems else job
    if problems:
        name = job.jobName if isinstance(job, PaiJob) else job.get("jobName")
        raise SpecError(str(name), problems)
    assert not isinstance(document, PaiJob)
    return _Converter(document, fs_uri, section).convert()


class _Converter:
    """One conversion."""

    def __init__(self, job: Mapping[str, Any], fs_uri: str | None, section: str) -> None:
        self._job = job
        self._fs_uri = fs_uri
        self._section = section
        self._losses: list[Problem] = []
        self._parameters: dict[str, Any] = {}

    def convert(self) -> Conversion:
        job = self._job
        name = v2_name(job["jobName"])
        if name != job["jobName"]:
            self._lose("jobName", f"becomes {name!r}: v2 names have letters, digits, _ and - only")
        self._lose_fields_without_counterpart()
        folders = {kind: self._folder(field) for field, kind, _, _ in _FOLDERS if job.get(field)}
        names = dict(self._role_names())
        roles = {
            names[role["name"]]: self._role(f"taskRoles[{index}]", role, names, folders)
            for index, role in enumerate(job["taskRoles"])
        }
        document: dict[str, Any] = {
            "protocolVersion": 2,
            "name": name,
            "type": "job",
            "jobRetryCount": self._retry_count(),
            "prerequisites": [
                {"name": _ONLY_PREREQUISITE, "type": "dockerimage", "uri": job["image"]},
                *(
                    {"name": _ONLY_PREREQUISITE, "type": kind, "uri": [path] if kind == "data" else path}
                    for kind, path in folders.items()
                ),
            ],
        }
        if self._parameters:
            document["parameters"] = self._parameters
        document["taskRoles"] = roles
        if job.get("virtualCluster"):
            document["defaults"] = {"virtualCluster": job["virtualCluster"]}
        notification = (job.get("extras") or {}).get(NOTIFICATION)
        if isinstance(notification, dict):
            document["extras"] = {NOTIFICATION: notification}
        return Conversion(JobProtocol.from_dict(document), tuple(self._losses))

    def _lose(self, path: str, message: str) -> None:
        self._losses.append(Problem(path, message, Level.WARNING))

    def _lose_fields_without_counterpart(self) -> None:
        job = self._job
        if job.get("authFile"):
            self._lose(
                "authFile",
                "is left out; give the dockerimage prerequisite auth, with the password in secrets",
            )
        if job.get("gpuType"):
            self._lose(
                "gpuType",
                f"{job['gpuType']!r} is left out; v2 chooses GPUs by virtual cluster or hivedScheduler",
            )
        if job.get("killAllOnCompletedTaskNumber"):
            self._lose("killAllOnCompletedTaskNumber", "is left out; use minSucceededTaskCount of a role")
        others = [key for key in job.get("extras") or () if key != NOTIFICATION]
        if others:
            self._lose("extras", f"are left out: {', '.join(others)}; v2 gives extras another meaning")

    def _retry_count(self) -> int:
        count = int(self._job.get("retryCount") or 0)
        if count < 0:
            meaning = "no limit" if count == -1 else "also after a success"
            self._lose("retryCount", f"{count} ({meaning}) becomes 0: v2 has no negative count")
        return max(count, 0)

    def _folder(self, field: str) -> str:
        path = str(self._job[field])
        if FS_URI in path and self._fs_uri:
            path = path.replace(FS_URI, self._fs_uri.rstrip("/"))
        elif FS_URI in path:
            self._lose(
                field,
                f"{path!r} stays as it is: {FS_URI} is empty on v2 clusters; "
                f"set fs_uri in [{self._section}] of luigi.cfg",
            )
        if field == "codeDir":
            self._lose(
                field,
                "is copied into the working folder only if the image has the hdfs command: v2 copies no "
                "code folder",
            )
        return path

    def _role_names(self) -> Iterator[tuple[str, str]]:
        """Yield each role's name and its new name: unique, of letters and digits in lower case."""
        taken: set[str] = set()
        for index, role in enumerate(self._job["taskRoles"]):
            name = folded(role["name"]) or "role"
            name = name if name[0].isalpha() else f"role{name}"
            number = 1
            while name in taken:
                number += 1
                name = f"{name.rstrip('0123456789') or 'role'}{number}"
            taken.add(name)
            if name != role["name"]:
                self._lose(
                    f"taskRoles[{index}].name",
                    f"{role['name']!r} becomes {name!r}: roles have letters and digits only",
                )
            yield role["name"], name

    def _role(
        self, path: str, role: Mapping[str, Any], names: Mapping[str, str], folders: Mapping[str, str]
    ) -> dict[str, Any]:
        count = int(role.get("taskNumber") or 1)
        resources: dict[str, Any] = {
            "cpu": int(role.get("cpuNumber") or 1),
            "memoryMB": int(role.get("memoryMB") or 100),
            "gpu": int(role.get("gpuNumber") or 0),
        }
        ports = self._ports(path, role)
        if ports:
            resources["ports"] = ports
        converted: dict[str, Any] = {
            "instances": count,
            "completion": {
                "minFailedInstances": _never_is_minus_one(role.get("minFailedTaskCount", 1)),
                "minSucceededInstances": _never_is_minus_one(role.get("minSucceededTaskCount")),
            },
            "dockerImage": _ONLY_PREREQUISITE,
            **dict.fromkeys(folders, _ONLY_PREREQUISITE),
            "resourcePerInstance": resources,
        }
        converted["extraContainerOptions"] = self._container_options(path, role)
        command = str(role["command"])
        if "<%" in command:
            self._parameters[_LESS_PERCENT] = "<%"
            command = command.replace("<%", f"<% $parameters.{_LESS_PERCENT} %>")
        converted["commands"] = [_V1_SHELL, *self._exports(role, count, names, folders), command]
        return converted

    def _container_options(self, path: str, role: Mapping[str, Any]) -> dict[str, Any]:
        options: dict[str, Any] = {"shmMB": _SHM_MB_V1}
        if role.get("shmMB") is not None:
            options["shmMB"] = int(role["shmMB"])
        else:
            self._lose(
                f"{path}.shmMB",
                f"is absent, which is {_SHM_MB_V1} MB on v1, {_SHM_MB_V2} on OpenPAI v2 and {_SHM_MB_LTP} on "
                f"LTP; the role gets {_SHM_MB_V1}",
            )
        if (self._job.get("jobEnvs") or {}).get(_RDMA) is True:  # servers accept no other value
            options["infiniband"] = True
        return options

    def _ports(self, path: str, role: Mapping[str, Any]) -> dict[str, int]:
        ports: dict[str, int] = {}
        for index, port in enumerate(role.get("portList") or ()):
            label = re.sub(r"[^A-Za-z0-9_]", "_", port["label"])
            label = f"_{label}" if label[:1].isdigit() else label
            if label != port["label"]:
                self._lose(f"{path}.portList[{index}].label", f"{port['label']!r} becomes {label!r}")
            if int(port.get("beginAt") or 0):
                self._lose(
                    f"{path}.portList[{index}].beginAt",
                    f"{port['beginAt']} is left out: v2 chooses ports; the command reads "
                    f"PAI_PORT_LIST_ROLE_INDEX_{label}",
                )
            ports[label] = int(port.get("portNumber") or 1)
        return ports

    def _exports(
        self, role: Mapping[str, Any], count: int, names: Mapping[str, str], folders: Mapping[str, str]
    ) -> list[str]:
        """Return commands that set the v1 variables that v2 containers lack or set differently."""
        own = {
            "PAI_JOB_NAME": '"${PAI_JOB_NAME#*~}"',
            "PAI_JOB_VC_NAME": shlex.quote(self._job.get("virtualCluster") or "default"),
            "HADOOP_USER_NAME": '"$PAI_USER_NAME"',
            "PAI_TASK_ROLE_NAME": shlex.quote(role["name"]),
            "PAI_CURRENT_TASK_ROLE_NAME": shlex.quote(role["name"]),
            "PAI_CURRENT_TASK_ROLE_TASK_COUNT": count,
            "PAI_CURRENT_TASK_ROLE_CPU_COUNT": int(role.get("cpuNumber") or 1),
            "PAI_CURRENT_TASK_ROLE_MEM_MB": int(role.get("memoryMB") or 100),
            "PAI_CURRENT_TASK_ROLE_GPU_COUNT": int(role.get("gpuNumber") or 0),
        }
        commands = [
            _export(own),
            _export(
                {
                    variable: f'"{reference}"'
                    if _PLAIN_PATH.fullmatch(folders[kind])
                    else shlex.quote(folders[kind])
                    for _, kind, reference, variable in _FOLDERS
                    if kind in folders
                }
            ),
            _export(
                {
                    f"PAI_TASK_ROLE_{old}_HOST_LIST": f'"$PAI_TASK_ROLE_{new}_HOST_LIST"'
                    for old, new in names.items()
                    if old != new and _VARIABLE.fullmatch(old)
                }
            ),
            _export(self._environment),
            _FETCH_CODE if "script" in folders else "",
        ]
        return [command for command in commands if command]

    @functools.cached_property
    def _environment(self) -> dict[str, str]:
        """Return the job's own variables, as parameters where the shell's quoting allows it."""
        values: dict[str, str] = {}
        for key, value in (self._job.get("jobEnvs") or {}).items():
            text = value if isinstance(value, str) else json.dumps(value)
            if not _VARIABLE.fullmatch(key):
                self._lose(f"jobEnvs.{key}", "is left out: a shell has no variable of this name")
            elif "'" in text or "<%" in text or key == _LESS_PERCENT:
                values[key] = shlex.quote(text.replace("<%", f"<% $parameters.{_LESS_PERCENT} %>"))
                self._parameters |= {_LESS_PERCENT: "<%"} if "<%" in text else {}
            else:
                values[key] = f"'<% $parameters.{key} %>'"
                self._parameters[key] = value
        return values


def _export(variables: Mapping[str, Any]) -> str:
    return "export " + " ".join(f"{key}={value}" for key, value in variables.items()) if variables else ""


def _never_is_minus_one(count: Any) -> int:
    return -1 if count is None else int(count)
