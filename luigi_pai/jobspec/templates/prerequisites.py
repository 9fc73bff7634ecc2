"""Resolves ``require`` between prerequisites before a job is sent.

According to the proposal (OpenPAI's issue 5145) and the manual, the server resolves ``require``, but no
release does. This module

- adds each required name once to a role's ``prerequisites``, before the names that need it, and keeps the
  order of the other names;
- replaces ``containerStart`` and ``containerExit``, the proposal's names, with ``taskStarts`` and
  ``taskSucceeds``, the names that the releases know;
- replaces ``<% this.parameters.key %>`` with the value of that key in the same prerequisite;
- gives callbacks without a ``plugin`` the proposal's default, the cmd plugin, because the runtime
  ignores callbacks without a ``plugin``;
- ends the lines of commands with LF, because the shell does not understand CR LF.

``require`` itself stays in the document, because releases ignore it.
"""

from __future__ import annotations

import graphlib
import json
import re
from typing import TYPE_CHECKING, Any, Final

from luigi_pai.errors import SpecError
from luigi_pai.jobspec.dialects import mustache
from luigi_pai.jobspec.dialects.shell_text import with_line_feeds
from luigi_pai.jobspec.hints import nearest
from luigi_pai.jobspec.paths import item_of, list_of, mapped, mapping_of, strings, text_of
from luigi_pai.jobspec.schema_problems import Finding, stricter, warning

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from luigi_pai.jobspec.paths import Path

PLUGIN: Final = "com.microsoft.pai.runtimeplugin"
"""The key for runtime plugins in extras, and the prefix of a prerequisite's ``plugin``."""

CMD_PLUGIN: Final = f"{PLUGIN}.cmd"
"""The plugin that runs callbacks."""

_EVENTS = {"containerStart": "taskStarts", "containerExit": "taskSucceeds"}
"""Event name in OpenPAI's proposal (issue 5145) -> name in releases."""

_DOCKER_IMAGE = "dockerimage"
_PLACES = ("uri", "callbacks")
_NOT_REFERRED_TO = ("callbacks", "require", "plugin", "failurePolicy")
_OWN_REFERENCE = re.compile(r"<%\s*this\.(?P<name>[^%]*?)\s*%>")
_PREFIX = "parameters."
_EXPORTED = re.compile(r"(?:^|[;&|]\s*|\s)export\s+([A-Za-z_]\w*)=")
_SET = re.compile(r"(?:^|[;&|(\s])([A-Za-z_]\w*)=")
_USED = re.compile(r"\$\{?([A-Za-z_]\w*)")


