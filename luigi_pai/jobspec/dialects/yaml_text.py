"""Reads and writes YAML so that values are the same as those the rest-servers read.

Servers read jobs with js-yaml, which follows neither YAML 1.1 nor 1.2. For example, ``yes`` is a string,
a date is a time in UTC, and ``017`` is 15 in js-yaml 3, but 17 in js-yaml 4 (see ``yaml_syntax``). All
servers, and PyYAML, read the same values from the output of ``write_yaml``.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import yaml

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.jobspec.dialects.javascript_text import javascript_text
from luigi_pai.jobspec.dialects.yaml_syntax import (
    BAD_TAG,
    MAX_DEPTH,
    MERGE,
    QUOTE_STRING,
    TOO_DEEP,
    UnclearScalarError,
    YamlError,
    compose,
    place_of,
    plain_value,
    yaml_problem,
)
from luigi_pai.jobspec.paths import path_text

if TYPE_CHECKING:
    from luigi_pai.jobspec.paths import Path

    Entries = dict[str, tuple[int, Any]]  # key -> the key's line and the value's node

_TAG = "tag:yaml.org,2002:"
_TYPES = {"null": (type(None),), "bool": (bool,), "int": (int,), "float": (int, float)}
_PROTO = "__proto__"  # a key with which JavaScript sets an object's prototype
_LOSES_ZEROS = re.compile(r"[1-9]\d*\.[1-9]\d*?0+")  # a version such as 3.10
_MAX_PARTS = 100_000
_MAX_EXACT = 2**53
_NEVER_A_NUMBER = re.compile(r"[A-Za-z/_$(<][ -~]*")
_NO_LINE_BREAK_TO_ALL = re.compile("[\x85\u2028\u2029]")
_SIMPLE_KEY = re.compile(r"[\w.-]{1,100}", re.ASCII)
_LATER_LINE = re.compile(r"(?<=\n)(?=[^\n])")
_LONGEST_CACHED = 1000  # characters


class Document:
    """A YAML document, read as the servers read it. Each alias is replaced with a copy of its node's value.

    Args:
        text: One YAML document.
        js_yaml_4: See ``read_yaml``.

    Raises:
        YamlError: ``text`` is not YAML, or servers reject it.

    Attributes:
        text: The constructor's argument.
        value: The document's value, with JSON types: dict, list, str, int, float, bool, None.
        lines: Each value's path -> the line of its key, or of the value itself if it is a list item. The
            first line is 1.
        warnings: Scalars that the server reads in a surprising way, such as a date as a time in UTC.
        problems: Scalars and keys whose values servers drop or change, or whose values depend on the server.
    """

    def __init__(self, text: str, *, js_yaml_4: bool | None = None) -> None:
        self.text = text
        self._js_yaml_4 = js_yaml_4
        self.lines: dict[Path, int] = {}
        self.warnings: list[Problem] = []
        self.problems: list[Problem] = []
        self._begun: set[int] = set()  # the node being read and the nodes that contain it
        self._entries: dict[int, Entries] = {}
        root = compose(text)
        self.value: Any = None
        self.lines[()] = 1
        if root is not None:
            self.value = self._value(root, (), root.start_mark.line + 1)

    def _value(self, node: Any, path: Path, line: int) -> Any:
        """Return a node's value. ``line`` is the line of its key, or the node's line if there is no key."""
        if len(path) > MAX_DEPTH:
            raise _error(node, TOO_DEEP, ())
        self.lines[path] = line
        if len(self.lines) > _MAX_PARTS:
            message = f"the document has more than {_MAX_PARTS:,} parts, including copies by aliases ('*')"
            raise YamlError(f"{message}; make it smaller", line)
        if isinstance(node, yaml.ScalarNode):
            return self._scalar(node, path)
        if id(node) in self._begun:
            raise _error(node, "this value contains itself, through an alias ('*')", path)
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
            value = {key: self._value(item, (*path, key), start) for key, (start, item) in entries.items()}
        self._begun.discard(id(node))
        return value

    def _check_tag(self, node: Any, wanted: str, path: Path) -> None:
        if node.tag not in ("", f"{_TAG}{wanted}"):
            raise _error(node, BAD_TAG, path)

    def _entries_of(self, node: Any, path: Path) -> Entries:
        """Return a mapping's entries, including those that ``<<`` merges into it."""
        if id(node) in self._entries:
            return self._entries[id(node)]
        self._check_tag(node, "map", path)
        entries: Entries = {}
        self._entries[id(node)] = entries
        merged: set[str] = set()
        for key_node, item in node.value:
            key = self._key(key_node, path)
            key_path = (*path, key)
            if key == MERGE and not key_node.tag:
                for source in item.value if isinstance(item, yaml.SequenceNode) else [item]:
                    if not isinstance(source, yaml.MappingNode):
                        raise _error(source, "'<<' takes a mapping, or a list of them", key_path)
                    new = {k: v for k, v in self._entries_of(source, key_path).items() if k not in entries}
                    entries |= new
                    merged |= new.keys()
            elif key in entries and key not in merged:
                message = f"this key is already in line {entries[key][0]}; remove one of the two"
                raise _error(key_node, message, key_path)
            else:
                merged.discard(key)
                entries[key] = key_node.start_mark.line + 1, item
        return entries

    def _key(self, node: Any, path: Path) -> str:
        """Convert a key to a string as JavaScript does."""
        if not isinstance(node, yaml.ScalarNode):
            raise _error(
                node,
                "a list or a mapping cannot be a key; if this is a string with brackets, put it in quotes",
                path,
            )
        value, is_date = self._plain(node, path)
        if is_date:
            message = (
                "the server converts a key that is a date to a long English string; put the key in quotes"
            )
            self.problems.append(_problem(node, message, path))
        key = javascript_text(value)
        if key == _PROTO and not self._js_yaml_4:
            message = f"OpenPAI drops the value of the key {_PROTO}; rename the key"
            self.problems.append(_problem(node, message, path))
        return key

    def _scalar(self, node: Any, path: Path) -> Any:
        value, is_date = self._plain(node, path)
        message = ""
        if is_date:
            message = f"the server reads this as a date, and converts it to a time in UTC; {QUOTE_STRING}"
        elif isinstance(value, float) and not math.isfinite(value):
            infinite = f"the server converts infinity and NaN to null; {QUOTE_STRING}"
            self.problems.append(_problem(node, infinite, path, Level.STRICTER))
        elif isinstance(value, int | float) and abs(value) > _MAX_EXACT:
            message = f"the server rounds whole numbers beyond {_MAX_EXACT:,}; {QUOTE_STRING}"
        elif path[:1] == ("parameters",) and isinstance(value, float) and _LOSES_ZEROS.fullmatch(node.value):
            message = f"the server reads this as the number {javascript_text(value)}; {QUOTE_STRING}"
        if message:
            self.warnings.append(Problem(path_text(path), message, Level.WARNING, self.lines[path]))
        return value

    def _plain(self, node: Any, path: Path) -> tuple[Any, bool]:
        """Return the value of a scalar, and whether it is a date."""
        try:  # JavaScript's escapes may encode a character as two surrogates; join them
            content = node.value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise _error(node, "this string contains half a character (a lone surrogate)", path) from None
        tag = node.tag.removeprefix(_TAG)
        if tag in ("!", "str"):
            return content, False
        if tag and tag not in _TYPES:
            raise _error(node, BAD_TAG, path)
        if content == "-" and not tag:
            raise _error(node, "'-' by itself is not a string; put it in quotes", path)
        try:
            value, is_date = plain_value(content, js_yaml_4=self._js_yaml_4)
        except UnclearScalarError as error:
            self.problems.append(_problem(node, str(error), path))
            return content, False
        if tag and (is_date or type(value) not in _TYPES[tag]):
            raise _error(node, BAD_TAG, path)
        return value, is_date


