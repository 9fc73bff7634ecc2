"""Comparing answers with recorded ones."""

from __future__ import annotations


def shape(value):
    if isinstance(value, dict):
        return {key: shape(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    if isinstance(value, bool):
        return "bool"
    if value is None:
        return "null"
    return "num" if isinstance(value, (int, float)) else "str"


def shape_differences(path, theirs, mine):
    """Yield where two shapes differ; null may stand for any value, an empty list for any list."""
    if isinstance(theirs, dict) and isinstance(mine, dict):
        for key in sorted({*theirs, *mine}):
            if key not in mine or key not in theirs:
                yield f"{path}.{key} is only in one of them"
            else:
                yield from shape_differences(f"{path}.{key}", theirs[key], mine[key])
    elif isinstance(theirs, list) and isinstance(mine, list):
        if theirs and mine:
            yield from shape_differences(f"{path}[]", theirs[0], mine[0])
    elif theirs != mine and "null" not in (theirs, mine):
        yield f"{path}: {theirs} there, {mine} here"
