"""Formats numbers and other values like JavaScript."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

_LARGEST_PLAIN_EXPONENT = 21
_SMALLEST_PLAIN_EXPONENT = -6


def javascript_number(value: float) -> int | float:
    """Convert a double as JSON.stringify does: to an integer if it is whole and below 1e21.

    The integer has at most 17 significant digits, then zeros: 2**67 becomes 147573952589676410000.
    """
    if abs(value) < 10.0**_LARGEST_PLAIN_EXPONENT and value == int(value):
        return int(Decimal(repr(value)))
    return value


def javascript_text(value: Any) -> str:
    """Format a JSON value as String(value) does: ``true``, ``1e+21``, ``a,b``, ``[object Object]``."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number_text(value)
    if isinstance(value, list):
        return ",".join("" if item is None else javascript_text(item) for item in value)
    return "[object Object]"


def _number_text(value: float) -> str:
    try:
        number = float(value)
    except OverflowError:
        number = math.inf if value > 0 else -math.inf
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == 0:
        return "0"
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    figures = "".join(map(str, digits))
    point = len(figures) + int(exponent)  # number of digits before the decimal point
    if len(figures) <= point <= _LARGEST_PLAIN_EXPONENT:
        shown = figures + "0" * (point - len(figures))
    elif 0 < point <= _LARGEST_PLAIN_EXPONENT:
        shown = f"{figures[:point]}.{figures[point:]}"
    elif _SMALLEST_PLAIN_EXPONENT < point <= 0:
        shown = f"0.{'0' * -point}{figures}"
    else:
        mantissa = figures if len(figures) == 1 else f"{figures[0]}.{figures[1:]}"
        shown = f"{mantissa}e{point - 1:+d}"
    return f"-{shown}" if sign else shown
