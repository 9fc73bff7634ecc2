"""Paths to values in a document, and functions that look up values in documents of any shape."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Path = tuple["str | int", ...]
"""Keys and indexes that lead to a value."""

_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def path_text(path: Path) -> str:
    """Format a path: ``taskRoles.worker.commands[0]``, ``extras["a.b"]``."""
    parts = []
    for step in path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif _SIMPLE_KEY.fullmatch(step):
            parts.append(f".{step}")
        else:
            parts.append(f"[{json.dumps(step, ensure_ascii=False)}]")
    return "".join(parts).removeprefix(".")


def line_of(path: Path, lines: Mapping[Path, int]) -> int | None:
    """Return a value's line, or that of the nearest value that contains it; None if no lines are known."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)


def leaves(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield (path, value) for every value at any depth in ``value`` that is neither a list nor a dict."""
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from leaves(item, (*path, key))
    else:
        yield path, value


def strings(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Yield every string in lists and mappings, with its path."""
    yield from ((place, leaf) for place, leaf in leaves(value, path) if isinstance(leaf, str))


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Copy nested lists and dicts, applying ``change`` to every value that is not a list or dict."""
    if isinstance(value, dict):
        return {key: mapped(item, change) for key, item in value.items()}
    return [mapped(item, change) for item in value] if isinstance(value, list) else change(value)


def item_of(value: Any, key: str) -> Any:
    """Return the value under a key; None if the key is missing, or if ``value`` is not a mapping."""
    return value.get(key) if isinstance(value, Mapping) else None


def text_of(value: Any, key: str) -> str | None:
    """Return the string under a key; None if there is none."""
    found = item_of(value, key)
    return found if isinstance(found, str) else None


def list_of(value: Any, key: str) -> list[Any]:
    """Return the list under a key; an empty list if there is none."""
    found = item_of(value, key)
    return found if isinstance(found, list) else []


def mapping_of(value: Any, key: str | None = None) -> dict[str, Any]:
    """Return ``value`` or, if you pass a ``key``, the value under it; return {} if this is not a dict."""
    found = value if key is None else item_of(value, key)
    return found if isinstance(found, dict) else {}


def is_int(value: Any) -> TypeGuard[int]:
    """Return whether a value is an integer. True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)
