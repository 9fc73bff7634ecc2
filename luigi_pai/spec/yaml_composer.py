"""From the events of a YAML text to the value that js-yaml 3 builds of them, and the lines of its parts."""

from __future__ import annotations

import copy
import math
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from yaml import events as ev

from luigi_pai.spec.yaml_scalars import MERGE, Binary, Moment, javascript_text, plain_value, tagged_value
from luigi_pai.spec.yaml_scanner import YamlTrouble, events

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Node", "compose", "expand"]

_TAG = "tag:yaml.org,2002:"
_DEEPEST = 100
_MOST_FROM_ALIASES = 100_000
_EXACT = 2**53
_OF_NOTHING: dict[str, Any] = {
    "str": "", "null": None, "merge": None, "map": {}, "set": {}, "seq": [], "omap": [], "pairs": []
}  # fmt: skip
_PROTO = "__proto__"  # a key that JavaScript takes for something else

_PLAIN_UNFIT = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_QUOTED_UNFIT = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")


@dataclass(eq=False)
class Node:
    """A part of the text.

    Attributes:
        value: of a scalar; a list of nodes; or a dict of key -> (line of the key, node).
        line: where it begins, from 1.
        column: the same.
        merge: it is a plain ``<<``.
        size: how many nodes it stands for, itself included.
    """

    value: Any
    line: int
    column: int
    merge: bool = False
    size: int = 1
    complete: bool = True
    path: tuple[str | int, ...] = field(default=())


def compose(text: str) -> Node:
    """Read a text with one document.

    Raises:
        YamlTrouble: it is not YAML, has several documents, or says what JSON cannot hold.
    """
    return _Composer(text).document()


