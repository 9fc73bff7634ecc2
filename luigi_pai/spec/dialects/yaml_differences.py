"""A job's YAML read for any server: where their readers differ, a warning says how each takes it."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.spec.dialects.yaml_readers import JS_YAML_3, JS_YAML_4, YamlReader, other_reader
from luigi_pai.spec.dialects.yaml_text import Document, read_yaml
from luigi_pai.spec.paths import path_text

if TYPE_CHECKING:
    from luigi_pai.spec.dialects.yaml_nodes import Difference

__all__ = ["read_for_any"]

_LONGEST_SHOWN = 80


def read_for_any(text: str, source: str = "", *, lenient: bool = False) -> Document:
    """Read a YAML text as OpenPAI does; as LTP 1.1 and later do if OpenPAI refuses it.

    Args:
        text: one YAML document.
        source: what to call it in errors: a file's name.
        lenient: as in ``read_yaml``.

    Returns:
        the document; its warnings say for each scalar that the two read differently what it is to either,
        and what one of the two refuses.

    Raises:
        SpecError: neither takes it; the problems are those of OpenPAI.
    """
    try:
        document = read_yaml(text, source, lenient=lenient)
    except SpecError as error:
        if all(problem.level is not Level.REFUSED for problem in error.problems):
            raise
        try:
            document = read_yaml(text, source, lenient=lenient, reader=JS_YAML_4)
        except SpecError:
            raise error from None
        refusals = error.problems
    else:
        refusals = _refusals(text, JS_YAML_4) if document.differences else ()
    reader = document.reader
    warnings = [_warning(difference, reader) for difference in document.differences]
    told = {difference.line for difference in document.differences if difference.other.is_refused}
    refusing = other_reader(reader).servers
    warnings += [
        Problem(
            problem.path,
            f"refused on {refusing}, taken on {reader.servers}: {problem.message}",
            Level.WARNING,
            problem.line,
        )
        for problem in refusals
        if problem.level is Level.REFUSED and problem.line not in told
    ]
    return replace(document, warnings=(*document.warnings, *warnings))


def _refusals(text: str, reader: YamlReader) -> tuple[Problem, ...]:
    """Return what a reader refuses in a text."""
    try:
        return read_yaml(text, lenient=True, reader=reader).problems
    except SpecError as error:
        return tuple(error.problems)


def _warning(difference: Difference, reader: YamlReader) -> Problem:
    if not difference.is_key and (difference.path[:1] == ("secrets",) or "auth" in difference.path):
        message = (
            f"{JS_YAML_3.servers} and {JS_YAML_4.servers} take this for different values; put it into quotes"
        )
    else:
        message = _message(difference, reader)
    return Problem(path_text(difference.path), message, Level.WARNING, difference.line)


def _message(difference: Difference, reader: YamlReader) -> str:
    other = difference.other
    source = _short(other.source)
    if source.startswith("!!binary"):
        return (
            f"a command gets the text of !!binary on {JS_YAML_3.servers}, and numbers with commas on "
            f"{JS_YAML_4.servers}; write the text itself"
        )
    here, there = _shown(difference.value), "refused" if other.is_refused else _shown(other.value)
    first, later = (here, there) if reader == JS_YAML_3 else (there, here)
    what = f"the key {source}" if difference.is_key else source
    read = f"{what} is {first} on {JS_YAML_3.servers} and {later} on {JS_YAML_4.servers}"
    if difference.is_key:
        return f"{read}; put it into quotes"
    number = next(
        shown for shown in (first, later) if shown != "refused" and not shown.startswith("the text")
    )
    quoted = "" if source.startswith("!") else f" or {json.dumps(source)}"
    return f"{read}; write {number}{quoted}"


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return f"the text {_short(json.dumps(value, ensure_ascii=False))}"
    return str(value)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
