"""Scalars with the text that they were read from, where the servers' YAML readers differ in the value.

A document that is written anew keeps this text. So each server reads from it what it would have read
from the user's file. The scalars are equal to the plain values.
"""

from __future__ import annotations

from typing import Any

__all__ = ["Sourced", "same_source", "with_source", "without_source"]


class Sourced:
    """A scalar of a YAML document, together with its text.

    Attributes:
        source: the text, without an anchor; it fits on one line.
    """

    source: str


class _Int(int, Sourced):
    pass


class _Float(float, Sourced):
    pass


class _Text(str, Sourced):  # noqa: SLOT000  a str to every other part, with one attribute more
    pass


def with_source(value: Any, source: str) -> Any:
    """Return a number or text that is equal to the given one and has its text."""
    kinds: dict[type, type[Any]] = {int: _Int, float: _Float, str: _Text}
    made = kinds[type(value)](value)
    made.source = source
    return made


def without_source(value: Any) -> Any:
    """Return a document as plain dicts, lists and values."""
    if isinstance(value, dict):
        return {without_source(key): without_source(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_source(item) for item in value]
    if isinstance(value, Sourced):
        plain: Any = value
        return next(kind(plain) for kind in (int, float, str) if isinstance(plain, kind))
    return value


def same_source(one: Any, other: Any) -> bool:
    """Return whether two values have the same text, or both none."""
    return getattr(one, "source", None) == getattr(other, "source", None)
