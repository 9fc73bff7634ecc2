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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.spec import mustache
from luigi_pai.spec.schema_problems import Finding, Path, named_nearest, release_number
from luigi_pai.spec.yaml_text import path_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = [
    "MASK",
    "PLUGIN",
    "Reference",
    "entrypoints",
    "fill_secrets",
    "mask",
    "masked",
    "plugin_filled",
    "plugin_texts",
    "reference_findings",
    "references",
    "secret_values",
]

MASK: Final = "******"
"""What a server shows in place of secrets."""
PLUGIN: Final = "com.microsoft.pai.runtimeplugin"
"""The key of the runtime plugins in extras, and what a plugin prerequisite's ``plugin`` begins with."""

_NEWLINE_RELEASE = (0, 17)
"""The first release that joins commands by newline, and leaves secrets and what is unknown as written."""
_FIELDS: Final = ("script", "output", "data")
_KNOWN: Final = ("$parameters", "$secrets", "$script", "$output", "$data")
_PLUGIN_REFERENCE = re.compile(r"<%\s*\$([\s\S]*?)%>")
_RUNTIME_TAG = re.compile(r"<%([\s\S]+?)%>")


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

    @property
    def steps(self) -> list[str]:
        """The name's steps: ``$data.uri[0]`` -> ``["$data", "uri", "0"]``."""
        return mustache.steps(self.name)


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
    newer = release_number(release) >= _NEWLINE_RELEASE
    found: dict[str, str] = {}
    problems: list[Problem] = []
    for role, commands in _role_commands(document).items():
        try:
            found[role] = _rendered(_joined(commands, "\n" if newer else " && "), document, role, newer=newer)
        except mustache.TemplateError as error:
            path = path_text(("taskRoles", role, "commands"))
            problems.append(Problem(path, f"{error}; the server answers 500"))
    if problems:
        raise SpecError(str(document.get("name")), problems)
    return found


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
    for index, deployment in enumerate(_items(document, "deployments")):
        if name is not None and _get(deployment, "name") == name:
            return index, deployment
    return None


