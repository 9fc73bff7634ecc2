"""Strict reading of JSON: NaN and Infinity, which Python accepts but JSON does not have, are refused."""

from __future__ import annotations

import json
import math
from typing import Any

from luigi_pai.errors import Problem, SpecError


def read_json(text: str, source: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        SpecError: the text is not JSON. The error has one problem, which has a line if the line is known.
    """
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite)
    except json.JSONDecodeError as error:
        problem = Problem("", f"is not JSON: {error.msg}, column {error.colno}", line=error.lineno)
    except (RecursionError, ValueError) as error:
        problem = Problem("", f"cannot be read as JSON: {error}")
    raise SpecError(source, [problem])


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"JSON does not have {name}; if a text is meant, put it into quotes")


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError(f"{text} is too large a number")
    return number
