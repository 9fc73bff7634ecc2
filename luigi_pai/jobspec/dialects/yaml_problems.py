"""Problems of a YAML text, in sentences that do not quote the text, because it may contain a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, Problem
from luigi_pai.jobspec.dialects.characters import ODD, name_of
from luigi_pai.jobspec.paths import path_text

if TYPE_CHECKING:
    from luigi_pai.jobspec.paths import Path

MAX_DEPTH = 100
"""Largest number of nested levels in a document."""

BAD_TAG = (
    "this value does not fit its tag, or the tag is none of !!str, !!int, !!float, !!bool and !!null; leave "
    "the tag out, or put a text that begins with '!' into quotes"
)
"""Message for a tag that is unknown or does not fit its value."""

QUOTE_TEXT = "if a text is meant, put it into quotes"
"""Advice for a value that is not read as a text."""

_OPEN_QUOTE = "the quote that begins here is never closed"
_KEY_WITHOUT_COLON = "a key needs ': ' after it, on the same line and within 1,024 characters"
_ANCHOR = (
    "'&' gives a value a name of letters, digits, '-' and '_', and '*' refers to it; put a text that begins "
    "with one of them into quotes"
)
_INDENTATION = (
    "this does not fit the lines above; look at its indentation, and at quotes and brackets before it"
)
_AT_CONTEXT = (_OPEN_QUOTE, _KEY_WITHOUT_COLON, _ANCHOR)
"""Messages for mistakes that PyYAML notices late, so that their place is the error's ``context_mark``."""

_MESSAGES = (
    (
        "mapping values are not allowed",
        (
            "a second ': ' is in this line, its indentation is wrong, or its key has more than 1,024 "
            "characters; put a text with ': ' into quotes"
        ),
    ),
    ("sequence entries are not allowed", "'- ' cannot begin a list here; put it on a line of its own"),
    ("could not find expected ':'", _KEY_WITHOUT_COLON),
    ("but found '<block mapping start>'", _INDENTATION),
    ("expected <block end>", _INDENTATION),
    ("expected '<document start>'", _INDENTATION),
    ("expected ',' or", "',' or the closing bracket is missing before this"),
    ("found unexpected end of stream", _OPEN_QUOTE),
    ("found unexpected document separator", _OPEN_QUOTE),
    ("unknown escape", "there is no such escape; write a backslash as \\\\ in \"...\", or use '...'"),
    ("expected alphabetic or numeric character", _ANCHOR),
    ("found undefined alias", _ANCHOR),
    ("but found another document", "a second document begins here; a job is one document"),
)
"""Pairs: part of a PyYAML message, and our message. ``from_pyyaml`` has a message for all other cases."""


class YamlError(Exception):
    """A problem at which the reading of a text ends."""

    def __init__(self, message: str, line: int, column: int = 0, path: Path = ()) -> None:
        self.problem = yaml_problem(message, line, column, path)
        super().__init__(str(self.problem))


def yaml_problem(message: str, line: int, column: int, path: Path, level: Level = Level.REFUSED) -> Problem:
    """Return a problem at a line and column, counted from 1; column 0 means that only the line is known."""
    where = f"column {column}: " if column else ""
    return Problem(path_text(path), f"{where}{message}", level, line)


def too_deep(line: int, column: int) -> YamlError:
    """Return the error for a part that is more than ``MAX_DEPTH`` levels deep."""
    message = f"this is nested more than {MAX_DEPTH} levels deep, which no job is; it is not read further"
    return YamlError(message, line, column)


def from_pyyaml(error: Any, text: str) -> YamlError:
    """Convert an error of PyYAML to a YamlError; an odd character in the two last lines read is its place."""
    found = error.problem or ""
    mark = error.problem_mark or error.context_mark
    message = next((message for part, message in _MESSAGES if part in found), None)
    if message in _AT_CONTEXT:
        mark = error.context_mark or mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    message = message or f"this cannot stand here, in YAML; remove it or, {QUOTE_TEXT}"
    for number in range(max(line - 1, 1), line + 1):
        if found := ODD.search(text.split("\n")[number - 1]):
            message = f"{name_of(found)} is here; else look at line {line}, column {column}: {message}"
            return YamlError(message, number, found.start() + 1)
    return YamlError(message, line, column)
