"""Every problem of a job protocol at once, each with its path and line, before anything is sent.

Three sources: the schema (``schemas/protocol.v2.json``), the rules here that
concern more than one field, and the references (``template``). A problem is
REFUSED where the rest-server of 1.8 refuses the document, STRICTER where it
takes it and something breaks later.
"""

from __future__ import annotations

import dataclasses
import re
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, Problem, SpecError
from luigi_pai.spec.plugin_texts import plugin_text_problems
from luigi_pai.spec.prerequisites import prerequisite_problems
from luigi_pai.spec.schema_problems import (
    LONGEST_SHOWN,
    named_nearest,
    path_text,
    release_number,
    schema_problems,
)
from luigi_pai.spec.template import PLUGIN, entrypoints, reference_problems, references
from luigi_pai.spec.validate import folded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from luigi_pai.spec.protocol import JobProtocol

__all__ = ["check_protocol", "refused", "validate_protocol"]

Path = tuple["str | int", ...]

_LARGEST_BODY = 100 * 1024  # bytes, of the rest-server's body parser
_HTML = re.compile("[&<>\"']")
_TYPES = {"dockerImage": "dockerimage", "data": "data", "output": "output", "script": "script"}
_FREE_FIELDS = (1, 6)
"""The first release that takes further fields, and no uri, in script, data and output."""


def check_protocol(protocol: JobProtocol, further: Iterable[Problem] = ()) -> None:
    """Refuse a job protocol that cannot run.

    Args:
        protocol: the protocol, as it will be sent.
        further: problems that were found elsewhere.

    Raises:
        SpecError: with every problem that a server refuses or breaks on.
    """
    document = protocol.to_dict()
    size = len(protocol.to_yaml().encode("utf-8", "surrogatepass"))
    problems = refused([*validate_protocol(document, lines=protocol.lines, size=size), *further])
    if problems:
        raise SpecError(str(document.get("name")), problems)


def refused(problems: Iterable[Problem], *, lenient: bool = False) -> list[Problem]:
    """Return the problems that keep a job from being sent.

    Args:
        problems: what ``validate_protocol`` found.
        lenient: only those that the server itself refuses.
    """
    counting = (Level.REFUSED,) if lenient else (Level.REFUSED, Level.STRICTER)
    return [problem for problem in problems if problem.level in counting]


def validate_protocol(
    document: Any,
    *,
    lines: Mapping[Path, int] | None = None,
    size: int | None = None,
    release: str | None = None,
) -> list[Problem]:
    """Find every problem of a job protocol.

    Args:
        document: the protocol, as JSON would hold it.
        lines: path -> line, from ``read_yaml``; None where there is no text.
        size: how many bytes will be sent; None if that is not known.
        release: the release of the cluster, such as ``1.5.0``: also what it refuses that came later.
            None: any release that takes the document.

    Returns:
        the problems in the order of the document; empty when there is none.
    """
    number = release_number(release) if release is not None else None
    problems = list(schema_problems(document, "protocol.v2", _shown, number))
    if isinstance(document, dict):
        problems += _relations(document, number)
        problems += prerequisite_problems(document)
        problems += reference_problems(document)
        problems += plugin_text_problems(document)
    if size is not None and size > _LARGEST_BODY:
        problems.append(Problem("", f"has {size:,} bytes; servers take at most {_LARGEST_BODY:,}"))
    return _in_order(_without_echoes(problems), document, lines or {})


# ---------------------------------------------------------------- how problems are shown


def _shown(value: Any, path: list[Any]) -> str:
    """Return a value as YAML's words have it: short, and never one that may be a secret."""
    if isinstance(value, dict | list):
        kind = "mapping" if isinstance(value, dict) else "list"
        return f"a {kind}" if value else f"an empty {kind}"
    if value is None:
        return "null"
    if not path or path[0] == "secrets" or "auth" in path:
        return f"a value of type {type(value).__name__}"
    text = str(value).lower() if isinstance(value, bool) else repr(value)
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}..."


