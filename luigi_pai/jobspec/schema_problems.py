"""Uses a JSON Schema to find problems in a document; each has a path, a message and a level.

The messages contain the descriptions from the schemas (``schemas/``). Besides JSON Schema's own keywords, the
schemas use eight others:

- ``stricter``: a schema that servers do not check. A job that violates it is accepted but fails.
- ``warning``: a schema that servers do not check. A job that violates it is accepted and runs.
- ``since``: the release that added a field; older releases reject the field. If the server's release is
  unknown, a field that LTP added causes a warning that names the LTP release.
- ``tightened``: a schema that servers check only since the release in its ``since``, or only before the
  release in its ``until``.
- ``near``: servers accept any field here and ignore misspelt ones, so an unknown field with a name similar to
  a known field's causes a warning.
- ``limits``: pairs of numbers; the first, ``field``, must not exceed the second, ``limit``.
- ``message``: the message for a value that does not match the schema.
- ``unique``: no two items in a list may have the same values under these keys.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache, partial, reduce
from importlib import resources
from typing import TYPE_CHECKING, Any, cast

from luigi_pai.errors import Level, Problem
from luigi_pai.jobspec.hints import closest, not_ascii
from luigi_pai.jobspec.paths import is_int, line_of, mapping_of, path_text, text_of
from luigi_pai.jobspec.releases import is_ltp, release_number, release_title

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping

    from jsonschema.exceptions import ValidationError
    from jsonschema.protocols import Validator

    from luigi_pai.jobspec.paths import Path

_LINE_BREAKS = re.compile("\\s*[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]\\s*")
_NUMBERS = frozenset({"integer", "number", "null"})
_LIKE_A_NUMBER = re.compile(r"-?[0-9]{1,15}", re.ASCII)

_LARGEST_EXACT = 2**53 - 1
_MOST_KNOWN = 1000  # valid parts of documents to remember

LARGEST_BODY = 100 * 1024
"""Maximum size in bytes of a request body that a rest-server accepts."""
_LONGEST_SHOWN = 80  # maximum number of characters to show of an invalid value


@dataclass(frozen=True)
class Finding:
    """A problem. ``path`` has the keys and indexes that lead to the value; ``message`` says how to fix it."""

    path: Path
    message: str
    level: Level = Level.REFUSED

    def as_problem(self, line: int | None = None) -> Problem:
        """Convert the finding to a Problem with a one-line message; the message may quote line breaks."""
        return Problem(path_text(self.path), in_one_line(self.message), self.level, line)


def stricter(path: Path, message: str) -> Finding:
    """Return a finding about a job that servers accept, but that fails later."""
    return Finding(path, message, Level.STRICTER)


def warning(path: Path, message: str) -> Finding:
    """Return a finding about a job that servers accept and run."""
    return Finding(path, message, Level.WARNING)


@lru_cache
def schema(name: str) -> dict[str, Any]:
    """Return the schema with this name: ``job.v1`` or ``protocol.v2``."""
    file = resources.files("luigi_pai.jobspec").joinpath(f"schemas/{name}.json")
    return cast("dict[str, Any]", json.loads(file.read_bytes()))


def schema_findings(
    document: Any,
    name: str,
    shown: Callable[[Any, Path], str],
    release: tuple[int, ...] | None = None,
) -> Iterator[Finding]:
    """Yield the violations of a schema, ``job.v1`` or ``protocol.v2``, in no particular order.

    If ``release`` is None, the document may be for any release. ``shown`` formats the value at a path for
    messages, without secrets.
    """
    for error in _validator(name, release).iter_errors(document):
        yield from _error_findings(error, shown, release)


def cut(value: str) -> str:
    """Truncate an invalid value for messages to 80 characters, with ``...`` at the end."""
    return value if len(value) <= _LONGEST_SHOWN else f"{value[:_LONGEST_SHOWN]}..."


def in_one_line(message: str) -> str:
    """Replace the line breaks that a message may quote with blanks."""
    return _LINE_BREAKS.sub(" ", message)


def problems_in_order(findings: Iterable[Finding], document: Any, lines: Mapping[Path, int]) -> list[Problem]:
    """Return the problems in the document's order, with the lines of their fields.

    A field that is not in ``lines`` gets the line of the nearest field that contains it. Duplicates are left
    out, as are milder problems with a rejected field.
    """
    found = list(dict.fromkeys(findings))
    refused = {finding.path for finding in found if finding.level is Level.REFUSED}
    kept = [each for each in found if each.level is Level.REFUSED or each.path not in refused]
    positions = {path: position for position, path in enumerate(_paths(document, ()))} if kept else {}

    def position(finding: Finding) -> int:
        path = finding.path
        while path not in positions:
            path = path[:-1]
        return positions[path]

    return [
        finding.as_problem(line_of(finding.path, lines) if finding.path else None)
        for finding in sorted(kept, key=position)
    ]


def _paths(value: Any, path: Path) -> Iterator[Path]:
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(item, (*path, key))


def repeated(keys: Iterable[Hashable]) -> Iterator[tuple[int, int]]:
    """Yield each repeated key's index and the index of its first occurrence; None is ignored."""
    first: dict[Hashable, int] = {}
    for index, key in enumerate(keys):
        if key is not None and first.setdefault(key, index) != index:
            yield index, first[key]


