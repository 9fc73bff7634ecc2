"""Detection of methods in place of values: properties of a task whose ``@property`` was forgotten."""

from __future__ import annotations

import inspect
from typing import Any, Final

__all__ = ["METHOD", "is_method"]

METHOD: Final = "is a method; put @property above it"
"""Message for a field that holds a method."""


def is_method(value: Any) -> bool:
    """Return whether a value is a method or a function."""
    return inspect.isroutine(value)
