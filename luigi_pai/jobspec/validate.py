"""Validates v1 job configs.

A problem is REFUSED if 0.7 to 0.14 servers reject the job (JSON Schema in ``schemas/``). It is STRICTER if
they accept the job but it then fails, for example because two role names differ only in case or punctuation,
because memory is under 100 MB, or because a command is blank.
"""

from __future__ import annotations

import inspect
import json
import math
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.jobspec.dialects.javascript_text import javascript_number
from luigi_pai.jobspec.dialects.mustache import SPACES
from luigi_pai.jobspec.hints import METHOD
from luigi_pai.jobspec.job import PaiJob, methods_in
from luigi_pai.jobspec.paths import Path, is_int, item_of, list_of, mapping_of, text_of
from luigi_pai.jobspec.releases import release_number
from luigi_pai.jobspec.rules.commands import config_command_findings
from luigi_pai.jobspec.rules.places import folder_findings, image_findings
from luigi_pai.jobspec.schema_problems import (
    LARGEST_BODY,
    Finding,
    cut,
    problems_in_order,
    repeated,
    schema,
    schema_findings,
    stricter,
)
from luigi_pai.runtime import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_NUMBER_TEXT = re.compile(rf"[{SPACES}]*[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?[{SPACES}]*")
_PREFIXED_TEXT = re.compile(rf"[{SPACES}]*0[xXoObB][0-9a-fA-F]+[{SPACES}]*")
_IMAGE = re.compile("[:/]")  # in most image names, but in no job name
_LAST_PORT = 65535
_PLACES = (
    ("codeDir", "code folder", Level.STRICTER),
    ("authFile", "account of a registry", Level.STRICTER),
    ("dataDir", "data folder", Level.WARNING),  # a command may understand the path
)
_CONVERTS = "0.15"  # a release that gets v1 jobs as job protocols


def check_job(
    job: PaiJob,
    further: Iterable[Problem] = (),
    *,
    api_version: str | None = "v1",
    names: Mapping[str, str] | None = None,
) -> list[Problem]:
    """Check a job; return its warnings and those in ``further``, which contains other known problems.

    For ``api_version``, see ``validate_job``. ``names`` maps fields to the names that problems use.

    Raises:
        SpecError: The job or ``further`` has problems that are not warnings. The error lists them.
    """
    found = validate_job(job, api_version=api_version)
    found = [*(replace(each, path=(names or {}).get(each.path, each.path)) for each in found), *further]
    problems = [problem for problem in found if problem.level is not Level.WARNING]
    if problems:
        raise SpecError("" if inspect.isroutine(job.jobName) else str(job.jobName), problems)
    return found


def validate_job(
    job: PaiJob | Mapping[str, Any],
    *,
    release: str | None = None,
    lines: Mapping[Path, int] | None = None,
    api_version: str | None = "v1",
) -> list[Problem]:
    """Return all problems with a v1 job.

    Args:
        job: A PaiJob, or the job as a document with JSON types.
        release: The cluster's release, such as ``0.7.1``, whose rules apply. If None, it is enough that some
            release from 0.7 to 0.14 accepts the job.
        lines: Path -> line in the job's file, if the job is from a file.
        api_version: The cluster's API version. If it is ``v2`` or unknown (None), warnings that apply only to
            0.7 to 0.14 are left out.

    Returns:
        The problems in the order of the job's fields; an empty list if there are no problems.
    """
    if isinstance(job, PaiJob):
        try:
            document = job.to_dict()
        except (TypeError, ValueError) as error:
            methods = [Problem(path, METHOD) for path in methods_in(job)]
            return methods or [Problem("", f"cannot be written as JSON: {error}")]
    else:
        document = dict(job)
    number = release_number(release) if release is not None else None
    document = with_numbers(document, schema("job.v1"))
    findings = [
        *schema_findings(document, "job.v1", _format_value, number),
        *_relations(document),
        *_string_findings(document, release or (None if api_version == "v1" else _CONVERTS)),
    ]
    size = len(json.dumps(document))
    if size > LARGEST_BODY:
        findings.append(Finding((), f"has {size:,} bytes as JSON; servers accept at most {LARGEST_BODY:,}"))
    return problems_in_order(findings, document, lines or {})


def with_numbers(value: Any, schema: Mapping[str, Any]) -> Any:
    """Convert a document as the servers do: ``"4"`` becomes 4 if the schema requires an integer."""
    kind = schema.get("type")
    if isinstance(value, str) and "integer" in (kind if isinstance(kind, list) else [kind]):
        return _number(value)
    if isinstance(value, dict):
        properties = schema.get("properties", {})
        return {key: with_numbers(item, properties.get(key, {})) for key, item in value.items()}
    if isinstance(value, list):
        return [with_numbers(item, schema.get("items", {})) for item in value]
    return value


def _number(string: str) -> Any:
    """Convert a string to a number as the servers (Joi 13) do; return it unchanged if they do not."""
    if _PREFIXED_TEXT.fullmatch(string):
        return 0  # JavaScript's parseFloat reads the 0 and stops at the x, o or b
    number = float(string.strip(SPACES)) if _NUMBER_TEXT.fullmatch(string) else math.inf
    return string if math.isinf(number) else javascript_number(number)


def _format_value(value: Any, path: Path) -> str:
    """Format a value for errors: truncated, and without the values of jobEnvs, which may be secret."""
    if "jobEnvs" in path:
        return f"a value of type {type(value).__name__}"
    return cut(repr(value))


def _relations(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield problems that involve more than one field."""
    job, image = str(document.get("jobName")), str(document.get("image") or ":")
    if _IMAGE.search(job) and not _IMAGE.search(image):
        yield Finding(("image",), f"{image!r} and the name {job!r} look swapped: the name comes first")
    roles = [mapping_of(role) for role in list_of(document, "taskRoles")]
    names = [text_of(role, "name") or "" for role in roles]
    for index, first in repeated(folded(name) if name else None for name in names):
        name, other = names[index], names[first]
        detail = "" if other == name else f" ({other!r}: some servers read both as {folded(name)!r})"
        same = f"{name!r} is also the name of taskRoles[{first}]{detail}"
        yield stricter(("taskRoles", index, "name"), f"{same}; servers would drop one of them silently")
    for index, role in enumerate(roles):
        yield from _role_relations(("taskRoles", index), role)


def _string_findings(document: Mapping[str, Any], release: str | None) -> Iterator[Finding]:
    """Yield problems with the image, folders, authFile and commands, which servers do not check."""
    yield from image_findings(("image",), document.get("image"))
    for field, kind, level in _PLACES:
        yield from folder_findings((field,), document.get(field), kind, level)
    variables = mapping_of(document, "jobEnvs")
    for index, role in enumerate(list_of(document, "taskRoles")):
        name, command = item_of(role, "name"), item_of(role, "command")
        if isinstance(command, str):
            path = ("taskRoles", index, "command")
            yield from config_command_findings(path, name, command, variables, release)


def _role_relations(path: Path, role: Mapping[str, Any]) -> Iterator[Finding]:
    name, command = str(role.get("name")), str(role.get("command") or " ")
    if " " in name and " " not in command:
        yield Finding((*path, "command"), f"{command!r} and the name look swapped: the name comes first")
    for index, port in enumerate(map(mapping_of, list_of(role, "portList"))):
        first, count = port.get("beginAt", 0), port.get("portNumber", 1)
        if is_int(first) and is_int(count) and 0 < first <= _LAST_PORT < first + count - 1:
            message = f"{count} ports from {first} go beyond port {_LAST_PORT}"
            yield stricter((*path, "portList", index, "portNumber"), message)
