"""Which fields a job file has, and which oddities its text, values and commands."""

from __future__ import annotations

import re
from dataclasses import fields
from typing import TYPE_CHECKING, Any

import yaml
from job_cases import cases

from luigi_pai.jobspec.protocol_parts import (
    Extras,
    HivedRole,
    HivedScheduler,
    LocalStorage,
    RuntimePlugin,
    StatusNotification,
    Storage,
)
from luigi_pai.jobspec.schema_problems import schema

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = ["document_kinds", "field_paths", "json_kinds", "known_paths", "typed_paths", "yaml_kinds"]

_PLUGIN = "com.microsoft.pai.runtimeplugin"
_OF_EXTRAS = {
    "extras": Extras,
    f"extras.{_PLUGIN}[]": RuntimePlugin,
    "extras.storages[]": Storage,
    "extras.hivedScheduler": HivedScheduler,
    "extras.hivedScheduler.taskRoles.*": HivedRole,
    "extras.jobStatusChangeNotification": StatusNotification,
    "extras.enableLocalStorage": LocalStorage,
}
_FREE = ("parameters", "secrets", "jobEnvs", f"extras.{_PLUGIN}[].parameters.logdir")
"""Mappings whose keys are the user's own, with values of any shape."""

# ---------------------------------------------------------------- fields


def known_paths(name: str) -> set[str]:
    """Return the path of each field that a schema (``job.v1``, ``protocol.v2``) or a class of extras has.

    ``[]`` stands for an item of a list, ``*`` for a name that the user chooses.
    """
    whole = schema(name)
    found = set(_schema_paths(whole, "", whole))
    if name == "protocol.v2":
        for place, chosen in _OF_EXTRAS.items():
            names = [each.metadata.get("key", each.name) for each in fields(chosen)]
            found |= {f"{place}.{name}" for name in names if name != "more" and not name.startswith("_")}
    return {path for path in found if "." not in path or not path.startswith(_FREE)}


