"""Values checked and converted, and errors worded, as Joi 13 does, the validator inside OpenPAI.

Only what its rest-servers' schemas use. A check takes the value, its label and the
object it stands in, and returns the converted value or raises `Refused` with
Joi's sentence. The first error ends the check, as there.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.local.node.json_text import read_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["ABSENT", "AnyObject", "Array", "Boolean", "Number", "Object", "Refused", "Rule", "String"]

ABSENT: Any = object()
"""Marks a missing key, and "no default"."""

_EMAIL = re.compile(r"[^@\s]+@[^@\s.]+(\.[^@\s.]+)+")
_SAFE_INTEGER = 2**53 - 1
_DECIMAL = re.compile(r"\s*[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?\s*")
_PREFIXED = re.compile(r"\s*0[xXoObB][0-9a-fA-F]+\s*")


class Refused(Exception):
    """A value that the schema does not accept; its message is Joi's."""


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One check of a schema; ``default`` stands in for an absent key, unless it is ABSENT."""

    required: bool = False
    default: Any = ABSENT

    def check(self, value: Any, label: str, parent: Mapping[str, Any]) -> Any:
        """Return the value as the server uses it, or raise Refused."""
        raise NotImplementedError


@dataclass(frozen=True)
class String(Rule):
    """A string; empty only if allowed."""

    pattern: str = ""
    shown_pattern: str = ""
    pattern_name: str = ""
    one_of: tuple[str, ...] = ()
    allow_empty: bool = False
    min_length: int = 0
    token: bool = False
    email: bool = False

    def check(self, value: Any, label: str, _parent: Mapping[str, Any]) -> Any:
        """Return the string unchanged."""
        if (value == "" and self.allow_empty) or value in self.one_of:
            return value
        if self.one_of:
            raise Refused(f'"{label}" must be one of [{", ".join(self.one_of)}]')
        if not isinstance(value, str):
            raise Refused(f'"{label}" must be a string')
        if not value:
            raise Refused(f'"{label}" is not allowed to be empty')
        if len(value.encode("utf-16-le", "surrogatepass")) // 2 < self.min_length:
            raise Refused(f'"{label}" length must be at least {self.min_length} characters long')
        if self.token and not re.fullmatch(r"[A-Za-z0-9_]+", value):
            raise Refused(f'"{label}" must only contain alpha-numeric and underscore characters')
        if self.email and not _EMAIL.fullmatch(value):
            raise Refused(f'"{label}" must be a valid email')
        if self.pattern and not re.fullmatch(self.pattern, value):
            shown = self.shown_pattern or f"/^{self.pattern}$/"
            which = f"{self.pattern_name} pattern" if self.pattern_name else f"required pattern: {shown}"
            raise Refused(f'"{label}" with value "{value}" fails to match the {which}')
        return value


@dataclass(frozen=True)
class Number(Rule):
    """An integer; a string that reads as one is converted."""

    minimum: int | None = None
    maximum: int | None = None
    not_above: str = ""
    allow_null: bool = False

    def check(self, value: Any, label: str, parent: Mapping[str, Any]) -> Any:
        """Return the value as an int; ``not_above`` names a sibling that bounds it."""
        if value is None and self.allow_null:
            return None
        number = _parse_number(value) if isinstance(value, str) else value
        if isinstance(number, bool) or not isinstance(number, (int, float)) or math.isnan(number):
            raise Refused(f'"{label}" must be a number')
        if math.isinf(number) or abs(number) > _SAFE_INTEGER or number != int(number):
            raise Refused(f'"{label}" must be an integer')
        number = int(number)
        if self.minimum is not None and number < self.minimum:
            raise Refused(f'"{label}" must be larger than or equal to {self.minimum}')
        limit = parent.get(self.not_above) if self.not_above else self.maximum
        if limit is not None and number > limit:
            raise Refused(f'"{label}" must be less than or equal to {limit}')
        return number


@dataclass(frozen=True)
class Boolean(Rule):
    """true or false, also written as a string."""

    def check(self, value: Any, label: str, _parent: Mapping[str, Any]) -> Any:
        """Return a bool."""
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if not isinstance(value, bool):
            raise Refused(f'"{label}" must be a boolean')
        return value


@dataclass(frozen=True)
class Array(Rule):
    """A list whose items all follow one rule."""

    items: Rule
    min_length: int = 0

    def check(self, value: Any, label: str, _parent: Mapping[str, Any]) -> Any:
        """Return a new list of converted items."""
        value = _parse_json(value)
        if not isinstance(value, list):
            raise Refused(f'"{label}" must be an array')
        converted = []
        for position, item in enumerate(value):
            try:
                converted.append(self.items.check(item, str(position), {}))
            except Refused as reason:
                raise Refused(f'"{label}" at position {position} fails because [{reason}]') from None
        if len(value) < self.min_length:
            raise Refused(f'"{label}" must contain at least {self.min_length} items')
        return converted


@dataclass(frozen=True)
class Object(Rule):
    """An object with known keys and no others, checked in the order of the schema."""

    keys: Mapping[str, Rule]
    root: bool = False

    def check(self, value: Any, label: str = "value", _parent: Mapping[str, Any] | None = None) -> Any:
        """Return a new dict: the keys that came, converted, then defaults of the absent ones."""
        value = _parse_object(value, label)
        converted = dict(value)
        for key, rule in self.keys.items():
            if key in value:
                try:
                    converted[key] = rule.check(value[key], key, converted)
                except Refused as reason:
                    raise Refused(f'child "{key}" fails because [{reason}]') from None
            elif rule.required:
                raise Refused(f'child "{key}" fails because ["{key}" is required]')
            elif rule.default is not ABSENT:
                converted[key] = rule.default
        unknown = [f'"{key}" is not allowed' for key in value if key not in self.keys]
        if unknown:
            raise Refused((". " if self.root else ", ").join(unknown))
        return converted


@dataclass(frozen=True)
class AnyObject(Rule):
    """An object with keys of any name that has a letter, digit or _ in it."""

    def check(self, value: Any, label: str, _parent: Mapping[str, Any]) -> Any:
        """Return the object."""
        value = _parse_object(value, label)
        unknown = [f'"{key}" is not allowed' for key in value if not re.search(r"[A-Za-z0-9_]", key)]
        if unknown:
            raise Refused(", ".join(unknown))
        if not _can_be_said(value):
            raise Refused(f'"{label}" must be an object')
        return dict(value)


def _parse_number(text: str) -> float | None:
    if _DECIMAL.fullmatch(text):
        return float(text)
    if _PREFIXED.fullmatch(text):  # JavaScript's parseFloat stops after the leading 0
        return 0
    return None


def _parse_object(value: Any, label: str) -> dict[str, Any]:
    value = _parse_json(value)
    if not isinstance(value, dict):
        raise Refused(f'"{label}" must be an object')
    return value


def _parse_json(value: Any) -> Any:
    """Return what a JSON text stands for, where an object or array is expected."""
    if not isinstance(value, str):
        return value
    try:
        return read_json(value)
    except (ValueError, RecursionError):
        return value


_DEEPEST = 100


def _can_be_said(value: Any, depth: int = _DEEPEST) -> bool:
    """Return whether a value can be written as JSON again: finite, and not too deep."""
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        return depth > 0 and all(_can_be_said(item, depth - 1) for item in items)
    return not isinstance(value, float) or math.isfinite(value)
