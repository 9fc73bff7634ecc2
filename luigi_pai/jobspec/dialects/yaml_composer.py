"""Composing of a YAML document's nodes, with the keys, merges and limits of js-yaml."""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import yaml

from luigi_pai.errors import Level
from luigi_pai.jobspec.dialects.yaml_events import yaml_events
from luigi_pai.jobspec.dialects.yaml_nodes import Entries, Node
from luigi_pai.jobspec.dialects.yaml_problems import MAX_DEPTH, YamlError, too_deep, yaml_problem
from luigi_pai.jobspec.dialects.yaml_readers import JS_YAML_3, JS_YAML_4
from luigi_pai.jobspec.dialects.yaml_scalars import MERGE, key_text, plain_value, tagged_value

if TYPE_CHECKING:
    from luigi_pai.errors import Problem
    from luigi_pai.jobspec.dialects.yaml_readers import YamlReader
    from luigi_pai.jobspec.paths import Path

__all__ = ["compose"]

_TAG = "tag:yaml.org,2002:"
_PROTO = "__proto__"  # a key that JavaScript takes for something else
_BAD_TAG = (
    "this value does not fit its tag, or the tag is none of !!str, !!int, !!float, !!bool and !!null; leave "
    "the tag out, or put a text that begins with '!' into quotes"
)
_CONTROL = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_CONTROL_IN_QUOTES = re.compile("[\x01-\x08\x0b\x0c\x0e-\x1f]")
_KEY = "?"  # the last step of a key's path
_LONGEST_SHOWN = 80


def compose(text: str, reader: YamlReader | None, problems: list[Problem]) -> Node:
    """Return the root of a text's one document; the text without a document is null.

    Args:
        text: the document.
        reader: the rules to read by; None for those of OpenPAI, with a problem for each scalar that LTP
            reads otherwise.
        problems: what the server takes and nobody means is added to this list, also before an error.

    Raises:
        YamlError: it is not YAML, or not what a server takes.
    """
    text = text.removeprefix("\ufeff")
    if text and text[-1] not in "\r\n":
        text += "\n"
    return _Composer(text, reader, problems).document()


