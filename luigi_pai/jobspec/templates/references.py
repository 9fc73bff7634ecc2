"""Finds and checks references such as ``<% $parameters.epochs %>``.

The rest-server fills in ``$parameters``, ``$script``, ``$output`` and ``$data`` in commands, and ``$secrets``
in a Docker image's ``auth``. When a task starts, the runtime in the container fills in ``$secrets`` in
commands (0.17 and later; up to 0.16, the rest-server does this) and every reference in runtime plugins'
parameters.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from luigi_pai.errors import Level
from luigi_pai.jobspec.dialects import mustache
from luigi_pai.jobspec.dialects.javascript_text import javascript_text
from luigi_pai.jobspec.hints import nearest
from luigi_pai.jobspec.paths import item_of, list_of, mapping_of, strings
from luigi_pai.jobspec.schema_problems import Finding, named_nearest, stricter
from luigi_pai.jobspec.templates.commands import Views, role_commands
from luigi_pai.jobspec.templates.prerequisites import PLUGIN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from luigi_pai.jobspec.paths import Path

_KNOWN: Final = ("$parameters", "$secrets", "$script", "$output", "$data")
_PLUGIN_REFERENCE = re.compile(r"<%\s*\$([\s\S]*?)%>")
_NOT_CLOSED = "not closed"  # the kind of a tag without ``%>``


@dataclass(frozen=True)
class Reference:
    """A tag in a document.

    Attributes:
        path: The path of the string that contains the tag.
        name: The value that the tag refers to, such as ``$data.uri[0]``.
        role: The role whose commands or plugin contain the tag; None if the tag is in an ``auth``.
        kind: ``name`` for a reference, ``not closed`` for a tag without ``%>``, or the first character of any
            other tag, such as ``#``.
        plugin: Whether the tag is in a plugin's parameters, where the runtime fills it in.
    """

    path: Path
    name: str
    role: str | None = None
    kind: str = "name"
    plugin: bool = False

    @property
    def steps(self) -> list[str]:
        """The name's steps: ``$data.uri[0]`` -> ``["$data", "uri", "0"]``."""
        return mustache.steps(self.name)


def references(document: Mapping[str, Any]) -> list[Reference]:
    """Return every reference that a server or its runtime fills in, with the path of its string.

    References occur in roles' commands (including those that the default deployment adds), in Docker images'
    ``auth``, and in runtime plugins' parameters.
    """
    found: list[Reference] = []
    for role, commands in role_commands(document).items():
        for path, string in commands:
            found += _tags(path, string, role)
    for index, item in enumerate(list_of(document, "prerequisites")):
        auth = item_of(item, "auth") if item_of(item, "type") == "dockerimage" else None
        for path, string in strings(auth, ("prerequisites", index, "auth")):
            found += _tags(path, string)
    for roles, path, string in plugin_strings(document):
        for name in _PLUGIN_REFERENCE.findall(string[: string.rfind("%>") + 2]):
            found += [Reference(path, f"${name.rstrip()}", role=role, plugin=True) for role in roles]
    return found


def _tags(path: Path, string: str, role: str | None = None) -> Iterator[Reference]:
    """Yield the tags in a command or in a value of an ``auth``."""
    try:
        pieces = mustache.parse(string)
    except mustache.TemplateError:
        yield Reference(path, "", role, _NOT_CLOSED)
        return
    for piece in pieces:
        if isinstance(piece, mustache.Tag):
            yield Reference(path, piece.value, role, piece.kind)


def plugin_strings(document: Mapping[str, Any]) -> Iterator[tuple[list[str], Path, str]]:
    """For each string in runtime plugins' parameters, yield the plugin's roles, the path and the string."""
    roles = mapping_of(document, "taskRoles")
    for index, item in enumerate(list_of(document, "prerequisites")):
        if not isinstance(item, dict) or not _is_run(item):
            continue
        users = [role for role, about in roles.items() if item.get("name") in list_of(about, "prerequisites")]
        parameters = {key: item[key] for key in item if key not in ("plugin", "failurePolicy", "type")}
        yield from ((users, path, string) for path, string in strings(parameters, ("prerequisites", index)))
    for index, plugin in enumerate(list_of(document.get("extras"), PLUGIN)):
        named = item_of(plugin, "taskroles")
        users = [name for name in roles if not isinstance(named, list) or name in named]
        above = ("extras", PLUGIN, index, "parameters")
        yield from ((users, path, string) for path, string in strings(item_of(plugin, "parameters"), above))