class _Composer:
    def __init__(self, text: str) -> None:
        if text and text[-1] not in "\r\n":
            text += "\n"
        self._text = text.removeprefix("\ufeff")
        self._check_characters()
        self._events = events(self._text)
        self._anchors: dict[str, Node] = {}

    def _check_characters(self) -> None:
        match = re.search("\0", self._text) or _HALF.search(self._text)
        if match:
            before = re.sub("\r\n?", "\n", self._text[: match.start()])
            what = "a NUL" if match[0] == "\0" else "half a character (a lone surrogate)"
            raise YamlTrouble(
                f"{what} stands here, which no server reads; remove it",
                before.count("\n") + 1,
                len(before) - before.rfind("\n"),
            )

    def document(self) -> Node:
        root: Node | None = None
        for event, value in self._events:
            if isinstance(event, ev.DocumentStartEvent):
                if root is not None:
                    line = event.start_mark.line + 1
                    raise YamlTrouble("a second document begins here; a job is one document", line)
                self._anchors = {}
            elif not isinstance(event, ev.StreamStartEvent | ev.StreamEndEvent | ev.DocumentEndEvent):
                root = self._node(event, value, ())
        return root or Node(None, 1, 1)

    def _node(self, event: ev.Event, value: str, path: tuple[str | int, ...]) -> Node:
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        if len(path) > _DEEPEST:
            raise YamlTrouble(f"this is nested more than {_DEEPEST} levels deep", line, column)
        if isinstance(event, ev.AliasEvent):
            node = self._anchors.get(event.anchor)
            if node is None:
                raise YamlTrouble(
                    "a '*' begins a reference to an anchor, and there is none of this name; put a text that "
                    "begins with '*' into quotes",
                    line, column, path,
                )  # fmt: skip
            if not node.complete:
                raise YamlTrouble("this refers to a part of the document that it is in itself", line, column, path)
            return node
        node = Node(None, line, column, complete=False)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if isinstance(event, ev.ScalarEvent):
            self._scalar(node, event, value, path)
        elif isinstance(event, ev.SequenceStartEvent):
            self._sequence(node, event, path)
        else:
            self._mapping(node, event, path)
        node.complete = True
        return node

    def _scalar(self, node: Node, event: ev.ScalarEvent, value: str, path: tuple[str | int, ...]) -> None:
        plain = event.style is None
        raw = value if plain or event.style in "|>" else self._text[event.start_mark.index : event.end_mark.index]
        unfit = (_PLAIN_UNFIT if plain or event.style in "|>" else _QUOTED_UNFIT).search(raw.replace("\r", "\n"))
        if unfit:
            raise YamlTrouble(
                f'a control character (U+{ord(unfit[0]):04X}) is in this text; write it in "..." as '
                f"\\x{ord(unfit[0]):02x}" if ord(unfit[0]) < 256 else "a character that is none is in this text",  # noqa: PLR2004
                node.line, node.column, path,
            )  # fmt: skip
        value = _PAIR.sub(lambda pair: pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le"), value)
        if _HALF.search(value):
            raise YamlTrouble(
                "half a character (a lone surrogate) is in this text; no JSON can carry it",
                node.line, node.column, path,
            )  # fmt: skip
        tag = event.tag
        if tag == "!" or (tag is None and not plain):
            node.value = None if plain and not value else value
        elif tag is None:
            node.value = plain_value(value) if value else None
            node.merge = value == MERGE
        else:
            self._tagged(node, tag, value, empty=plain and not value, path=path)

    def _tagged(self, node: Node, tag: str, value: str, *, empty: bool, path: tuple[str | int, ...]) -> None:
        name = tag.removeprefix(_TAG) if tag.startswith(_TAG) else ""
        if empty:
            fits, node.value = name in _OF_NOTHING, copy.copy(_OF_NOTHING.get(name))
        else:
            fits, node.value = tagged_value(name, value)
            node.merge = name == "merge"
        if not fits:
            raise YamlTrouble(
                "this value does not fit its tag, or the server knows no such tag; leave the tag out, or put a "
                "text that begins with '!' into quotes",
                node.line, node.column, path,
            )  # fmt: skip

    def _sequence(self, node: Node, event: ev.SequenceStartEvent, path: tuple[str | int, ...]) -> None:
        items: list[Node] = []
        for inner, value in self._events:
            if isinstance(inner, ev.SequenceEndEvent):
                break
            items.append(self._node(inner, value, (*path, len(items))))
        node.value = items
        node.size += sum(item.size for item in items)
        tag = event.tag
        if tag in (None, "!", f"{_TAG}seq"):
            return
        if tag in (f"{_TAG}omap", f"{_TAG}pairs"):
            pairs = [item.value if isinstance(item.value, dict) and len(item.value) == 1 else None for item in items]
            keys = [next(iter(pair)) for pair in pairs if pair]
            if None not in pairs and (tag == f"{_TAG}pairs" or len(set(keys)) == len(keys)):
                if tag == f"{_TAG}pairs":
                    node.value = [_as_pair(item) for item in items]
                return
        raise YamlTrouble("this list does not fit its tag; leave the tag out", node.line, node.column, path)

    def _mapping(self, node: Node, event: ev.Event, path: tuple[str | int, ...]) -> None:
        entries: dict[str, tuple[int, Node]] = {}
        merged: set[str] = set()
        for inner, value in self._events:
            if isinstance(inner, ev.MappingEndEvent):
                break
            if not entries and not merged:
                self._check_first_key(inner, event, path)
            key_node = self._node(inner, value, (*path, "?"))
            key = _key(key_node, path)
            inner, value = next(self._events)  # noqa: PLW2901  a mapping's events come in pairs
            if isinstance(inner, ev.ScalarEvent) and inner.style in ("|", ">"):
                self._check_block(inner, key_node, event, (*path, key))
            item = self._node(inner, value, (*path, key))
            if key_node.merge:
                _merge(entries, merged, item, path)
                continue
            if key in entries and key not in merged:
                raise YamlTrouble(
                    f"this key was given already, in line {entries[key][0]}; the server refuses a key twice",
                    key_node.line, key_node.column, (*path, key),
                )  # fmt: skip
            merged.discard(key)
            entries[key] = key_node.line, item
        node.value = entries
        node.size += sum(item.size for _, item in entries.values())
        tag = getattr(event, "tag", None)
        if tag in (None, "!", f"{_TAG}map"):
            return
        if tag == f"{_TAG}set" and all(item.value is None for _, item in entries.values()):
            return
        raise YamlTrouble("this mapping does not fit its tag; leave the tag out", node.line, node.column, path)


    def _check_first_key(self, key: ev.Event, mapping: Any, path: tuple[str | int, ...]) -> None:
        """Refuse ``&anchor key: value`` and ``!tag key: value`` as the first line of a mapping."""
        if mapping.flow_style or isinstance(key, ev.AliasEvent):
            return
        if getattr(key, "anchor", None) is None and getattr(key, "tag", None) is None:
            return
        if self._text[: key.start_mark.index].rstrip(" \t\r\n").endswith("?"):
            return
        raise YamlTrouble(
            "an anchor or a tag cannot stand before the first key of a mapping, on its line; "
            "put it on the line before, or a text that begins with '&' or '!' into quotes",
            key.start_mark.line + 1, key.start_mark.column + 1, path,
        )  # fmt: skip

    def _check_block(self, value: Any, key: Node, mapping: Any, path: tuple[str | int, ...]) -> None:
        if value.start_mark.line + 1 > key.line and value.start_mark.column <= mapping.start_mark.column:
            raise YamlTrouble(
                "this is indented no more than the key that it belongs to",
                value.start_mark.line + 1, value.start_mark.column + 1, path,
            )  # fmt: skip


def _as_pair(item: Node) -> Node:
    ((key, (line, value)),) = item.value.items()
    return Node([Node(key, line, item.column), value], item.line, item.column, size=item.size + 1)


def _key(node: Node, path: tuple[str | int, ...]) -> str:
    """Return the text that JavaScript makes of a key."""
    value = node.value
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, list):
        return ",".join(_key_item(item, path) for item in value)
    if isinstance(value, Moment | Binary):
        raise YamlTrouble(
            "a key that is a date or binary becomes something else on the server; put it into quotes",
            node.line, node.column, path,
        )  # fmt: skip
    key = value if isinstance(value, str) else javascript_text(value)
    if key == _PROTO:
        raise YamlTrouble(f"{_PROTO} is a key that servers lose; give it another name", node.line, node.column, path)
    return key


