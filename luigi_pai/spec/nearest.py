"""The name that was probably meant."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["nearest"]

_MOST_SHOWN = 12


def nearest(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence on an unknown name: ``; did you mean 'x'?``, or what there is."""
    names = list(known)
    near = difflib.get_close_matches(name, names, n=1)
    if near:
        return f"; did you mean {near[0]!r}?"
    if not names:
        return ""
    further = ", ..." if len(names) > _MOST_SHOWN else ""
    return f"; there is {', '.join(map(repr, names[:_MOST_SHOWN]))}{further}"
