"""The parts of a YAML text, and the value that they make together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level
from luigi_pai.spec.yaml_scalars import Binary, Moment
from luigi_pai.spec.yaml_trouble import DEEPEST, YamlTrouble, too_deep

if TYPE_CHECKING:
    from luigi_pai.spec.yaml_trouble import Steps

__all__ = ["Entries", "Node", "Reading", "expand"]

_MOST_PARTS = 100_000
_EXACT = 2**53


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
    """

    value: Any
    line: int
    column: int
    size: int = 1
    is_merge: bool = False
    is_empty: bool = False
    is_complete: bool = True

    def trouble(self, message: str, path: Steps = (), level: Level = Level.REFUSED) -> YamlTrouble:
        """Return an error that points here."""
        return YamlTrouble(message, self.line, self.column, path, level)


Entries = dict[str, tuple[int, Node]]
"""key -> the line of the key, and what it leads to."""


@dataclass(frozen=True)
class Reading:
    """What a text says.

    Attributes:
        value: as JSON has it.
        lines: path -> line, from 1.
        remarks: path and what is surprising there.
        troubles: what the server takes, and nobody means.
    """

    value: Any
    lines: dict[Steps, int]
    remarks: list[tuple[Steps, str]]
    troubles: list[YamlTrouble]


def expand(root: Node) -> Reading:
    """Return the value of a tree, as JSON has it; what an alias refers to is copied.

    Raises:
        YamlTrouble: its aliases make too much of it, or it says what JSON cannot.
    """
    if root.size > _MOST_PARTS:
        raise YamlTrouble(
            f"the document has more than {_MOST_PARTS:,} parts, with all that its aliases ('*') refer to; "
            "write fewer",
            root.line,
        )
    reading = _Expansion()
    return Reading(reading.value(root, (), root.line), reading.lines, reading.remarks, reading.troubles)


class _Expansion:
    def __init__(self) -> None:
        self.lines: dict[Steps, int] = {}
        self.remarks: list[tuple[Steps, str]] = []
        self.troubles: list[YamlTrouble] = []

    def value(self, node: Node, path: Steps, line: int) -> Any:
        """Return the value of a node; ``line`` is that of its key."""
        if len(path) > DEEPEST:
            raise too_deep(node.line, node.column)
        self.lines[path] = line
        if isinstance(node.value, dict):
            return {key: self.value(item, (*path, key), at) for key, (at, item) in node.value.items()}
        if isinstance(node.value, list):
            return [self.value(item, (*path, index), item.line) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

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