def _key_item(item: Node, path: tuple[str | int, ...]) -> str:
    if isinstance(item.value, list):
        raise YamlTrouble("a list in a list cannot be a key", item.line, item.column, path)
    return "" if item.value is None else _key(item, path)


def _merge(
    entries: dict[str, tuple[int, Node]], merged: set[str], source: Node, path: tuple[str | int, ...]
) -> None:
    for each in source.value if isinstance(source.value, list) else [source]:
        if isinstance(each.value, dict):
            found = {key: (line, item) for key, (line, item) in each.value.items()}
        elif isinstance(each.value, list):
            found = {str(index): (item.line, item) for index, item in enumerate(each.value)}
        else:
            raise YamlTrouble("'<<' takes a mapping, or a list of them", each.line, each.column, (*path, MERGE))
        for key, entry in found.items():
            if key not in entries:
                entries[key] = entry
                merged.add(key)


def expand(root: Node) -> tuple[Any, dict[tuple[str | int, ...], int], list[tuple[tuple[str | int, ...], str]]]:
    """Return the value of a tree as JSON has it, the lines of its parts, and what to remark on.

    Raises:
        YamlTrouble: its aliases make too much of it, or it says what JSON cannot.
    """
    if root.size > _MOST_FROM_ALIASES:
        raise YamlTrouble(
            f"with its aliases the document has more than {_MOST_FROM_ALIASES:,} parts; write fewer", root.line
        )
    lines: dict[tuple[str | int, ...], int] = {}
    remarks: list[tuple[tuple[str | int, ...], str]] = []
    value = _expanded(root, (), root.line, lines, remarks)
    return value, lines, remarks


def _expanded(
    node: Node,
    path: tuple[str | int, ...],
    line: int,
    lines: dict[tuple[str | int, ...], int],
    remarks: list[tuple[tuple[str | int, ...], str]],
) -> Any:
    if len(path) > _DEEPEST:
        raise YamlTrouble(f"this is nested more than {_DEEPEST} levels deep", node.line, node.column)
    lines[path] = line
    value = node.value
    if isinstance(value, dict):
        return {
            key: _expanded(item, (*path, key), at, lines, remarks) for key, (at, item) in value.items()
        }
    if isinstance(value, list):
        return [
            _expanded(item, (*path, index), item.line, lines, remarks) for index, item in enumerate(value)
        ]
    if isinstance(value, Moment):
        remarks.append((path, f"the server takes this for a moment, {value}; put it into quotes if it is a text"))
        return str(value)
    if isinstance(value, Binary):
        return {"type": "Buffer", "data": list(value.data)}
    if isinstance(value, float) and not math.isfinite(value):
        raise YamlTrouble(
            "infinity and not-a-number are no JSON; put it into quotes if it is a text", node.line, node.column, path
        )
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > _EXACT:
        remarks.append((path, f"the server rounds numbers beyond {_EXACT}; put it into quotes if it is a text"))
    return value