def _get(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None


def _items(value: Any, key: str) -> list[Any]:
    found = value.get(key) if isinstance(value, Mapping) else None
    return found if isinstance(found, list) else []


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
    for item in _items(document, "prerequisites"):
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

    view = {"$secrets": _as_the_runtime_has(secrets)}

    def filled(tag: re.Match[str]) -> str:
        name = tag.group(1).strip()
        bare = (
            name.removeprefix("&")
            if name[:1] == "&"
            else name[1:-1]
            if name[:1] + name[-1:] == "{}"
            else None
        )
        value = _secret(view, name if bare is None else bare.strip())
        shown = "" if value is mustache.ABSENT else value if isinstance(value, str) else str(value)
        return html.escape(shown, quote=True) if escape and bare is None else shown

    return _replaced(_RUNTIME_TAG, filled, text)


def _replaced(tag: re.Pattern[str], filled: Callable[[re.Match[str]], str], text: str) -> str:
    """Return a text with its tags filled in; what follows the last end of a tag is not looked at."""
    end = text.rfind("%>") + len("%>") if "%>" in text else 0
    return tag.sub(filled, text[:end]) + text[end:]


def _as_the_runtime_has(value: Any) -> Any:
    """Return secrets with each list as a mapping of its indexes, but for what is in a list."""
    if isinstance(value, list):
        return {str(index): item for index, item in enumerate(value)}
    return (
        {key: _as_the_runtime_has(item) for key, item in value.items()} if isinstance(value, dict) else value
    )


def _secret(view: Mapping[str, Any], name: str) -> Any:
    """Return what the runtime finds under a name, or ``ABSENT``."""
    value: Any = view
    for step in mustache.steps(name) if name != "." else ():
        value = value.get(step, mustache.ABSENT) if isinstance(value, dict) else mustache.ABSENT
    return value


def masked(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a document in which every value under ``secrets`` and ``auth`` is ``******``.

    References among them stay, for they say no secret.
    """
    copy = dict(document)
    if "secrets" in copy:
        copy["secrets"] = _masked_value(copy["secrets"])
    prerequisites = copy.get("prerequisites")
    if isinstance(prerequisites, list):
        copy["prerequisites"] = [
            {**item, "auth": _masked_value(item["auth"])}
            if isinstance(item, dict) and "auth" in item
            else item
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
    for item in _items(document, "prerequisites"):
        values.update(_leaves(_get(item, "auth")))
    shown = sorted({mustache.javascript_text(value) for value in values} - {""}, key=len, reverse=True)
    secret = [value for value in shown if not value.lstrip().startswith("<%")]
    return re.sub("|".join(map(re.escape, secret)), MASK, text) if secret else text


def secret_values(document: Mapping[str, Any]) -> Iterator[Any]:
    """Yield every value under ``secrets``, and every password of an ``auth`` that is no reference."""
    yield from _leaves(document.get("secrets"))
    for item in _items(document, "prerequisites"):
        password = _get(_get(item, "auth"), "password")
        if not (isinstance(password, str) and password.lstrip().startswith("<%")):
            yield from _leaves(password)


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _leaves(item)
    elif value is not None and not isinstance(value, bool):
        yield value


# ---------------------------------------------------------------- references


def references(document: Mapping[str, Any]) -> list[Reference]:
    """Return every reference that somebody would fill in, with the path of the text that it stands in.

    They stand in the commands of roles (with those of the default deployment), in
    the ``auth`` of Docker images, and in the parameters of runtime plugins.
    Commands with a tag that is not closed have none.
    """
    found: list[Reference] = []
    for role, commands in _role_commands(document).items():
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
    for piece in mustache.parse(_joined(commands, "\n")):
        if isinstance(piece, mustache.Tag):
            yield Reference(_command_at(commands, piece.at), piece.value, role=role, kind=piece.kind)


def _command_at(commands: list[tuple[Path, str]], offset: int) -> Path:
    """Return the path of the command in which an offset of the joined text lies."""
    end = 0
    for path, command in commands:
        end += len(command.strip(mustache.SPACES)) + 1
        if offset < end:
            return path
    return commands[-1][0]


def _auth_texts(document: Mapping[str, Any]) -> Iterator[tuple[Path, str]]:
    for index, item in enumerate(_items(document, "prerequisites")):
        auth = _get(item, "auth")
        for key, text in auth.items() if isinstance(auth, dict) else ():
            if isinstance(text, str) and _get(item, "type") == "dockerimage":
                yield ("prerequisites", index, "auth", key), text


def plugin_texts(document: Mapping[str, Any]) -> Iterator[tuple[list[str], Path, str]]:
    """Yield each text among the parameters of runtime plugins: for which roles, its path, the text."""
    declared = document.get("taskRoles")
    roles = declared if isinstance(declared, dict) else {}
    for index, item in enumerate(_items(document, "prerequisites")):
        if not isinstance(item, dict) or not _is_run(item):
            continue
        users = [name for name, role in roles.items() if item.get("name") in _items(role, "prerequisites")]
        parameters = {key: item[key] for key in item if key not in ("plugin", "failurePolicy", "type")}
        for path, text in _texts(parameters, ("prerequisites", index)):
            yield users, path, text
    for index, plugin in enumerate(_items(document.get("extras"), PLUGIN)):
        named = _get(plugin, "taskroles")
        users = [name for name in roles if not isinstance(named, list) or name in named]
        for path, text in _texts(_get(plugin, "parameters"), ("extras", PLUGIN, index, "parameters")):
            yield users, path, text


def _is_run(prerequisite: Mapping[str, Any]) -> bool:
    """Return whether the runtime runs it; callbacks without a plugin get one before they are sent."""
    plugin = prerequisite.get("plugin", PLUGIN if prerequisite.get("callbacks") else None)
    return isinstance(plugin, str) and plugin.startswith(PLUGIN)


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _texts(item, (*path, key))


def reference_findings(document: Mapping[str, Any]) -> list[Finding]:
    """Return what is wrong with the references of a document.

    A tag that is not closed makes the server fail. Whatever else is wrong the server
    takes, and the command then holds the reference, or nothing in its place.
    """
    found: list[Finding | None] = []
    for commands in _role_commands(document).values():
        try:
            mustache.parse(_joined(commands, "\n"))
        except mustache.TemplateError as error:
            found.append(Finding(_command_at(commands, error.at), f"{error}; the server answers 500"))
    for path, text in _auth_texts(document):
        try:
            mustache.parse(text)
        except mustache.TemplateError:
            found.append(Finding(path, "has a tag that is not closed; the server answers 500"))
    found += [_reference_finding(reference, document) for reference in references(document)]
    return list(dict.fromkeys(filter(None, found)))


def _reference_finding(reference: Reference, document: Mapping[str, Any]) -> Finding | None:
    if reference.kind == "!":
        return None
    if reference.role is None and not reference.plugin and not reference.name.startswith("$"):
        what = "has a tag that refers to no secret"  # whatever else stands in an account is not shown
        return Finding(reference.path, f"{what}; {_consequence(reference, document)}", Level.STRICTER)
    if reference.kind != "name":
        what = f"the tag <%{reference.kind} {reference.name} %> is no reference"
        then = "servers take it and drop it, with what it encloses"
        return Finding(reference.path, f"{what}; {then}", Level.STRICTER)
    first, *rest = reference.steps
    if first not in _KNOWN:
        return _unknown_kind(reference, document)
    wrong = _wrong(reference, first, rest, document)
    if wrong is None:
        return None
    what = f"<% {reference.name} %>: {wrong}; {_consequence(reference, document)}"
    return Finding(reference.path, what, Level.STRICTER)


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
        return "servers take it, and every task fails when it starts"
    if reference.role is not None and document.get("secrets"):
        return "servers take it, and the command has nothing in its place"
    where = "the account" if reference.role is None else "the command"
    return f"servers take it, and {where} has the reference as it is written"


def _wrong(reference: Reference, first: str, rest: list[str], document: Mapping[str, Any]) -> str | None:
    """Return what is wrong with a reference to something known, or None."""
    if reference.role is None and first != "$secrets":
        return "only $secrets can stand here"
    if first in ("$parameters", "$secrets"):
        value: Any = document.get(first[1:], mustache.ABSENT)
        if value is mustache.ABSENT:
            return f"the job has no {first[1:]}"
        if not isinstance(value, dict):
            return None  # the schema says what is wrong
    else:
        value = _view(document, reference.role or "")[first]
        if value is mustache.ABSENT:
            return f"the role {reference.role} has no {first[1:]}"
    reached = first
    for step in rest:
        lower = _step(value, step, lists_only=first == "$secrets" or reference.plugin)
        if lower is mustache.ABSENT:
            return _nothing_there(reached, value, step)
        value, reached = lower, f"{reached}.{step}"
    return _unfit(reference, value)


def _step(value: Any, step: str, *, lists_only: bool) -> Any:
    """Return what a step leads to; the runtime knows no ``length`` and no characters of a text."""
    if lists_only and (isinstance(value, str) or (isinstance(value, list) and step == "length")):
        return mustache.ABSENT
    return mustache.look_up(value, [step])


def _nothing_there(reached: str, value: Any, step: str) -> str:
    if isinstance(value, dict):
        names = [str(name) for name in value]
        near = difflib.get_close_matches(step, names, n=1)
        if near:
            return f"there is no {step} in {reached}, did you mean {near[0]}?"
        return f"there is no {step} in {reached}" + (f", only {', '.join(names)}" if names else "")
    if isinstance(value, list):
        return f"{reached} has {len(value)} entries, counted from 0"
    return f"{reached} has no parts"


def _unfit(reference: Reference, value: Any) -> str | None:
    """Return why a value is none that a text can hold, or None."""
    if value is None:
        return "it is null"
    if reference.plugin:
        return (
            None if isinstance(value, str) else "in the parameters of a plugin it must be a string, in quotes"
        )
    if isinstance(value, dict) or (
        isinstance(value, list) and "[object Object]" in mustache.javascript_text(value)
    ):
        return "it is a mapping, not a text"
    return None


def plugin_filled(text: str, document: Mapping[str, Any], role: str) -> str | None:
    """Return a text of a plugin's parameters with its references filled in, or None where one cannot be."""
    missing = False

    def filled(tag: re.Match[str]) -> str:
        nonlocal missing
        reference = Reference((), f"${tag.group(1).rstrip()}", role=role, plugin=True)
        first, *rest = reference.steps
        view = {"$secrets": document.get("secrets"), **_view(document, role)}
        value = mustache.look_up(view, [first, *rest])
        missing = missing or not isinstance(value, str)
        return value if isinstance(value, str) else ""

    result = _replaced(_PLUGIN_REFERENCE, filled, text)
    return None if missing else result
