"""Parses the template language in commands: mustache 2.3 with ``<% %>`` as tags.

The server fills in names and removes every other kind of tag: sections with their content, partials,
comments, unescaped names. Of these kinds, jobs may contain only comments (``templates.references`` rejects
the others). A tag that is not closed makes the server fail.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final

SPACES: Final = (
    "\t\n\v\f\r \u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a"
    "\u2028\u2029\u202f\u205f\u3000\ufeff"
)
"""JavaScript's white space, in patterns and in ``trim()``."""

_INDEX = re.compile(r"\[([0-9]+)\]")
_ARRAY_INDEX = re.compile(r"0|[1-9][0-9]*", re.ASCII)
_OPENING_KINDS = ("#", "^", "/", ">", "{", "&", "=", "!")


ABSENT: Final = object()
"""The value of a name that refers to nothing."""


class TemplateError(ValueError):
    """A template that makes the server fail."""


@dataclass(frozen=True)
class Tag:
    """A tag in a template.

    Attributes:
        kind: ``name`` if the tag is a name; for any other tag, the character after ``<%``, such as ``#``.
        value: The tag's content, without that character.
    """

    kind: str
    value: str


def parse(template: str) -> list[str | Tag]:
    """Split a template into strings and tags. The content of sections is left out.

    Raises:
        TemplateError: A tag is not closed.
    """
    found: list[str | Tag] = []
    depth = position = 0
    while position < len(template):
        start = template.find("<%", position)
        piece = template[position : start if start >= 0 else len(template)]
        if depth == 0 and piece:
            found.append(piece)
        if start < 0:
            break
        end = template.find("%>", start + 2)
        if end < 0:
            raise TemplateError(f"'%>' is missing: the tag {shown(template[start:])} is not closed")
        value = template[start + 2 : end].strip(SPACES)
        kind = value[0] if value.startswith(_OPENING_KINDS) else "name"
        if kind != "name":
            value = value[1:].strip(f"{SPACES}}}=")
        if depth == 0:
            found.append(Tag(kind, value))
        depth = max(0, depth + {"#": 1, "^": 1, "/": -1}.get(kind, 0))
        position = end + 2
    return found


def shown(tag: str) -> str:
    """Return the start of a tag on one line, so that a reader can find it."""
    line = " ".join(tag.split())
    return line if len(line) <= 40 else f"{line[:40]}..."  # noqa: PLR2004  enough to find the tag


def steps(name: str) -> list[str]:
    """Split a name into steps: ``$data.uri[0]`` -> ``["$data", "uri", "0"]``."""
    name = _INDEX.sub(r".\1", name)
    return name.split(".") if name.find(".") > 0 else [name]


def look_up(view: Any, path: list[str]) -> Any:
    """Return the value under a path of keys and indexes, or ``ABSENT``.

    The server can also look up ``length`` and a string's characters, but no job refers to these.
    """
    value: Any = view
    for step in path:
        if isinstance(value, dict):
            value = value.get(step, ABSENT)
        elif isinstance(value, list) and _ARRAY_INDEX.fullmatch(step) and len(step) <= len(str(len(value))):
            value = value[int(step)] if int(step) < len(value) else ABSENT
        else:
            return ABSENT
        if value is ABSENT or value is None:
            break
    return value