def _schema_paths(schema: Any, path: str, whole: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(schema, dict):
        return
    if path:
        yield path
    for key, item in schema.get("properties", {}).items():
        below = f"{path}.{key}" if path else key
        yield below
        yield from _schema_paths(item, below, whole)
    if "$ref" in schema:
        yield from _schema_paths(whole["$defs"][schema["$ref"].removeprefix("#/$defs/")], path, whole)
    yield from _schema_paths(schema.get("additionalProperties"), f"{path}.*", whole)
    yield from _schema_paths(schema.get("items"), f"{path}[]", whole)
    same = [schema.get(keyword) for keyword in ("then", "stricter", "warning", "tightened")]
    for item in [*schema.get("allOf", []), *same]:
        yield from _schema_paths(item, path, whole)


def typed_paths(document: Any, name: str) -> set[str]:
    """Return ``PATH: TYPE`` of each field of a job, with the type that JSON calls it by."""
    return {f"{path}: {kind}" for path, kind in _paths(document, "", known_paths(name))}


def field_paths(document: Any, name: str) -> set[str]:
    """Return the path of each field of a job, in the words of ``known_paths``."""
    return {path for path, _ in _paths(document, "", known_paths(name))}


def _paths(value: Any, path: str, known: set[str]) -> Iterator[tuple[str, str]]:
    if path:
        yield path, _type(value)
    if isinstance(value, list):
        for item in value:
            yield from _paths(item, f"{path}[]", known)
    elif isinstance(value, dict) and not path.startswith(_FREE):
        for key, item in value.items():
            named = f"{path}.{key}" if path else str(key)
            is_chosen = named not in known and f"{path}.*" in known
            yield from _paths(item, f"{path}.*" if is_chosen else named, known)


def _type(value: Any) -> str:
    if isinstance(value, dict | list):
        kind = "mapping" if isinstance(value, dict) else "list"
        return kind if value else f"empty {kind}"
    return "null" if value is None else type(value).__name__


# ---------------------------------------------------------------- values and commands

_REFERENCE = re.compile(r"<%([^%]*)%>")
_PATTERNS = cases("job_files")["patterns"]


def _matching(kind: str, text: str) -> set[str]:
    """Return the names of the patterns of a kind that a text has."""
    return {name for name, pattern in _PATTERNS[kind].items() if re.search(pattern, text)}


def document_kinds(document: Any) -> set[str]:
    """Return the oddities of a job's values: how many there are of a thing, references, marks in commands."""
    if not isinstance(document, dict):
        return {"not a mapping"}
    found = set(_counts(document))
    for place, command in _commands(document):
        found |= {f"{place}: {kind}" for kind in _command_kinds(command)}
    for place in ("parameters", "secrets", "jobEnvs"):
        values = document.get(place)
        if isinstance(values, dict):
            found |= {f"{place}: {_type(value)}" for value in values.values()}
    return found


def _counts(document: Mapping[str, Any]) -> Iterator[str]:
    extras = document.get("extras") or {}
    for place, items in (
        ("taskRoles", document.get("taskRoles")),
        ("prerequisites", document.get("prerequisites")),
        ("deployments", document.get("deployments")),
        ("plugins", extras.get(_PLUGIN)),
        ("storages", extras.get("storages")),
    ):
        if isinstance(items, list | dict) and len(items) > 1:
            yield f"several {place}"
    prerequisites = [item for item in document.get("prerequisites") or [] if isinstance(item, dict)]
    kinds = [item.get("type") for item in prerequisites]
    for kind in {kind for kind in kinds if kinds.count(kind) > 1}:
        yield f"several prerequisites of type {kind}"
    names = [item.get("name") for item in prerequisites]
    if len(set(names)) < len(names):
        yield "several prerequisites of one name"
    for item in prerequisites:
        if item.get("type") == "data" and len(item.get("uri") or []) > 1:
            yield "several URIs"


def _commands(document: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield each command with the kind of its place."""
    for path, text in _texts(document, ""):
        if path.startswith("deployments"):
            yield path.removesuffix("[]").rpartition(".")[2], text
        elif path.endswith(".callbacks[].commands[]"):
            yield "prerequisite's callback" if path.startswith("prerequisites") else "plugin's callback", text
        elif path.endswith((".command", ".commands[]")):
            yield "command", text


def _texts(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, f"{path}[]")
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, f"{path}.{key}" if path else str(key))


def _command_kinds(command: str) -> Iterator[str]:
    for inner in _REFERENCE.findall(command):
        steps = re.sub(r"\[\d+\]", "[]", inner.strip())
        is_own = steps.startswith(("$parameters.", "$secrets."))
        yield "reference " + (steps.split(".")[0] if is_own else steps)
        if not (inner.startswith(" ") and inner.endswith(" ")):
            yield "reference without blanks"
    shell = _REFERENCE.sub("", command)
    yield from (f"has {mark}" for mark in _PATTERNS["marks"] if mark in shell)
    yield from _matching("command", command) - ({"beyond ASCII"} if shell.isascii() else set())


# ---------------------------------------------------------------- texts


def yaml_kinds(text: str) -> set[str]:
    """Return the oddities of a YAML text: styles, numbers, comments, anchors, blanks, line ends."""
    found = _matching("text", text)
    try:
        tokens = list(yaml.scan(text))
    except yaml.YAMLError:
        return {*found, "tokens that YAML 1.1 does not have"}
    found |= set(_token_kinds(tokens)) - {""}
    spans = [(t.start_mark.index, t.end_mark.index) for t in tokens if isinstance(t, yaml.ScalarToken)]
    for mark in re.finditer("#", text):
        if not any(start <= mark.start() < end for start, end in spans):
            line = text[text.rfind("\n", 0, mark.start()) + 1 : mark.start()]
            found.add("a comment after a value" if line.strip() else "a comment on a line of its own")
    try:
        found |= set(_repeated(yaml.compose(text, Loader=yaml.SafeLoader)))
    except yaml.composer.ComposerError as error:
        found.add("several documents" if error.context else "an alias without its anchor")
    except yaml.YAMLError:
        found.add("no document of YAML 1.1")
    return found


def _token_kinds(tokens: list[Any]) -> Iterator[str]:
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        if not isinstance(token, yaml.ScalarToken):
            yield from [_PATTERNS["tokens"].get(type(token).__name__, "")]
            continue
        lines = token.end_mark.line - token.start_mark.line
        if token.plain:
            yield from _matching("plain", token.value)
            yield from ["a plain scalar of several lines"] if lines else []
        else:
            style = _PATTERNS["styles"][token.style]
            yield f"a scalar {style}"
            if token.style in "|>":
                head = token.start_mark.buffer[token.start_mark.pointer :].split("\n")[0].split("#")[0]
                yield f"a scalar {head.strip()}"
                yield from ["a # in a block"] if "#" in token.value else []
            else:
                yield from (f"{name} {style}" for name in _matching("plain", token.value))
                yield from [f"a scalar {style} of several lines"] if lines else []
                yield from ["an escape"] if "\\" in _source(token) and token.style == '"' else []
        if isinstance(before, yaml.KeyToken) and isinstance(after, yaml.ValueToken):
            yield from ["a blank before a colon"] if after.start_mark.index > token.end_mark.index else []
            yield from [] if token.plain else ["a key in quotes"]


def _source(token: Any) -> str:
    length = token.end_mark.index - token.start_mark.index
    found: str = token.start_mark.buffer[token.start_mark.pointer :][:length]
    return found


def _repeated(node: Any) -> Iterator[str]:
    if isinstance(node, yaml.MappingNode):
        keys = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        yield from ["a merge of mappings"] if "<<" in keys else []
        yield from ["a key twice"] if len(set(keys)) < len(keys) else []
        for _, value in node.value:
            yield from _repeated(value)
    elif isinstance(node, yaml.SequenceNode):
        for item in node.value:
            yield from _repeated(item)


def json_kinds(text: str) -> set[str]:
    """Return the oddities of a JSON text: blanks, line ends, escapes, indents."""
    found = _matching("text", text) - {"a list that is not indented"} | _matching("json", text)
    return found | {f"the escape {escape[:2]}" for escape in re.findall(r"\\[\\\"/bfnrtu]", text)}
