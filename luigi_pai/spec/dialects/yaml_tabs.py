"""Lines of YAML that tabs indent, as js-yaml 3 reads them; js-yaml 4 refuses most of them.

To js-yaml the indentation of a line is the blanks before its first tab. It alone
says to which mapping or list the line belongs; a mapping or list that begins in
the line counts the tabs too. So two lines that look alike seldom belong together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from yaml.reader import Reader
from yaml.scanner import Scanner

from luigi_pai.errors import Level
from luigi_pai.spec.dialects.yaml_problems import DEEPEST, YamlTrouble, too_deep

if TYPE_CHECKING:
    from luigi_pai.spec.dialects.yaml_readers import YamlReader

__all__ = ["TabScanner"]

_NOT_INDENTED = "\0\r\n#"


class TabScanner(Reader, Scanner):
    """PyYAML's scanner, which refuses these lines, taking them as js-yaml does.

    Attributes:
        rules: as which reader it scans.
        troubles: what the server takes, and nobody means, or refuses and can be read on from.
        indentation: line, from 0 -> the blanks before its first tab, of the lines that tabs indent.
    """

    def __init__(self, text: str, rules: YamlReader) -> None:
        Reader.__init__(self, text)
        Scanner.__init__(self)
        self.rules = rules
        self.troubles: list[YamlTrouble] = []
        self.indentation: dict[int, int] = {}
        self._begins_at = -1  # the column in which the last of these lines begins
        self._lists: set[int] = set()  # the indentations at which entries of lists stand now

    def note(self, message: str, line: int, column: int, *, is_refused: bool = False) -> None:
        """Add to the troubles one that stands at a line and a column, both from 0."""
        level = Level.REFUSED if is_refused else Level.STRICTER
        self.troubles.append(YamlTrouble(message, line + 1, column + 1, level=level))

    def skip_blanks(self) -> None:
        """Skip the blanks that are here, tabs too."""
        while self.peek() == " ":
            self.forward()
        if self.peek() != "\t":
            return
        indents, line, blanks = self._indents(), self.line, self.column
        while self.peek() in " \t":  # one answer for all tabs that stand together
            self.forward()
        if indents:
            message = "a tab indents this, which to the server is no indentation; use blanks"
            is_value = self.peek() == ":"  # of a key after '?': any reader takes that
            self.note(message, line, blanks, is_refused=not (self.rules.takes_tabs or is_value))
            self.indentation[self.line] = blanks
            self._begins_at = self.column

    def _indents(self) -> bool:
        """Return whether the tab here is the indentation of something."""
        if self.flow_level:
            return False
        ahead = 0
        while self.peek(ahead) in " \t":
            ahead += 1
        if self.peek(ahead) in _NOT_INDENTED:
            return False
        behind = self.pointer
        while behind and self.buffer[behind - 1] in " \t":
            behind -= 1
        return not behind or self.buffer[behind - 1] in "\r\n"

    def _blanks(self, column: int) -> int | None:
        """Return the indentation of this line if tabs indent it, and what begins at a column begins it."""
        return self.indentation.get(self.line) if column == self._begins_at else None

    def unwind_indent(self, column: int) -> None:
        """End the mappings and lists to which this line does not belong."""
        blanks = self._blanks(column)
        super().unwind_indent(column if blanks is None else blanks)

    def add_indent(self, column: int) -> bool:
        """Begin a mapping or list, if this is its first entry."""
        if len(self.indents) > DEEPEST:  # stop at once: PyYAML would look for all of their ends
            raise too_deep(self.line + 1, self.column + 1)
        is_entry = self.peek() == "-"
        if self._blanks(column) == self.indent and not (is_entry and self.indent not in self._lists):
            return False
        return bool(super().add_indent(column))

    def fetch_block_entry(self) -> None:
        """Take the ``-`` of an entry: a list is here."""
        super().fetch_block_entry()
        self._lists.add(self.indent)

    def fetch_key(self) -> None:
        """Take the ``?`` of a key: a mapping is here."""
        super().fetch_key()
        self._lists.discard(self.indent)

    def fetch_value(self) -> None:
        """Take the ``:`` of a value: a mapping is here."""
        super().fetch_value()
        self._lists.discard(self.indent)

    def save_possible_simple_key(self) -> None:
        """Note what may be a key, and what must be one."""
        super().save_possible_simple_key()
        key: Any = self.possible_simple_keys.get(self.flow_level)
        if key and not self.flow_level and self._blanks(key.column) == self.indent:
            key.required = True
