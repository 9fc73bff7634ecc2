"""Reading and writing of YAML, with the values that the rest-servers read from a text.

Servers read a job with js-yaml, which follows neither YAML 1.1 nor 1.2. For example, ``yes`` is a string,
a date is a time in UTC, and ``017`` is 15 in js-yaml 3, but 17 in js-yaml 4 (see ``yaml_scalars``). All
servers, and PyYAML, read the same values from the output of ``write_yaml``.
"""

from __future__ import annotations

import json
import math
import re
from functools import lru_cache
from typing import Any

import yaml

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.dialects.yaml_problems import YamlError
from luigi_pai.jobspec.dialects.yaml_values import Document

_NEVER_A_NUMBER = re.compile(r"[A-Za-z/_$(<][ -~]*")
_NO_LINE_BREAK_TO_ALL = re.compile("[\x85\u2028\u2029]")
_SIMPLE_KEY = re.compile(r"[\w.-]{1,100}", re.ASCII)
_LATER_LINE = re.compile(r"(?<=\n)(?=[^\n])")
_LONGEST_CACHED = 1000  # characters


def read_yaml(
    text: str, source: str = "", *, lenient: bool = False, js_yaml_4: bool | None = None
) -> Document:
    """Read a YAML text as the rest-servers do.

    Args:
        text: one YAML document.
        source: a file's name, for errors.
        lenient: whether a value that servers misread is only reported in the document's ``problems``, and
            raises no error. A number in the document may then be infinite or NaN.
        js_yaml_4: whether the server has js-yaml 4, and not js-yaml 3; if it is None, a value that these two
            read differently is a problem.

    Raises:
        SpecError: the text is not YAML, a server refuses it, or servers misread a value. The error has all
            problems, with their lines; if a problem ends the reading, it has only this problem. It never
            quotes the text, which may be secret.
    """
    try:
        document = Document(text, source, js_yaml_4=js_yaml_4)
    except YamlError as error:
        raise SpecError(source, [error.problem]) from None
    if document.problems and not lenient:
        raise SpecError(source, document.problems)
    return document


def decoded(content: bytes, source: str) -> str:
    """Decode the content of a file. Raise SpecError, with the line, if the content is not UTF-8."""
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise SpecError(source, [Problem("", "is not UTF-8; save it as UTF-8", line=line)]) from None


def write_yaml(value: Any) -> str:
    """Return a value of JSON's types as YAML, from which PyYAML, js-yaml 3 and js-yaml 4 read this value.

    Keys keep their order. A string of several lines is written as a block if a block preserves it exactly.
    """
    lines: list[str] = []
    return "\n".join([*lines, ""]) if _write(value, "", lines) else _dumped(value)


def _write(value: Any, indent: str, lines: list[str]) -> bool:
    """Append the lines that PyYAML writes; return False for a value that PyYAML itself must write."""
    if not _has_items(value):
        return False
    is_dict = isinstance(value, dict)
    for key, item in value.items() if is_dict else enumerate(value):
        if is_dict and not _SIMPLE_KEY.fullmatch(str(key)):
            return False
        start, first = f"{indent}{_cached(key)}:" if is_dict else f"{indent}-", len(lines)
        if not _has_items(item):
            text = _scalar(item)
            if text.endswith("\n..."):  # the item ends with several line breaks
                return False
            lines.append(f"{start} {_LATER_LINE.sub(indent, text)}")
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


@lru_cache(512)  # the jobs of a sweep have most of their strings in common
def _cached(item: str | float) -> str:
    return _dumped([item]).removeprefix("- ").removesuffix("\n")


def _dumped(value: Any) -> str:
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=math.inf)


class _Dumper(yaml.SafeDumper):
    """PyYAML's emitter, adapted to quote every text that PyYAML or a js-yaml may read as a number or date."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002, FBT001, FBT002
        """Indent the items of a list that is in a mapping, because PyYAML does not indent them."""
        super().increase_indent(flow, indentless=False)

    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002
        """Write a value in full each time it occurs, without aliases."""
        return True


def _represented_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style: str | None = "'"
    if _NEVER_A_NUMBER.fullmatch(text):
        style = None
    elif _NO_LINE_BREAK_TO_ALL.search(text):
        style = '"'
    elif "\n" in text:
        style = "|"
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represented_text)
