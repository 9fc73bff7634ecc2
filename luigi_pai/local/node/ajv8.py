"""What a JSON Schema finds wrong, in the words and the order of Ajv 8, the validator inside LTP from 1.1 on.

Only the keywords that its protocol schema has. Ajv 8 checks keywords in groups: those of numbers, of
texts, of any type, of lists, of mappings; within a group in an order of its own. A wrong type is reported
where the group of that type would be, or before all of them where the schema has no rule of that type.
"""

from __future__ import annotations

import json
import math
import re
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["schema_errors"]

_UNQUOTED = "!~*'()"
_INDEX = re.compile("0|[1-9][0-9]{0,8}")
_OF_TYPE: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("number", ("minimum",)),
    ("string", ("maxLength", "pattern")),
    ("", ("enum", "oneOf")),
    ("array", ("minItems", "items")),
    ("object", ("minProperties", "required", "additionalProperties", "properties", "patternProperties")),
)
_KIND_OF = {"integer": "number"}


def schema_errors(schema: Mapping[str, Any], document: Any) -> list[dict[str, Any]]:
    """Return every error as the reply lists it: instancePath, schemaPath, keyword, params, message.

    A ``$ref`` of the schema names one of its own ``$defs``, by which errors call it, too.
    """
    return list(_Check(schema.get("$defs", {})).wrong(schema, document, "", "#"))


class _Check:
    """One validation; ``named`` has the schemas that ``$ref`` names."""

    def __init__(self, named: Mapping[str, Any]) -> None:
        self._named = named

    def wrong(self, schema: Any, value: Any, place: str, rule: str) -> Iterator[dict[str, Any]]:
        """Yield what is wrong with a value at a place that has to fit a rule."""
        if schema is False:
            yield _schema_error(place, rule, "false schema", {}, "boolean schema is false")
            return
        if "$ref" in schema:
            yield from self.wrong(self._named[schema["$ref"]], value, place, schema["$ref"])
            return
        wanted = schema.get("type", ())
        types = [wanted] if isinstance(wanted, str) else list(wanted)
        of_wrong_type = bool(types) and not any(_is_of(kind, value) for kind in types)
        reported = False
        if of_wrong_type and not (len(types) == 1 and _has_rules(schema, types[0])):
            yield _wrong_type(schema, place, rule)
            reported = True
        for kind, keywords in _OF_TYPE:
            if kind and not _is_of(kind, value):
                if of_wrong_type and not reported and _KIND_OF.get(types[0], types[0]) == kind:
                    yield _wrong_type(schema, place, rule)
                    reported = True
                continue
            for keyword in keywords:
                if keyword in schema:
                    yield from self._keyword(keyword, schema, value, place, rule)
        if of_wrong_type and not reported:
            yield _wrong_type(schema, place, rule)

    def _keyword(
        self, keyword: str, schema: Mapping[str, Any], value: Any, place: str, rule: str
    ) -> Iterator[dict[str, Any]]:
        if keyword in ("oneOf", "items", "properties", "patternProperties"):
            inner: Callable[..., Iterator[dict[str, Any]]] = getattr(self, f"_{keyword}")
            yield from inner(schema[keyword], value, place, f"{rule}/{keyword}")
            return
        for params, message in _messages(keyword, schema, value):
            yield _schema_error(place, f"{rule}/{keyword}", keyword, params, message)

    def _oneOf(  # noqa: N802 - the keyword's name
        self, kinds: Sequence[Any], value: Any, place: str, rule: str
    ) -> Iterator[dict[str, Any]]:
        found = [list(self.wrong(kind, value, place, f"{rule}/{at}")) for at, kind in enumerate(kinds)]
        fitting = [at for at, errors in enumerate(found) if not errors]
        if len(fitting) == 1:
            return
        for errors in found:
            yield from errors
        params = {"passingSchemas": fitting[:2] or None}
        yield _schema_error(place, rule, "oneOf", params, "must match exactly one schema in oneOf")

    def _items(self, of: Any, value: Sequence[Any], place: str, rule: str) -> Iterator[dict[str, Any]]:
        for at, item in enumerate(value):
            yield from self.wrong(of, item, f"{place}/{at}", rule)

    def _properties(
        self, fields: Mapping[str, Any], value: Mapping[str, Any], place: str, rule: str
    ) -> Iterator[dict[str, Any]]:
        for name, of in fields.items():
            if name in value:
                yield from self.wrong(of, value[name], f"{place}/{_pointer(name)}", f"{rule}/{name}")

    def _patternProperties(  # noqa: N802 - the keyword's name
        self, patterns: Mapping[str, Any], value: Mapping[str, Any], place: str, rule: str
    ) -> Iterator[dict[str, Any]]:
        for pattern, of in patterns.items():
            for name in _keys(value):
                if _matches(pattern, name):
                    where = f"{rule}/{quote(_pointer(pattern), safe=_UNQUOTED)}"
                    yield from self.wrong(of, value[name], f"{place}/{_pointer(name)}", where)