def _is_run(prerequisite: Mapping[str, Any]) -> bool:
    """Return whether the runtime runs a prerequisite, possibly with a ``plugin`` that ``resolve`` adds."""
    plugin = prerequisite.get("plugin", PLUGIN if prerequisite.get("callbacks") else None)
    return isinstance(plugin, str) and plugin.startswith(PLUGIN)


def reference_findings(document: Mapping[str, Any]) -> list[Finding]:
    """Return the problems with a document's references.

    A tag that is not closed makes the server fail. The server accepts a job with any other problem, and the
    command then contains either the invalid reference or nothing in its place. An invalid reference in a
    plugin's parameters makes every task fail.
    """
    views = Views(document)
    found = [_finding(reference, document, views) for reference in references(document)]
    return list(dict.fromkeys(filter(None, found)))


def _finding(reference: Reference, document: Mapping[str, Any], views: Views) -> Finding | None:
    path = reference.path
    if reference.kind == "!":  # a comment
        return None
    if reference.kind == _NOT_CLOSED:
        return Finding(path, "has '<%' without '%>' after it; the server responds with 500")
    then = "every task fails when it starts" if reference.plugin else "fill in nothing useful"
    then = f"servers accept it, and {then}"
    if reference.role is None and not reference.name.startswith("$"):
        # do not quote the tag, because it may be part of a password
        return stricter(path, f"has a tag that refers to no secret; {then}")
    name = mustache.shown(reference.name)
    if reference.kind != "name":
        message = f"the tag <%{reference.kind} {name} %> is not a reference; servers remove its content"
        return stricter(path, message)
    first, *rest = reference.steps
    if first not in _KNOWN:
        hint = named_nearest(first, _KNOWN).rstrip("?")
        is_other_language = hint.startswith("there") and not first.startswith("$")
        level = Level.WARNING if is_other_language else Level.STRICTER
        return Finding(path, f"<% {name} %> refers to nothing, {hint}; {then}", level)
    problem = _problem(reference, first, rest, document, views)
    return None if problem is None else stricter(path, f"<% {name} %>: {problem}; {then}")


def _problem(
    reference: Reference, first: str, rest: list[str], document: Mapping[str, Any], views: Views
) -> str | None:
    """Return what is wrong with a reference to a known value, or None."""
    if reference.role is None and first != "$secrets":
        return "only $secrets is allowed here"
    if first in ("$parameters", "$secrets"):
        value: Any = document.get(first[1:], mustache.ABSENT)
        if value is mustache.ABSENT:
            return f"the job has no {first[1:]}"
        if not isinstance(value, dict):
            return None  # the schema reports the problem
    else:
        value = views.of(reference.role or "")[first]
        if value is mustache.ABSENT:
            return f"the role {reference.role} has no {first[1:]}"
    reached = first
    for step in rest:
        lower = mustache.look_up(value, [step])
        if lower is mustache.ABSENT:
            return _missing_step(reached, value, step)
        value, reached = lower, f"{reached}.{step}"
    return _insertion_problem(reference, value)


def _missing_step(reached: str, value: Any, step: str) -> str:
    if isinstance(value, dict):
        return f"there is no {step} in {reached}{nearest(step, map(str, value))}"
    if isinstance(value, list):
        return f"{reached} has {len(value)} entries, counted from 0"
    return f"{reached} has no parts"


def _insertion_problem(reference: Reference, value: Any) -> str | None:
    """Return why a value cannot be inserted into a string, or None."""
    if value is None:
        return "it is null"
    if reference.plugin:
        return None if isinstance(value, str) else "in a plugin's parameters it must be a string, in quotes"
    if isinstance(value, dict | list) and "[object Object]" in javascript_text(value):
        return "it is a mapping, or a list that contains one, not a string"
    return None
