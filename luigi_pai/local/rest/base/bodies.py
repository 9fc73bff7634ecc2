"""Checks of the small JSON bodies: logins, users, stops, tags."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.local.json_http import ApiError

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Rule", "checked_body"]

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
