"""The bounds of a job on this machine; a cluster's are larger."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MAX_JOB_PORTS", "MAX_PORTS", "MAX_TASKS", "is_too_large"]

MAX_TASKS = 1000
"""Tasks of a job."""

MAX_PORTS = 1000
"""Ports of a task, beside those that each task has."""

MAX_JOB_PORTS = 5000
"""The same of all tasks of a job."""

_OF_EACH_TASK = ("ssh", "http")


def is_too_large(spec: Mapping[str, Any]) -> bool:
    """Return whether a job, as the launcher reads it, has too many tasks or ports for this machine."""
    tasks = [role["taskNumber"] for role in spec["taskRoles"]]
    ports = [
        sum(port["portNumber"] for port in role["portList"] if port["label"] not in _OF_EACH_TASK)
        for role in spec["taskRoles"]
    ]
    wanted: int = sum(count * number for count, number in zip(tasks, ports, strict=True))
    return bool(sum(tasks) > MAX_TASKS or max(ports) > MAX_PORTS or wanted > MAX_JOB_PORTS)
