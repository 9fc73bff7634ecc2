"""Reading of a job's YAML for any server, with a warning for each scalar that their readers differ in."""

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

    Takes the arguments of ``read_yaml``.

    Returns:
        the document. Its warnings name both values of each scalar that the readers differ in, and what
        one of the readers refuses.

    Raises:
        SpecError: both refuse it; the problems are those of OpenPAI.
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
    read_otherwise = [_warning(difference, reader) for difference in document.differences]
    where = f"refused by {other_reader(reader).servers}, accepted by {reader.servers}"
    refused = [
        Problem(each.path, f"{where}: {each.message}", Level.WARNING, each.line)
        for each in refusals
        if each.level is Level.REFUSED
    ]
    return replace(document, warnings=(*document.warnings, *read_otherwise, *refused))


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
    source = _short(difference.source)
    here, there = _shown(difference.value), _shown(difference.other_value)
    first, later = (here, there) if reader == JS_YAML_3 else (there, here)
    what = f"the key {source}" if difference.is_key else source
    read = f"{what} is {first} on {JS_YAML_3.servers} and {later} on {JS_YAML_4.servers}"
    if difference.is_key:
        return f"{read}; put it into quotes"
    number = later if first.startswith("the text") else first
    return f"{read}; write {number} or {json.dumps(source)}"


def _shown(value: Any) -> str:
    return (
        f"the text {_short(json.dumps(value, ensure_ascii=False))}" if isinstance(value, str) else str(value)
    )


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."
