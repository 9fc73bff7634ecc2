"""Where a value stands in a document: the keys and indexes that lead to it."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Path", "line_of", "path_text"]

Path = tuple["str | int", ...]
"""Where a value is: the keys and indexes that lead to it."""

_SIMPLE_KEY = re.compile(r"[A-Za-z0-9_-]+")


def path_text(path: Path) -> str:
    """Return a path as people write it: ``taskRoles.worker.commands[0]``, ``extras["a.b"]``."""
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
    """Return the line of a part, or of the nearest part that holds it; None where no lines are known."""
    while path and path not in lines:
        path = path[:-1]
    return lines.get(path)
