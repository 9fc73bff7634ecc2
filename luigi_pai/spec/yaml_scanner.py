"""PyYAML's scanner and parser, with the liberties and limits of js-yaml 3.

PyYAML is stricter in some places (tabs between tokens, characters of anchors,
the length of keys) and laxer in others. What is done here changes no class of
PyYAML's and registers nothing with it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yaml.error import MarkedYAMLError, YAMLError
from yaml.parser import Parser
from yaml.reader import Reader
from yaml.scanner import Scanner, ScannerError
from yaml.tokens import ScalarToken

from luigi_pai.errors import Level

if TYPE_CHECKING:
    from collections.abc import Iterator


__all__ = ["DEEPEST", "Steps", "YamlTrouble", "events", "too_deep"]

DEEPEST = 100
"""So many levels a document has at most."""

Steps = tuple[str | int, ...]
"""The keys and indexes that lead to a part of a document."""

_BREAK = "\0\r\n"
_BLANK = "\0 \t\r\n"
_FLOW = ",[]{}"
_NEVER_FIRST = "\0 \t\r\n,[]{}#&*!|>'\"%@`"

_ODD_BREAKS = "\x85\u2028\u2029"
"""Line breaks to PyYAML, text to js-yaml."""

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
    ("incompatible document", "only YAML 1.1 and 1.2 are read"),
)


class YamlTrouble(Exception):
    """Why a text is refused.

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
    message = f"this is nested more than {DEEPEST} levels deep, which no job is; the server would take it"
    return YamlTrouble(message, line, column, level=Level.STRICTER)


class _Scanner(Reader, Scanner, Parser):
    """PyYAML's three, reading as js-yaml does."""

    def __init__(self, text: str) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        Parser.__init__(self)

    def check_printable(self, data: str) -> None:
        """Leave characters to ``events``, which knows what is a comment."""

    def scan_to_next_token(self) -> None:
        """Skip blanks, tabs too, but those that indent a line."""
        while True:
            while self.peek() == " ":
                self.forward()
            if self.peek() == "\t" and not self._indents():
                while self.peek() in " \t":  # one answer for all tabs that stand together
                    self.forward()
            if self.peek() == "#":
                while self.peek() not in _BREAK:
                    self.forward()
            if not self._line_break():
                return
            if not self.flow_level:
                self.allow_simple_key = True

    def fetch_flow_collection_start(self, TokenClass: Any) -> None:
        """Stop at once where brackets are nested too deep: PyYAML would look for all of their ends."""
        if self.flow_level > DEEPEST:
            raise too_deep(self.line + 1, self.column + 1)
        super().fetch_flow_collection_start(TokenClass)

    def add_indent(self, column: int) -> bool:
        """Do the same for indentation."""
        if len(self.indents) > DEEPEST:
            raise too_deep(self.line + 1, self.column + 1)
        return bool(super().add_indent(column))

    def _line_break(self) -> str:
        """Pass over a line break, if one is here, and return it as a newline."""
        found: str = self.scan_line_break()  # type: ignore[no-untyped-call]  # PyYAML's
        return found

    def _indents(self) -> bool:
        """Return whether the tab here is the indentation of something."""
        if self.flow_level:
            return False
        ahead = 0
        while self.peek(ahead) in " \t":
            ahead += 1
        if self.peek(ahead) in _BREAK + "#":
            return False
        behind = self.pointer
        while behind and self.buffer[behind - 1] in " \t":
            behind -= 1
        return not behind or self.buffer[behind - 1] in "\r\n"

    def stale_possible_simple_keys(self) -> None:
        """Forget what can no longer be a key; a key may be of any length."""
        if not self.possible_simple_keys:  # this is asked at every token, many times
            return
        for level, key in list(self.possible_simple_keys.items()):
            if key.line != self.line:
                if key.required:
                    raise ScannerError(None, None, "could not find expected ':'", key.mark)
                del self.possible_simple_keys[level]

    def check_key(self) -> bool:
        return self.peek(1) in _BLANK

    def check_value(self) -> bool:
        if self.peek(1) in _BLANK:
            return True
        return bool(self.flow_level) and (
            self.peek(1) in _FLOW or self.flow_level in self.possible_simple_keys
        )

    def check_plain(self) -> bool:
        first = self.peek()
        if first in "-?":
            return self.peek(1) not in _BLANK + (_FLOW if self.flow_level else "")
        if first == ":":
            return not self.check_value()
        return first not in _NEVER_FIRST

    def scan_plain(self) -> ScalarToken:
        chunks: list[str] = []
        start = end = self.get_mark()
        indent = self.indent + 1
        between = ""
        while True:
            length = self._plain_length(is_first=not chunks)
            if not length:
                break
            self.allow_simple_key = False
            chunks += [between, self.prefix(length)]
            self.forward(length)
            end = self.get_mark()
            between = "".join(self.scan_plain_spaces(indent, start) or ())
            if not between or self.peek() == "#" or (not self.flow_level and self.column < indent):
                break
        return ScalarToken("".join(chunks), True, start, end)  # noqa: FBT003  PyYAML's

    def _plain_length(self, *, is_first: bool) -> int:
        """Return how many characters from here are of a plain scalar, up to the next blank."""
        length = 0
        if self.peek() == "#" and not is_first:
            return 0
        while (character := self.peek(length)) not in _BLANK:
            following = self.peek(length + 1)
            if character == ":" and following in _BLANK + (_FLOW if self.flow_level else ""):
                break
            if self.flow_level and character in _FLOW:
                break
            length += 1
        return length

    def scan_plain_spaces(self, indent: int, start_mark: Any) -> list[str] | None:  # noqa: ARG002  PyYAML's
        length = 0
        while self.peek(length) in " \t":
            length += 1
        blanks = self.prefix(length)
        self.forward(length)
        if self.peek() not in "\r\n":
            return [blanks] if blanks else []
        self._line_break()
        self.allow_simple_key = True
        breaks = []
        while True:
            if self.column == 0 and self.prefix(3) in ("---", "...") and self.peek(3) in _BLANK:
                return None
            if self.peek() == " " or (self.peek() == "\t" and not self._ends_plain()):
                self.forward()
            elif self.peek() in "\r\n":
                breaks.append(self._line_break())
            else:
                return breaks or [" "]

    def _ends_plain(self) -> bool:
        return not self.flow_level and self.column < self.indent + 1

    def scan_flow_scalar_spaces(self, double: Any, start_mark: Any) -> list[str]:
        """Keep the blanks before a line break, as js-yaml does."""
        length = 0
        while self.peek(length) in " \t":
            length += 1
        if self.peek(length) not in "\r\n":
            return super().scan_flow_scalar_spaces(double, start_mark)
        blanks = self.prefix(length)
        self.forward(length)
        return [blanks, *super().scan_flow_scalar_spaces(double, start_mark)]

    def scan_anchor(self, TokenClass: Any) -> Any:
        start = self.get_mark()
        self.forward()
        length = 0
        while self.peek(length) not in _BLANK + _FLOW:
            length += 1
        if not length:
            raise ScannerError(None, None, "nameless anchor", start)
        name = self.prefix(length)
        self.forward(length)
        return TokenClass(name, start, self.get_mark())

    def scan_block_scalar_ignored_line(self, start_mark: Any) -> None:
        while self.peek() == "\t":
            self.forward()
        super().scan_block_scalar_ignored_line(start_mark)


