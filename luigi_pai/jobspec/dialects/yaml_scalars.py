"""Value of a YAML scalar to a server's reader: null, a boolean, a number, a date, or text."""

from __future__ import annotations

import math
import re
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.dialects.javascript_text import javascript_number, javascript_text

if TYPE_CHECKING:
    from luigi_pai.jobspec.dialects.yaml_readers import YamlReader

__all__ = ["MERGE", "iso_text", "key_text", "plain_value", "tagged_value"]

MERGE = "<<"
"""The plain key whose value is merged into the mapping it stands in."""

_WORDS = {
    **dict.fromkeys(("~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
}
_FIRST_OF_NUMBERS = "+-.0123456789"  # and of dates
_DATE = re.compile(
    r"""(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})
      | (?P<Year>[0-9]{4})-(?P<Month>[0-9]{1,2})-(?P<Day>[0-9]{1,2})
        (?:[Tt]|[ \t]+)
        (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})
        (?:\.(?P<fraction>[0-9]*))?
        (?:[ \t]*(?:Z|(?P<sign>[-+])(?P<off_hour>[0-9]{1,2})(?::(?P<off_minute>[0-9]{2}))?))?""",
    re.VERBOSE,
)
_BASES = {"binary": 2, "octal": 8, "hexadecimal": 16, "decimal": 10}


def plain_value(text: str, reader: YamlReader) -> Any:
    """Return the value of a scalar without quotes and tag: None, bool, int, float, datetime or str.

    Raises:
        ValueError: it is a date beyond the year 9999.
    """
    if text in _WORDS:
        return _WORDS[text]
    if text[:1] not in _FIRST_OF_NUMBERS:
        return text
    for read in (_integer, _float):
        value = read(text, reader)
        if value is not None:
            return value
    date = _date(text)
    return text if date is None else date


def tagged_value(tag: str, text: str, reader: YamlReader) -> Any:
    """Return the value of a scalar that has one of YAML's tags: str, null, bool, int or float.

    Raises:
        ValueError: it does not fit the tag, or the tag is another.
    """
    if tag == "str":
        return text
    if tag == "null" and (not text or _WORDS.get(text, text) is None):
        return None
    if tag == "bool" and isinstance(_WORDS.get(text), bool):
        return _WORDS[text]
    read = {"int": _integer, "float": _float}.get(tag)
    value = read(text, reader) if read else None
    if value is None:
        raise ValueError(tag)
    return value


def iso_text(date: datetime) -> str:
    """Return a date as JavaScript's JSON has it: ``2020-01-01T00:00:00.000Z``."""
    return f"{date.isoformat(timespec='milliseconds')}Z"


def key_text(value: Any) -> str:
    """Return the text that JavaScript makes of a scalar used as a key, on a server whose time is UTC."""
    if not isinstance(value, datetime):
        return javascript_text(value)
    weekday, month, day, clock, year = value.ctime().split()
    return f"{weekday} {month} {int(day):02} {year} {clock} GMT+0000 (Coordinated Universal Time)"


def _integer(text: str, reader: YamlReader) -> int | float | None:
    match = reader.integer.fullmatch(text)
    if match is None:
        return None
    kind = str(match.lastgroup)
    digits = match[kind].replace("_", "")
    if kind == "sexagesimal":
        value = _base_60(digits)
    elif kind == "decimal":
        value = float(digits)  # unlike int() it has no limit of length
    else:
        try:
            value = float(int(digits, _BASES[kind]))
        except OverflowError:
            value = math.inf
    return javascript_number(-value if match[1] == "-" else value)


def _float(text: str, reader: YamlReader) -> int | float | None:
    if not reader.real.fullmatch(text):
        return None
    digits = text.replace("_", "").lower()
    sign = -1.0 if digits[0] == "-" else 1.0
    digits = digits.lstrip("+-")
    if digits == ".inf":
        return sign * math.inf
    if digits == ".nan" or digits.startswith(".e"):
        return math.nan
    return javascript_number(sign * (_base_60(digits) if ":" in digits else float(digits)))


def _base_60(digits: str) -> float:
    value, base = 0.0, 1.0
    for part in reversed(digits.split(":")):
        value += float(part) * base
        base *= 60
    return value


def _date(text: str) -> datetime | None:
    """Return the UTC time of a date; months, days and hours out of range run over, as in JavaScript."""
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(match[name] or match[name.title()]) for name in ("year", "month", "day"))
    if year < 100:  # noqa: PLR2004  JavaScript takes them for years of the 20th century
        year += 1900
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    thousandths = int((match["fraction"] or "")[:3].ljust(3, "0"))
    offset = timedelta(hours=int(match["off_hour"] or 0), minutes=int(match["off_minute"] or 0))
    since = timedelta(day - 1, second, 0, thousandths, minute, hour)
    try:
        first = datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)  # noqa: DTZ001  in UTC
        return first + since + (offset if match["sign"] == "-" else -offset)
    except OverflowError as error:
        raise ValueError(text) from error
