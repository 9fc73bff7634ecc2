"""Comparison of jobs: a digest of one, and the fields in which two differ.

Both ignore secrets, the description, and the job's name, which differs between
submissions of the same work.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import SpecError
from luigi_pai.jobspec.dialects.javascript_text import javascript_number
from luigi_pai.jobspec.job import FS_URI, PaiJob
from luigi_pai.jobspec.paths import path_text
from luigi_pai.jobspec.schema_problems import schema
from luigi_pai.jobspec.templates.prerequisites import resolve
from luigi_pai.jobspec.templates.secrets import masked
from luigi_pai.jobspec.validate import with_numbers
from luigi_pai.redaction import MASK

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from luigi_pai.jobspec.paths import Path
    from luigi_pai.jobspec.protocol import JobProtocol

_DIGITS = 16
_LEFT_OUT = frozenset(
    {"jobName", "name", "description", "contributor"}
)  # of the job itself, not of its parts
_FOLDERS = frozenset({"authFile", "dataDir", "outputDir", "codeDir"})
_ANY_FS_URI = r"hdfs://[^/\s,]+"
_MADE_OUTPUT = re.compile(rf"(?:{_ANY_FS_URI}|{re.escape(FS_URI)})/Output/[^/]+/[^/]+")
"""The folder that servers use where a job has no outputDir."""

_ANY_NAME = "*"
_DEFAULTS_V1: dict[str, Any] = {
    **dict.fromkeys(("authFile", "dataDir", "outputDir", "codeDir", "gpuType"), ""),
    "virtualCluster": "default",
    "retryCount": 0,
    "jobEnvs": {},
    "extras": {},
    "taskRoles": [
        {
            "taskNumber": 1,
            "cpuNumber": 1,
            "memoryMB": 100,
            "shmMB": 64,
            "gpuNumber": 0,
            "portList": [{"beginAt": 0, "portNumber": 1}],
            "minFailedTaskCount": 1,
            "minSucceededTaskCount": None,
        }
    ],
}
_DEFAULTS_V2: dict[str, Any] = {
    "jobRetryCount": 0,
    "prerequisites": [],
    "parameters": {},
    "secrets": {},
    "deployments": [],
    "defaults": {"virtualCluster": "default"},
    "extras": {},
    "taskRoles": {
        _ANY_NAME: {
            "instances": 1,
            "completion": {"minFailedInstances": 1, "minSucceededInstances": None},
            "taskRetryCount": 0,
            "prerequisites": [],
            "resourcePerInstance": {"gpu": 0, "ports": {}},
            "extraContainerOptions": {"infiniband": False},  # shmMB: 512 on OpenPAI, 16384 on LTP
        }
    },
}
"""Servers' defaults of absent fields; the item of a list stands for each of its items."""


def job_digest(job: PaiJob | JobProtocol) -> str:
    """Return a digest of a job: 16 hexadecimal digits of a SHA-256.

    It does not depend on the order of keys, the layout of the YAML, the job's name,
    description and contributor, and the values of secrets.

    Raises:
        TypeError: a field of a PaiJob has a value that JSON does not have.
        SpecError: the same, of a JobProtocol.
    """
    document = job.to_dict() if isinstance(job, PaiJob) else masked(job.to_dict())
    kept = {key: _plain(value) for key, value in document.items() if key not in _LEFT_OUT}
    text = json.dumps(kept, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_DIGITS]


def _plain(value: Any) -> Any:
    """Return a value with 1.0 as 1: the same number to a server."""
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    return javascript_number(value) if isinstance(value, float) else value


def differing_fields(mine: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[str]:
    """Return the paths of the fields in which two jobs of one API version differ.

    Changes that a server makes are no difference: defaults filled in, ``require``
    resolved, numbers written as texts, secrets as ``******``, and in the folders of a
    v1 job ``hdfs://HOST:PORT`` for ``$PAI_DEFAULT_FS_URI``.

    Args:
        mine: a v1 job config or a job protocol, as JSON has it.
        theirs: the other, as a server stores it.

    Returns:
        paths such as ``taskRoles[0].command``, in the order of the fields of ``mine``; a list of
        another length is one path. Values are not shown.
    """
    ours, stored = _completed(mine), _completed(theirs)
    return [path_text(path) for path in _differing(ours, stored, ())]


def _completed(document: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in document.items() if key not in _LEFT_OUT}
    completed: dict[str, Any]
    if "protocolVersion" not in document:
        completed = _with_defaults(with_numbers(kept, schema("job.v1")), _DEFAULTS_V1)
        if not completed["virtualCluster"]:
            completed["virtualCluster"] = "default"
        return completed
    with contextlib.suppress(SpecError):  # compared as it is, then
        kept = resolve(kept)
    completed = _with_defaults(masked(kept), _DEFAULTS_V2)
    return completed


def _with_defaults(value: Any, defaults: Any) -> Any:
    if isinstance(value, list) and isinstance(defaults, list):
        return [_with_defaults(item, defaults[0]) for item in value] if defaults else value
    if not isinstance(value, dict) or not isinstance(defaults, dict):
        return value
    if _ANY_NAME in defaults:
        return {name: _with_defaults(item, defaults[_ANY_NAME]) for name, item in value.items()}
    found = {key: _with_defaults(item, defaults.get(key)) for key, item in value.items()}
    for key, default in defaults.items():
        if key not in value:
            found[key] = [] if isinstance(default, list) else _with_defaults({}, default) or default
    return found


def _differing(mine: Any, theirs: Any, path: Path) -> Iterator[Path]:
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for key in dict.fromkeys((*mine, *theirs)):
            if key in mine and key in theirs:
                yield from _differing(mine[key], theirs[key], (*path, key))
            else:
                yield (*path, key)
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for index, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            yield from _differing(one, other, (*path, index))
    elif not _same(mine, theirs, path):
        yield path


def _same(mine: Any, theirs: Any, path: Path) -> bool:
    """Return whether two values that are not both mappings, nor lists of one length, mean the same."""
    if MASK in (mine, theirs) or path == ("secrets",):
        return True
    if path[-1:] == ("protocolVersion",):
        return str(mine) == str(theirs)
    if isinstance(mine, str) and isinstance(theirs, str) and len(path) == 1 and path[0] in _FOLDERS:
        return _same_folder(mine, theirs, is_output=path[0] == "outputDir")
    if isinstance(mine, bool) or isinstance(theirs, bool):
        return mine is theirs
    return bool(mine == theirs)


def _same_folder(mine: str, theirs: str, *, is_output: bool) -> bool:
    for one, other in ((mine, theirs), (theirs, mine)):
        if is_output and not one and _MADE_OUTPUT.fullmatch(other):
            return True
        pattern = re.escape(one).replace(re.escape(FS_URI), _ANY_FS_URI)
        if one == other or (FS_URI in one and re.fullmatch(pattern, other)):
            return True
    return False
