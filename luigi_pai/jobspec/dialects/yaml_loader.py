"""Composition of YAML nodes by PyYAML, adapted where js-yaml and PyYAML split a text differently.

Three methods of PyYAML's scanner are overridden: for tabs between tokens, tabs within plain
scalars, and blanks before a line break within quotes. Characters that PyYAML and js-yaml treat
differently are replaced before PyYAML reads the text, and put back afterwards.
"""

from __future__ import annotations

import re
from typing import Any

import yaml

from luigi_pai.jobspec.dialects.yaml_problems import BAD_TAG, MAX_DEPTH, YamlError, from_pyyaml, too_deep

_REPLACED = re.compile(
    "[\x85\u2028\u2029]"  # line breaks for PyYAML, but not for js-yaml
    r"|\?(?![ \t\r\n])|(?<=[^ \t\r\n,\[\]{}])\?"  # a ? in a text, which PyYAML may read as a key's mark
)


class _Loader(yaml.SafeLoader):
    """PyYAML's composer, but with other tags for nodes to which the text gives no tag.

    The tag is ``!`` for a scalar in quotes or in a block (``|``, ``>``), and empty for all other nodes.
    """

    def __init__(self, text: str) -> None:
        found = sorted({match[0] for match in _REPLACED.finditer(text)})
        free = (chr(code) for code in range(0xF0000, 0xFFFFE) if chr(code) not in text)
        replacements = dict(zip(found, free, strict=False))
        self._originals = str.maketrans({new: original for original, new in replacements.items()})
        self._depth = 0
        super().__init__(_REPLACED.sub(lambda match: replacements[match[0]], text))

    def compose_node(self, parent: Any, index: Any) -> Any:
        """Compose a node. Refuse the tag ``!``, and a node that is nested too deep."""
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]  # PyYAML's
        place = event.start_mark.line + 1, event.start_mark.column + 1
        if getattr(event, "tag", None) == "!":
            raise YamlError(BAD_TAG, *place)
        if self._depth > MAX_DEPTH:
            raise too_deep(*place)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        return node

    def compose_scalar_node(self, anchor: Any) -> Any:
        """Compose a scalar, with the replaced characters put back."""
        node = super().compose_scalar_node(anchor)
        node.value = node.value.translate(self._originals)
        return node

    def resolve(self, kind: Any, _value: Any, implicit: Any) -> Any:
        """Return the tag to set for a node to which the text gives no tag."""
        return "!" if kind is yaml.ScalarNode and not implicit[0] else ""

    def scan_to_next_token(self) -> None:
        """Skip tabs in addition to what PyYAML skips. Refuse a tab that indents something."""
        if self.flow_level > MAX_DEPTH:  # here too, because PyYAML scans nested [ before it composes nodes
            raise too_deep(self.line + 1, self.column + 1)
        super().scan_to_next_token()
        while self.peek() == "\t":
            self._check_indentation()
            self.forward(len(self._blanks()))
            super().scan_to_next_token()

    def scan_plain_spaces(self, indent: int, start_mark: Any) -> Any:
        """Keep tabs between the words of a plain scalar; drop tabs before a line break."""
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
        """Return the blanks and tabs that come next in the text."""
        length = 0
        while self.peek(length) in " \t":
            length += 1
        return str(self.prefix(length))

    def _check_indentation(self) -> None:
        """Refuse the tab that comes next in the text if it indents something."""
        line_before = self.buffer[self.pointer - self.column : self.pointer]
        if (
            not self.flow_level
            and not line_before.strip(" ")
            and self.peek(len(self._blanks())) not in "\r\n#"
        ):
            message = "a tab indents this, and servers differ in how they nest it; use blanks"
            raise YamlError(message, self.line + 1, self.column + 1)


def compose(text: str) -> Any:
    """Return PyYAML's root node of the only document in a text; None if the text has no document.

    Raises:
        YamlError: the text is not YAML, has several documents, or has a character that no server accepts.
    """
    text = text.removeprefix("\ufeff")
    if text and text[-1] not in "\r\n":
        text += "\n"
    line = 0
    try:
        loader = _Loader(text)
        try:
            return loader.get_single_node()
        finally:
            line = loader.line + 1
    except yaml.MarkedYAMLError as error:
        raise from_pyyaml(error, text) from None
    except yaml.reader.ReaderError as error:
        before = re.sub("\r\n?", "\n", text[: error.position])
        message = (
            f"a character (U+{ord(text[error.position]):04X}) is here that no job may have; remove it, or "
            'write it as an escape in "..."'
        )
        place = before.count("\n") + 1, len(before) - before.rfind("\n")
        raise YamlError(message, *place) from None
    except (ValueError, OverflowError):
        message = "an escape in this text is no character; put another in its place"
        raise YamlError(message, line) from None
