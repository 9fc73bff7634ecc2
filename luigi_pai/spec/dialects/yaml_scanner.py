"""PyYAML's scanner and parser, with the liberties and limits of js-yaml.

PyYAML is stricter in some places (tabs between tokens, characters of anchors,
the length of keys) and laxer in others. What is done here changes no class of
PyYAML's and registers nothing with it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from yaml.error import MarkedYAMLError, YAMLError
from yaml.parser import Parser
from yaml.scanner import ScannerError
from yaml.tokens import FlowEntryToken, ScalarToken

from luigi_pai.spec.dialects.yaml_problems import DEEPEST, YamlTrouble, said, too_deep
from luigi_pai.spec.dialects.yaml_tabs import TabScanner

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.spec.dialects.yaml_readers import YamlReader

__all__ = ["Events"]

_BREAK = "\0\r\n"
_BLANK = "\0 \t\r\n"
_FLOW = ",[]{}"
_NEVER_FIRST = "\0 \t\r\n,[]{}#&*!|>'\"%@`"

_ODD_BREAKS = "\x85\u2028\u2029"
"""Line breaks to PyYAML, text to js-yaml."""

_ESCAPE_OR_END = re.compile(r'\\(?:U([0-9a-fA-F]{8})|.)|"', re.DOTALL)
_LAST_CHARACTER = 0x10FFFF
_NO_CHARACTER = "0000fffd"  # of the digits of an escape


class _Scanner(TabScanner, Parser):
    """PyYAML's scanner and parser, reading as js-yaml does."""

    def __init__(self, text: str, rules: YamlReader) -> None:
        TabScanner.__init__(self, text, rules)
        Parser.__init__(self)

    def check_printable(self, data: str) -> None:
        """Leave characters to ``events``, which knows what is a comment."""

    def scan_to_next_token(self) -> None:
        """Skip blanks, comments and line breaks."""
        while True:
            self.skip_blanks()
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

    def _line_break(self) -> str:
        """Pass over a line break, if one is here, and return it as a newline."""
        found: str = self.scan_line_break()  # type: ignore[no-untyped-call]  # PyYAML's
        return found

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

    def scan_flow_scalar(self, style: str) -> ScalarToken:
        """Put a character in place of each escape of none: PyYAML would stop."""
        if style == '"':
            self._replace_escapes_of_nothing()
        scanned: ScalarToken = super().scan_flow_scalar(style)
        return scanned

    def _replace_escapes_of_nothing(self) -> None:
        for escape in _ESCAPE_OR_END.finditer(self.buffer, self.pointer + 1):
            if escape[0] == '"':
                break
            if escape[1] and int(escape[1], 16) > _LAST_CHARACTER:
                before, after = self.buffer[: escape.start(1)], self.buffer[escape.end(1) :]
                self.buffer = f"{before}{_NO_CHARACTER}{after}"
                message = "an escape in this text is no character; the server takes it for another"
                self.note(message, self.line, self.column)

    def parse_flow_node(self) -> Any:
        """Take nothing between two commas for null, as js-yaml does."""
        if not self.check_token(FlowEntryToken):
            return super().parse_flow_node()  # type: ignore[no-untyped-call]  # PyYAML's
        mark = self.peek_token().start_mark  # type: ignore[no-untyped-call]  # the same
        is_taken = self.rules.takes_empty_entries
        then = (
            "the server takes that for null, and LTP 1.1 and later refuse it"
            if is_taken
            else "that is refused"
        )
        message = f"nothing stands before this comma, and {then}; remove the comma"
        self.note(message, mark.line, mark.column, is_refused=not is_taken)
        self.state = self.states.pop()
        return self.process_empty_scalar(mark)

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


class Events:
    """The parser's events, each with its scalar's value, or nothing.

    Raises:
        YamlTrouble: the text is not YAML; from ``next``.

    Attributes:
        troubles: what the server takes and nobody means, as far as it was read.
    """

    def __init__(self, text: str, rules: YamlReader) -> None:
        stand_ins = _stand_ins(text)
        for odd, stand_in in stand_ins.items():
            text = text.replace(odd, stand_in)
        self._back = str.maketrans({stand_in: odd for odd, stand_in in stand_ins.items()})
        self._scanner = _Scanner(text, rules)
        self.troubles = self._scanner.troubles

    def __iter__(self) -> Iterator[tuple[Any, str]]:
        return self

    def __next__(self) -> tuple[Any, str]:
        try:
            if not self._scanner.check_event():
                raise StopIteration
            event: Any = self._scanner.get_event()  # type: ignore[no-untyped-call]  # PyYAML's
        except MarkedYAMLError as error:
            raise said(error) from None
        except (YAMLError, ValueError, OverflowError):
            raise YamlTrouble(
                "an escape in this text is no character; put another in its place",
                self._scanner.line + 1,
                self._scanner.column + 1,
            ) from None
        value = getattr(event, "value", "")
        return event, value.translate(self._back) if self._back else value

    def indentation(self, node: Any) -> int:
        """Return the indentation of a node that begins its line, as js-yaml has it: without tabs."""
        column: int = node.column - 1
        return self._scanner.indentation.get(node.line - 1, column)


def _stand_ins(text: str) -> dict[str, str]:
    """Return a character that is not in the text for each of the odd line breaks that are in it."""
    free = (chr(code) for code in range(0xF0000, 0xFFFFE) if chr(code) not in text)
    return {odd: next(free) for odd in _ODD_BREAKS if odd in text}