def named_nearest(name: str, known: Iterable[str]) -> str:
    """Return a suggestion for an unknown name: ``did you mean commands?``, or the known names."""
    names = list(known)
    near = closest(name, names)
    return f"did you mean {near}?" if near is not None else f"there are {', '.join(names)}"


@lru_cache
def _validator(name: str, release: tuple[int, ...] | None) -> Validator:
    from jsonschema import Draft202012Validator, validators  # noqa: PLC0415  heavy, and only needed here

    known: set[int] = set()
    keywords: dict[str, Any] = {
        "properties": partial(_members, known, dict),
        "items": partial(_members, known, list),
        "stricter": _descend,
        "warning": _descend,
        "since": partial(_since, release),
        "tightened": partial(_tightened, release),
        "near": _near,
        "limits": _limits,
        "unique": _unique,
    }
    is_integer = _is_integer_to_joi if name == "job.v1" else _is_integer
    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", is_integer)
    made = validators.extend(Draft202012Validator, keywords, type_checker=types)  # type: ignore[no-untyped-call]
    return cast("Validator", made(schema(name)))


def _is_integer(_: Any, value: Any) -> bool:
    """Return whether Ajv 6, OpenPAI's validator, accepts a value as an integer. Ajv also accepts infinity."""
    if isinstance(value, float):
        return value.is_integer() or math.isinf(value)
    return isinstance(value, int) and not isinstance(value, bool)


def _is_integer_to_joi(checker: Any, value: Any) -> bool:
    """Return whether Joi 13, the v1 servers' validator, accepts a value as an integer: at most 2**53 - 1."""
    return _is_integer(checker, value) and abs(value) <= _LARGEST_EXACT


def _error(message: str, *path: str | int) -> ValidationError:
    """Create a keyword's error, at a path relative to the value that the keyword applies to."""
    from jsonschema.exceptions import ValidationError  # noqa: PLC0415  heavy, as above

    return ValidationError(message, path=path)


def _members(
    known: set[int], kind: Any, validator: Any, wanted: Any, instance: Any, _: Any
) -> Iterator[ValidationError]:
    """Yield the errors in a dict's ``properties`` or a list's ``items``, skipping values known to be valid.

    A sweep's jobs share most values, so valid ones are remembered. ``known`` contains hashes, because values
    may be large or secret.
    """
    if not isinstance(instance, kind):
        return
    for step in wanted if kind is dict else range(len(instance)):
        about = wanted[step] if kind is dict else wanted
        if kind is dict and step not in instance:
            continue
        key = hash((id(about), repr(instance[step])))
        if key not in known:
            errors = list(validator.descend(instance[step], about, path=step, schema_path=step))
            yield from errors
            if not errors:
                known.clear() if len(known) >= _MOST_KNOWN else known.add(key)


def _descend(validator: Any, wanted: Any, instance: Any, _: Any) -> Iterator[ValidationError]:
    yield from validator.descend(instance, wanted)


def _since(
    release: tuple[int, ...] | None, _: Any, first: str, __: Any, ___: Any
) -> Iterator[ValidationError]:
    number = release_number(first)
    if is_ltp(number) if release is None else release < number:
        yield _error("")


def _tightened(
    release: tuple[int, ...] | None, validator: Any, wanted: Mapping[str, Any], instance: Any, _: Any
) -> Iterator[ValidationError]:
    since, until = (release_number(wanted.get(key, "0.0")) for key in ("since", "until"))
    if release is not None and (release < until if "until" in wanted else release >= since):
        yield from validator.descend(instance, wanted)


