"""From the events of a YAML text to the nodes that a server's reader makes of them."""

from __future__ import annotations

import copy
import json
import re
from typing import TYPE_CHECKING, Any

from yaml import events as ev

from luigi_pai.errors import Level
from luigi_pai.spec.dialects.source_text import with_source
from luigi_pai.spec.dialects.yaml_nodes import Entries, Node, OtherReading
from luigi_pai.spec.dialects.yaml_problems import DEEPEST, YamlTrouble, too_deep
from luigi_pai.spec.dialects.yaml_readers import other_reader
from luigi_pai.spec.dialects.yaml_scalars import (
    MERGE,
    Binary,
    Moment,
    javascript_text,
    plain_value,
    tagged_value,
)
from luigi_pai.spec.dialects.yaml_scanner import Events

if TYPE_CHECKING:
    from luigi_pai.spec.dialects.yaml_problems import Steps
    from luigi_pai.spec.dialects.yaml_readers import YamlReader

__all__ = ["compose"]

_TAG = "tag:yaml.org,2002:"
_OF_NOTHING: dict[str, Any] = {
    "str": "", "null": None, "merge": None, "map": {}, "set": {}, "seq": [], "omap": [], "pairs": [],
}  # fmt: skip
_PROTO = "__proto__"  # a key that JavaScript takes for something else

_UNFIT = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\x7f-\x84\x86-\x9f\ufffe\uffff]")
_UNFIT_IN_QUOTES = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f]")
_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile("[\ud800-\udfff]")
_MAY_DIFFER = re.compile("[-+]?[0-9]")
_READ_BY_TAG = frozenset({"int", "float", "binary"})


def compose(text: str, troubles: list[YamlTrouble], reader: YamlReader) -> Node:
    """Read a text with one document; a text without any is null.

    Args:
        text: the document.
        reader: as which of the servers' readers.
        troubles: to this list is added what the server takes, and nobody means; also before an error.

    Raises:
        YamlTrouble: it is not YAML, or the server does not take it.
    """
    if text and text[-1] not in "\r\n":
        text += "\n"
    composer = _Composer(text.removeprefix("\ufeff"), reader)
    try:
        return composer.document()
    finally:
        troubles += composer.troubles


