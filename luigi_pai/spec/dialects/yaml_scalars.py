"""What a YAML scalar means to a server's reader: null, a boolean, a number, a moment, or text."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from luigi_pai.spec.dialects.yaml_readers import YamlReader

__all__ = ["MERGE", "Binary", "Moment", "binary", "javascript_text", "number", "plain_value", "tagged_value"]

_NULLS = frozenset({"~", "null", "Null", "NULL"})
_BOOLEANS = {
    "true": True,
    "True": True,
    "TRUE": True,
    "false": False,
    "False": False,
    "FALSE": False,
}
_MOMENT = re.compile(
    r"""(?P<year>[0-9]{4})-(?P<month>[0-9]{2})-(?P<day>[0-9]{2})
      | (?P<Year>[0-9]{4})-(?P<Month>[0-9]{1,2})-(?P<Day>[0-9]{1,2})
        (?:[Tt]|[ \t]+)
        (?P<hour>[0-9]{1,2}):(?P<minute>[0-9]{2}):(?P<second>[0-9]{2})
        (?:\.(?P<fraction>[0-9]*))?
        (?:[ \t]*(?:Z|(?P<sign>[-+])(?P<off_hour>[0-9]{1,2})(?::(?P<off_minute>[0-9]{2}))?))?""",
    re.VERBOSE,
)
_BASES = {"binary": 2, "octal": 8, "hexadecimal": 16, "decimal": 10}
_BASE64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_BASE64_TEXT = re.compile(r"[A-Za-z0-9+/=\r\n]*")

_LARGEST_WITHOUT_EXPONENT = 1e21
_SMALLEST_WITHOUT_EXPONENT = 1e-6
_DAY = 86_400_000  # ms
_WEEKDAYS = ("Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed")  # 1970 began on a Thursday
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")

MERGE = "<<"
"""The plain key whose value is merged into the mapping it stands in."""


@dataclass(frozen=True)
class Moment:
    """A date or time, as JavaScript's Date has it.

    Attributes:
        milliseconds: since 1970 in UTC.
    """

    milliseconds: int

    def __str__(self) -> str:
        days, rest = divmod(self.milliseconds, _DAY)
        year, month, day = _civil(days)
        shown = f"{year:04d}" if 0 <= year <= 9999 else f"{'-' if year < 0 else '+'}{abs(year):06d}"  # noqa: PLR2004
        seconds, thousandths = divmod(rest, 1000)
        return (
            f"{shown}-{month:02d}-{day:02d}T{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
            f".{thousandths:03d}Z"
        )

    def javascript_text(self) -> str:
        """Return it as JavaScript writes it in a text, on a machine whose time is UTC."""
        days, rest = divmod(self.milliseconds, _DAY)
        year, month, day = _civil(days)
        clock = f"{rest // 3_600_000:02d}:{rest // 60_000 % 60:02d}:{rest // 1000 % 60:02d}"
        shown = f"{_WEEKDAYS[days % 7]} {_MONTHS[month - 1]} {day:02d} {year:04d}"
        return f"{shown} {clock} GMT+0000 (Coordinated Universal Time)"


@dataclass(frozen=True)
class Binary:
    """The bytes of a ``!!binary``."""

    data: bytes


def plain_value(text: str, rules: YamlReader) -> Any:
    """Return what a scalar without quotes and tag means: None, bool, int, float, Moment or str."""
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    value = _integer(text, rules)
    if value is None:
        value = _float(text, rules)
    if value is not None:
        return value
    moment = _moment(text)
    return text if moment is None else moment


def tagged_value(tag: str, text: str, rules: YamlReader) -> tuple[bool, Any]:
    """Return whether a scalar can have a tag of YAML's (``int``, ``str``, ...), and its value then."""
    if tag == "str":
        return True, text
    if tag == "null":
        return text in _NULLS, None
    if tag == "bool":
        return text in _BOOLEANS, _BOOLEANS.get(text)
    if tag == "merge":
        return text == MERGE, text
    value: Any = None
    if tag in ("int", "float"):
        value = (_integer if tag == "int" else _float)(text, rules)
    elif tag in ("timestamp", "binary"):
        value = (_moment if tag == "timestamp" else binary)(text)
    return value is not None, value


def number(value: float) -> int | float:
    """Return a number of JavaScript's as it writes it: integral ones are integers, up to 21 digits."""
    if abs(value) < _LARGEST_WITHOUT_EXPONENT and value == int(value):
        return int(Decimal(repr(value)))  # not int(value): JavaScript fills up with zeros after 17 digits
    return value


