"""Parsing of a YAML text into events by PyYAML, adapted where js-yaml breaks ordinary texts up otherwise.

Three methods of PyYAML's scanner are overridden: for tabs between tokens, tabs within plain
scalars, and blanks before a line break within quotes. Characters that PyYAML treats in another
way than js-yaml are replaced before it sees the text, and put back afterwards.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from luigi_pai.jobspec.dialects.yaml_problems import MAX_DEPTH, YamlError, from_pyyaml, too_deep, yaml_problem

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["yaml_events"]

_NEVER_READ = re.compile("\0|[\ud800-\udfff]")
_REPLACED = re.compile(
    "[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff]"  # refused, or line breaks, to PyYAML
    r"|\?(?![ \t\r\n])|(?<=[^ \t\r\n,\[\]{}])\?"  # no sign of a key; within brackets it is to PyYAML
)


class _Loader(yaml.SafeLoader):
    """PyYAML's scanner and parser; of the loader nothing else is used."""

    def scan_to_next_token(self) -> None:
        """Skip tabs as well, unless they indent something."""
        if self.flow_level > MAX_DEPTH:  # before PyYAML looks ahead for all the brackets that close
            raise too_deep(self.line + 1, self.column + 1)
        super().scan_to_next_token()
        while self.peek() == "\t":
            self._check_indentation()
            self.forward(len(self._blanks()))
            super().scan_to_next_token()

    def scan_plain_spaces(self, indent: int, start_mark: Any) -> Any:
        """Keep tabs between the words of a plain scalar; those before a line break go."""
        blanks = self._blanks()
        if "\t" not in blanks:
            return super().scan_plain_spaces(indent, start_mark)
        self.forward(len(blanks))
        return super().scan_plain_spaces(indent, start_mark) if self.peek() in "\r\n" else [blanks]

    def scan_flow_scalar_spaces(self, double: Any, start_mark: Any) -> Any:
        """Keep the blanks before a line break within quotes."""
        blanks = self._blanks()
        if self.peek(len(blanks)) not in "\r\n":
            return super().scan_flow_scalar_spaces(double, start_mark)
        self.forward(len(blanks))
        return [blanks, *super().scan_flow_scalar_spaces(double, start_mark)]

    def _blanks(self) -> str:
        """Return the blanks and tabs that are next."""
        length = 0
        while self.peek(length) in " \t":
            length += 1
        return str(self.prefix(length))

    def _check_indentation(self) -> None:
        """Refuse the tab that is next if it indents something."""
        line_before = self.buffer[self.pointer - self.column : self.pointer]
        if (
            not self.flow_level
            and not line_before.strip(" ")
            and self.peek(len(self._blanks())) not in "\r\n#"
        ):
            message = "a tab indents this, and servers differ in what belongs to what then; use blanks"
            raise YamlError(yaml_problem(message, self.line + 1, self.column + 1))


def yaml_events(text: str) -> Iterator[tuple[Any, str]]:
    """Yield PyYAML's events of a text, each with the value of its scalar, or nothing.

    Args:
        text: one that ends with a line break. Positions in the events are those in this text.

    Raises:
        YamlError: it is not YAML, or has characters that no server reads.
    """
    _check_characters(text)
    found = sorted({match[0] for match in _REPLACED.finditer(text)})
    free = (chr(code) for code in range(0xF0000, 0xFFFFE) if chr(code) not in text)
    replacements = dict(zip(found, free, strict=False))
    originals = str.maketrans({replacement: original for original, replacement in replacements.items()})
    loader = _Loader(_REPLACED.sub(lambda match: replacements[match[0]], text))
    try:
        while loader.check_event():
            event: Any = loader.get_event()  # type: ignore[no-untyped-call]  # PyYAML's
            value = getattr(event, "value", "")
            yield event, value.translate(originals) if originals else value
    except yaml.MarkedYAMLError as error:
        raise from_pyyaml(error) from None
    except (yaml.YAMLError, ValueError, OverflowError):
        message = "an escape in this text is no character; put another in its place"
        raise YamlError(yaml_problem(message, loader.line + 1, loader.column + 1)) from None


def _check_characters(text: str) -> None:
    match = _NEVER_READ.search(text)
    if match:
        before = re.sub("\r\n?", "\n", text[: match.start()])
        what = "a NUL character" if match[0] == "\0" else "half a character (a lone surrogate)"
        message = f"{what} is here, which no server reads; remove it"
        raise YamlError(yaml_problem(message, before.count("\n") + 1, len(before) - before.rfind("\n")))