class _Composer:
    def __init__(self, text: str, reader: YamlReader) -> None:
        self._text = text
        self._reader, self._other = reader, other_reader(reader)
        self._check_characters()
        self._events = Events(text, reader)
        self.troubles = self._events.troubles
        self._anchors: dict[str, Node] = {}

    def _check_characters(self) -> None:
        match = re.search("\0", self._text) or _HALF.search(self._text)
        if match is None:
            return
        before = re.sub("\r\n?", "\n", self._text[: match.start()])
        what = "a NUL character" if match[0] == "\0" else "half a character (a lone surrogate)"
        raise YamlTrouble(
            f"{what} is here, which no server reads; remove it",
            before.count("\n") + 1,
            len(before) - before.rfind("\n"),
        )

    def document(self) -> Node:
        """Return the root of the one document."""
        root: Node | None = None
        event: Any
        for event, value in self._events:
            if isinstance(event, ev.DocumentStartEvent):
                if root is not None:
                    raise YamlTrouble("a second document begins here; a job is one document", _line(event))
            elif not isinstance(event, (ev.StreamStartEvent, ev.StreamEndEvent, ev.DocumentEndEvent)):
                root = self._node(event, value, ())
        return root or Node(None, 1, 1)

    def _node(self, event: Any, value: str, path: Steps) -> Node:
        node = Node(None, event.start_mark.line + 1, event.start_mark.column + 1, is_complete=False)
        if len(path) > DEEPEST:
            raise too_deep(node.line, node.column)
        if isinstance(event, ev.AliasEvent):
            return self._anchored(event, node, path)
        if event.anchor is not None:
            self._anchors[event.anchor] = node
        if isinstance(event, ev.ScalarEvent):
            self._scalar(node, event, value, path)
        elif isinstance(event, ev.SequenceStartEvent):
            self._sequence(node, event, path)
        else:
            self._mapping(node, event, path)
        node.is_complete = True
        return node

    def _anchored(self, event: Any, alias: Node, path: Steps) -> Node:
        node = self._anchors.get(event.anchor)
        if node is None or node.is_empty:
            raise alias.trouble(
                "'*' begins a reference, and nothing has an anchor of this name; "
                "put a text that begins with '*' into quotes",
                path,
            )
        if not node.is_complete:
            raise alias.trouble("this refers to a part of the document that it is in itself", path)
        return node

    # ------------------------------------------------------------ scalars

    def _scalar(self, node: Node, event: Any, value: str, path: Steps) -> None:
        is_plain = event.style is None
        if is_plain or event.style in "|>":
            unfit = _UNFIT.search(value)
        else:  # what is escaped is not meant: look at the source
            unfit = _UNFIT_IN_QUOTES.search(self._text, event.start_mark.index, event.end_mark.index)
        if unfit:
            raise node.trouble(_unfit(ord(unfit[0])), path)
        value = _PAIR.sub(_joined, value)
        if _HALF.search(value):
            raise node.trouble("half a character (a lone surrogate) is in this text; remove it", path)
        node.is_empty = is_plain and not value
        if event.tag not in (None, "!"):
            self._tagged(node, event, value, path)
        elif node.is_empty:
            node.value = None
        elif event.tag == "!" or not is_plain:
            node.value = value
        else:
            node.value = plain_value(value, self._reader)
            node.is_merge = value == MERGE
            if _MAY_DIFFER.match(value):
                other = plain_value(value, self._other)
                if not _same(node.value, other):
                    node.other = OtherReading(value, other)

    def _tagged(self, node: Node, event: Any, value: str, path: Steps) -> None:
        name = event.tag.removeprefix(_TAG) if event.tag.startswith(_TAG) else ""
        if node.is_empty:
            fits, node.value = name in _OF_NOTHING, copy.copy(_OF_NOTHING.get(name))
            node.is_empty = False
        else:
            fits, node.value = tagged_value(name, value, self._reader)
            node.is_merge = name == "merge"
            if fits and name in _READ_BY_TAG:
                fits_there, other = tagged_value(name, value, self._other)
                if not fits_there or name == "binary" or not _same(node.value, other):
                    source = f"!!{name} {json.dumps(value, ensure_ascii=False)}"
                    written = self._text[event.start_mark.index : event.end_mark.index]
                    is_as_written = written.startswith("!!") and "\n" not in written.strip()
                    source = written.strip() if is_as_written else source
                    node.other = OtherReading(source, other, is_refused=not fits_there)
        if not fits:
            raise node.trouble(
                "this value does not fit its tag, or there is no such tag; leave the tag out, or put a text "
                "that begins with '!' into quotes",
                path,
            )

    # ------------------------------------------------------------ lists

    def _sequence(self, node: Node, event: Any, path: Steps) -> None:
        items: list[Node] = []
        for inner, value in self._events:
            if isinstance(inner, ev.SequenceEndEvent):
                break
            items.append(self._node(inner, value, (*path, len(items))))
        node.value = items
        node.size += sum(item.size for item in items)
        name = (event.tag or "!").removeprefix(_TAG)
        if name in ("!", "seq"):
            return
        keys = [_only_key(item) for item in items]
        is_fit = None not in keys and (name == "pairs" or (name == "omap" and len(set(keys)) == len(keys)))
        if not is_fit:
            raise node.trouble("this list does not fit its tag; leave the tag out", path)
        if name == "pairs":
            node.value = [_as_pair(item) for item in items]

    # ------------------------------------------------------------ mappings

    def _mapping(self, node: Node, event: Any, path: Steps) -> None:
        entries: Entries = {}
        merged: set[str] = set()
        is_first = True
        for inner, value in self._events:
            if isinstance(inner, ev.MappingEndEvent):
                break
            if is_first and not event.flow_style:
                self._check_first_key(inner, path)
            is_first = False
            self._entry(self._node(inner, value, (*path, "?")), event, entries, merged, path)
        node.value = entries
        node.size += sum(item.size for _, item in entries.values())
        name = (event.tag or "!").removeprefix(_TAG)
        is_set = name == "set" and all(item.value is None for _, item in entries.values())
        if name not in ("!", "map") and not is_set:
            raise node.trouble("this mapping does not fit its tag; leave the tag out", path)

    def _entry(self, key_node: Node, mapping: Any, entries: Entries, merged: set[str], path: Steps) -> None:
        key = _key(key_node, path)
        other = key_node.other
        if other is not None and not other.source.startswith("!") and javascript_text(other.value) != key:
            key = with_source(key, other.source)
        self._check_key(key_node, key, path)
        event: Any
        event, value = next(self._events)
        place = (*path, key)
        item = self._node(event, value, place)
        is_block = isinstance(event, ev.ScalarEvent) and event.style in ("|", ">")
        if (
            is_block
            and item.line > key_node.line
            and self._events.indentation(item) <= mapping.start_mark.column
        ):
            raise item.trouble("this is indented no more than the key that it belongs to", place)
        if key_node.is_merge:
            _merge(item, entries, merged, path)
            return
        if key == _PROTO and self._reader.loses_proto:
            _inherit(item, entries, merged)
            return
        if key in entries and key not in merged:
            raise key_node.trouble(
                f"this key is in line {entries[key][0]} already; the server refuses a key given twice",
                place,
            )
        merged.discard(key)
        entries[key] = key_node.line, item

    def _check_key(self, node: Node, key: str, path: Steps) -> None:
        """Note a key of which the server makes something else than a key."""
        parts = node.value if isinstance(node.value, list) else [node]
        if any(isinstance(part.value, (Moment, Binary)) for part in parts):
            message = (
                "the server makes a long English text of a key that is a date, and of binary what it happens "
                "to spell; put the key into quotes"
            )
        elif key == _PROTO and self._reader.loses_proto:
            message = (
                f"the server takes the key {_PROTO} and loses its value, and LTP 1.1 and later keep it; give "
                "it another name"
            )
        else:
            return
        self.troubles.append(node.trouble(message, path, Level.STRICTER))

    def _check_first_key(self, key: Any, path: Steps) -> None:
        """Refuse ``&anchor key: value`` and ``!tag key: value`` in a mapping's first line, as js-yaml."""
        if isinstance(key, ev.AliasEvent) or (key.anchor is None and key.tag is None):
            return
        if self._text[: key.start_mark.index].rstrip().endswith("?"):
            return
        raise YamlTrouble(
            "'&' or '!' cannot stand before the first key of a mapping, on its line; put what it begins on "
            "the line before, or a key that begins with it into quotes",
            key.start_mark.line + 1,
            key.start_mark.column + 1,
            path,
        )


