"""The query of a URL as Express reads it, inside the rest-server: 4 with lists and objects, 5 flat."""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import unquote

__all__ = ["Fields", "as_text", "read_flat_query", "read_query"]

Fields = Mapping[str, str | list[str] | None]
"""For each field its text, or a list of texts; None for an object."""

_MOST_FIELDS = 1000
_LARGEST_INDEX = 20
"""Of an item of a list; a larger one is the name of an object's field."""

_BRACKETS = re.compile(r"\[[^\[\]]*\]")
_NO_ESCAPE = re.compile("%(?![0-9A-Fa-f]{2})")
_OBJECT = "[object Object]"
"""What JavaScript writes for any object."""


def read_query(query: str) -> Fields:
    """Return the fields of a query as Express 4 reads them.

    Returns:
        For each field its text; a list if it is there more than once, as ``name[]`` or as
        ``name[3]``; None for an object, ``name[key]``.
    """
    given: dict[str, list[str]] = {}
    for part in query.split("&")[:_MOST_FIELDS]:
        end = part.index("]=") + 1 if "]=" in part else part.find("=")
        key, value = (part, "") if end < 0 else (part[:end], part[end + 1 :])
        given.setdefault(_decoded(key), []).append(_decoded(value))
    fields: dict[str, str | list[str] | None] = {}
    items: dict[str, dict[int, str]] = {}
    for key, values in given.items():
        name, *steps = _steps(key)
        if (steps and not _is_index(steps[0])) or fields.get(name, "") is None:
            fields[name] = None
            continue
        place = items.setdefault(name, {})
        fields[name] = [] if steps or place or len(values) > 1 else values[0]
        index = int(steps[0] or "0") if steps else None
        for value in values:
            at = index if index is not None and index not in place else max(place, default=-1) + 1
            place[at] = value if all(map(_is_index, steps)) else _OBJECT
    return {
        name: [items[name][at] for at in sorted(items[name])] if isinstance(value, list) else value
        for name, value in fields.items()
    }


def read_flat_query(query: str) -> Fields:
    """Return the fields of a query as Express 5 reads them: brackets are letters of a name as any other.

    Returns:
        For each field its text; a list if it is there more than once.
    """
    fields: dict[str, str | list[str] | None] = {}
    for part in query.split("&")[:_MOST_FIELDS]:
        key, _, value = part.replace("+", " ").partition("=")
        if not part:
            continue
        name, text = unquote(key), unquote(value)
        known = fields.get(name)
        if isinstance(known, list):
            known.append(text)
        else:
            fields[name] = text if known is None else [known, text]
    return fields


def as_text(value: str | list[str] | None) -> str:
    """Return a field as JavaScript converts it to a text."""
    if isinstance(value, str):
        return value
    return _OBJECT if value is None else ",".join(value)


def _decoded(text: str) -> str:
    """Return a part of a query decoded; one that is no such code stays as it is."""
    spaced = text.replace("+", " ")
    try:
        return text if _NO_ESCAPE.search(spaced) else unquote(spaced, errors="strict")
    except UnicodeDecodeError:
        return text


def _steps(key: str) -> list[str]:
    """Return the name of a field, and what is in each pair of brackets after it."""
    first = _BRACKETS.search(key)
    name = key if first is None else key[: first.start()]
    inner = [found[1:-1] for found in _BRACKETS.findall(key)]
    return [name, *inner] if name or not inner else inner


def _is_index(step: str) -> bool:
    return step == "" or (re.fullmatch("0|[1-9][0-9]?", step) is not None and int(step) <= _LARGEST_INDEX)
