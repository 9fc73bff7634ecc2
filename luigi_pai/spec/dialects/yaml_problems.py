"""What is wrong with a YAML text, in words that do not repeat it."""

from __future__ import annotations

from typing import Any

from luigi_pai.errors import Level

__all__ = ["DEEPEST", "Steps", "YamlTrouble", "said", "too_deep"]

DEEPEST = 100
"""So many levels a document has at most."""

Steps = tuple[str | int, ...]
"""The keys and indexes that lead to a part of a document."""

_OPEN_QUOTE = "the quote that begins here is never closed"
_BLOCK_HEADER = "after '|' or '>' only +, -, a digit from 1 to 9, and a comment may follow"
_UNKNOWN_TAG = "this tag is not declared; leave it out, or put a text that begins with '!' into quotes"
_SAID = (
    (
        "mapping values are not allowed",
        "a second ': ' is in this line, or its indentation is wrong; put a text with ': ' into quotes",
    ),
    ("sequence entries are not allowed", "'- ' cannot begin a list here; put it on a line of its own"),
    ("could not find expected ':'", "a key needs ': ' after it, on the same line"),
    ("but found '<block mapping start>'", "the indentation of this fits no line above it"),
    (
        "expected <block end>",
        "this does not fit the lines above; look at its indentation, and at quotes and brackets before it",
    ),
    ("expected ',' or", "',' or the closing bracket is missing before this"),
    ("found unexpected end of stream", _OPEN_QUOTE),
    ("found unexpected document separator", _OPEN_QUOTE),
    ("unknown escape", "there is no such escape; write a backslash as \\\\ in \"...\", or use '...'"),
    ("expected escape sequence", "this escape needs more hexadecimal digits"),
    ("expected chomping or indentation", _BLOCK_HEADER),
    ("expected a comment or a line break", _BLOCK_HEADER),
    ("expected indentation indicator", _BLOCK_HEADER),
    ("expected '<document start>'", "the document has ended before this; look at the indentation"),
    (
        "undefined tag handle",
        _UNKNOWN_TAG,
    ),
    ("cannot start any token", "a value cannot begin with this character; put it into quotes"),
    ("incompatible document", "only YAML 1.1 and 1.2 are read"),
)


class YamlTrouble(Exception):
    """Why a text is refused, or what the server makes of it that nobody means.

    Attributes:
        line: from 1.
        column: from 1; 0 where only the line is known.
        path: where in the document, as far as it is known.
        level: whether the server refuses it too.
    """

    def __init__(
        self, message: str, line: int, column: int = 0, path: Steps = (), level: Level = Level.REFUSED
    ) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.path = path
        self.level = level


def too_deep(line: int, column: int) -> YamlTrouble:
    """Return the error for a part of more than ``DEEPEST`` levels."""
    message = f"this is nested more than {DEEPEST} levels deep, which no job is; it is not read further"
    return YamlTrouble(message, line, column)


def said(error: Any) -> YamlTrouble:
    """Return an error of PyYAML's without the text that it quotes: that may be a secret."""
    problem = error.problem or ""
    mark = error.problem_mark or error.context_mark
    said = next((ours for theirs, ours in _SAID if theirs in problem), None)
    if said == _OPEN_QUOTE:
        mark = error.context_mark or mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return YamlTrouble(said or "this cannot stand here, in YAML; put a text into quotes", line, column)
