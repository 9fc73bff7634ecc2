"""YAML text in and out, with the values that the rest-servers read from it.

Servers read a job with js-yaml, which is neither YAML 1.1 nor 1.2: ``yes`` is a string, a
date is a time in UTC, ``017`` is 15 or 17 (``yaml_scalars``). What ``write_yaml`` writes
has one meaning to all readers.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.paths import Path, path_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_DEEPEST = 100
_LONGEST_IMPLICIT_KEY = 1000  # characters; YAML 1.1 readers stop at 1024
_PLAIN = re.compile(r"[A-Za-z/_$(<][ -~]*(?<! )")
_NOT_PLAIN = re.compile(r": | #|:\Z")
_WORD = re.compile(r"y|n|yes|no|on|off|true|false|null|nan|inf|infinity|<<?", re.IGNORECASE)
_UNPRINTABLE = re.compile(
    "[^\n\x20-\x7e\xa1-\u1fff\u2030-\u2fef\u3001-\ud7ff\ue000-\ufdcf\ufdf0-\ufefe\uff00-\uffef\U00010000-\U0010fffd]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


@dataclass(frozen=True)
class Document:
    """A YAML document that was read.

    Attributes:
        value: as JSON has it: dict, list, str, int, float, bool, None.
        text: the text, as it was given.
        source: a file's name, or nothing.
        lines: path of each value -> the line of its key, or of its beginning, from 1.
        warnings: scalars that the server reads in a surprising way.
        problems: scalars that servers misread, from a lenient reading only.
    """

    value: Any
    text: str
    source: str
    lines: Mapping[Path, int]
    warnings: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()


def read_yaml(text: str, source: str = "", *, lenient: bool = False) -> Document:
    """Read a YAML text as the rest-servers do.

    Args:
        text: one YAML document.
        source: a file's name, for errors.
        lenient: continue after a value that servers misread, and return it in the document's ``problems``.
            A number may then be infinite or not a number.

    Raises:
        SpecError: it is not YAML, or a server refuses or misreads it. It has every problem up to the one
            that ends the reading, with line and column. No message quotes the text, which may hold a secret.
    """
    from luigi_pai.jobspec.dialects.yaml_problems import YamlError  # noqa: PLC0415
    from luigi_pai.jobspec.dialects.yaml_values import JsonValue  # noqa: PLC0415  loads PyYAML

    try:
        read = JsonValue(text)
    except YamlError as error:
        raise SpecError(source, [error.problem]) from None
    if read.problems and not lenient:
        raise SpecError(source, read.problems)
    return Document(read.value, text, source, read.lines, tuple(read.warnings), tuple(read.problems))


def write_yaml(value: Any) -> str:
    """Write a value as YAML that readers of YAML 1.1 and 1.2, js-yaml among them, read alike.

    Keys keep their order. Texts of several lines are blocks where that is exact.

    Args:
        value: dict, list, str, int, float, bool or None, as JSON has them.

    Raises:
        SpecError: a part of it is not JSON.
    """
    return "\n".join(_written(value, (), "")) + "\n"


def _written(value: Any, path: Path, indent: str) -> Iterator[str]:
    """Yield the lines of a value; the first without its indentation."""
    if len(path) > _DEEPEST:
        raise SpecError("", [Problem(path_text(path[:3]), f"is nested more than {_DEEPEST} levels deep")])
    if isinstance(value, dict) and value:
        for index, (key, item) in enumerate(value.items()):
            yield from _entry(key, item, path, indent, first=index == 0)
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            lines = _written(item, (*path, index), indent + "  ")
            yield f"{indent if index else ''}- {next(lines)}"
            yield from lines
    elif isinstance(value, str) and _is_block(value):
        yield "|" if value.endswith("\n") else "|-"
        for line in value.removesuffix("\n").split("\n"):
            yield f"{indent or '  '}{line}" if line else ""
    else:
        yield _inline(value, path)


def _entry(key: Any, item: Any, path: Path, indent: str, *, first: bool) -> Iterator[str]:
    if not isinstance(key, str):
        raise _not_json(path, f"a key is of type {type(key).__name__}; keys are texts")
    if key == "__proto__":
        raise _not_json((*path, key), "servers lose the value of this key; give it another name")
    start = "" if first else indent
    written = _text(key, path)
    if len(written) > _LONGEST_IMPLICIT_KEY:
        yield f"{start}? {written}"
        start, written = indent, ""
    deeper = indent + "  "
    lines = _written(item, (*path, key), deeper)
    if isinstance(item, dict | list) and item:
        yield f"{start}{written}:"
        yield f"{deeper}{next(lines)}"
    else:
        yield f"{start}{written}: {next(lines)}"
    yield from lines


def _inline(value: Any, path: Path) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        return _digits(value, path)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _not_json(path, "is infinite or not a number, which JSON does not have")
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e")
    if isinstance(value, dict | list):  # empty
        return json.dumps(value)
    raise _not_json(path, f"is of type {type(value).__name__}, which JSON does not have")


def _digits(value: int, path: Path) -> str:
    try:
        return str(int(value))
    except ValueError:  # more digits than Python writes
        raise _not_json(path, "is a number of more digits than a server can hold") from None


def _not_json(path: Path, message: str) -> SpecError:
    return SpecError("", [Problem(path_text(path), message)])


def _is_block(text: str) -> bool:
    if "\n" not in text.rstrip("\n") and not text.endswith("\n"):
        return False
    lines = text.removesuffix("\n").split("\n")
    return (
        bool(lines[0].strip())
        and lines[0][0] != " "
        and bool(lines[-1])
        and not any(line and not line.strip(" ") for line in lines)
        and not _UNPRINTABLE.search(text)
    )


def _text(text: str, path: Path) -> str:
    if _SURROGATE.search(text):
        raise _not_json(path, "has half a character in it (a lone surrogate), which no server reads")
    if _PLAIN.fullmatch(text) and not _NOT_PLAIN.search(text) and not _WORD.fullmatch(text):
        return text
    if _UNPRINTABLE.search(text) or "\n" in text:
        return _double_quoted(text)
    quoted = text.replace("'", "''")
    return f"'{quoted}'"


def _double_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\t", "\\t")
    return '"' + _UNPRINTABLE.sub(lambda match: _escape(ord(match[0])), escaped) + '"'


def _escape(code: int) -> str:
    if code <= 0xFF:  # noqa: PLR2004
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004
