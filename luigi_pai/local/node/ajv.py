"""What a JSON Schema finds wrong, in the words of Ajv 6, the validator inside OpenPAI 0.17 to 1.8."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from jsonschema.exceptions import ValidationError

__all__ = ["schema_errors"]

_BASE = ("protocolVersion", "name", "version", "contributor", "description")
_FREE_KEYS = ("taskRoles", "ports")
_ROLE_KEYS = "patternProperties/%5E%5Ba-zA-Z_%5D%5Ba-zA-Z0-9_%5D*%24"
_PREREQUISITE_RULE = ("properties", "prerequisites", "items")
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_AUTH = {"type": "object", "properties": dict.fromkeys(("username", "password", "registryuri"), _TEXT)}
_PREREQUISITES: tuple[dict[str, Any], ...] = (
    {
        "properties": {
            "type": {**_TEXT, "enum": ["script", "output"]},
            "plugin": _TEXT,
            "require": _TEXTS,
            "uri": _TEXT,
        },
        "required": ["name", "type"],
    },
    {
        "properties": {
            "type": {**_TEXT, "enum": ["data"]},
            "plugin": _TEXT,
            "require": _TEXTS,
            "uri": _TEXTS,
        },
        "required": ["name", "type"],
    },
    {
        "properties": {"type": {**_TEXT, "enum": ["dockerimage"]}, "auth": _AUTH, "uri": _TEXT},
        "required": ["name", "type", "uri"],
        "additionalProperties": False,
    },
)
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def schema_errors(schema: Mapping[str, Any], document: Any) -> list[dict[str, Any]]:
    """Return every error as the server's reply lists it: keyword, dataPath, schemaPath, params, message."""
    found: list[dict[str, Any]] = []
    reported = set()
    errors = _errors(schema, document)
    bad_names = {(*error.absolute_path, error.instance) for error in errors if _is_bad_name(error)}
    for error in errors:
        path = tuple(error.absolute_path)
        if any(path[:length] in bad_names for length in range(1, len(path) + 1)):
            continue  # the server reports nothing below a refused name
        if path[:1] != ("prerequisites",) or len(path) == 1:
            found += _of(error)
        elif path[1] not in reported:
            reported.add(path[1])
            found += _of_prerequisite(schema, path[:2], document["prerequisites"][path[1]])
    return found


def _errors(schema: Mapping[str, Any], document: Any) -> list[ValidationError]:
    """Return what is wrong in Ajv's order: fields too many, then field by field, missing ones too."""
    order = list(schema["properties"])

    def rank(error: ValidationError) -> int:
        field = error.path[0] if error.path else _missing(error)
        return order.index(field) if field in order else -1

    return sorted(Draft202012Validator(schema).iter_errors(document), key=rank)


def _is_bad_name(error: ValidationError) -> bool:
    """Return whether it is the name of a field that is wrong: for the server, a field that has no rule."""
    return list(error.absolute_schema_path)[-2:] == ["propertyNames", "pattern"]


def _missing(error: ValidationError) -> str | None:
    found = re.match(r"'(.*)' is a required property", error.message, re.DOTALL)
    return found[1] if found and error.validator == "required" else None


def _of(
    error: ValidationError, place: Sequence[str | int] = (), rule: Sequence[str] = ()
) -> Iterator[dict[str, Any]]:
    """Yield what is reported of an error in a part of a document that is at a place and has to fit a rule."""
    path = (*place, *error.absolute_path)
    steps = (*rule, *map(str, error.absolute_schema_path))
    if _is_bad_name(error):
        params, message = {"additionalProperty": error.instance}, "should NOT have additional properties"
        yield _schema_error(
            "additionalProperties", path, (*steps[:-2], "additionalProperties"), params, message
        )
        return
    keyword = str(error.validator)
    for params, message in _messages(keyword, error):
        yield _schema_error(keyword, path, steps, params, message)
    for inner in error.context or ():
        yield from _of(inner, place, rule)


