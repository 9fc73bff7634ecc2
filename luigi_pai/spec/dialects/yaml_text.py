"""YAML text in and out, with the meaning that the rest-server gives it.

Servers from 0.15 to 1.8 read a job with js-yaml 3 (``safeLoad``), which is
neither YAML 1.1 nor 1.2: ``yes`` is a string, ``017`` is 15, ``1:30`` is 90,
``0o17`` is a string, and a date becomes a moment in UTC. LTP 1.1 and later read it
with js-yaml 4, to which ``017`` is 17 and ``1:30`` a string (``yaml_readers``).
``read_yaml`` reads a text as one of them does; ``write_yaml`` writes what every
reader understands alike, and what they read differently as the user wrote it.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.spec.dialects.source_text import Sourced, without_source
from luigi_pai.spec.dialects.yaml_readers import JS_YAML_3, YamlReader, other_reader
from luigi_pai.spec.paths import Path, path_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from luigi_pai.spec.dialects.yaml_nodes import Difference
    from luigi_pai.spec.dialects.yaml_problems import YamlTrouble

__all__ = ["Document", "read_yaml", "write_yaml"]

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
    """What a YAML text says.

    Attributes:
        value: the text's value as JSON has it: dict, list, str, int, float, bool, None.
        text: the text, as it was given.
        source: where it came from: a file's name, or nothing.
        lines: for every value, and every key, the line it stands in, from 1.
        warnings: what the server reads in another way than most people would.
        problems: what it takes and nobody means, as a tab that indents; only in a lenient reading.
        reader: as which of the servers' readers the text was read.
        sourced: the value, in which the scalars of ``differences`` have their text.
        differences: the scalars that the other reader takes for other values.
    """

    value: Any
    text: str
    source: str
    lines: Mapping[Path, int]
    warnings: tuple[Problem, ...] = ()
    problems: tuple[Problem, ...] = ()
    reader: YamlReader = JS_YAML_3
    sourced: Any = None
    differences: tuple[Difference, ...] = ()


def read_yaml(
    text: str, source: str = "", *, lenient: bool = False, reader: YamlReader = JS_YAML_3
) -> Document:
    """Read a YAML text as a rest-server does.

    Args:
        text: one YAML document.
        source: what to call it in errors: a file's name.
        lenient: read on where the server takes what nobody means: such ``problems`` come with the
            document. A number may then be infinite, or none.
        reader: as which reader: that of OpenPAI and LTP 1.0, or of LTP 1.1 and later.

    Returns:
        its value, and the lines of all parts.

    Raises:
        SpecError: it is not YAML, or not one that a server takes, or, unless lenient, that anybody
            means; every problem up to the one that ends the reading, with line and column, and
            without a word of the text: it may hold a secret.
    """
    from luigi_pai.spec.dialects.yaml_composer import compose  # noqa: PLC0415  loads PyYAML
    from luigi_pai.spec.dialects.yaml_nodes import expand  # noqa: PLC0415  the same
    from luigi_pai.spec.dialects.yaml_problems import YamlTrouble  # noqa: PLC0415

    troubles: list[YamlTrouble] = []
    try:
        reading = expand(compose(text, troubles, reader), other_reader(reader))
    except YamlTrouble as trouble:
        raise SpecError(source, map(_problem, [*troubles, trouble])) from None
    problems = tuple(map(_problem, [*troubles, *reading.troubles]))
    if problems and not lenient:
        raise SpecError(source, problems)
    warnings = tuple(
        Problem(path_text(path), message, Level.WARNING, reading.lines[path])
        for path, message in reading.remarks
    )
    value = without_source(reading.value) if reading.differences else reading.value
    return Document(
        value,
        text,
        source,
        reading.lines,
        warnings,
        problems,
        reader,
        reading.value,
        tuple(reading.differences),
    )


def _problem(trouble: YamlTrouble) -> Problem:
    where = f"column {trouble.column}: " if trouble.column else ""
    return Problem(path_text(trouble.path), f"{where}{trouble}", trouble.level, trouble.line)


def write_yaml(value: Any) -> str:
    """Write a value so that readers of YAML 1.1 and 1.2, js-yaml among them, mean the same by it.

    Keys keep their order; texts of several lines are blocks where that is exact. A scalar that has its
    own text (``source_text``) is written as that text.

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
    if isinstance(value, Sourced):
        yield value.source
    elif isinstance(value, dict) and value:
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
        raise _not_json(path, f"a key is a {type(key).__name__}; keys are texts")
    if key == "__proto__":
        raise _not_json((*path, key), "servers lose the value of this key; give it another name")
    start = "" if first else indent
    written = key.source if isinstance(key, Sourced) else _text(key, path)
    if len(written) > _LONGEST_IMPLICIT_KEY:
        yield f"{start}? {written}"
        start, written = indent, ""
    deeper = indent + "  "
    lines = _written(item, (*path, key), deeper)
    if isinstance(item, dict | list) and item and not isinstance(item, Sourced):
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
            raise _not_json(path, "is infinite or not a number, which JSON cannot say")
        text = repr(value)
        return text if "." in text else text.replace("e", ".0e")
    if isinstance(value, dict | list):  # empty
        return json.dumps(value)
    raise _not_json(path, f"is a {type(value).__name__}, which JSON cannot say")


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
