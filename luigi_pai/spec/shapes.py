"""A document of any shape, asked: what is not there, or is of another kind, is empty."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["item_of", "list_of", "mapping_of"]


def item_of(value: Any, key: str) -> Any:
    """Return what stands under a key, or None."""
    return value.get(key) if isinstance(value, Mapping) else None


def list_of(value: Any, key: str) -> list[Any]:
    """Return the list that stands under a key, or an empty one."""
    found = item_of(value, key)
    return found if isinstance(found, list) else []


def mapping_of(value: Any, key: str | None = None) -> dict[str, Any]:
    """Return a value, or what stands under its key, if that is a mapping; else an empty one."""
    found = value if key is None else item_of(value, key)
    return found if isinstance(found, dict) else {}
