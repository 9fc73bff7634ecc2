"""Where a value stands in a document: the keys and indexes that lead to it."""

from __future__ import annotations

import json
import re

__all__ = ["Path", "path_text"]

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
