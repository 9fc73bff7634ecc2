"""JSON and numbers as the JavaScript of OpenPAI's servers reads them from what a client sends."""

from __future__ import annotations

import json
import re
from typing import Any

from luigi_pai.spec.dialects.javascript_text import javascript_number

__all__ = ["read_json", "whole_number"]

_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.DOTALL,
)
_DIGITS = 18
"""Digits of a number that is used; Python reads no more than 4300."""


def read_json(text: str) -> Any:
    """Return the value of a JSON text: numbers are doubles, and 1.0 is 1; half a character is U+FFFD.

    Raises:
        ValueError: it is no JSON.
        RecursionError: it is too deep.
    """
    if "\\ud" in text.lower():
        text = _ESCAPE.sub(lambda escape: r"\ufffd" if escape[1] else escape[0], text)
    return json.loads(text, parse_int=_number, parse_float=_number, parse_constant=_no_constant)


def whole_number(text: str) -> int | None:
    """Return the number that digits stand for, at most 10**18; None for any other text."""
    if not re.fullmatch("[0-9]+", text):
        return None
    digits = text.lstrip("0") or "0"
    return int(digits) if len(digits) <= _DIGITS else 10**_DIGITS


def _number(text: str) -> float:
    return javascript_number(float(text))


def _no_constant(name: str) -> float:
    raise ValueError(name)
