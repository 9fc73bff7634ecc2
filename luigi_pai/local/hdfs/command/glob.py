r"""Hadoop's path patterns: ``*``, ``?``, ``[a-c]``, ``[^a]``, ``{a,b}`` and ``\`` before a character."""

from __future__ import annotations

import re

__all__ = ["alternatives", "is_pattern", "name_pattern", "plain"]

_SPECIAL = "*?[{"
_CLASS_SPECIAL = re.compile(r"[\\^\[]")


def is_pattern(text: str) -> bool:
    """Return whether a path has anything to expand or to unescape."""
    return any(letter in text for letter in _SPECIAL) or "\\" in text


def alternatives(text: str) -> list[str]:
    """Return what ``{a,b}`` stands for, one text for each alternative.

    A brace that is not closed is a plain character.
    """
    depth, start, cuts = 0, 0, []
    at = 0
    while at < len(text):
        letter = text[at]
        if letter == "\\":
            at += 1
        elif letter == "{":
            if not depth:
                start, cuts = at, [at]
            depth += 1
        elif letter == "," and depth == 1:
            cuts.append(at)
        elif letter == "}" and depth:
            depth -= 1
            if not depth:
                ends = [*cuts[1:], at]
                parts = [text[cut + 1 : end] for cut, end in zip(cuts, ends, strict=True)]
                return [
                    f"{text[:start]}{found}{rest}"
                    for part in parts
                    for found in alternatives(part)
                    for rest in alternatives(text[at + 1 :])
                ]
        at += 1
    return [text]


def name_pattern(text: str) -> re.Pattern[str] | None:
    """Return the pattern of one name of a path, None where it is a plain name."""
    out, at, special = "", 0, False
    while at < len(text):
        letter = text[at]
        closing = text.find("]", at + 2)
        if letter == "\\" and at + 1 < len(text):
            at += 1
            out += re.escape(text[at])
        elif letter == "*":
            out, special = f"{out}.*", True
        elif letter == "?":
            out, special = f"{out}.", True
        elif letter == "[" and closing > 0:
            inside = text[at + 1 : closing]
            negated = "^" if inside[0] in "^!" else ""
            inside = _CLASS_SPECIAL.sub(r"\\\g<0>", inside[1:] if negated else inside)
            out, special = f"{out}[{negated}{inside}]", True
            at = closing
        else:
            out += re.escape(letter)
        at += 1
    return re.compile(out, re.DOTALL) if special else None


def plain(text: str) -> str:
    """Return a name without its escapes."""
    return re.sub(r"\\(.)", r"\1", text, flags=re.DOTALL)
