"""The job config of POST /api/v1/jobs: what OpenPAI 0.7.1 takes, with its defaults."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level
from luigi_pai.local.json_http import ApiError
from luigi_pai.local.rest.base.bodies import is_too_large
from luigi_pai.spec.schema_problems import schema
from luigi_pai.spec.validate import validate_job, with_numbers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.errors import Problem

__all__ = ["launcher_refuses", "read_config"]

_RELEASE = "0.7.1"
_LAST_PORT = 65535
_LONGEST_NAME = 255
_LONGEST_ROLE = 247
_NAME = re.compile(r"[A-Za-z0-9\-._~]+")
_COUNT = re.compile(r"taskRoles\[(\d+)\]\.(taskNumber|cpuNumber|memoryMB|gpuNumber)")
_JOB = {
    "authFile": "",
    "dataDir": "",
    "outputDir": "",
    "codeDir": "",
    "gpuType": "",
    "virtualCluster": "default",
    "retryCount": 0,
}
_ROLE = {
    "taskNumber": 1,
    "cpuNumber": 1,
    "memoryMB": 100,
    "shmMB": 64,
    "gpuNumber": 0,
    "portList": [],
    "minFailedTaskCount": 1,
    "minSucceededTaskCount": None,
}
_PORT = {"beginAt": 0, "portNumber": 1}


def read_config(body: Any) -> dict[str, Any]:
    """Return the job config of a body with every default filled in.

    Raises:
        ApiError: 400 InvalidParametersError for what the rest-server refuses, 400 UnknownError for what only
            the launcher behind it does.
    """
    if not isinstance(body, dict):
        raise ApiError(400, "InvalidParametersError", "the body is not a JSON object")
    found = [item for item in validate_job(body, release=_RELEASE) if item.level is Level.REFUSED]
    if found:
        code = (
            "UnknownError" if all(_is_launchers(item, body) for item in found) else "InvalidParametersError"
        )
        raise ApiError(400, code, "; ".join(map(str, found)))
    config: dict[str, Any] = with_numbers(body, schema("job.v1"))
    roles = [
        {**_ROLE, **role, "portList": [{**_PORT, **port} for port in role.get("portList", [])]}
        for role in config["taskRoles"]
    ]
    return {**_JOB, **config, "taskRoles": roles}


def _is_launchers(problem: Problem, body: Mapping[str, Any]) -> bool:
    """Return whether the rest-server takes a name or number, and only the launcher refuses it."""
    found = _COUNT.fullmatch(problem.path)
    if found is None:
        return problem.path == "jobName" and _NAME.fullmatch(str(body.get("jobName"))) is not None
    return type(with_numbers(body, schema("job.v1"))["taskRoles"][int(found[1])][found[2]]) is int


def launcher_refuses(name: str, config: Mapping[str, Any]) -> bool:
    """Return whether a job's name has another form, or it is beyond the bounds of this server.

    A beginAt such as 8080, which the launcher behind the recorded server refused, is taken: OpenPAI's own
    documents use it.
    """
    if not _NAME.fullmatch(name) or len(name) > _LONGEST_NAME or name in (".", ".."):
        return True
    return is_too_large(config) or any(
        len(role["name"]) > _LONGEST_ROLE
        or any(port["portNumber"] < 1 or not 0 <= port["beginAt"] <= _LAST_PORT for port in role["portList"])
        for role in config["taskRoles"]
    )