def resolve(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy of a document with ``require`` resolved, or an equal copy if nothing needs resolving.

    Raises:
        SpecError: Prerequisites require each other in a circle, a required prerequisite is missing or is a
            dockerimage, or a prerequisite's reference to one of its own keys is invalid.
    """
    known = _Prerequisites(document)
    problems = list(_unresolvable(known))
    if problems:
        name = document.get("name")
        raise SpecError(name if isinstance(name, str) else "", [each.as_problem() for each in problems])
    resolved = dict(document)
    if known.listed:
        resolved["prerequisites"] = [_for_releases(each) for each in known.listed]
    if known.roles:
        resolved["taskRoles"] = {name: _resolved_role(role, known) for name, role in known.roles.items()}
    for field in ("taskRoles", "deployments"):
        if any("\r" in string for _, string in strings(resolved.get(field))):
            resolved[field] = mapped(resolved[field], _with_line_feeds)
    return resolved


def _with_line_feeds(value: Any) -> Any:
    return with_line_feeds(value) if isinstance(value, str) else value


def prerequisite_findings(document: Mapping[str, Any]) -> list[Finding]:
    """Return problems with ``require`` and callbacks, starting with those that make ``resolve`` fail.

    The server checks neither ``require`` nor callbacks. Parts that the server's schema rejects are skipped.
    """
    known = _Prerequisites(document)
    return [
        *_unresolvable(known),
        *_not_run(known),
        *_lost_variables(known),
    ]


class _Prerequisites:
    """A document's prerequisites by name, with their requirements.

    Two prerequisites of different types may have the same name. Like the runtime, this class ignores the type
    and uses the last prerequisite with a name.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.listed = list_of(document, "prerequisites")
        self.roles = mapping_of(document, "taskRoles")
        self.named: dict[str, list[int]] = {}
        for index, each in enumerate(self.listed):
            if (name := text_of(each, "name")) is not None:
                self.named.setdefault(name, []).append(index)

    def by_name(self, name: str) -> Mapping[str, Any]:
        """Return the prerequisite that the runtime uses for a name; empty if none exists."""
        found: Mapping[str, Any] = self.listed[self.named[name][-1]] if name in self.named else {}
        return found

    def required(self, name: str) -> list[str]:
        """Return the names that a prerequisite requires."""
        return [other for _, other in _names(self.by_name(name), "require")]

    def ordered(self, names: list[str]) -> list[str]:
        """Return the names and everything they require, dependencies first."""
        ordered: dict[str, None] = {}
        visited: set[str] = set()
        waiting = [(name, False) for name in reversed(names)]  # chains may be too long for recursion
        while waiting:
            name, is_ready = waiting.pop()
            if is_ready:
                ordered[name] = None
            elif name not in visited:
                visited.add(name)
                waiting.append((name, True))
                waiting += [(other, False) for other in reversed(self.required(name))]
        return list(ordered)

    def circle(self) -> list[str]:
        """Return a circle in the requirements, such as ``a, b, a``; empty if there is none."""
        needs = {name: self.required(name) for name in self.named}
        try:
            graphlib.TopologicalSorter(needs).prepare()
        except graphlib.CycleError as error:
            names: list[str] = error.args[1][:0:-1]
            start = names.index(min(names, key=list(self.named).index))
            return [*names[start:], *names[: start + 1]]
        return []


def _names(value: Any, key: str) -> list[tuple[int, str]]:
    """Return the strings in the list under a key, with their indexes."""
    return [(index, each) for index, each in enumerate(list_of(value, key)) if isinstance(each, str)]


def _prerequisites_of(role: Any) -> list[str]:
    return [name for _, name in _names(role, "prerequisites")]


# ---------------------------------------------------------------- resolved


def _for_releases(prerequisite: Any) -> Any:
    """Convert a prerequisite to the form that releases accept."""
    if not isinstance(prerequisite, dict) or prerequisite.get("type") == _DOCKER_IMAGE:
        return prerequisite
    sent = _fill_own_references(prerequisite)
    callbacks = sent.get("callbacks")
    if isinstance(callbacks, list) and callbacks:
        sent["callbacks"] = [_with_event_of_releases(each) for each in callbacks]
        sent.setdefault("plugin", CMD_PLUGIN)
    return sent


def _with_event_of_releases(callback: Any) -> Any:
    event = item_of(callback, "event")
    return {**callback, "event": _EVENTS.get(event, event)} if isinstance(event, str) else callback


def _resolved_role(role: Any, known: _Prerequisites) -> Any:
    written = _prerequisites_of(role)
    ordered = known.ordered(written)
    needed = set(ordered) - set(written)
    # The runtime runs a prerequisite as often as a role lists it, but ``ordered`` drops repetitions. Leave a
    # list without requirements unchanged, therefore.
    if not needed and (ordered == written or not any(map(known.required, written))):
        return role
    return {**role, "prerequisites": ordered}


# ---------------------------------------------------------------- problems


def _unresolvable(known: _Prerequisites) -> Iterator[Finding]:
    """Yield the problems that ``resolve`` raises; of several circles, only the first."""
    for index, each in enumerate(known.listed):
        if isinstance(each, dict):
            path: Path = ("prerequisites", index)
            for position, other in _names(each, "require"):
                yield from _requirement(other, (*path, "require", position), known)
            yield from _own_reference_findings(each, path)
    if circle := known.circle():
        yield stricter(
            ("prerequisites", known.named[circle[0]][-1], "require"),
            f"prerequisites require each other in a circle: {' -> '.join(circle)}; the server ignores "
            "'require', and would run them as they are listed; remove one of these requirements",
        )


def _requirement(name: str, path: Path, known: _Prerequisites) -> Iterator[Finding]:
    if name not in known.named:
        others = (other for other in known.named if known.by_name(other).get("type") != _DOCKER_IMAGE)
        yield stricter(
            path,
            f"there is no prerequisite {name!r}{nearest(name, others)}; the server ignores 'require', and "
            "would continue without it",
        )
    elif known.by_name(name).get("type") == _DOCKER_IMAGE:
        yield stricter(
            path,
            f"{name!r} is a dockerimage, so you cannot require it; set it as a role's dockerImage instead "
            "(the server ignores 'require')",
        )


def _not_run(known: _Prerequisites) -> Iterator[Finding]:
    """Yield a warning for each prerequisite whose callbacks never run."""
    run = {name for role in known.roles.values() for name in known.ordered(_prerequisites_of(role))}
    for index, each in enumerate(known.listed):
        name = text_of(each, "name")
        if name is None or name in run or item_of(each, "type") == _DOCKER_IMAGE or not each.get("callbacks"):
            continue
        message = f"these commands never run, because no role lists {name!r} in its prerequisites"
        yield warning(("prerequisites", index, "callbacks"), message)


def _lost_variables(known: _Prerequisites) -> Iterator[Finding]:
    """Yield a warning for each variable that a role's commands use but only a callback's shell exports."""
    for role, about in known.roles.items():
        commands = [command for _, command in _names(about, "commands")]
        used = {name for command in commands for name in _USED.findall(command)}
        used -= {name for command in commands for name in _SET.findall(command)}
        for path, name in _exported(known, known.ordered(_prerequisites_of(about))) if used else ():
            if name in used:
                yield warning(
                    path,
                    f"{name} is set only for these commands, which run in a separate shell; role {role!r} "
                    f"also uses it, and its commands fail with 'unbound variable': set it there",
                )


def _exported(known: _Prerequisites, names: Iterable[str]) -> Iterator[tuple[Path, str]]:
    """Yield (path of the command, variable) for each variable that prerequisites' callbacks export."""
    for name in names:
        for position, callback in enumerate(list_of(known.by_name(name), "callbacks")):
            for number, command in _names(callback, "commands"):
                path = ("prerequisites", known.named[name][-1], "callbacks", position, "commands", number)
                yield from ((path, variable) for variable in _EXPORTED.findall(command))


# ---------------------------------------------------------------- references to a prerequisite's own keys


def _fill_own_references(prerequisite: Mapping[str, Any]) -> dict[str, Any]:
    """Fill in the references in a prerequisite's callbacks and URI.

    A reference to a missing key stays unchanged.
    """

    def value_of(match: re.Match[str]) -> str:
        value = _look_up_own(match["name"], prerequisite)
        return match[0] if value is mustache.ABSENT else _as_string(value)

    def change(value: Any) -> Any:
        return _OWN_REFERENCE.sub(value_of, value) if isinstance(value, str) else value

    return {key: mapped(each, change) if key in _PLACES else each for key, each in prerequisite.items()}


def _own_reference_findings(prerequisite: Mapping[str, Any], path: Path) -> Iterator[Finding]:
    """Yield a problem for each invalid reference in the prerequisite at this path."""
    for reference_path, string in strings({key: prerequisite.get(key) for key in _PLACES}, path):
        for match in _OWN_REFERENCE.finditer(string):
            if message := _reference_problem(match["name"], prerequisite):
                message = f"<% this.{match['name']} %>: {message}; the server would not replace it"
                yield stricter(reference_path, message)


def _reference_problem(name: str, prerequisite: Mapping[str, Any]) -> str:
    if not name.startswith(_PREFIX):
        return f"write <% this.parameters.{name} %>"
    value = _look_up_own(name, prerequisite)
    if value is mustache.ABSENT:
        key = name.removeprefix(_PREFIX)
        known = [each for each in prerequisite if each not in _NOT_REFERRED_TO]
        return f"the prerequisite has no {key!r}{nearest(key, known)}"
    if _OWN_REFERENCE.search(_as_string(value)):
        return "this key's value contains a reference; write the value out"
    return ""


def _look_up_own(name: str, prerequisite: Mapping[str, Any]) -> Any:
    """Return the value of ``this.NAME``, or ``ABSENT``."""
    if not name.startswith(_PREFIX):
        return mustache.ABSENT
    return mustache.look_up(prerequisite, mustache.steps(name.removeprefix(_PREFIX)))


def _as_string(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
