"""Reads JSON strictly: rejects NaN, Infinity and repeated keys, which Python accepts."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.dialects.yaml_text import read_yaml
from luigi_pai.jobspec.hints import name_of

_TWICE = "has the same key twice"
_MISTAKES: Final = (
    (re.compile(r"//|/\*|#"), "JSON has no comments; remove this one"),
    (re.compile(r"'"), 'JSON has no single quotes; write "..."'),
    (re.compile(r"(?:True|False|None)\b"), "this is Python; in JSON, write true, false or null"),
    (re.compile(r",\s*[}\]]"), "JSON has no comma after the last item; remove it"),
    (re.compile(r"[\n\t]"), r"a string contains a line break or a tab; write \n or \t"),
)
"""The characters at an error's position, and the message about them."""


def read_json(text: str, source: str) -> Any:
    """Parse JSON and return its value.

    Raises:
        SpecError: ``text`` is not JSON. The error has one problem, with the line if it is known.
    """
    try:
        return json.loads(
            text, parse_constant=_refuse_constant, parse_float=_finite, object_pairs_hook=_with_each_key_once
        )
    except json.JSONDecodeError as error:
        problem = _problem(text, error)
    except (RecursionError, ValueError) as error:
        if str(error) == _TWICE:
            read_yaml(text, source)  # reports repeated keys with their lines
        problem = Problem("", f"cannot be read as JSON: {error}")
    raise SpecError(source, [problem])


def _problem(text: str, error: json.JSONDecodeError) -> Problem:
    before = text[: error.pos].rstrip()
    is_after_comma = before.endswith(",") and text[error.pos : error.pos + 1] in ("}", "]")
    index = len(before) - 1 if is_after_comma else error.pos
    message = next((message for pattern, message in _MISTAKES if pattern.match(text, index)), error.msg)
    if found := re.compile(r"[^\x00-\x7f]").match(text, index):
        message = f"{name_of(found)} is here; use the ASCII character instead"
    column = index - text.rfind("\n", 0, index)
    return Problem("", f"is not JSON, at column {column}: {message}", line=text.count("\n", 0, index) + 1)


def _with_each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(_TWICE)
    return found


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"JSON does not have {name}; if you mean a string, put it in quotes")


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits} is too large")
    return number