def javascript_text(value: Any) -> str:
    """Return the text that JavaScript makes of a scalar when it is used as a key."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return _number_text(float(value))
    return str(value)


def _integer(text: str, rules: YamlReader) -> int | float | None:
    match = rules.integer.fullmatch(text)
    if match is None:
        return None
    kind = str(match.lastgroup)
    digits = match[kind].replace("_", "")
    if kind == "sexagesimal":
        value = _base_60([float(int(part)) for part in digits.split(":")])
    else:
        value = _rounded(digits, _BASES[kind])
    return number(-value if match[1] == "-" else value)


def _rounded(digits: str, base: int) -> float:
    """Return an integer as the nearest number that JavaScript has."""
    try:
        # float() of decimal digits has no limit of length, as int() has
        return float(digits) if base == 10 else float(int(digits, base))  # noqa: PLR2004
    except OverflowError:
        return math.inf


def _base_60(parts: list[float]) -> float:
    value, base = 0.0, 1.0
    for part in reversed(parts):
        value += part * base
        base *= 60
    return value


def _float(text: str, rules: YamlReader) -> int | float | None:
    if not rules.real.fullmatch(text):
        return None
    digits = text.replace("_", "").lower()
    sign = -1.0 if digits[0] == "-" else 1.0
    digits = digits.lstrip("+-")
    if digits == ".inf":
        return sign * math.inf
    if digits == ".nan" or digits.startswith((".e", ".E")):
        return math.nan
    if ":" in digits:
        return number(sign * _base_60([float(part) for part in digits.split(":")]))
    return number(sign * float(digits))


def _moment(text: str) -> Moment | None:
    match = _MOMENT.fullmatch(text)
    if match is None:
        return None
    year, month, day = (int(match[name] or match[name.title()]) for name in ("year", "month", "day"))
    if year < 100:  # noqa: PLR2004  JavaScript takes them for years of the 20th century
        year += 1900
    hour, minute, second = (int(match[name] or 0) for name in ("hour", "minute", "second"))
    thousandths = int((match["fraction"] or "")[:3].ljust(3, "0"))
    offset = int(match["off_hour"] or 0) * 60 + int(match["off_minute"] or 0)
    if match["sign"] == "-":
        offset = -offset
    seconds = (hour * 60 + minute - offset) * 60 + second
    return Moment(_days(year, month, day) * _DAY + seconds * 1000 + thousandths)


def _days(year: int, month: int, day: int) -> int:
    """Return the days since 1970-01-01; months and days out of range run over, as in JavaScript."""
    year, month = year + (month - 1) // 12, (month - 1) % 12 + 1
    past = year - (month <= 2)  # noqa: PLR2004  years begin in March here, so that leap days end them
    in_year = (153 * ((month + 9) % 12) + 2) // 5
    return past * 365 + past // 4 - past // 100 + past // 400 + in_year + day - 1 - 719_468


def _civil(days: int) -> tuple[int, int, int]:
    """Return year, month and day of the days since 1970-01-01."""
    era, in_era = divmod(days + 719_468, 146_097)
    past = (in_era - in_era // 1460 + in_era // 36_524 - in_era // 146_096) // 365
    in_year = in_era - (365 * past + past // 4 - past // 100)
    shifted = (5 * in_year + 2) // 153
    month = (shifted + 2) % 12 + 1
    return era * 400 + past + (month <= 2), month, in_year - (153 * shifted + 2) // 5 + 1  # noqa: PLR2004


def binary(text: str) -> Binary | None:
    """Return the bytes of a base64 text, read as leniently as js-yaml does; None if it is none."""
    if not _BASE64_TEXT.fullmatch(text):
        return None
    if len(text.replace("\r", "").replace("\n", "")) * 6 % 8:
        return None
    bits = "".join(f"{_BASE64.index(character):06b}" for character in text if character in _BASE64)
    return Binary(bytes(int(bits[start : start + 8], 2) for start in range(0, len(bits) - 7, 8)))


def _number_text(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0:
        return "0"
    if _SMALLEST_WITHOUT_EXPONENT <= abs(value) < _LARGEST_WITHOUT_EXPONENT:
        text = repr(number(value))
        if "e" not in text:
            return text
        digits, exponent = text.split("e")
        sign, digits = ("-", digits[1:]) if digits[0] == "-" else ("", digits)
        return f"{sign}0.{'0' * (-int(exponent) - 1)}{digits.replace('.', '')}"
    digits, exponent = repr(value).split("e")
    return f"{digits.removesuffix('.0')}e{int(exponent):+d}"
