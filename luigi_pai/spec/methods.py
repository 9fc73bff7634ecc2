"""Methods given where their values are meant: a property of a task whose ``@property`` was forgotten."""

from __future__ import annotations

import inspect
from typing import Any, Final

__all__ = ["METHOD", "is_method"]

METHOD: Final = "is a method; put @property above it"
"""What is wrong with a field that holds one."""


def is_method(value: Any) -> bool:
    """Return whether a value is a method or a function, which no field of a job is."""
    return inspect.isroutine(value)