def _messages(keyword: str, schema: Mapping[str, Any], value: Any) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield params and message of what a keyword without schemas in it finds wrong."""
    wanted: Any = schema[keyword]
    if keyword == "required":
        for name in wanted:
            if name not in value:
                yield {"missingProperty": name}, f"must have required property '{name}'"
    elif keyword == "additionalProperties":
        for name in _keys(value):
            if not _is_known(name, schema):
                yield {"additionalProperty": name}, "must NOT have additional properties"
    elif not _FITS[keyword](value, wanted):
        param, message = _WORDS[keyword]
        params = {"comparison": ">="} if keyword == "minimum" else {}
        shown = json.dumps(wanted) if keyword == "pattern" else wanted
        yield {**params, param: wanted}, message.format(shown)


def _is_known(name: str, schema: Mapping[str, Any]) -> bool:
    patterns = schema.get("patternProperties", ())
    return name in schema.get("properties", ()) or any(_matches(pattern, name) for pattern in patterns)


def _matches(pattern: str, text: str) -> bool:
    """Return whether JavaScript finds the pattern: its ``$`` is the very end of the text."""
    return re.search(re.sub(r"\$\Z", r"\\Z", pattern), text) is not None


def _same(value: Any, other: Any) -> bool:
    """Return whether two values are one to JavaScript, to which True is no 1."""
    return isinstance(value, bool) == isinstance(other, bool) and bool(value == other)


_FITS: dict[str, Callable[[Any, Any], bool]] = {
    "enum": lambda value, wanted: any(_same(value, item) for item in wanted),
    "pattern": lambda value, wanted: _matches(wanted, value),
    "minimum": lambda value, wanted: bool(value >= wanted),
    "maxLength": lambda value, wanted: len(value) <= wanted,
    "minItems": lambda value, wanted: len(value) >= wanted,
    "minProperties": lambda value, wanted: len(value) >= wanted,
}
_WORDS = {
    "enum": ("allowedValues", "must be equal to one of the allowed values"),
    "pattern": ("pattern", "must match pattern {}"),
    "minimum": ("limit", "must be >= {}"),
    "maxLength": ("limit", "must NOT have more than {} characters"),
    "minItems": ("limit", "must NOT have fewer than {} items"),
    "minProperties": ("limit", "must NOT have fewer than {} properties"),
}


def _has_rules(schema: Mapping[str, Any], kind: str) -> bool:
    group = dict(_OF_TYPE)[_KIND_OF.get(kind, kind)] if kind not in ("null", "boolean") else ()
    return any(keyword in schema for keyword in group)


def _is_of(kind: str, value: Any) -> bool:
    if isinstance(value, bool) or value is None:
        return (kind == "boolean" and value is not None) or (kind == "null" and value is None)
    if isinstance(value, int | float):
        finite = isinstance(value, int) or math.isfinite(value)
        return finite and (kind == "number" or (kind == "integer" and value == int(value)))
    return isinstance(value, {"string": str, "array": list, "object": dict}.get(kind, ()))


def _wrong_type(schema: Mapping[str, Any], place: str, rule: str) -> dict[str, Any]:
    wanted = schema["type"]
    kinds = wanted if isinstance(wanted, str) else ",".join(wanted)
    return _schema_error(place, f"{rule}/type", "type", {"type": wanted}, f"must be {kinds}")


def _keys(value: Mapping[str, Any]) -> list[str]:
    """Return the keys in JavaScript's order: those that are indexes come first, by number."""
    indexes = [key for key in value if _INDEX.fullmatch(key)]
    return [*sorted(indexes, key=int), *(key for key in value if key not in indexes)]


def _pointer(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _schema_error(
    place: str, rule: str, keyword: str, params: dict[str, Any], message: str
) -> dict[str, Any]:
    path = f"{rule}/{keyword}" if keyword == "false schema" else rule
    return {
        "instancePath": place,
        "schemaPath": path,
        "keyword": keyword,
        "params": params,
        "message": message,
    }