def _without_echoes(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield each problem once, and nothing more of a field that is refused already by its schema."""
    found = list(dict.fromkeys(problems))
    hard = {problem.path for problem in found if problem.level is Level.REFUSED}
    for problem in found:
        if problem.level is Level.REFUSED or problem.path not in hard:
            yield problem


def _in_order(problems: Iterable[Problem], document: Any, lines: Mapping[Path, int]) -> list[Problem]:
    """Return the problems in the document's order, with the lines of their fields or of what should hold them."""
    places = {path_text(path): (place, path) for place, path in enumerate(_paths(document, ()))}

    def placed(problem: Problem) -> tuple[int, Problem]:
        text = problem.path
        while text not in places:
            text = text[: max(text.rfind("."), text.rfind("["), 0)]
        place, path = places[text]
        while path and path not in lines:
            path = path[:-1]
        return place, dataclasses.replace(problem, line=lines.get(path)) if text else problem

    return [problem for _, problem in sorted(map(placed, problems), key=lambda pair: pair[0])]


def _paths(value: Any, path: Path) -> Iterator[Path]:
    yield path
    if isinstance(value, dict | list):
        for key, item in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _paths(item, (*path, key))


# ---------------------------------------------------------------- rules of more than one field


def _mapping(value: Any, key: str | None = None) -> dict[str, Any]:
    """Return a value, or what stands under its key, if that is a mapping; else an empty one."""
    if key is not None:
        value = _mapping(value).get(key)
    return value if isinstance(value, dict) else {}


def _list(value: Any, key: str) -> list[Any]:
    found = _mapping(value).get(key)
    return found if isinstance(found, list) else []


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _relations(document: Mapping[str, Any], release: tuple[int, ...] | None) -> Iterator[Problem]:
    yield from _same_names(document)
    yield from _accounts(document)
    if release is not None and release < _FREE_FIELDS:
        yield from _before_free_fields(document)
    yield from _secret_values(document)
    yield from _roles(document)
    yield from _deployments(document)
    yield from _extras(document)


def _same_names(document: Mapping[str, Any]) -> Iterator[Problem]:
    for field in ("prerequisites", "deployments"):
        seen: dict[Any, int] = {}
        for index, item in enumerate(_list(document, field)):
            name, kind = _mapping(item).get("name"), _mapping(item).get("type")
            if not isinstance(name, str):
                continue
            key = (name, kind if field == "prerequisites" and isinstance(kind, str) else None)
            if key in seen:
                of_type = f", which is a {kind} too" if field == "prerequisites" else " too"
                yield Problem(
                    f"{field}[{index}].name", f"{name!r} is the name of {field}[{seen[key]}]{of_type}"
                )
            seen.setdefault(key, index)


def _accounts(document: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the values under ``auth`` that the server cannot read references in."""
    for index, item in enumerate(_list(document, "prerequisites")):
        for key, value in _mapping(item, "auth").items():
            if key not in ("username", "password", "registryuri") and value and not isinstance(value, str):
                yield Problem(f"prerequisites[{index}].auth.{key}", "is not a string; the server answers 500")


def _before_free_fields(document: Mapping[str, Any]) -> Iterator[Problem]:
    known = ("name", "type", "uri", "protocolVersion", "version", "contributor", "description")
    later = ("plugin", "require", "failurePolicy", "callbacks")  # the schema has them
    for index, item in enumerate(_list(document, "prerequisites")):
        about = _mapping(item)
        if about.get("type") not in ("script", "output", "data"):
            continue
        path = f"prerequisites[{index}]"
        if "uri" not in about:
            yield Problem(f"{path}.uri", "is missing; servers before release 1.6 refuse a prerequisite without it")
        for key in about:
            if key not in known and key not in later:
                yield Problem(
                    f"{path}.{key}", "is not a field before release 1.6; those servers refuse what they do not know"
                )


def _secret_values(document: Mapping[str, Any]) -> Iterator[Problem]:
    in_commands = {
        reference.steps[1]
        for reference in references(document)
        if reference.role is not None
        and not reference.plugin
        and reference.steps[0] == "$secrets"
        and len(reference.steps) > 1
    }
    for key, value in _mapping(document, "secrets").items():
        for path, leaf in _leaves(value, f"secrets.{key}"):
            if isinstance(leaf, str) and _HTML.search(leaf) and key in in_commands:
                yield Problem(
                    path,
                    "has one of the characters & < > \" ' and is used in a command: the runtime of releases 0.17 "
                    "to 1.8 writes them there as HTML does (&amp; for &); encode the secret, with base64 for "
                    "instance, and decode it in the command",
                    Level.WARNING,
                )
            elif leaf is None or isinstance(leaf, bool | float):
                yield Problem(
                    path,
                    f"is a value of type {type(leaf).__name__}, not a string; servers take it, and it arrives as "
                    "Python writes it (True, None, 1e+21); put it in quotes",
                    Level.STRICTER,
                )


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}")
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, value


# ---------------------------------------------------------------- task roles


def _roles(document: Mapping[str, Any]) -> Iterator[Problem]:
    gang = _mapping(document, "extras").get("gangAllocation") is not False
    seen: dict[str, str] = {}
    for name, value in _mapping(document, "taskRoles").items():
        role, path = _mapping(value), f"taskRoles.{name}"
        yield from _role_name(path, name, seen)
        seen.setdefault(folded(name), name)
        yield from _used_prerequisites(path, role, document)
        yield from _counts(path, role)
        if "instances" not in role and role:
            yield Problem(
                f"{path}.instances",
                "is missing; the schema of servers would take it, and release 1.8 then answers 500; write instances: 1",
                Level.STRICTER,
            )
        if gang and role.get("taskRetryCount"):
            yield Problem(
                f"{path}.taskRetryCount",
                "has no effect unless extras.gangAllocation is false; jobRetryCount retries the whole job",
                Level.WARNING,
            )
        yield from _blank(path, role, name, document)


def _role_name(path: str, name: str, seen: Mapping[str, str]) -> Iterator[Problem]:
    short = folded(name)
    if short in seen:
        yield Problem(
            path,
            f"{name!r} and {seen[short]!r} are the same role to servers, which fold names to {short!r}; they take "
            "both and run neither rightly; give one of them another name",
            Level.STRICTER,
        )
    elif short != name:
        yield Problem(
            path,
            f"{name!r} has capitals or '_'; servers take it and fold it to {short!r}, and the runtime then finds no "
            "such role: every task fails when it starts",
            Level.STRICTER,
        )


def _used_prerequisites(path: str, role: Mapping[str, Any], document: Mapping[str, Any]) -> Iterator[Problem]:
    by_type: dict[str, list[str]] = {kind: [] for kind in _TYPES.values()}
    for item in _list(document, "prerequisites"):
        name, kind = _mapping(item).get("name"), _mapping(item).get("type")
        if isinstance(name, str) and isinstance(kind, str) and kind in by_type:
            by_type[kind].append(name)
    for field, kind in _TYPES.items():
        name = role.get(field)
        if isinstance(name, str) and name not in by_type[kind]:
            yield Problem(f"{path}.{field}", _no_such(f"prerequisite {name!r} of type {kind}", name, by_type[kind]))
    every = [name for names in by_type.values() for name in names]
    for index, name in enumerate(_list(role, "prerequisites")):
        if not isinstance(name, str):
            continue
        if name not in every:
            yield Problem(f"{path}.prerequisites[{index}]", _no_such(f"prerequisite {name!r}", name, every))
        elif every.count(name) > 1:
            yield Problem(
                f"{path}.prerequisites[{index}]",
                f"{name!r} is the name of {every.count(name)} prerequisites of different types; servers take it, and "
                "the runtime knows only the last of them",
                Level.STRICTER,
            )


def _no_such(what: str, name: str, known: list[str]) -> str:
    return f"there is no {what}; {named_nearest(name, dict.fromkeys(known))}" if known else f"there is no {what}"


def _counts(path: str, role: Mapping[str, Any]) -> Iterator[Problem]:
    instances = role.get("instances", 1)
    for field in ("minFailedInstances", "minSucceededInstances"):
        count = _mapping(role, "completion").get(field)
        if _is_int(count) and _is_int(instances) and count > instances >= 1:
            yield Problem(
                f"{path}.completion.{field}",
                f"{count} is more than instances, {instances}; servers take it, and it is never reached: write -1 "
                "for never",
                Level.STRICTER,
            )
    memory, shm = (
        _mapping(role, "resourcePerInstance").get("memoryMB"),
        _mapping(role, "extraContainerOptions").get("shmMB"),
    )
    if _is_int(memory) and _is_int(shm) and shm > memory >= 1:
        yield Problem(
            f"{path}.extraContainerOptions.shmMB",
            f"{shm} is more than memoryMB, {memory}; shared memory is part of it: a task that uses so much is killed",
            Level.WARNING,
        )


def _blank(path: str, role: Mapping[str, Any], name: str, document: Mapping[str, Any]) -> Iterator[Problem]:
    commands = role.get("commands")
    if not isinstance(commands, list) or not commands or not all(isinstance(item, str) for item in commands):
        return
    try:
        command = entrypoints({**document, "taskRoles": {name: role}})[name]
    except SpecError:
        return  # reference_problems says so
    if not command:
        yield Problem(
            f"{path}.commands", "are blank; servers take them, and every task ends at once", Level.STRICTER
        )


# ---------------------------------------------------------------- deployments and extras


def _deployments(document: Mapping[str, Any]) -> Iterator[Problem]:
    deployments = _list(document, "deployments")
    names = [_mapping(item).get("name") for item in deployments]
    chosen = _mapping(document, "defaults").get("deployment")
    if isinstance(chosen, str) and chosen not in names:
        known = [name for name in names if isinstance(name, str)]
        yield Problem("defaults.deployment", _no_such(f"deployment {chosen!r}", chosen, known))
    for index, item in enumerate(deployments):
        for role in _mapping(item, "taskRoles"):
            yield from _unknown_role(f"deployments[{index}].taskRoles.{role}", role, document, "its commands never run")


def _unknown_role(path: str, role: Any, document: Mapping[str, Any], then: str) -> Iterator[Problem]:
    known = list(_mapping(document, "taskRoles"))
    if isinstance(role, str) and known and role not in known:
        yield Problem(
            path, f"there is no task role {role!r}; {named_nearest(role, known)}; servers take it, and {then}", Level.STRICTER
        )


def _extras(document: Mapping[str, Any]) -> Iterator[Problem]:
    extras = _mapping(document, "extras")
    for index, plugin in enumerate(_list(extras, PLUGIN)):
        path = f"extras.{PLUGIN}[{index}]"
        for position, role in enumerate(_list(plugin, "taskroles")):
            yield from _unknown_role(f"{path}.taskroles[{position}]", role, document, "the plugin does not run for it")
        jobssh = _mapping(plugin, "parameters").get("jobssh")
        if (
            _mapping(plugin).get("plugin") == "ssh"
            and jobssh in (True, "true")
            and extras.get("gangAllocation") is False
        ):
            yield Problem(
                f"{path}.parameters.jobssh", "has no effect while extras.gangAllocation is false", Level.WARNING
            )
    for role in _mapping(_mapping(extras, "hivedScheduler"), "taskRoles"):
        yield from _unknown_role(
            f"extras.hivedScheduler.taskRoles.{role}", role, document, "those with HiveD refuse it"
        )
    yield from _mounts(extras)


def _mounts(extras: Mapping[str, Any]) -> Iterator[Problem]:
    names: dict[str, int] = {}
    mounts: dict[str, int] = {}
    for index, item in enumerate(_list(extras, "storages")):
        name = _mapping(item).get("name")
        mount = _mapping(item).get("mountPath") or f"/mnt/{name}"
        if not isinstance(name, str) or not isinstance(mount, str):
            continue
        for field, value, seen in (("name", name, names), ("mountPath", mount, mounts)):
            if value in seen:
                yield Problem(
                    f"extras.storages[{index}].{field}",
                    f"{value!r} is the {field} of storages[{seen[value]}] too; servers take it, and Kubernetes makes no "
                    "container of it",
                    Level.STRICTER,
                )
            seen.setdefault(value, index)
