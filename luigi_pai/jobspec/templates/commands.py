"""Renders a job protocol's commands as the rest-server does.

The server fills in ``<% $parameters %>``, ``$script``, ``$output`` and ``$data``; the runtime fills in
``$secrets``. Servers up to 0.16 also fill in the secrets, and join commands with ``&&`` instead of line
breaks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from luigi_pai.errors import Problem, SpecError
from luigi_pai.jobspec.dialects import mustache
from luigi_pai.jobspec.dialects.javascript_text import javascript_text
from luigi_pai.jobspec.paths import Path, item_of, list_of, mapping_of, path_text, text_of

if TYPE_CHECKING:
    from collections.abc import Mapping

_FIELDS: Final = ("script", "output", "data")


def entrypoints(document: Mapping[str, Any]) -> dict[str, str]:
    """Return each role's command, rendered as on rest-servers of 0.17 and later.

    Args:
        document: A valid job protocol.

    Returns:
        Role -> command, in the order of the document.

    Raises:
        SpecError: A tag is not closed. The server would respond with 500 to such a job.
    """
    found: dict[str, str] = {}
    problems: list[Problem] = []
    views = Views(document)
    for role, commands in role_commands(document).items():
        try:
            found[role] = entrypoint(commands, views.of(role))
        except mustache.TemplateError as error:
            path = path_text(("taskRoles", role, "commands"))
            problems.append(Problem(path, f"{error}; the server responds with 500"))
    if problems:
        raise SpecError(str(document.get("name")), problems)
    return found


def entrypoint(commands: list[tuple[Path, str]], view: Mapping[str, Any]) -> str:
    """Return the single command that the rest-server renders from a role's commands.

    ``view`` contains the values that the role's references can refer to (see ``Views.of``). References to
    secrets and to names without a value are not replaced.

    Raises:
        TemplateError: A tag is not closed.
    """
    view = {key: value for key, value in view.items() if key != "$secrets"}
    parts = []
    template = "\n".join(command.strip(mustache.SPACES) for _, command in commands)
    for piece in mustache.parse(template):
        if isinstance(piece, str):
            parts.append(piece)
        elif piece.kind == "name":
            path = mustache.steps(piece.value)
            value = mustache.look_up(view, path)
            unknown = value is mustache.ABSENT or value is None
            parts.append(f"<% {'.'.join(path)} %>" if unknown else javascript_text(value))
    return "".join(parts).strip(mustache.SPACES)


def role_commands(document: Mapping[str, Any]) -> dict[str, list[tuple[Path, str]]]:
    """Return role -> (path, command) pairs. The default deployment's commands surround the role's own."""
    around = _default_deployment(document)
    found: dict[str, list[tuple[Path, str]]] = {}
    for name, role in mapping_of(document, "taskRoles").items():
        lists: list[tuple[Path, Any]] = [(("taskRoles", name, "commands"), item_of(role, "commands"))]
        if around is not None:
            index, deployment = around
            path: Path = ("deployments", index, "taskRoles", name)
            more = item_of(item_of(deployment, "taskRoles"), name)
            lists.insert(0, ((*path, "preCommands"), item_of(more, "preCommands")))
            lists.append(((*path, "postCommands"), item_of(more, "postCommands")))
        found[name] = [
            ((*path, index), command)
            for path, commands in lists
            if isinstance(commands, list)
            for index, command in enumerate(commands)
            if isinstance(command, str)
        ]
    return found


def _default_deployment(document: Mapping[str, Any]) -> tuple[int, Any] | None:
    name = item_of(document.get("defaults"), "deployment")
    for index, deployment in enumerate(list_of(document, "deployments")):
        if name is not None and item_of(deployment, "name") == name:
            return index, deployment
    return None


class Views:
    """The values that references in each role's commands can refer to."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._document = document
        self._named: dict[tuple[str, str | None], Any] = {}  # (type, name) -> the first matching prerequisite
        for item in list_of(document, "prerequisites"):
            kind, name = text_of(item, "type"), text_of(item, "name")
            if kind is not None and name is not None:
                self._named.setdefault((kind, name), item)

    def of(self, role: str) -> dict[str, Any]:
        """Return a role's values of ``$parameters``, ``$secrets``, ``$script``, ``$output`` and ``$data``."""
        about = item_of(self._document.get("taskRoles"), role)
        view = {f"${key}": self._document.get(key, mustache.ABSENT) for key in ("parameters", "secrets")}
        for field in _FIELDS:
            found = self._named.get((field, text_of(about, field)))
            view[f"${field}"] = mustache.ABSENT if found is None else found
        return view
