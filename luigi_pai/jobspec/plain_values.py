"""Conversion of Python values, and of Luigi's parameters, to JSON values."""

from __future__ import annotations

import inspect
import math
import os
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import Enum
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.hints import METHOD
from luigi_pai.jobspec.paths import path_text

if TYPE_CHECKING:
    from luigi_pai.jobspec.paths import Path

_SURROGATE = re.compile("[\ud800-\udfff]")


def plain(given: Any, path: Path = ()) -> Any:
    """Return a copy of a value in the types of JSON.

    Mappings become dicts; lists and tuples become lists; dates, datetimes (both as
    ISO 8601) and paths become texts. An enum member that is also an instance of ``str``, ``int`` or ``float``
    becomes its value. Any other enum member becomes its name, as in the command lines that Luigi writes.

    Raises:
        SpecError: a value has no form in JSON; the error names the path and the reason, never the value.
    """
    if given is None or isinstance(given, bool):
        return given
    for kinds, converted in _CONVERSIONS:
        if isinstance(given, kinds):
            return converted(given, path)
    if inspect.isroutine(given):
        raise _refused(path, METHOD)
    like_a_number = hasattr(given, "__index__") or hasattr(given, "__float__")
    hint = (
        "; convert it with int(...) or float(...)"
        if like_a_number
        else "; write it as a text, a number or a list"
    )
    raise _refused(path, f"is of type {type(given).__name__}, which JSON does not have{hint}")


def _of_enum(given: Enum, path: Path) -> Any:
    return plain(given.value if isinstance(given, (str, int, float)) else given.name, path)


def _of_text(given: str, path: Path) -> str:
    if _SURROGATE.search(given):
        raise _refused(path, "has half a character in it (a lone surrogate), which no server reads")
    return str(given)


def _of_float(given: float, path: Path) -> float:
    if not math.isfinite(given):
        raise _refused(path, "is infinite or not a number, which JSON does not have")
    return float(given)


def _of_mapping(given: Mapping[Any, Any], path: Path) -> dict[str, Any]:
    for key in given:
        if not isinstance(key, str):
            raise _refused(path, f"has a key of type {type(key).__name__}; keys are texts")
    return {str(key): plain(item, (*path, str(key))) for key, item in given.items()}


def _of_bytes(given: Any, path: Path) -> Any:
    raise _refused(path, f"is of type {type(given).__name__}, which JSON does not have; decode it")


_CONVERSIONS: tuple[tuple[type | tuple[type, ...], Callable[[Any, Path], Any]], ...] = (
    (Enum, _of_enum),  # first, since a member may be a text or a number too
    (str, _of_text),
    (int, lambda given, _: int(given)),
    (float, _of_float),
    (date, lambda given, _: given.isoformat()),  # and datetime, which is a subclass of date
    (os.PathLike, lambda given, path: plain(os.fspath(given), path)),
    ((bytes, bytearray, memoryview), _of_bytes),
    (Mapping, _of_mapping),
    (Sequence, lambda given, path: [plain(item, (*path, index)) for index, item in enumerate(given)]),
)


def _refused(path: Path, message: str) -> SpecError:
    return SpecError("", [Problem(path_text(path), message)])