def events(text: str) -> Iterator[tuple[Any, str]]:
    """Yield the parser's events, each with its scalar's value, or nothing.

    Raises:
        YamlTrouble: the text is not YAML.
    """
    stand_ins = _stand_ins(text)
    for odd, stand_in in stand_ins.items():
        text = text.replace(odd, stand_in)
    back = str.maketrans({stand_in: odd for odd, stand_in in stand_ins.items()})
    scanner = _Scanner(text)
    try:
        while scanner.check_event():
            event: Any = scanner.get_event()  # type: ignore[no-untyped-call]  # PyYAML's
            value = getattr(event, "value", "")
            yield event, value.translate(back) if stand_ins else value
    except MarkedYAMLError as error:
        raise _said(error) from None
    except (YAMLError, ValueError, OverflowError):
        raise YamlTrouble(
            "an escape in this text is no character; the server would take it for another",
            scanner.line + 1,
            scanner.column + 1,
            level=Level.STRICTER,
        ) from None


def _stand_ins(text: str) -> dict[str, str]:
    """Return a character that is not in the text for each of the odd line breaks that are in it."""
    free = (chr(code) for code in range(0xF0000, 0xFFFFE) if chr(code) not in text)
    return {odd: next(free) for odd in _ODD_BREAKS if odd in text}


def _said(error: Any) -> YamlTrouble:
    """Return an error of PyYAML's without the text that it quotes: that may be a secret."""
    problem = error.problem or ""
    mark = error.problem_mark or error.context_mark
    said = next((ours for theirs, ours in _SAID if theirs in problem), None)
    if said == _OPEN_QUOTE:
        mark = error.context_mark or mark
    level = Level.REFUSED
    if "cannot start any token" in problem:
        said = "a value cannot begin with this character; put it into quotes"
        if r"'\t'" in problem:
            said = "a tab indents this, which to the server is no indentation; use blanks"
            level = Level.STRICTER
    line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    return YamlTrouble(
        said or "this cannot stand here, in YAML; put a text into quotes", line, column, level=level
    )
