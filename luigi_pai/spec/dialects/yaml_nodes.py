"""The parts of a YAML text, and the value that they make together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level
from luigi_pai.spec.dialects.source_text import Sourced, with_source
from luigi_pai.spec.dialects.yaml_problems import DEEPEST, YamlTrouble, too_deep
from luigi_pai.spec.dialects.yaml_scalars import Binary, Moment, javascript_text, plain_value

if TYPE_CHECKING:
    from luigi_pai.spec.dialects.yaml_problems import Steps
    from luigi_pai.spec.dialects.yaml_readers import YamlReader

__all__ = ["Difference", "Entries", "Node", "OtherReading", "Reading", "expand"]

_MOST_PARTS = 100_000
_EXACT = 2**53


@dataclass(frozen=True)
class OtherReading:
    """What the other reader makes of a scalar, where that is another value.

    Attributes:
        source: the scalar's text, without an anchor, on one line.
        value: the value; None if it is refused.
        is_refused: the other reader refuses it.
    """

    source: str
    value: Any
    is_refused: bool = False


@dataclass(frozen=True)
class Difference:
    """A scalar that the two readers take for different values.

    Attributes:
        path: where it is; of a key, that of its value.
        line: the same, from 1.
        is_key: it is a key.
        value: the value to the reader of the document.
        other: what it is to the other reader.
    """

    path: Steps
    line: int
    is_key: bool
    value: Any
    other: OtherReading


@dataclass(eq=False)
class Node:
    """A part of the text.

    Attributes:
        value: of a scalar; a list of nodes; or a dict of key -> (line of the key, node).
        line: where it begins, from 1.
        column: the same.
        size: how many parts it stands for, itself included.
        is_merge: it is a plain ``<<``.
        is_empty: nothing is written.
        is_complete: it has been read to its end.
        other: what the other reader makes of it, where that differs.
    """

    value: Any
    line: int
    column: int
    size: int = 1
    is_merge: bool = False
    is_empty: bool = False
    is_complete: bool = True
    other: OtherReading | None = None

    def trouble(self, message: str, path: Steps = (), level: Level = Level.REFUSED) -> YamlTrouble:
        """Return an error that points here."""
        return YamlTrouble(message, self.line, self.column, path, level)


Entries = dict[str, tuple[int, Node]]
"""key -> the line of the key, and what it leads to."""


@dataclass(frozen=True)
class Reading:
    """What a text says.

    Attributes:
        value: as JSON has it; scalars that the readers take for different values have their text.
        lines: path -> line, from 1.
        remarks: path and what is surprising there.
        troubles: what the server takes, and nobody means.
        differences: these scalars, each place of the text once.
    """

    value: Any
    lines: dict[Steps, int]
    remarks: list[tuple[Steps, str]]
    troubles: list[YamlTrouble]
    differences: list[Difference]


def expand(root: Node, other: YamlReader) -> Reading:
    """Return the value of a tree, as JSON has it; what an alias refers to is copied.

    Args:
        root: the tree.
        other: the reader that did not read it.

    Raises:
        YamlTrouble: its aliases make too much of it, or it says what JSON cannot.
    """
    if root.size > _MOST_PARTS:
        raise YamlTrouble(
            f"the document has more than {_MOST_PARTS:,} parts, with all that its aliases ('*') refer to; "
            "write fewer",
            root.line,
        )
    made = _Expansion(other)
    value = made.value(root, (), root.line)
    return Reading(value, made.lines, made.remarks, made.troubles, list(made.differences.values()))


class _Expansion:
    def __init__(self, other: YamlReader) -> None:
        self._other = other
        self.lines: dict[Steps, int] = {}
        self.remarks: list[tuple[Steps, str]] = []
        self.troubles: list[YamlTrouble] = []
        self.differences: dict[tuple[int, int | str], Difference] = {}

    def value(self, node: Node, path: Steps, line: int) -> Any:
        """Return the value of a node; ``line`` is that of its key."""
        if len(path) > DEEPEST:
            raise too_deep(node.line, node.column)
        self.lines[path] = line
        if isinstance(node.value, dict):
            for key, (at, _) in node.value.items():
                self._note_key(key, at, path)
            return {key: self.value(item, (*path, key), at) for key, (at, item) in node.value.items()}
        if isinstance(node.value, list):
            return [self.value(item, (*path, index), item.line) for index, item in enumerate(node.value)]
        value = self._scalar(node, path)
        if node.other is None:
            return value
        place = node.line, node.column
        self.differences.setdefault(place, Difference(path, node.line, False, value, node.other))  # noqa: FBT003
        return with_source(value, node.other.source)

    def _note_key(self, key: str, line: int, path: Steps) -> None:
        if isinstance(key, Sourced):
            value = javascript_text(plain_value(key.source, self._other))
            other = OtherReading(key.source, value)
            self.differences.setdefault(
                (line, key.source),
                Difference((*path, str(key)), line, True, str(key), other),  # noqa: FBT003
            )

    def _scalar(self, node: Node, path: Steps) -> Any:
        value = node.value
        if isinstance(value, Moment):
            self.remarks.append(
                (
                    path,
                    "the server takes this for a date, and makes it a time in UTC; put a text into quotes",
                )
            )
            return str(value)
        if isinstance(value, Binary):
            if self._other.binary_is_buffer:
                return {str(index): byte for index, byte in enumerate(value.data)}
            return {"type": "Buffer", "data": list(value.data)}
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            return value
        if not math.isfinite(value):
            self.troubles.append(
                node.trouble(
                    "the server makes null of infinity and of what is not a number; put a text into quotes",
                    path,
                    Level.STRICTER,
                )
            )
        elif abs(value) > _EXACT:
            self.remarks.append(
                (
                    path,
                    f"the server rounds whole numbers beyond {_EXACT:,}; put what is no number into quotes",
                )
            )
        return value
