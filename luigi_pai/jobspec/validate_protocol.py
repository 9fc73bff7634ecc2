"""Validates job protocols.

Problems come from the schema (``schemas/protocol.v2.json``), the rules below that involve several fields, the
rules about commands and images (``rules``), and references and prerequisites (``templates``). A problem is
REFUSED if the rest-server of 1.8 or LTP rejects the document. It is STRICTER if the server accepts the
document but the job fails later.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.jobspec.dialects.yaml_text import read_yaml
from luigi_pai.jobspec.hints import nearest
from luigi_pai.jobspec.paths import item_of, leaves, list_of, mapping_of, text_of
from luigi_pai.jobspec.releases import has_js_yaml_4, release_number
from luigi_pai.jobspec.rules.commands import protocol_command_findings
from luigi_pai.jobspec.rules.places import image_findings
from luigi_pai.jobspec.schema_problems import (
    LARGEST_BODY,
    Finding,
    cut,
    problems_in_order,
    repeated,
    schema_findings,
    stricter,
    warning,
)
from luigi_pai.jobspec.templates.commands import role_commands
from luigi_pai.jobspec.templates.prerequisites import PLUGIN, prerequisite_findings
from luigi_pai.jobspec.templates.references import plugin_strings, reference_findings, references
from luigi_pai.redaction import MASK

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from luigi_pai.jobspec.paths import Path
    from luigi_pai.jobspec.protocol import JobProtocol

_HTML = re.compile("[&<>\"']")
_TYPES = {"dockerImage": "dockerimage", "data": "data", "output": "output", "script": "script"}
_SECRETS = re.compile(r"^(secrets:)[\s\S]*?^([A-Za-z0-9_])", re.MULTILINE)


def check_protocol(
    protocol: JobProtocol,
    further: Iterable[Problem] = (),
    *,
    document: dict[str, Any] | None = None,
    text: str | None = None,
) -> list[Problem]:
    """Check that a job protocol, as it is sent, can run on some release of OpenPAI or LTP.

    If you have already called ``to_dict`` and ``to_yaml``, pass their results.

    Returns:
        The protocol's warnings, without those in ``further``.

    Raises:
        SpecError: The protocol or ``further`` has REFUSED or STRICTER problems. The error lists them all.
    """
    document = protocol.to_dict() if document is None else document
    text = protocol.to_yaml(document) if text is None else text
    found = validate_protocol(document, lines=protocol.lines, text=text)
    problems = refused([*found, *further])
    if problems:
        raise SpecError(str(document.get("name")), problems)
    return [*protocol.warnings, *found]


def refused(problems: Iterable[Problem], *, lenient: bool = False) -> list[Problem]:
    """Return the problems that prevent sending: all REFUSED and, if not ``lenient``, all STRICTER."""
    counting = (Level.REFUSED,) if lenient else (Level.REFUSED, Level.STRICTER)
    return [problem for problem in problems if problem.level in counting]


def validate_protocol(
    document: Any,
    *,
    lines: Mapping[Path, int] | None = None,
    text: str | None = None,
    release: str | None = None,
) -> list[Problem]:
    """Return all problems with a job protocol.

    Args:
        document: The protocol, with JSON types.
        lines: Path -> line, from ``read_yaml``; None if the document was not read from YAML.
        text: The YAML of ``document`` that will be sent; None if it is unknown.
        release: The cluster's release, such as ``1.5.0`` or ``ltp-1.5``, whose rules apply. If None, it is
            enough that some release accepts the document.

    Returns:
        The problems in document order; an empty list if there are none.
    """
    number = release_number(release) if release is not None else None
    findings = list(schema_findings(document, "protocol.v2", _format_value, number))
    if isinstance(document, dict):
        findings += _several_fields(document, number)
        findings += reference_findings(document)
        findings += prerequisite_findings(document)
        findings += [] if text is None else _bare_secrets(document, text, number)
    size = len((text or "").encode("utf-8", "surrogatepass"))
    if size > LARGEST_BODY:
        findings.append(Finding((), f"has {size:,} bytes; servers accept at most {LARGEST_BODY:,}"))
    return problems_in_order(findings, document, lines or {})


def _format_value(value: Any, path: Path) -> str:
    """Format a value for errors: truncated, and without values that may be secret."""
    if isinstance(value, dict | list):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind}" if value else f"an empty {kind}"
    if value is None:
        return "null"
    if not path or path[0] == "secrets" or "auth" in path:
        return f"a value of type {type(value).__name__}"
    return cut(str(value).lower() if isinstance(value, bool) else repr(value))


def _bare_secrets(
    document: Mapping[str, Any], body: str, release: tuple[int, ...] | None
) -> Iterator[Finding]:
    """Yield a finding if the server's redaction of the YAML covers too little or too much.

    The server sends the YAML to everybody who may read the job. It replaces the first line that starts with
    ``secrets:`` with ``secrets: "******"``. It then deletes lines, up to the next one that starts with a
    letter, a digit or _.
    """
    if "secrets" not in document:
        return
    kept = _SECRETS.sub(rf'\1 "{MASK}"\n\2', f"{body}\nZ", count=1)[:-2]
    try:
        js_yaml_4 = None if release is None else has_js_yaml_4(release)
        is_hidden = read_yaml(kept, lenient=True, js_yaml_4=js_yaml_4).value == {**document, "secrets": MASK}
    except SpecError:
        is_hidden = False
    if not is_hidden:
        yield stricter(
            ("secrets",),
            "servers accept them, but would show them to everybody who may read the job, or redact more than "
            "them; write secrets: without quotes at the start of a line, its keys "
            "indented below it, and the next field without quotes at the start of a line",
        )


# ---------------------------------------------------------------- rules that involve several fields


def _several_fields(document: Mapping[str, Any], release: tuple[int, ...] | None) -> Iterator[Finding]:
    """Yield violations of the rules below, in any order. Parts that the schema rejects are ignored."""
    for index, item in enumerate(list_of(document, "prerequisites")):
        if item_of(item, "type") == "dockerimage":
            yield from image_findings(("prerequisites", index, "uri"), item.get("uri"))
    yield from _secret_values(document)
    yield from _roles(document, release)
    yield from _deployments(document)
    yield from _extras(document)
    yield from _plugin_strings(document)


def _secret_values(document: Mapping[str, Any]) -> Iterator[Finding]:
    if "secrets" not in document:
        return
    in_commands = {
        reference.steps[1]
        for reference in references(document)
        if reference.role is not None
        and not reference.plugin
        and reference.steps[0] == "$secrets"
        and len(reference.steps) > 1
    }
    for key, value in mapping_of(document, "secrets").items():
        for path, leaf in leaves(value, ("secrets", key)):
            if isinstance(leaf, str) and _HTML.search(leaf) and key in in_commands:
                yield warning(
                    path,
                    "has one of the characters & < > \" ' and is used in a command: the runtime of releases "
                    "0.17 to 1.8 escapes them there as HTML (&amp; for &); encode the secret, with base64 "
                    "for instance, and decode it in the command",
                )


# ---------------------------------------------------------------- task roles


def _roles(document: Mapping[str, Any], release: tuple[int, ...] | None) -> Iterator[Finding]:
    gang = mapping_of(document, "extras").get("gangAllocation") is not False
    known, commands = _names_by_type(document), role_commands(document)
    for name, value in mapping_of(document, "taskRoles").items():
        role, path = mapping_of(value), ("taskRoles", name)
        yield from _used_prerequisites(path, role, known)
        if gang and role.get("taskRetryCount"):
            yield warning(
                (*path, "taskRetryCount"),
                "has no effect unless extras.gangAllocation is false; jobRetryCount retries the whole job",
            )
        if list_of(role, "commands") and not any(command.strip() for _, command in commands[name]):
            message = "are blank; servers accept them, and every task ends immediately"
            yield stricter((*path, "commands"), message)
        yield from protocol_command_findings(name, commands[name], release)


def _names_by_type(document: Mapping[str, Any]) -> dict[str, dict[str, None]]:
    """Return type -> names of prerequisites, for each type that roles may refer to."""
    named = [item for item in list_of(document, "prerequisites") if text_of(item, "name") is not None]
    return {
        kind: {item["name"]: None for item in named if item.get("type") == kind} for kind in _TYPES.values()
    }


def _used_prerequisites(
    path: Path, role: Mapping[str, Any], known: Mapping[str, Mapping[str, None]]
) -> Iterator[Finding]:
    for field, kind in _TYPES.items():
        name = role.get(field)
        if isinstance(name, str) and name not in known[kind]:
            message = f"prerequisite {name!r} of type {kind}"
            is_image = kind == "dockerimage" and {*name} & {"/", ":"}
            advice = f"; add {{name: image, type: {kind}, uri: {name!r}}}, and write dockerImage: image"
            yield Finding((*path, field), _no_such(message, name, known[kind]) + (advice if is_image else ""))
    for index, name in enumerate(list_of(role, "prerequisites")):
        if isinstance(name, str) and not any(name in names for names in known.values()):
            every = [other for names in known.values() for other in names]
            message = _no_such(f"prerequisite {name!r}", name, every)
            yield Finding((*path, "prerequisites", index), message)


def _no_such(kind: str, name: str, known: Iterable[str]) -> str:
    return f"there is no {kind}{nearest(name, dict.fromkeys(known))}"


# ---------------------------------------------------------------- deployments and extras


def _deployments(document: Mapping[str, Any]) -> Iterator[Finding]:
    deployments = list_of(document, "deployments")
    names = [mapping_of(item).get("name") for item in deployments]
    chosen = text_of(document.get("defaults"), "deployment")
    if chosen is not None and chosen not in names:
        known = [name for name in names if isinstance(name, str)]
        yield Finding(("defaults", "deployment"), _no_such(f"deployment {chosen!r}", chosen, known))
    for index, item in enumerate(deployments):
        for role in mapping_of(item, "taskRoles"):
            path = ("deployments", index, "taskRoles", role)
            yield from _unknown_role(path, role, document, "and its commands never run")


def _unknown_role(path: Path, role: Any, document: Mapping[str, Any], then: str) -> Iterator[Finding]:
    known = list(mapping_of(document, "taskRoles"))
    if isinstance(role, str) and known and role not in known:
        yield stricter(path, f"{_no_such(f'task role {role!r}', role, known)}; servers accept it, {then}")


def _extras(document: Mapping[str, Any]) -> Iterator[Finding]:
    extras = mapping_of(document, "extras")
    for index, plugin in enumerate(list_of(extras, PLUGIN)):
        path: Path = ("extras", PLUGIN, index)
        for position, role in enumerate(list_of(plugin, "taskroles")):
            then = "and the plugin does not run for it"
            yield from _unknown_role((*path, "taskroles", position), role, document, then)
        jobssh = mapping_of(plugin, "parameters").get("jobssh")
        is_on = item_of(plugin, "plugin") == "ssh" and jobssh in (True, "true")
        if is_on and extras.get("gangAllocation") is False:
            message = "has no effect while extras.gangAllocation is false"
            yield warning((*path, "parameters", "jobssh"), message)
    for role in mapping_of(mapping_of(extras, "hivedScheduler"), "taskRoles"):
        path = ("extras", "hivedScheduler", "taskRoles", role)
        yield from _unknown_role(path, role, document, "except those with HiveD")
    yield from _mounts(extras)


def _mounts(extras: Mapping[str, Any]) -> Iterator[Finding]:
    storages = [mapping_of(item) for item in list_of(extras, "storages")]
    pairs = [(item.get("name"), item.get("mountPath") or f"/mnt/{item.get('name')}") for item in storages]
    named = [pair if all(isinstance(each, str) for each in pair) else (None, None) for pair in pairs]
    for position, field in enumerate(("name", "mountPath")):
        for index, first in repeated(pair[position] for pair in named):
            yield stricter(
                ("extras", "storages", index, field),
                f"{named[index][position]!r} is also the {field} of storages[{first}]; "
                "servers accept it, and Kubernetes creates no container",
            )


# ---------------------------------------------------------------- strings in plugins

# The 1.x runtime writes plugins' parameters with Python's ``repr``, fills in references, and reads the result
# as YAML (``replace_ref`` in its initializer). Most strings are unchanged.
_AWKWARD = frozenset("'\"\\")  # strings without these and without unprintable characters are unchanged
_MISREAD = (
    "has line breaks, backslashes or both kinds of quotes; servers accept it, and their runtime misreads "
    "such a string in a plugin's parameters: write each line as a separate command, use one kind of quotes, "
    "or call a script"
)


def _plugin_strings(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding, without the string, for each plugin string that the runtime would change."""
    for _, path, string in plugin_strings(document):
        if (not string.isprintable() or _AWKWARD.intersection(string)) and not _is_read_unchanged(string):
            yield stricter(path, _MISREAD)


def _is_read_unchanged(string: str) -> bool:
    """Return whether the runtime reads a string unchanged."""
    try:
        return bool(yaml.safe_load(repr([string])) == [string])
    except (yaml.YAMLError, ValueError):
        return False
