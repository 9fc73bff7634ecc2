"""Nodes of a YAML text, and the JSON value that they make together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, Problem
from luigi_pai.spec.dialects.source_text import Sourced, with_source
from luigi_pai.spec.dialects.yaml_problems import MAX_DEPTH, YamlError, too_deep, yaml_problem
from luigi_pai.spec.dialects.yaml_scalars import iso_text, key_text, plain_value
from luigi_pai.spec.paths import path_text

if TYPE_CHECKING:
    from luigi_pai.spec.dialects.yaml_readers import YamlReader
    from luigi_pai.spec.paths import Path

__all__ = ["Difference", "Entries", "JsonValue", "Node"]

_MAX_NODES = 100_000
_MAX_EXACT = 2**53


@dataclass(frozen=True)
class Difference:
    """A plain scalar of which the two readers make different values.

    Attributes:
        path: of the value; of a key, that of its value.
        line: the same, from 1.
        is_key: whether it is a key.
        source: its text.
        value: what the reader of the document makes of it.
        other_value: what the other reader makes of it.
    """

    path: Path
    line: int
    is_key: bool
    source: str
    value: Any
    other_value: Any


@dataclass(eq=False)
class Node:
    """A part of the text.

    Attributes:
        value: of a scalar; a list of nodes; or a dict of key -> (line of the key, node).
        line: where it begins, from 1.
        column: the same.
        size: how many nodes it stands for, itself included.
        is_merge: it is a plain ``<<``.
        is_empty: nothing is written.
        is_complete: it has been read to its end.
        source: the text of a scalar that the other reader makes another value of; else None.
    """

    value: Any
    line: int
    column: int
    size: int = 1
    is_merge: bool = False
    is_empty: bool = False
    is_complete: bool = True
    source: str | None = None

    def problem(self, message: str, path: Path = (), level: Level = Level.REFUSED) -> Problem:
        """Return a problem that points here."""
        return yaml_problem(message, self.line, self.column, path, level)

    def error(self, message: str, path: Path = ()) -> YamlError:
        """Return an error that points here."""
        return YamlError(self.problem(message, path))


Entries = dict[str, tuple[int, Node]]
"""key -> line of the key, and the node of its value."""


class JsonValue:
    """The value of a tree of nodes, with a copy of its node in place of each alias.

    Args:
        root: the tree.
        other: the reader that did not read it.

    Raises:
        YamlError: its aliases make it too large or too deep.

    Attributes:
        value: as JSON has it; a scalar that the readers differ in knows its text.
        lines: path -> line, from 1.
        warnings: values that surprise.
        problems: values that the server takes and JSON does not have.
        differences: scalars that the readers differ in, each place of the text once.
    """

    def __init__(self, root: Node, other: YamlReader) -> None:
        if root.size > _MAX_NODES:
            message = f"the document has more than {_MAX_NODES:,} parts, copies by aliases ('*') included"
            raise YamlError(yaml_problem(f"{message}; write fewer", root.line))
        self._other = other
        self._differences: dict[tuple[int, int | str], Difference] = {}
        self.lines: dict[Path, int] = {}
        self.warnings: list[Problem] = []
        self.problems: list[Problem] = []
        self.value = self._value(root, (), root.line)
        self.differences = tuple(self._differences.values())

    def _value(self, node: Node, path: Path, line: int) -> Any:
        """Return the value of a node; ``line`` is that of its key."""
        if len(path) > MAX_DEPTH:
            raise too_deep(node.line, node.column)
        self.lines[path] = line
        if isinstance(node.value, dict):
            for key, (at, _) in node.value.items():
                if isinstance(key, Sourced):
                    other = key_text(plain_value(key.source, self._other))
                    found = Difference((*path, str(key)), at, True, key.source, str(key), other)  # noqa: FBT003
                    self._differences.setdefault((at, key.source), found)
            return {key: self._value(item, (*path, key), at) for key, (at, item) in node.value.items()}
        if isinstance(node.value, list):
            return [self._value(item, (*path, index), item.line) for index, item in enumerate(node.value)]
        value = self._scalar(node, path)
        if node.source is None:
            return value
        other = plain_value(node.source, self._other)
        found = Difference(path, node.line, False, node.source, value, other)  # noqa: FBT003
        self._differences.setdefault((node.line, node.column), found)
        return with_source(value, node.source)

    def _scalar(self, node: Node, path: Path) -> Any:
        value = node.value
        message = ""
        if isinstance(value, datetime):
            message = "the server takes this for a date, and makes it a time in UTC; put a text into quotes"
            value = iso_text(value)
        elif isinstance(value, float) and not math.isfinite(value):
            infinite = "the server makes null of infinity and of what is not a number; put a text into quotes"
            self.problems.append(node.problem(infinite, path, Level.STRICTER))
        elif isinstance(value, int | float) and abs(value) > _MAX_EXACT:
            message = f"the server rounds whole numbers beyond {_MAX_EXACT:,}; put a text into quotes"
        if message:
            self.warnings.append(Problem(path_text(path), message, Level.WARNING, self.lines[path]))
        return value
