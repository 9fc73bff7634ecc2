"""Nodes of a YAML text, and the JSON value that they make together."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, Problem
from luigi_pai.jobspec.dialects.yaml_problems import MAX_DEPTH, YamlError, too_deep, yaml_problem
from luigi_pai.jobspec.dialects.yaml_scalars import iso_text
from luigi_pai.jobspec.paths import path_text

if TYPE_CHECKING:
    from luigi_pai.jobspec.paths import Path

__all__ = ["Entries", "JsonValue", "Node"]

_MAX_NODES = 100_000
_MAX_EXACT = 2**53


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
    """

    value: Any
    line: int
    column: int
    size: int = 1
    is_merge: bool = False
    is_empty: bool = False
    is_complete: bool = True

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

    Raises:
        YamlError: its aliases make it too large or too deep.

    Attributes:
        value: as JSON has it.
        lines: path -> line, from 1.
        warnings: values that surprise.
        problems: values that the server takes and JSON does not have.
    """

    def __init__(self, root: Node) -> None:
        if root.size > _MAX_NODES:
            message = f"the document has more than {_MAX_NODES:,} parts, copies by aliases ('*') included"
            raise YamlError(yaml_problem(f"{message}; write fewer", root.line))
        self.lines: dict[Path, int] = {}
        self.warnings: list[Problem] = []
        self.problems: list[Problem] = []
        self.value = self._value(root, (), root.line)

    def _value(self, node: Node, path: Path, line: int) -> Any:
        """Return the value of a node; ``line`` is that of its key."""
        if len(path) > MAX_DEPTH:
            raise too_deep(node.line, node.column)
        self.lines[path] = line
        if isinstance(node.value, dict):
            return {key: self._value(item, (*path, key), at) for key, (at, item) in node.value.items()}
        if isinstance(node.value, list):
            return [self._value(item, (*path, index), item.line) for index, item in enumerate(node.value)]
        return self._scalar(node, path)

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
