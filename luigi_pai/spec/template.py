"""References such as ``<% $parameters.epochs %>``: found, checked, and filled in as the servers do.

Who fills what: the rest-server fills ``$parameters``, ``$script``, ``$output``
and ``$data`` in commands, and ``$secrets`` in a Docker image's ``auth``. The
runtime in the container fills ``$secrets`` in commands when a task starts
(0.17 and later; to 0.16 the rest-server does), and every reference in the
parameters of runtime plugins.
"""

from __future__ import annotations

import difflib
import html
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.spec import mustache

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

__all__ = [
    "MASK",
    "PLUGIN",
    "entrypoints",
    "fill_secrets",
    "mask",
    "masked",
]

Path = tuple[str | int, ...]

MASK: Final = "******"
"""What a server shows in place of secrets."""
PLUGIN: Final = "com.microsoft.pai.runtimeplugin"
"""The key of the runtime plugins in extras, and what a plugin prerequisite's ``plugin`` begins with."""

_NEWLINE_RELEASE = (0, 17)
"""The first release that joins commands by newline, and leaves secrets and what is unknown as written."""
_FIELDS: Final = ("script", "output", "data")
_PLUGIN_REFERENCE = re.compile(r"<%(?:\s*)\$([\s\S]*?)(?:\s*)%>")
_PLUGIN_INDEX = re.compile(r"([\s\S]*?)\[\s*([0-9]+)\s*\]")
_RUNTIME_TAG = re.compile(r"<%\s*([{&!]?)\s*([\s\S]+?)\s*(\}?)\s*%>")


@dataclass(frozen=True)
class Reference:
    """A tag of a document.

    Attributes:
        path: the text that it stands in.
        name: what it refers to: ``$data.uri[0]``.
        role: the role in whose commands it stands; None elsewhere.
        kind: ``name``, or the character that a tag of another kind begins with.
        plugin: it is the runtime that fills it in, in the parameters of a plugin.
    """

    path: Path
    name: str
    role: str | None = None
    kind: str = "name"
    plugin: bool = False


# ---------------------------------------------------------------- the commands of a role


def entrypoints(document: Mapping[str, Any], release: str = "1.8.0") -> dict[str, str]:
    """Return the command of each role as a release's rest-server makes it.

    Args:
        document: a valid job protocol.
        release: the rest-server's release. To 0.16 commands are joined by ``&&`` and hold the secrets.

    Returns:
        role -> command, in the order of the document.

    Raises:
        SpecError: a tag is not closed: the server fails on it.
    """
    newer = _release(release) >= _NEWLINE_RELEASE
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for role, commands in _role_commands(document).items():
        try:
            found[role] = _rendered(_joined(commands, "\n" if newer else " && "), document, role, newer=newer)
        except mustache.TemplateError as error:
            path = f"taskRoles.{role}.commands"
            problems.append(Problem(path, f"{error}; the server answers 500"))
    if problems:
        raise SpecError(str(document.get("name")), problems)
    return found


def _release(text: str) -> tuple[int, int]:
    numbers = re.findall(r"\d+", text)
    return int(numbers[0]), int(numbers[1])


def _role_commands(document: Mapping[str, Any]) -> dict[str, list[tuple[Path, str]]]:
    """Return role -> its commands with their paths: those of the default deployment around its own."""
    around = _default_deployment(document)
    found: dict[str, list[tuple[Path, str]]] = {}
    roles = document.get("taskRoles")
    for name, role in roles.items() if isinstance(roles, dict) else ():
        lists: list[tuple[Path, Any]] = [(("taskRoles", name, "commands"), _get(role, "commands"))]
        if around is not None:
            index, deployment = around
            path: Path = ("deployments", index, "taskRoles", name)
            more = _get(_get(deployment, "taskRoles"), name)
            lists.insert(0, ((*path, "preCommands"), _get(more, "preCommands")))
            lists.append(((*path, "postCommands"), _get(more, "postCommands")))
        found[name] = [
            ((*path, index), command)
            for path, commands in lists
            if isinstance(commands, list)
            for index, command in enumerate(commands)
            if isinstance(command, str)
        ]
    return found


def _default_deployment(document: Mapping[str, Any]) -> tuple[int, Any] | None:
    name = _get(document.get("defaults"), "deployment")
    deployments = document.get("deployments")
    for index, deployment in enumerate(deployments if isinstance(deployments, list) else ()):
        if name is not None and _get(deployment, "name") == name:
            return index, deployment
    return None


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _joined(commands: list[tuple[Path, str]], by: str) -> str:
    return by.join(command.strip(mustache.SPACES) for _, command in commands)


