"""The JSON value of a YAML text, with the keys, merges and limits of js-yaml."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Any

import yaml

from luigi_pai.errors import Level, Problem
from luigi_pai.jobspec.dialects.javascript_text import javascript_text
from luigi_pai.jobspec.dialects.yaml_loader import compose
from luigi_pai.jobspec.dialects.yaml_problems import (
    BAD_TAG,
    MAX_DEPTH,
    QUOTE_TEXT,
    YamlError,
    too_deep,
    yaml_problem,
)
from luigi_pai.jobspec.dialects.yaml_scalars import MERGE, UnclearScalarError, plain_value, tagged_value
from luigi_pai.jobspec.paths import path_text

if TYPE_CHECKING:
    from luigi_pai.jobspec.paths import Path

    Entries = dict[str, tuple[int, Any]]  # key -> line of the key, and the node of its value

_TAG = "tag:yaml.org,2002:"
_PROTO = "__proto__"  # a key with which JavaScript sets an object's prototype
_LOSES_ZEROS = re.compile(r"[1-9]\d*\.[1-9]\d*?0+")  # a version such as 3.10
_MAX_PARTS = 100_000
_MAX_EXACT = 2**53


class Document:
    """A YAML document as servers read it. In its value, each alias is replaced by a copy of its node's value.

    Args:
        text: one YAML document.
        source: the name of the text's file; empty if there is no file.
        js_yaml_4: see ``read_yaml``.

    Raises:
        YamlError: the text is not YAML, or servers refuse it.

    Attributes:
        text, source: the arguments of the constructor.
        value: the document's value, in the types of JSON: dict, list, str, int, float, bool, None.
        lines: path of each value -> the line of its key, or of the value itself if it is an item of a list.
            The first line is 1.
        warnings: scalars that the server reads in a surprising way, such as a date as a time in UTC.
        problems: scalars and keys whose values servers lose or change, or whose values depend on the server.
    """

    def __init__(self, text: str, source: str = "", *, js_yaml_4: bool | None = None) -> None:
        self.text, self.source = text, source
        self._js_yaml_4 = js_yaml_4
        self.lines: dict[Path, int] = {}
        self.warnings: list[Problem] = []
        self.problems: list[Problem] = []
        self._begun: set[int] = set()  # the node being read and those that contain it
        self._entries: dict[int, Entries] = {}
        root = compose(text)
        self.value: Any = None
        self.lines[()] = 1
        if root is not None:
            self.value = self._value(root, (), root.start_mark.line + 1)

    def _value(self, node: Any, path: Path, line: int) -> Any:
        """Return the value of a node. ``line`` is the line of its key, or of the node if there is no key."""
        if len(path) > MAX_DEPTH:
            raise too_deep(*_place(node))
        self.lines[path] = line
        if len(self.lines) > _MAX_PARTS:
            message = f"the document has more than {_MAX_PARTS:,} parts, copies by aliases ('*') included"
            raise YamlError(f"{message}; write fewer", line)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._begun:
            raise _error(node, "this contains itself, by an alias ('*') in it", path)
        self._begun.add(id(node))
        value: Any
        if isinstance(node, yaml.SequenceNode):
            self._check_tag(node, "seq", path)
            value = [
                self._value(item, (*path, index), item.start_mark.line + 1)
                for index, item in enumerate(node.value)
            ]
        else:
            entries = self._entries_of(node, path)
            value = {key: self._value(item, (*path, key), at) for key, (at, item) in entries.items()}
        self._begun.discard(id(node))
        return value

    def _check_tag(self, node: Any, wanted: str, path: Path) -> None:
        if node.tag not in ("", f"{_TAG}{wanted}"):
            raise _error(node, BAD_TAG, path)

    def _entries_of(self, node: Any, path: Path) -> Entries:
        """Return the entries of a mapping, with those that ``<<`` merges into it."""
        if id(node) in self._entries:
            return self._entries[id(node)]
        self._check_tag(node, "map", path)
        entries: Entries = {}
        self._entries[id(node)] = entries
        merged: set[str] = set()
        for key_node, item in node.value:
            key = self._key(key_node, path)
            place = (*path, key)
            if key == MERGE and not key_node.tag:
                for source in item.value if isinstance(item, yaml.SequenceNode) else [item]:
                    if not isinstance(source, yaml.MappingNode):
                        raise _error(source, "'<<' takes a mapping, or a list of them", place)
                    new = {k: v for k, v in self._entries_of(source, place).items() if k not in entries}
                    entries |= new
                    merged |= new.keys()
            elif key in entries and key not in merged:
                message = f"this key is in line {entries[key][0]} already; remove one of the two"
                raise _error(key_node, message, place)
            else:
                merged.discard(key)
                entries[key] = key_node.start_mark.line + 1, item
        return entries

    def _key(self, node: Any, path: Path) -> str:
        """Return the text that JavaScript makes of a key."""
        if not isinstance(node, yaml.ScalarNode):
            raise _error(
                node, "a list or a mapping cannot be a key; put a text with brackets into quotes", path
            )
        value, is_date = self._plain(node, path)
        if is_date:
            message = "the server makes a long English text of a key that is a date; put the key into quotes"
            self.problems.append(_problem(node, message, path))
        key = javascript_text(value)
        if key == _PROTO and not self._js_yaml_4:
            message = f"OpenPAI loses the value of a key {_PROTO}; give it another name"
            self.problems.append(_problem(node, message, path))
        return key

    def _scalar(self, node: Any, path: Path) -> Any:
        value, is_date = self._plain(node, path)
        message = ""
        if is_date:
            message = f"the server takes this for a date, and makes it a time in UTC; {QUOTE_TEXT}"
        elif isinstance(value, float) and not math.isfinite(value):
            infinite = f"the server makes null of infinity and of what is not a number; {QUOTE_TEXT}"
            self.problems.append(_problem(node, infinite, path, Level.STRICTER))
        elif isinstance(value, int | float) and abs(value) > _MAX_EXACT:
            message = f"the server rounds whole numbers beyond {_MAX_EXACT:,}; {QUOTE_TEXT}"
        elif path[:1] == ("parameters",) and isinstance(value, float) and _LOSES_ZEROS.fullmatch(node.value):
            message = f"the server takes this for the number {javascript_text(value)}; {QUOTE_TEXT}"
        if message:
            self.warnings.append(Problem(path_text(path), message, Level.WARNING, self.lines[path]))
        return value

    def _plain(self, node: Any, path: Path) -> tuple[Any, bool]:
        """Return the value of a scalar, and whether it is a date."""
        try:  # JavaScript's escapes may write one character as two surrogates, which this joins
            text = node.value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise _error(node, "half a character (a lone surrogate) is in this text", path) from None
        if node.tag == "!":
            return text, False
        try:
            if node.tag:
                return tagged_value(node.tag.removeprefix(_TAG), text, js_yaml_4=self._js_yaml_4), False
            if text == "-":
                raise _error(node, "'-' alone is not a text; put it into quotes", path)
            return plain_value(text, js_yaml_4=self._js_yaml_4)
        except UnclearScalarError as error:
            self.problems.append(_problem(node, str(error), path))
            return text, False
        except ValueError:
            raise _error(node, BAD_TAG, path) from None


def _place(node: Any) -> tuple[int, int]:
    """Return line and column of a node, from 1."""
    return node.start_mark.line + 1, node.start_mark.column + 1


def _problem(node: Any, message: str, path: Path, level: Level = Level.REFUSED) -> Problem:
    return yaml_problem(message, *_place(node), path, level)


def _error(node: Any, message: str, path: Path) -> YamlError:
    return YamlError(message, *_place(node), path)
