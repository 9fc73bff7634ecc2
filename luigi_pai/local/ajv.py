"""What a JSON Schema finds wrong, in the words of Ajv 6, the validator inside OpenPAI 0.17 to 1.8."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from jsonschema import Draft202012Validator

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from jsonschema.exceptions import ValidationError

__all__ = ["complaints"]

_BASE = ("protocolVersion", "name", "version", "contributor", "description")
_TOP_LEVEL = 3
_FREE_KEYS = ("taskRoles", "ports")
_ROLE_KEYS = "patternProperties/%5E%5Ba-zA-Z_%5D%5Ba-zA-Z0-9_%5D*%24"
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]*")


def complaints(schema: Mapping[str, Any], document: Any) -> list[dict[str, Any]]:
    """Return every complaint as the server's reply lists it: keyword, dataPath, schemaPath, params, message.

    Args:
        schema: a JSON Schema.
        document: what it is to fit.
    """
    errors = sorted(Draft202012Validator(schema).iter_errors(document), key=lambda error: not error.path)
    return [complaint for error in errors for complaint in _of(error)]


def _of(error: ValidationError) -> Iterator[dict[str, Any]]:
    keyword = str(error.validator)
    for params, message in _said(keyword, error):
        yield {
            "keyword": keyword,
            "dataPath": _data_path(error),
            "schemaPath": _schema_path(error),
            "params": params,
            "message": message,
        }
    for inner in error.context or ():
        yield from _of(inner)


def _said(keyword: str, error: ValidationError) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield the params and message of an error; one for each name that is missing or too many."""
    wanted: Any = error.validator_value
    found: Any = error.instance
    if keyword == "required":
        missing = re.match(r"'(.*)' is a required property", error.message, re.DOTALL)
        name = missing[1] if missing else ""
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


def _data_path(error: ValidationError) -> str:
    """Return where in the document, as Ajv writes it: ``.taskRoles['worker'].commands[0]``."""
    parts = []
    before: str | int = ""
    for step in error.absolute_path:
        if isinstance(step, int):
            parts.append(f"[{step}]")
        elif before not in _FREE_KEYS and _IDENTIFIER.fullmatch(step):
            parts.append(f".{step}")
        else:
            parts.append(f"['{step}']")
        before = step
    return "".join(parts)


def _schema_path(error: ValidationError) -> str:
    """Return which rule of the server's schema it was, as far as that schema is built like ours."""
    steps = [str(step) for step in error.absolute_schema_path]
    if len(steps) == _TOP_LEVEL and steps[1] in _BASE:
        return f"base.json#/properties/{steps[1]}/{steps[2]}"
    shown = [_ROLE_KEYS if step == "additionalProperties" else step for step in steps[:-1]]
    return "/".join(["#", *shown, *steps[-1:]])
