"""Checks of bodies: the small JSON ones of logins, users, stops and tags, and the size of a job."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.local.json_http import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["MAX_JOB_PORTS", "MAX_PORTS", "MAX_TASKS", "Rule", "checked_body", "is_too_large"]

Rule = str | range | tuple[Any, ...]
"""What a field takes: the pattern of a text, the range of a whole number, or one of some values."""


def checked_body(
    body: Any, fields: Mapping[str, Rule], optional: Mapping[str, Rule] | None = None
) -> dict[str, Any]:
    """Return the fields of a body, with numbers in texts as numbers.

    Args:
        body: what came.
        fields: the fields that it must have.
        optional: those that it may have; there are no others.

    Raises:
        ApiError: 400 InvalidParametersError, naming every problem.
    """
    given = body if isinstance(body, dict) else {}
    known = {**fields, **(optional or {})}
    problems = [
        f"{name}: is not a field here; there are {', '.join(known)}" for name in given if name not in known
    ]
    problems += [f"{name}: is missing" for name in fields if name not in given]
    found = {}
    for name, rule in known.items():
        if name in given:
            value = given[name]
            if isinstance(rule, range) and isinstance(value, str) and re.fullmatch("[0-9]{1,9}", value):
                value = int(value)
            if not _fits(value, rule):
                problems.append(f"{name}: {_wanted(rule)}")
            found[name] = value
    if problems:
        raise ApiError(400, "InvalidParametersError", "; ".join(problems))
    return found


def _fits(value: Any, rule: Rule) -> bool:
    if isinstance(rule, str):
        return isinstance(value, str) and re.fullmatch(rule, value, re.DOTALL) is not None
    return value in rule and not (isinstance(rule, range) and isinstance(value, bool))


def _wanted(rule: Rule) -> str:
    if isinstance(rule, str):
        return f"is not a text of the form {rule}"
    if isinstance(rule, range):
        return f"is not a whole number from {rule.start} to {rule.stop - 1}"
    return f"is not one of {', '.join(map(json.dumps, rule))}"


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
