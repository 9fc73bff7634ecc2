"""Conversion of a YAML scalar as the servers' js-yaml does it: to null, a boolean, a number or a text.

OpenPAI 0.15 to 1.8 and LTP 1.0 use js-yaml 3, LTP 1.1 and later use js-yaml 4. A scalar that these two read
differently is refused. The patterns are js-yaml's (``lib/type/int.js``, ``float.js`` and ``timestamp.js``).
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from datetime import date
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.dialects.javascript_text import javascript_number
from luigi_pai.jobspec.dialects.yaml_problems import QUOTE_TEXT

if TYPE_CHECKING:
    from collections.abc import Sequence

MERGE = "<<"
"""The plain key whose value is merged into the mapping that has the key."""

_WORDS = {
    **dict.fromkeys(("~", "null", "Null", "NULL", ""), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_FIRST_OF_NUMBERS = "+-.0123456789"  # and of dates
_EXPONENT = r"(?:[eE][-+]?[0-9]+)?"
_DIFFERENT = re.compile(
    rf"""[-+]?(?:0[0-9_]+(?:\.[0-9_]*)?{_EXPONENT}
      | 0o[0-7_]+
      | [1-9][0-9_]*(?::[0-5]?[0-9])+
      | [0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*)""",
    re.VERBOSE,
)
_DATE = re.compile(r"(?!00)[0-9]{4}-[0-9]{2}-[0-9]{2}")
_TIME = re.compile(
    r"""00[0-9]{2}-[0-9]{2}-[0-9]{2}  # JavaScript takes the year 00YY for 19YY
      | [0-9]{4}-[0-9]{1,2}-[0-9]{1,2}(?:[Tt]|[ \t]+)[0-9]{1,2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?
        (?:[ \t]*(?:Z|[-+][0-9]{1,2}(?::[0-9]{2})?))?""",
    re.VERBOSE,
)
_INTEGER = re.compile(
    r"""([-+]?)(?:0b(?P<binary>[01_]*[01])
      | 0x(?P<hexadecimal>[0-9a-fA-F_]*[0-9a-fA-F])
      | (?P<decimal>0+|[1-9][0-9_]*(?<!_)))""",
    re.VERBOSE,
)
_BASES = {"binary": 2, "hexadecimal": 16, "decimal": 10}
_REAL = re.compile(
    rf"""(?:\.[0-9_]+{_EXPONENT}
      | [-+]?\.(?:inf|Inf|INF)
      | \.(?:nan|NaN|NAN)
      | [-+]?(?:0|[1-9][0-9_]*)(?:\.[0-9_]*)?{_EXPONENT})(?<!_)""",
    re.VERBOSE,
)
_TYPES: dict[str, type | tuple[type, ...]] = {
    "null": type(None),
    "bool": bool,
    "int": int,
    "float": (int, float),
}


class UnclearScalarError(ValueError):
    """A scalar that OpenPAI and LTP, or servers and people, read differently. The message omits the value."""


def plain_value(text: str, *, js_yaml_4: bool | None = None) -> tuple[Any, bool]:
    """Return the value of a scalar that has neither quotes nor a tag, and whether it is a date.

    ``js_yaml_4`` is whether js-yaml 4 reads it, and not js-yaml 3; None if that is not known.

    Raises:
        UnclearScalarError: js-yaml 3 and 4 read it differently, and the version is not known; or it is a
            date with a time, a date that does not exist, or a date before the year 100.
    """
    if text in _WORDS:
        return _WORDS[text], False
    if text[0] not in _FIRST_OF_NUMBERS:
        return text, False
    if _DIFFERENT.fullmatch(text) and text.strip("+-0"):
        if js_yaml_4 is not None:
            return _as_read_by(text, js_yaml_4=js_yaml_4), False
        raise UnclearScalarError(
            f"OpenPAI and LTP 1.1 and later take this for different values; {QUOTE_TEXT}; "
            "if a number is meant, write it in decimal digits that do not begin with 0"
        )
    is_date = _DATE.fullmatch(text) is not None
    if is_date:
        with contextlib.suppress(ValueError):  # a text such as 2024-02-30 is refused below
            return f"{date.fromisoformat(text)}T00:00:00.000Z", True
    if is_date or _TIME.fullmatch(text):
        raise UnclearScalarError(f"the server takes this for a time, and converts it to UTC; {QUOTE_TEXT}")
    number = _number(text)
    return (text if number is None else number), False


def tagged_value(tag: str, text: str, *, js_yaml_4: bool | None = None) -> Any:
    """Return the value of a scalar whose tag (without its prefix) is str, null, bool, int or float.

    Raises:
        ValueError: the text does not fit the tag, or the tag is not one of these five.
    """
    if tag == "str":
        return text
    if tag not in _TYPES:
        raise ValueError(tag)
    value, is_date = plain_value(text, js_yaml_4=js_yaml_4)
    if is_date or not isinstance(value, _TYPES[tag]) or (isinstance(value, bool) and tag != "bool"):
        raise ValueError(tag)
    return value


def _as_read_by(text: str, *, js_yaml_4: bool) -> Any:
    """Return the value of a scalar that js-yaml 3 and 4 read differently."""
    digits, base = text.lstrip("+-").replace("_", ""), 8
    parts: Sequence[str] = digits.removeprefix("0o")
    is_number = js_yaml_4
    if ":" in digits:
        parts, base, is_number = digits.split(":"), 60, not js_yaml_4
    elif not js_yaml_4:
        is_number = re.fullmatch(r"[0-7]+", digits) is not None
    elif not digits.startswith("0o"):
        parts = [digits]
    if text[-1] == "_" or not is_number:
        return text
    value = functools.reduce(lambda total, part: total * base + float(part), parts, 0.0)
    return javascript_number(-value if text[0] == "-" else value)


def _number(text: str) -> int | float | None:
    if match := _INTEGER.fullmatch(text):
        kind = str(match.lastgroup)
        digits = match[kind].replace("_", "")
        try:  # unlike int(), float() has no limit of decimal digits
            value = float(digits) if kind == "decimal" else float(int(digits, _BASES[kind]))
        except OverflowError:
            value = math.inf
        return javascript_number(-value if match[1] == "-" else value)
    if not _REAL.fullmatch(text):
        return None
    digits = text.replace("_", "").lower()
    if digits.startswith((".e", ".nan")):
        return math.nan
    return javascript_number(float(digits.replace(".inf", "inf")))
