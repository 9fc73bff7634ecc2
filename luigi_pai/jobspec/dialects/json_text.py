"""JSON text: its value, and the line of each part."""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Problem, SpecError

if TYPE_CHECKING:
    from luigi_pai.jobspec.paths import Path

_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[][{}:,]|[^][{}:,"\s]+')
_LINE_BREAK = re.compile(r"\r\n?|\n")
_TRAILING_COMMA = re.compile(r",\s*[]}]")
_COMMENTS = ("//", "/*", "#")


def read_json(text: str, source: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        SpecError: it is not JSON; it has one problem, with the line.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        problem = _explained(text, error)
    except (RecursionError, ValueError) as error:  # what else Python's reader gives up on
        what = str(error) if isinstance(error, _NoNumberError) else None
        problem = Problem("", what or "is nested too deep, or has a number that is too long")
    raise SpecError(source, [problem])


class _NoNumberError(ValueError):
    """NaN or an infinity, which JSON does not have, or a number that is read as one."""


def _refuse_constant(name: str) -> Any:
    raise _NoNumberError(f"is not JSON: JSON does not have {name}; put a text into quotes")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise _NoNumberError(f"has a number that is too large: {text}")
    return number


def _explained(text: str, error: json.JSONDecodeError) -> Problem:
    at, what = error.pos, error.msg
    before = len(text[:at].rstrip()) - 1
    comma = at if text[at : at + 1] == "," else before  # Python from 3.13 on points at the comma
    if text.startswith(_COMMENTS, at):
        what = "JSON does not have comments; remove this one"
    elif comma >= 0 and _TRAILING_COMMA.match(text, comma):
        at, what = comma, "JSON does not allow a comma after the last item; remove this one"
    elif text[at : at + 1] == "'":
        what = 'JSON has texts in double quotes ("...") only'
    last_break = max(text.rfind("\n", 0, at), text.rfind("\r", 0, at))
    line = len(_LINE_BREAK.findall(text, 0, at)) + 1
    return Problem("", f"is not JSON: {what}, column {at - last_break}", line=line)


def json_lines(text: str) -> dict[Path, int]:
    """Return for every part of a JSON text the line of its key, or of its beginning, from 1.

    Args:
        text: valid JSON.
    """
    lines: dict[Path, int] = {}
    path: list[str | int] = []  # of the part that comes next
    line, counted = 1, 0
    is_key = False
    for token in _TOKEN.finditer(text):
        line += len(_LINE_BREAK.findall(text, counted, token.start()))
        counted = token.start()
        mark = token[0]
        if is_key and mark[0] == '"':
            path[-1] = json.loads(mark, strict=False)
            lines[tuple(path)] = line
            is_key = False
        elif mark == ":":
            continue
        elif mark == ",":
            if isinstance(path[-1], int):
                path[-1] += 1
            else:
                is_key = True
        elif mark in "]}":
            path.pop()
            is_key = False
        else:
            lines.setdefault(tuple(path), line)
            if mark in "[{":
                path.append(0 if mark == "[" else "")
                is_key = mark == "{"
    return lines