def _problem(node: Any, message: str, path: Path, level: Level = Level.REFUSED) -> Problem:
    return yaml_problem(message, *place_of(node.start_mark), path, level)


def _error(node: Any, message: str, path: Path) -> YamlError:
    return YamlError(message, *place_of(node.start_mark), path)


def read_yaml(
    text: str, source: str = "", *, lenient: bool = False, js_yaml_4: bool | None = None
) -> Document:
    """Read YAML as the rest-servers do.

    Args:
        text: One YAML document.
        source: The file's name, for errors.
        lenient: Whether to report a value that servers misread only in the document's ``problems``, instead
            of raising an error. A number in the document may then be infinite or NaN.
        js_yaml_4: Whether the server uses js-yaml 4 instead of js-yaml 3. If None, a value that these two
            read differently is a problem.

    Raises:
        SpecError: ``text`` is not YAML, a server rejects it, or servers misread a value. The error contains
            all problems with their lines, or only the problem that stopped the parser. It never quotes the
            document, which may contain secrets.
    """
    try:
        document = Document(text, js_yaml_4=js_yaml_4)
    except YamlError as error:
        raise SpecError(source, [error.problem]) from None
    if document.problems and not lenient:
        raise SpecError(source, document.problems)
    return document


def decoded(content: bytes, source: str) -> str:
    """Decode a file's content; if it is not UTF-8, raise a SpecError with the line."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError(source, [Problem("", "is not UTF-8; save it as UTF-8", line=line)]) from None


def write_yaml(value: Any) -> str:
    """Write a value with JSON types as YAML that PyYAML, js-yaml 3 and js-yaml 4 all read as the same value.

    Keys keep their order. A multi-line string is written as a block if a block preserves it exactly.
    """
    lines: list[str] = []
    return "\n".join([*lines, ""]) if _write(value, "", lines) else _dumped(value)


def _write(value: Any, indent: str, lines: list[str]) -> bool:
    """Append the lines that PyYAML would write; return False for a value that PyYAML itself must write."""
    if not _has_items(value):
        return False
    is_dict = isinstance(value, dict)
    for key, item in value.items() if is_dict else enumerate(value):
        if is_dict and not _SIMPLE_KEY.fullmatch(str(key)):
            return False
        start, first = f"{indent}{_cached(key)}:" if is_dict else f"{indent}-", len(lines)
        if not _has_items(item):
            scalar = _scalar(item)
            if scalar.endswith("\n..."):  # the item ends with more than one line break
                return False
            lines.append(f"{start} {_LATER_LINE.sub(indent, scalar)}")
        elif not _write(item, f"{indent}  ", lines):
            return False
        elif is_dict:
            lines.insert(first, start)
        else:
            lines[first] = f"{start} {lines[first].lstrip(' ')}"
    return True


def _has_items(value: object) -> bool:
    return isinstance(value, dict | list) and bool(value)


def _scalar(item: Any) -> str:
    if not isinstance(item, str | float):
        return json.dumps(item)
    is_short = isinstance(item, str) and len(item) <= _LONGEST_CACHED
    return _cached(item) if is_short else _cached.__wrapped__(item)


@lru_cache(512)  # a sweep's jobs share most of their strings
def _cached(item: str | float) -> str:
    return _dumped([item]).removeprefix("- ").removesuffix("\n")


def _dumped(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)


class _Dumper(yaml.SafeDumper):
    """PyYAML's emitter, but quoting every string that PyYAML or js-yaml may read as a number or date."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """Indent the items of a list in a mapping, which PyYAML does not do."""
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write a value in full every time it occurs, without aliases."""
        return True


def _represented_text(dumper: _Dumper, string: str) -> yaml.ScalarNode:
    style: str | None = "'"
    if _NEVER_A_NUMBER.fullmatch(string):
        style = None
    elif _NO_LINE_BREAK_TO_ALL.search(string):
        style = '"'
    elif "\n" in string:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", string, style=style)


_Dumper.add_representer(str, _represented_text)
