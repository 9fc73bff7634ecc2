"""References such as ``<% $parameters.epochs %>``: search and checks.

The rest-server fills ``$parameters``, ``$script``, ``$output``
and ``$data`` in commands, and ``$secrets`` in a Docker image's ``auth``. The
runtime in the container fills ``$secrets`` in commands when a task starts
(0.17 and later; to 0.16 the rest-server does), and every reference in the
parameters of runtime plugins.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from luigi_pai.errors import Level
from luigi_pai.jobspec.dialects import mustache
from luigi_pai.jobspec.dialects.javascript_text import javascript_text
from luigi_pai.jobspec.hints import nearest
from luigi_pai.jobspec.paths import item_of, list_of, texts
from luigi_pai.jobspec.schema_problems import Finding, named_nearest
from luigi_pai.jobspec.templates.callbacks import PLUGIN
from luigi_pai.jobspec.templates.commands import Views, joined, role_commands
from luigi_pai.jobspec.templates.secrets import replaced

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from luigi_pai.jobspec.paths import Path

_KNOWN: Final = ("$parameters", "$secrets", "$script", "$output", "$data")
_MAPPING: Final = "it is a mapping, not a text"
_WITH_MAPPING: Final = "it is a list with a mapping in it, not a text"
_PLUGIN_REFERENCE = re.compile(r"<%\s*\$([\s\S]*?)%>")


@dataclass(frozen=True)
class Reference:
    """A tag of a document.

    Attributes:
        path: the text that it stands in.
        name: what it refers to: ``$data.uri[0]``.
        role: the role in whose commands it stands; None elsewhere.
        kind: ``name``, or the character that a tag of another kind begins with.
        plugin: it stands in the parameters of a plugin, where the runtime fills it in.
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
    """Return every reference that a server or its runtime fills in, with the path of its text.

    They stand in the commands of roles (with those of the default deployment), in
    the ``auth`` of Docker images, and in the parameters of runtime plugins.
    Commands with a tag that is not closed have none.
    """
    found: list[Reference] = []
    for role, commands in role_commands(document).items():
        try:
            found += _command_references(role, commands)
        except mustache.TemplateError:
            continue
    for path, text in _auth_texts(document):
        try:
            found += [
                Reference(path, piece.value, kind=piece.kind)
                for piece in mustache.parse(text)
                if isinstance(piece, mustache.Tag)
            ]
        except mustache.TemplateError:
            continue
    for roles, path, text in plugin_texts(document):
        for name in _PLUGIN_REFERENCE.findall(text[: text.rfind("%>") + 2]) if "%>" in text else ():
            found += [Reference(path, f"${name.rstrip()}", role=role, plugin=True) for role in roles]
    return found


def _command_references(role: str, commands: list[tuple[Path, str]]) -> Iterator[Reference]:
    ends = _ends(commands)
    for piece in mustache.parse(joined(commands)):
        if isinstance(piece, mustache.Tag):
            path = _command_at(commands, ends, piece.at)
            yield Reference(path, piece.value, role=role, kind=piece.kind)


def _ends(commands: list[tuple[Path, str]]) -> list[int]:
    """Return where in the joined text each command ends, its newline included."""
    return list(accumulate(len(command.strip(mustache.SPACES)) + 1 for _, command in commands))


def _command_at(commands: list[tuple[Path, str]], ends: list[int], offset: int) -> Path:
    """Return the path of the command in which an offset of the joined text lies."""
    return commands[min(bisect_right(ends, offset), len(commands) - 1)][0]