def _of_prerequisite(
    schema: Mapping[str, Any], place: Sequence[str | int], item: Any
) -> Iterator[dict[str, Any]]:
    """Yield why a prerequisite is none of the three kinds, each of which the server merges with its base."""
    if not isinstance(item, dict):
        yield _schema_error(
            "type", place, (*_PREREQUISITE_RULE, "type"), {"type": "object"}, "should be object"
        )
    base = {field: {"$ref": f"#/$defs/{field}"} for field in _BASE}
    for number, kind in enumerate(_PREREQUISITES):
        rule = (*_PREREQUISITE_RULE, "oneOf", str(number))
        fields = {**base, **kind["properties"]}
        errors = _errors({"$defs": schema["$defs"], "type": "object", **kind, "properties": fields}, item)
        for error in errors:
            yield from _of(error, place, rule)
        if errors:
            params, message = {"keyword": "$merge"}, 'should pass "$merge" keyword validation'
            yield _schema_error("$merge", place, (*rule, "$merge"), params, message)
    message = "should match exactly one schema in oneOf"
    yield _schema_error("oneOf", place, (*_PREREQUISITE_RULE, "oneOf"), {"passingSchemas": None}, message)


def _schema_error(
    keyword: str,
    place: Iterable[str | int],
    rule: Sequence[str],
    params: dict[str, Any],
    message: str,
) -> dict[str, Any]:
    return {
        "keyword": keyword,
        "dataPath": _data_path(place),
        "schemaPath": _schema_path(rule),
        "params": params,
        "message": message,
    }


def _messages(keyword: str, error: ValidationError) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the params and message of an error; one for each name that is missing or too many."""
    wanted: Any = error.validator_value
    found: Any = error.instance
    if keyword == "required":
        name = _missing(error)
        yield {"missingProperty": name}, f"should have required property '{name}'"
    elif keyword == "additionalProperties":
        known = error.schema.get("properties", {}) if isinstance(error.schema, dict) else {}
        for name in found:
            if name not in known:
                yield {"additionalProperty": name}, "should NOT have additional properties"
    elif keyword == "type":
        kinds = wanted if isinstance(wanted, str) else ",".join(wanted)
        yield {"type": kinds}, f"should be {kinds}"
    elif keyword == "enum":
        yield {"allowedValues": wanted}, "should be equal to one of the allowed values"
    elif keyword == "const":
        yield {"allowedValue": wanted}, "should be equal to constant"
    elif keyword == "pattern":
        pattern = str(wanted).replace(r"(?!\n)", "").replace("(?!\n)", "")
        yield {"pattern": pattern}, f"should match pattern {json.dumps(pattern)}"
    else:
        yield from _counted(keyword, wanted)


def _counted(keyword: str, wanted: Any) -> Iterator[tuple[dict[str, Any], str]]:
    if keyword in ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"):
        sign = {"minimum": ">=", "maximum": "<=", "exclusiveMinimum": ">", "exclusiveMaximum": "<"}[keyword]
        exclusive = keyword.startswith("exclusive")
        yield {"comparison": sign, "limit": wanted, "exclusive": exclusive}, f"should be {sign} {wanted}"
    elif keyword in ("minItems", "minProperties", "minLength"):
        things = {"minItems": "items", "minProperties": "properties", "minLength": "characters"}[keyword]
        word = "be shorter" if keyword == "minLength" else "have fewer"
        yield {"limit": wanted}, f"should NOT {word} than {wanted} {things}"
    elif keyword == "maxLength":
        yield {"limit": wanted}, f"should NOT be longer than {wanted} characters"
    elif keyword == "oneOf":
        yield {"passingSchemas": None}, "should match exactly one schema in oneOf"
    elif keyword == "anyOf":
        yield {}, "should match some schema in anyOf"
    elif keyword in ("if", "then", "else"):
        yield {"failingKeyword": keyword}, f'should match "{keyword}" schema'
    else:
        yield {}, f"should pass {keyword}"


def _data_path(place: Iterable[str | int]) -> str:
    """Return where in the document, as Ajv writes it: ``.taskRoles['worker'].commands[0]``."""
    parts = []
    before: str | int = ""
    for step in place:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif before not in _FREE_KEYS and _IDENTIFIER.fullmatch(step):
            parts.append(f".{step}")
        else:
            parts.append(f"['{step}']")
        before = step
    return "".join(parts)


def _schema_path(steps: Sequence[str]) -> str:
    """Return which rule of the server's schema it was, as far as that schema is built like ours."""
    *_, field, keyword = ("", *steps)
    if field in _BASE and "oneOf" not in steps:
        return f"base.json#/properties/{field}/{keyword}"
    shown = [_ROLE_KEYS if step == "additionalProperties" else step for step in steps[:-1]]
    return "/".join(["#", *shown, *steps[-1:]])
