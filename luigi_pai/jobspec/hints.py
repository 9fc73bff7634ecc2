"""Hints about likely mistakes: a misspelt name, a method without ``@property``, an odd character."""

from __future__ import annotations

import re
import unicodedata
from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

METHOD: Final = "is a method; put @property above it"
"""Message for a field whose value is a method."""

ODD: Final = re.compile(
    "[\u00a0\u00ab\u00ad\u00bb\u2000-\u200f\u2018-\u201f\u2028-\u202f\u205f-\u206f\u3000\ufeff\uff01-\uff5e]"
    "|(?<![^ \t\r\n-])[\u2010-\u2015\u2212](?=[-\u2010-\u2015\u2212]*[A-Za-z])"
)
"""A character used by mistake for a similar ASCII character: a blank, a quote, or the dash of an option."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")
_MOST_SHOWN = 12
_MOST_COMPARED = 200


def closest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """Return the most similar of the first 200 known names; None if no name is similar enough.

    ``likeness`` is the minimum similarity, from 0 to 1 (difflib's ratio).
    """
    import difflib  # noqa: PLC0415  needed only after a mistake

    near = difflib.get_close_matches(name, list(islice(known, _MOST_COMPARED)), n=1, cutoff=likeness)
    return near[0] if near else None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return a suffix for a message about an unknown name: `` (did you mean 'x'?)`` or `` (known: 'a')``."""
    names = list(islice(known, _MOST_COMPARED))
    near = closest(name, names)
    if near is not None:
        return f" (did you mean {near!r}?)"
    if not names:
        return ""
    further = ", ..." if len(names) > _MOST_SHOWN else ""
    return f" (known: {', '.join(map(repr, names[:_MOST_SHOWN]))}{further})"


def name_of(found: re.Match[str]) -> str:
    """Return the code point and name of a match's first character: ``U+00A0 (NO-BREAK SPACE)``."""
    first = found[0][0]
    return f"U+{ord(first):04X} ({unicodedata.name(first, 'without a name')})"


def not_ascii(text: str) -> str:
    """Return a suffix for a message about a string: what its first non-ASCII character is."""
    found = _NOT_ASCII.search(text)
    return f"; it has {name_of(found)} at character {found.start() + 1}" if found else ""
