"""Hints at two likely mistakes, which are a misspelt name and a method that lacks its ``@property``."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

METHOD: Final = "is a method; put @property above it"
"""Message for a field that holds a method."""

_MOST_SHOWN = 12
_MOST_COMPARED = 200


def closest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> str | None:
    """Return the most similar of the first 200 known names; None if none is similar enough.

    ``likeness`` is the similarity that is required, from 0 to 1 (difflib's ratio).
    """
    import difflib  # noqa: PLC0415  only a mistake needs it

    near = difflib.get_close_matches(name, list(islice(known, _MOST_COMPARED)), n=1, cutoff=likeness)
    return near[0] if near else None


def nearest(name: str, known: Iterable[str]) -> str:
    """Return text to append to an unknown name: a space, then ``(did you mean 'x'?)`` or ``(known: 'a')``."""
    names = list(islice(known, _MOST_COMPARED))
    near = closest(name, names)
    if near is not None:
        return f" (did you mean {near!r}?)"
    if not names:
        return ""
    further = ", ..." if len(names) > _MOST_SHOWN else ""
    return f" (known: {', '.join(map(repr, names[:_MOST_SHOWN]))}{further})"