def _near(_: Any, __: Any, instance: Any, about: Mapping[str, Any]) -> Iterator[ValidationError]:
    """Yield an error for each unknown field that resembles a missing known field."""
    known = list(about.get("properties", {}))
    given = instance if isinstance(instance, dict) else {}
    absent = [name for name in known if name not in given]
    folded = {name.lower().replace("_", ""): name for name in absent}
    for name in given:
        if name in known or not isinstance(name, str):
            continue
        same = folded.get(name.lower().replace("_", "").replace("-", ""))
        if near := same or closest(name, absent, likeness=0.8):
            advice = f"did you mean {near}? Servers accept it and ignore it"
            yield _error(f"is not a known field here; {advice}", name)


def _limits(_: Any, pairs: list[dict[str, Any]], instance: Any, __: Any) -> Iterator[ValidationError]:
    def number(path: list[str], default: int | None) -> Any:
        *above, key = path
        return mapping_of(reduce(mapping_of, above, instance)).get(key, default)

    for pair in pairs:
        path, limit_path = pair["field"].split("."), pair["limit"].split(".")
        count, limit = number(path, None), number(limit_path, pair["default"])
        if is_int(count) and is_int(limit) and count > limit >= 1:
            yield _error(f"{count} is more than {limit_path[-1]}, {limit}{pair['advice']}", *path)


def _unique(_: Any, about: Mapping[str, Any], instance: Any, __: Any) -> Iterator[ValidationError]:
    items = instance if isinstance(instance, list) else []
    keys = [tuple(text_of(item, key) for key in about["keys"]) for item in items]
    for index, first in repeated(None if None in key else key for key in keys):
        message = about["message"].format(*keys[index], first=first)
        yield _error(message, index, about["keys"][0])


def _error_findings(
    error: ValidationError, shown: Callable[[Any, Path], str], release: tuple[int, ...] | None
) -> Iterator[Finding]:
    path = tuple(error.absolute_path)
    about = cast("Mapping[str, Any]", error.schema)
    level = _level(error)
    known = list(about.get("properties", {}))
    instance: Any = error.instance
    if error.validator == "required":
        for missing in [name for name in about["required"] if name not in instance]:
            description = about["properties"][missing]["description"]
            yield Finding((*path, missing), f"is missing; it must be {description}", level)
    elif error.validator == "additionalProperties":
        for unknown in [name for name in instance if name not in known]:
            hint = named_nearest(str(unknown), known)
            yield Finding((*path, unknown), f"is not a field here; {hint}{not_ascii(str(unknown))}", level)
    elif error.validator in ("near", "limits", "unique"):
        yield Finding(path, error.message, Level.WARNING if error.validator == "near" else level)
    elif error.validator == "since":
        message = _release_message(str(error.validator_value), level)
        yield Finding(path, message, Level.WARNING if release is None else level)
    elif "propertyNames" in error.absolute_schema_path:
        yield Finding(
            (*path, instance), f"{instance!r} is not {about['description']}{not_ascii(instance)}", level
        )
    else:
        value = shown(instance, path)
        odd = not_ascii(instance) if isinstance(instance, str) and value[0] in "'\"" else ""
        yield Finding(path, _mismatch(error, path, value) + odd, level)


def _mismatch(error: ValidationError, path: Path, shown: str) -> str:
    """Return why a value does not match, with advice on common mistakes in Python, YAML and JSON."""
    instance: Any = error.instance
    schema = cast("Mapping[str, Any]", error.schema)
    description = str(schema.get("description", "valid"))
    if "message" in schema:
        return str(schema["message"])
    if error.validator != "type":
        return f"{shown} is not {description}"
    wanted: Any = error.validator_value
    kinds = {wanted} if isinstance(wanted, str) else set(wanted)
    if isinstance(instance, str) and kinds <= _NUMBERS:
        number = instance if _LIKE_A_NUMBER.fullmatch(instance) else "a number,"
        return f"{shown} is not {description}; write {number} without quotes"
    if isinstance(instance, dict) and kinds == {"string"} and path and isinstance(path[-1], int):
        kind = description.partition(":")[0]
        return f"{shown} is not {kind}; the ': ' in it makes this a mapping: put the string in quotes"
    if isinstance(instance, list) and kinds == {"string"} and [type(each) for each in instance] == [str]:
        return f"{shown} is not {description}; a comma after the value, or brackets, make it a list"
    return f"{shown} is not {description}"


def _release_message(release: str, level: Level) -> str:
    others = "refuse it" if level is Level.REFUSED else "accept it, and it does not work there"
    return f"needs {release_title(release)} or later; other servers {others}"


def _level(error: ValidationError) -> Level:
    keywords = error.absolute_schema_path
    if "warning" in keywords:
        return Level.WARNING
    return Level.STRICTER if "stricter" in keywords else Level.REFUSED