def _same(one: Any, other: Any) -> bool:
    """Return whether two readers take a scalar for the same value."""
    return type(one) is type(other) and one == other


def _line(event: Any) -> int:
    """Return where an event begins, from 1."""
    line: int = event.start_mark.line
    return line + 1


def _unfit(code: int) -> str:
    if code <= 0xFF:  # noqa: PLR2004  what \x.. can say
        return f'a control character (U+{code:04X}) is in this text; write it as \\x{code:02x} in "..."'
    return f"U+{code:04X}, which is no character, is in this text; remove it"


def _joined(pair: re.Match[str]) -> str:
    """Return the character that two escapes of JavaScript's make."""
    return pair[0].encode("utf-16-le", "surrogatepass").decode("utf-16-le")


def _only_key(node: Node) -> str | None:
    return next(iter(node.value)) if isinstance(node.value, dict) and len(node.value) == 1 else None


def _as_pair(item: Node) -> Node:
    ((key, (line, value)),) = item.value.items()
    return Node([Node(key, line, item.column), value], item.line, item.column, size=item.size + 1)


def _key(node: Node, path: Steps) -> str:
    """Return the text that JavaScript makes of a key."""
    value = node.value
    if isinstance(value, dict):
        return "[object Object]"
    if isinstance(value, list):
        return ",".join(_key_in_list(item, path) for item in value)
    if isinstance(value, Moment):
        return value.javascript_text()
    if isinstance(value, Binary):
        return value.data.decode("utf-8", "replace")
    return value if isinstance(value, str) else javascript_text(value)


def _key_in_list(item: Node, path: Steps) -> str:
    if isinstance(item.value, list):
        raise item.trouble("a list within a list cannot be a key", path)
    return "" if item.value is None else _key(item, path)


def _merge(source: Node, entries: Entries, merged: set[str], path: Steps) -> None:
    """Take over what a mapping, or each of a list of mappings, has and the mapping itself has not."""
    for each in source.value if isinstance(source.value, list) else [source]:
        if not isinstance(each.value, dict | list):
            raise each.trouble("'<<' takes a mapping, or a list of them", (*path, MERGE))
        _inherit(each, entries, merged)


def _inherit(source: Node, entries: Entries, merged: set[str]) -> None:
    """Take over the entries of a part that are not there; to JavaScript a list has keys too."""
    found: Entries = {}
    if isinstance(source.value, dict):
        found = source.value
    elif isinstance(source.value, list):
        found = {str(index): (item.line, item) for index, item in enumerate(source.value)}
    for key, entry in found.items():
        if key not in entries:
            entries[key] = entry
            merged.add(key)