def _rendered(template: str, document: Mapping[str, Any], role: str, *, newer: bool) -> str:
    view = _view(document, role)
    if not newer:
        view["$secrets"] = document.get("secrets", mustache.ABSENT)
    return _filled(template, view, keep=newer)


def _view(document: Mapping[str, Any], role: str) -> dict[str, Any]:
    """Return what the references in a role's commands can see."""
    view = {"$parameters": document.get("parameters", mustache.ABSENT)}
    for field in _FIELDS:
        view[f"${field}"] = _prerequisite(document, field, _get(_get(document.get("taskRoles"), role), field))
    return view


def _prerequisite(document: Mapping[str, Any], kind: str, name: Any) -> Any:
    prerequisites = document.get("prerequisites")
    for item in prerequisites if isinstance(prerequisites, list) else ():
        if name is not None and _get(item, "type") == kind and _get(item, "name") == name:
            return item
    return mustache.ABSENT


def _filled(template: str, view: Mapping[str, Any], *, keep: bool) -> str:
    """Fill in a template as the rest-server does; ``keep`` leaves what is unknown as a reference."""
    parts = []
    for piece in mustache.parse(template):
        if isinstance(piece, mustache.Text):
            parts.append(piece.value)
        elif piece.kind == "name":
            path = mustache.steps(piece.value)
            value = mustache.look_up(view, path) if path != ["."] else dict(view)
            if value is not mustache.ABSENT and value is not None:
                parts.append(mustache.javascript_text(value))
            elif keep:
                parts.append(f"<% {'.'.join(path)} %>")
    return "".join(parts).strip(mustache.SPACES)


# ---------------------------------------------------------------- secrets


def fill_secrets(text: str, secrets: Mapping[str, Any] | None, *, escape: bool = False) -> str:
    """Return a command as the runtime makes it when a task starts.

    Without secrets it is left alone. With secrets each ``<% $secrets.x %>`` becomes
    the secret, and every other reference becomes nothing.

    Args:
        text: the command, as the rest-server left it.
        secrets: the protocol's secrets.
        escape: write ``&``, ``<``, ``>``, ``"`` and ``'`` as HTML does, a defect of every release
            from 0.17 to 1.8 (their runtimes' pystache); else secrets arrive as they are.
    """
    if not secrets:
        return text

    def filled(tag: re.Match[str]) -> str:
        kind, name, curly = tag.groups()
        if kind == "!":
            return ""
        value = _secret(secrets, name if kind == "{" or not curly else name + curly)
        shown = "" if value is mustache.ABSENT else value if isinstance(value, str) else str(value)
        return html.escape(shown, quote=True) if escape and not kind else shown

    return _RUNTIME_TAG.sub(filled, text)


def _secret(secrets: Mapping[str, Any], name: str) -> Any:
    """Return the secret under a name, or ``ABSENT``; a list has its indexes, nothing has a length."""
    first, *path = mustache.steps(name)
    value: Any = secrets if first == "$secrets" else mustache.ABSENT
    for step in path:
        if isinstance(value, list):
            value = {str(index): item for index, item in enumerate(value)}
        value = value.get(step, mustache.ABSENT) if isinstance(value, dict) else mustache.ABSENT
    return value


def masked(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a document without its secrets: every value under ``secrets`` and ``auth`` is ``******``.

    References among them stay, for they say no secret.
    """
    copy = dict(document)
    if "secrets" in copy:
        copy["secrets"] = _masked_value(copy["secrets"])
    prerequisites = copy.get("prerequisites")
    if isinstance(prerequisites, list):
        copy["prerequisites"] = [
            {**item, "auth": _masked_value(item["auth"])} if isinstance(item, dict) and "auth" in item else item
            for item in prerequisites
        ]
    return copy


def _masked_value(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _masked_value(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_masked_value(item) for item in value]
    if isinstance(value, str) and re.fullmatch(r"\s*<%\s*\$[\w.\[\]-]+\s*%>\s*", value):
        return value
    return MASK


def mask(text: str, document: Mapping[str, Any]) -> str:
    """Return a text in which every secret of a document, and every value of an ``auth``, is ``******``."""
    values = set(_leaves(document.get("secrets")))
    prerequisites = document.get("prerequisites")
    for item in prerequisites if isinstance(prerequisites, list) else ():
        values.update(_leaves(_get(item, "auth")))
    shown = sorted({mustache.javascript_text(value) for value in values} - {""}, key=len, reverse=True)
    secret = [value for value in shown if not value.lstrip().startswith("<%")]
    return re.sub("|".join(map(re.escape, secret)), MASK, text) if secret else text


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif value is not None and not isinstance(value, bool):
        yield value
