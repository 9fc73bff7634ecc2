"""Invisible and typographic characters, which look like a blank or like a character of ASCII."""

from __future__ import annotations

import re
import unicodedata
from typing import Final

ODD: Final = re.compile(
    "[\u00a0\u00ab\u00ad\u00bb\u2000-\u200f\u2018-\u201f\u2028-\u202f\u205f-\u206f\u3000\ufeff\uff01-\uff5e]"
    "|(?<![^ \t\r\n-])[\u2010-\u2015\u2212](?=[-\u2010-\u2015\u2212]*[A-Za-z])"
)
"""Such a character in the place of a blank, a quote or an option's dash."""

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


def name_of(found: re.Match[str]) -> str:
    """Return the code point and the name of the first character of a match: ``U+00A0 (NO-BREAK SPACE)``."""
    first = found[0][0]
    return f"U+{ord(first):04X} ({unicodedata.name(first, 'without a name')})"


def not_ascii(text: str) -> str:
    """Return text to append to the message about a text, which names its first character beyond ASCII."""
    found = _NOT_ASCII.search(text)
    return f"; it has {name_of(found)} at character {found.start() + 1}" if found else ""
