"""What OpenPAI 0.7.1 takes and refuses in the bodies of its v1 API.

The schemas are those of its rest-server (src/config/*.js at v0.7.1);
`launcher_refuses` is what the launcher behind it refuses afterwards.
"""

from __future__ import annotations

from typing import Any

from luigi_pai.local.node.joi import Array, Boolean, Number, Object, Refused, String

__all__ = [
    "EXECUTION_TYPE",
    "JOB_CONFIG",
    "MAX_JOB_PORTS",
    "MAX_PORTS",
    "MAX_TASKS",
    "TOKEN_REQUEST",
    "USER_DELETE",
    "USER_PUT",
    "USER_VIRTUAL_CLUSTERS",
    "check_task_counts",
    "launcher_refuses",
]

MAX_TASKS = 1000
"""Tasks of one job; the local server's own bound, a cluster has a larger one."""

MAX_PORTS = 1000
"""Ports of one task; the local server's own bound."""

MAX_JOB_PORTS = 5000
"""Ports of all tasks of one job; the local server's own bound."""

_MAX_NAME = 255
_MAX_PORT = 65535
_LABEL = r"[A-Za-z0-9._~]+"

_PORT = Object(
    {
        "label": String(pattern=_LABEL, required=True),
        "beginAt": Number(default=0),
        "portNumber": Number(default=1),
    }
)

_TASK_ROLE = Object(
    {
        "name": String(pattern=_LABEL, required=True),
        "taskNumber": Number(default=1),
        "cpuNumber": Number(default=1),
        "memoryMB": Number(default=100),
        "shmMB": Number(not_above="memoryMB", default=64),
        "gpuNumber": Number(default=0),
        "portList": Array(_PORT, default=[]),
        "command": String(required=True),
        "minFailedTaskCount": Number(minimum=1, allow_null=True, default=1),
        "minSucceededTaskCount": Number(minimum=1, allow_null=True, default=None),
    }
)

JOB_CONFIG = Object(
    {
        "jobName": String(
            pattern=r"[A-Za-z0-9\-._~]+", shown_pattern=r"/^[A-Za-z0-9\-._~]+$/", required=True
        ),
        "image": String(required=True),
        "authFile": String(allow_empty=True, default=""),
        "dataDir": String(allow_empty=True, default=""),
        "outputDir": String(allow_empty=True, default=""),
        "codeDir": String(allow_empty=True, default=""),
        "taskRoles": Array(_TASK_ROLE, min_length=1, required=True),
        "gpuType": String(allow_empty=True, default=""),
        "killAllOnCompletedTaskNumber": Number(),
        "virtualCluster": String(allow_empty=True, default="default"),
        "retryCount": Number(minimum=-2, default=0),
    },
    root=True,
)

EXECUTION_TYPE = Object({"value": String(required=True)}, root=True)

TOKEN_REQUEST = Object(
    {
        "username": String(token=True, required=True),
        "password": String(min_length=6, required=True),
        "expiration": Number(minimum=60, maximum=7 * 24 * 3600, default=24 * 3600),
    },
    root=True,
)

USER_PUT = Object(
    {
        "username": String(token=True, required=True),
        "password": String(min_length=6, required=True),
        "admin": Boolean(),
        "modify": Boolean(required=True),
    },
    root=True,
)

USER_DELETE = Object({"username": String(token=True, required=True)}, root=True)

USER_VIRTUAL_CLUSTERS = Object(
    {"virtualClusters": String(pattern=r"[A-Za-z0-9_,]+", allow_empty=True)}, root=True
)


def check_task_counts(config: dict[str, Any]) -> None:
    """Refuse what the rest-server checks after its schema, in a job config that `JOB_CONFIG` has taken.

    Raises:
        Refused: killAllOnCompletedTaskNumber is there, or a minFailedTaskCount
            or minSucceededTaskCount is greater than its role's taskNumber.
    """
    if "killAllOnCompletedTaskNumber" in config:
        raise Refused(
            "killAllOnCompletedTaskNumber has been obsoleted, "
            "please use minFailedTaskCount and minSucceededTaskCount instead."
        )
    for role in config["taskRoles"]:
        if max(role["minFailedTaskCount"] or 0, role["minSucceededTaskCount"] or 0) > role["taskNumber"]:
            raise Refused(
                "minFailedTaskCount or minSucceededTaskCount should not be greater than tasks number."
            )


def launcher_refuses(name: str, config: dict[str, Any]) -> bool:
    """Say whether the launcher would refuse a job that the rest-server has taken.

    Seen on 0.7.1: memoryMB and cpuNumber below 1, gpuNumber below 0, names of
    300 characters. `MAX_TASKS`, `MAX_PORTS` and the names ``.`` and ``..`` are
    bounds of this server. A beginAt such as 8080, which the launcher seen there
    refused, is taken: OpenPAI's own documents use it.
    """
    if len(name) > _MAX_NAME or name in (".", ".."):
        return True
    if sum(max(role["taskNumber"], 0) for role in config["taskRoles"]) > MAX_TASKS:
        return True
    ports = [sum(port["portNumber"] for port in role["portList"]) for role in config["taskRoles"]]
    wanted = sum(role["taskNumber"] * count for role, count in zip(config["taskRoles"], ports, strict=True))
    if max(ports) > MAX_PORTS or wanted > MAX_JOB_PORTS:
        return True
    return any(
        role["memoryMB"] < 1
        or role["cpuNumber"] < 1
        or role["gpuNumber"] < 0
        or role["taskNumber"] < 0
        or len(role["name"]) > _MAX_NAME - 8
        or any(port["portNumber"] < 1 or not 0 <= port["beginAt"] <= _MAX_PORT for port in role["portList"])
        for role in config["taskRoles"]
    )