class _Composer:
    def __init__(self, text: str, reader: YamlReader | None, problems: list[Problem]) -> None:
        self._text = text
        self._reader = reader or JS_YAML_3
        self._is_for_any = reader is None
        self._events = yaml_events(text)
        self._problems = problems
        self._anchors: dict[str, Node] = {}

    def document(self) -> Node:
        root: Node | None = None
        event: Any
        for event, value in self._events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                message = "a second document begins here; a job is one document"
                raise YamlError(yaml_problem(message, _place(event)[0]))
            if isinstance(event, yaml.NodeEvent):
                root = self._node(event, value, ())
        return root or Node(None, 1, 1)

    def _node(self, event: Any, value: str, path: Path) -> Node:
        node = Node(None, *_place(event), is_complete=False)
        if len(path) > MAX_DEPTH:
            raise too_deep(node.line, node.column)
        if isinstance(event, yaml.AliasEvent):
            return self._anchored(event, node, path)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if isinstance(event, yaml.ScalarEvent):
            self._scalar(node, event, value, path)
        elif isinstance(event, yaml.SequenceStartEvent):
            self._sequence(node, event, path)
        else:
            self._mapping(node, event, path)
        node.is_complete = True
        return node

    def _anchored(self, event: Any, alias: Node, path: Path) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None or node.is_empty:
            raise alias.error(
                "'*' begins a reference, and nothing has an anchor of this name; "
                "put a text that begins with '*' into quotes",
                path,
            )
        if not node.is_complete:
            raise alias.error("this refers to a part of the document that it is in itself", path)
        return node

    def _scalar(self, node: Node, event: Any, value: str, path: Path) -> None:
        self._check_characters(node, event, value, path)
        try:  # JavaScript writes some characters as two escapes
            value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise node.error("half a character (a lone surrogate) is in this text", path) from None
        is_plain = event.style is None
        node.is_empty = is_plain and not value and event.tag is None
        try:
            if event.tag not in (None, "!"):
                self._tagged(node, event.tag, value)
            elif is_plain and not value:
                node.value = None
            elif is_plain and event.tag is None:
                self._plain(node, value, path)
            else:
                node.value = value
        except ValueError:
            beyond = "this is a date beyond the year 9999; put a text into quotes"
            raise node.error(_BAD_TAG if event.tag else beyond, path) from None

    def _check_characters(self, node: Node, event: Any, value: str, path: Path) -> None:
        """Refuse control characters, as js-yaml does."""
        if event.style in ('"', "'"):  # escapes are fine: look at what is written
            found = _CONTROL_IN_QUOTES.search(self._text, event.start_mark.index, event.end_mark.index)
        else:
            found = _CONTROL.search(value)
        if not found:
            return
        code = ord(found[0])
        raise node.error(
            f'a control character (U+{code:04X}) is in this text; write it as \\x{code:02x} in "..."'
            if code <= 0xFF  # noqa: PLR2004  what \x.. can say
            else f"U+{code:04X}, which is no character, is in this text; remove it",
            path,
        )

    def _plain(self, node: Node, value: str, path: Path) -> None:
        if value in ("-", "?"):
            raise node.error(f"'{value}' alone is not a text; put it into quotes", path)
        node.is_merge = value == MERGE
        node.value = plain_value(value, self._reader)
        if self._is_for_any:
            self._check_difference(node, value, path)

    def _tagged(self, node: Node, tag: str, value: str) -> None:
        name = tag.removeprefix(_TAG) if tag.startswith(_TAG) else ""
        node.value = tagged_value(name, value, self._reader)
        if not _same(tagged_value(name, value, JS_YAML_3), tagged_value(name, value, JS_YAML_4)):
            raise ValueError(tag)  # the tag of a number that the readers take for different ones

    def _check_difference(self, node: Node, source: str, path: Path) -> None:
        """Add a problem if OpenPAI and LTP take a plain scalar for different values."""
        mine, other = node.value, plain_value(source, JS_YAML_4)
        is_key = path[-1:] == (_KEY,)
        if is_key:
            mine, other = key_text(mine), key_text(other)
        if _same(mine, other):
            return
        quoted = json.dumps(source)
        if not is_key and (path[:1] == ("secrets",) or "auth" in path):
            message = "OpenPAI and LTP 1.1 and later take this for different values; put it into quotes"
        else:
            cure = quoted if is_key else f"{other if isinstance(mine, str) else mine} or {quoted}"
            message = (
                f"{_short(source)} is {_shown(mine)} on OpenPAI and {_shown(other)} on LTP 1.1 and later; "
                f"write {cure}"
            )
        self._problems.append(node.problem(message, path[:-1] if is_key else path, Level.STRICTER))

    def _sequence(self, node: Node, event: Any, path: Path) -> None:
        if event.tag not in (None, "!", f"{_TAG}seq"):
            raise node.error(_BAD_TAG, path)
        items: list[Node] = []
        node.value = items
        for inner, value in self._events:
            if isinstance(inner, yaml.SequenceEndEvent):
                break
            items.append(self._node(inner, value, (*path, len(items))))
        node.size += sum(item.size for item in items)

    def _mapping(self, node: Node, event: Any, path: Path) -> None:
        if event.tag not in (None, "!", f"{_TAG}map"):
            raise node.error(_BAD_TAG, path)
        entries: Entries = {}
        node.value = entries
        merged: set[str] = set()
        for index, (inner, value) in enumerate(self._events):
            if isinstance(inner, yaml.MappingEndEvent):
                break
            if index == 0 and not event.flow_style:
                self._check_first_key(inner, path)
            self._entry(self._node(inner, value, (*path, _KEY)), event, entries, merged, path)
        node.size += sum(item.size for _, item in entries.values())

    def _entry(self, key_node: Node, mapping: Any, entries: Entries, merged: set[str], path: Path) -> None:
        key = self._key(key_node, path)
        event: Any
        event, value = next(self._events)
        place = (*path, key)
        item = self._node(event, value, place)
        is_block = isinstance(event, yaml.ScalarEvent) and event.style in ("|", ">")
        if is_block and item.line > key_node.line and item.column - 1 <= mapping.start_mark.column:
            raise item.error("this is indented no more than the key that it belongs to", place)
        if key_node.is_merge:
            _merge(item, entries, merged, place)
        elif key == _PROTO and self._reader.loses_proto:
            return
        elif key in entries and key not in merged:
            line = entries[key][0]
            message = f"this key is in line {line} already; the server refuses a key given twice"
            raise key_node.error(message, place)
        else:
            merged.discard(key)
            entries[key] = key_node.line, item

    def _key(self, node: Node, path: Path) -> str:
        """Return the text that JavaScript makes of a key."""
        if isinstance(node.value, dict | list):
            raise node.error(
                "a list or a mapping cannot be a key; put a text with brackets into quotes", path
            )
        key = key_text(node.value)
        message = ""
        if isinstance(node.value, datetime):
            message = "the server makes a long English text of a key that is a date; put the key into quotes"
        elif key == _PROTO and self._reader.loses_proto:
            message = (
                f"OpenPAI accepts the key {_PROTO} and loses its value; LTP 1.1 and later keep it; give it "
                "another name"
            )
        if message:
            self._problems.append(node.problem(message, path, Level.STRICTER))
        return key

    def _check_first_key(self, key: Any, path: Path) -> None:
        """Refuse ``&anchor key: value`` and ``!tag key: value`` in a mapping's first line, as js-yaml."""
        if isinstance(key, yaml.AliasEvent) or (key.anchor is None and key.tag is None):
            return
        if self._text[: key.start_mark.index].rstrip().endswith("?"):
            return
        message = (
            "'&' or '!' cannot stand before the first key of a mapping, on its line; put what it begins on "
            "the line before, or a key that begins with it into quotes"
        )
        raise YamlError(yaml_problem(message, *_place(key), path))


def _place(event: Any) -> tuple[int, int]:
    """Return line and column of an event, from 1."""
    return event.start_mark.line + 1, event.start_mark.column + 1


def _shown(value: Any) -> str:
    return (
        f"the text {_short(json.dumps(value, ensure_ascii=False))}" if isinstance(value, str) else str(value)
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


def _same(one: Any, other: Any) -> bool:
    """Return whether two readers take a scalar for the same value; not a number is the same as itself."""
    return type(one) is type(other) and (one == other or one != one)  # noqa: PLR0124


def _merge(source: Node, entries: Entries, merged: set[str], path: Path) -> None:
    """Take over what a mapping, or each of a list of mappings, has and the mapping itself has not."""
    for each in source.value if isinstance(source.value, list) else [source]:
        if not isinstance(each.value, dict):
            raise each.error("'<<' takes a mapping, or a list of them", path)
        for key, entry in each.value.items():
            if key not in entries:
                entries[key] = entry
                merged.add(key)