def _auth_texts(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    for index, item in enumerate(list_of(document, "prerequisites")):
        auth = item_of(item, "auth")
        for key, text in auth.items() if isinstance(auth, dict) else ():
            if isinstance(text, str) and item_of(item, "type") == "dockerimage":
                yield ("prerequisites", index, "auth", key), text


def plugin_texts(document: Mapping[str, Any]) -> Iterator[tuple[list[str], Path, str]]:
    """Yield each text among the parameters of runtime plugins: for which roles, its path, the text."""
    declared = document.get("taskRoles")
    roles = declared if isinstance(declared, dict) else {}
    users_of: dict[str, dict[str, None]] = {}
    for role, about in roles.items():
        for name in list_of(about, "prerequisites"):
            if isinstance(name, str):
                users_of.setdefault(name, {})[role] = None
    for index, item in enumerate(list_of(document, "prerequisites")):
        if not isinstance(item, dict) or not _is_run(item):
            continue
        name = item.get("name")
        users = list(users_of.get(name, ())) if isinstance(name, str) else []
        parameters = {key: item[key] for key in item if key not in ("plugin", "failurePolicy", "type")}
        yield from ((users, path, text) for path, text in texts(parameters, ("prerequisites", index)))
    for index, plugin in enumerate(list_of(document.get("extras"), PLUGIN)):
        named = item_of(plugin, "taskroles")
        users = [name for name in roles if not isinstance(named, list) or name in named]
        place = ("extras", PLUGIN, index, "parameters")
        yield from ((users, path, text) for path, text in texts(item_of(plugin, "parameters"), place))


def _is_run(prerequisite: Mapping[str, Any]) -> bool:
    """Return whether the runtime runs it. Callbacks without a plugin get one before the job is sent."""
    plugin = prerequisite.get("plugin", PLUGIN if prerequisite.get("callbacks") else None)
    return isinstance(plugin, str) and plugin.startswith(PLUGIN)


def reference_findings(document: Mapping[str, Any]) -> list[Finding]:
    """Return the problems of a document's references.

    A tag that is not closed makes the server fail. The server accepts every other problem, and the
    command then contains the reference, or nothing in its place.
    """
    found: list[Finding | None] = []
    for commands in role_commands(document).values():
        try:
            mustache.parse(joined(commands))
        except mustache.TemplateError as error:
            path = _command_at(commands, _ends(commands), error.at)
            found.append(Finding(path, f"{error}; the server answers 500"))
    for path, text in _auth_texts(document):
        try:
            mustache.parse(text)
        except mustache.TemplateError:
            found.append(Finding(path, "has a tag that is not closed; the server answers 500"))
    views = Views(document)
    found += [_reference_finding(reference, document, views) for reference in references(document)]
    return list(dict.fromkeys(filter(None, found)))


def _reference_finding(reference: Reference, document: Mapping[str, Any], views: Views) -> Finding | None:
    if reference.kind == "!":
        return None
    if reference.role is None and not reference.plugin and not reference.name.startswith("$"):
        what = "has a tag that refers to no secret"  # the tag is not shown: it may be part of a password
        return Finding(reference.path, f"{what}; {_consequence(reference, document)}", Level.STRICTER)
    runs_on = reference.name.startswith("$") and ("<%" in reference.name or "\n" in reference.name)
    if reference.kind != "name" or runs_on:
        return _no_reference(reference, document)
    first, *rest = reference.steps
    if first not in _KNOWN:
        return _unknown_kind(reference, document)
    wrong = _wrong(reference, first, rest, document, views)
    if wrong is None:
        return None
    then = _consequence(reference, document)
    if wrong in (_MAPPING, _WITH_MAPPING) and not _left_to_runtime(reference):
        where = "account" if reference.role is None else "command"
        then = f"servers accept it, and the {where} contains [object Object] in its place"
    return Finding(reference.path, f"<% {reference.name} %>: {wrong}; {then}", Level.STRICTER)


def _left_to_runtime(reference: Reference) -> bool:
    """Return whether the runtime fills in a reference, not the server."""
    return bool(reference.plugin or (reference.role is not None and reference.steps[0] == "$secrets"))


def _no_reference(reference: Reference, document: Mapping[str, Any]) -> Finding:
    if reference.kind == "name":
        is_account = reference.role is None and not reference.plugin  # of which nothing is shown
        tag = (
            "of a secret"
            if is_account
            else mustache.shown(f"<% {reference.name.partition('<%')[0]}".rstrip())
        )
        what = f"'%>' is missing: the tag {tag} is not closed before the next tag, or in its line"
        return Finding(reference.path, f"{what}; {_consequence(reference, document)}", Level.STRICTER)
    what = f"the tag <%{reference.kind} {mustache.shown(reference.name)} %> is no reference"
    then = "servers accept it, and remove it with what it encloses"
    return Finding(reference.path, f"{what}; {then}", Level.STRICTER)


def _unknown_kind(reference: Reference, document: Mapping[str, Any]) -> Finding:
    first = reference.steps[0]
    hint = named_nearest(first, _KNOWN)
    kept = not reference.plugin and not document.get("secrets")
    harmless = kept and not first.startswith("$") and hint.startswith("there")
    what = f"<% {reference.name} %> refers to nothing, {hint}".rstrip("?")
    return Finding(
        reference.path,
        f"{what}; {_consequence(reference, document)}",
        Level.WARNING if harmless else Level.STRICTER,
    )


def _consequence(reference: Reference, document: Mapping[str, Any]) -> str:
    if reference.plugin:
        return "servers accept it, and every task fails when it starts"
    if reference.role is not None and document.get("secrets"):
        return "servers accept it, and the command contains nothing in its place"
    where = "the account" if reference.role is None else "the command"
    return f"servers accept it, and {where} contains the reference unchanged"


def _wrong(
    reference: Reference, first: str, rest: list[str], document: Mapping[str, Any], views: Views
) -> str | None:
    """Return the problem of a reference to a known value, or None."""
    if reference.role is None and first != "$secrets":
        return "only $secrets can stand here"
    if first in ("$parameters", "$secrets"):
        value: Any = document.get(first[1:], mustache.ABSENT)
        if value is mustache.ABSENT:
            return f"the job has no {first[1:]}"
        if not isinstance(value, dict):
            return None  # the schema says what is wrong
    else:
        value = views.of(reference.role or "")[first]
        if value is mustache.ABSENT:
            return f"the role {reference.role} has no {first[1:]}"
    reached = first
    for step in rest:
        lower = mustache.look_up(value, [step])
        if lower is mustache.ABSENT:
            return _nothing_there(reached, value, step)
        value, reached = lower, f"{reached}.{step}"
    return _unfit(reference, value)


def _nothing_there(reached: str, value: Any, step: str) -> str:
    if isinstance(value, dict):
        return f"there is no {step} in {reached}{nearest(step, map(str, value))}"
    if isinstance(value, list):
        return f"{reached} has {len(value)} entries, counted from 0"
    return f"{reached} has no parts"


def _unfit(reference: Reference, value: Any) -> str | None:
    """Return why a value cannot stand in a text, or None."""
    if value is None:
        return "it is null"
    if reference.plugin:
        return (
            None if isinstance(value, str) else "in the parameters of a plugin it must be a string, in quotes"
        )
    if isinstance(value, dict):
        return _MAPPING
    if isinstance(value, list) and "[object Object]" in javascript_text(value):
        return _WITH_MAPPING
    return None


def plugin_filled(text: str, view: Mapping[str, Any]) -> str | None:
    """Return a text of a plugin's parameters with its references filled in, or None where one cannot be.

    Args:
        text: the text.
        view: what ``Views`` returns for the role.
    """
    missing = False

    def filled(tag: re.Match[str]) -> str:
        nonlocal missing
        value = mustache.look_up(view, mustache.steps(f"${tag.group(1).rstrip()}"))
        missing = missing or not isinstance(value, str)
        return value if isinstance(value, str) else ""

    result = replaced(_PLUGIN_REFERENCE, filled, text)
    return None if missing else result
