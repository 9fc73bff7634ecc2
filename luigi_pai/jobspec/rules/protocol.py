"""Rules about several fields of a job protocol, which a schema cannot express."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import yaml

from luigi_pai.jobspec.hints import nearest
from luigi_pai.jobspec.paths import is_int, leaves, list_of, mapping_of
from luigi_pai.jobspec.rules.endings import protocol_ending_findings
from luigi_pai.jobspec.rules.texts import command_findings, image_findings
from luigi_pai.jobspec.schema_problems import Finding, stricter, warning
from luigi_pai.jobspec.templates.commands import role_commands
from luigi_pai.jobspec.templates.prerequisites import PLUGIN
from luigi_pai.jobspec.templates.references import plugin_texts, references

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from luigi_pai.jobspec.paths import Path

_HTML = re.compile("[&<>\"']")
_TYPES = {"dockerImage": "dockerimage", "data": "data", "output": "output", "script": "script"}


def rule_findings(document: Mapping[str, Any], release: tuple[int, ...] | None = None) -> Iterator[Finding]:
    """Yield the violations of these rules, in no order; parts that the schema refuses are ignored.

    ``release`` is the cluster's release, as from ``release_number``; None if it is not known.
    """
    yield from _same_names(document)
    yield from _images(document)
    yield from _secret_values(document)
    yield from _roles(document, release)
    yield from _deployments(document)
    yield from _extras(document)
    yield from _plugin_texts(document)


def _same_names(document: Mapping[str, Any]) -> Iterator[Finding]:
    for field in ("prerequisites", "deployments"):
        seen: dict[Any, int] = {}
        for index, item in enumerate(list_of(document, field)):
            name, kind = mapping_of(item).get("name"), mapping_of(item).get("type")
            if not isinstance(name, str):
                continue
            key = (name, kind if field == "prerequisites" and isinstance(kind, str) else None)
            first = seen.setdefault(key, index)
            if first != index:
                of_type = f", which is a {kind} too" if field == "prerequisites" else " too"
                yield Finding((field, index, "name"), f"{name!r} is the name of {field}[{first}]{of_type}")


def _images(document: Mapping[str, Any]) -> Iterator[Finding]:
    for index, item in enumerate(list_of(document, "prerequisites")):
        if mapping_of(item).get("type") == "dockerimage":
            yield from image_findings(("prerequisites", index, "uri"), mapping_of(item).get("uri"))


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
        yield from _counts(path, role)
        if gang and role.get("taskRetryCount"):
            yield warning(
                (*path, "taskRetryCount"),
                "has no effect unless extras.gangAllocation is false; jobRetryCount retries the whole job",
            )
        if list_of(role, "commands") and not any(text.strip() for _, text in commands[name]):
            message = "are blank; servers accept them, and every task ends at once"
            yield stricter((*path, "commands"), message)
        yield from command_findings(commands[name], references=True)
        yield from protocol_ending_findings(name, commands[name], release)


def _names_by_type(document: Mapping[str, Any]) -> dict[str, dict[str, None]]:
    """Return, for each type of prerequisite to which roles may refer, the names of these prerequisites."""
    by_type: dict[str, dict[str, None]] = {kind: {} for kind in _TYPES.values()}
    for item in list_of(document, "prerequisites"):
        name, kind = mapping_of(item).get("name"), mapping_of(item).get("type")
        if isinstance(name, str) and isinstance(kind, str) and kind in by_type:
            by_type[kind][name] = None
    return by_type


def _used_prerequisites(
    path: Path, role: Mapping[str, Any], known: Mapping[str, Mapping[str, None]]
) -> Iterator[Finding]:
    for field, kind in _TYPES.items():
        name = role.get(field)
        if isinstance(name, str) and name not in known[kind]:
            what = f"prerequisite {name!r} of type {kind}"
            is_image = kind == "dockerimage" and {*name} & {"/", ":"}
            advice = f"; add {{name: image, type: {kind}, uri: {name!r}}}, and write dockerImage: image"
            yield Finding((*path, field), _no_such(what, name, known[kind]) + (advice if is_image else ""))
    for index, name in enumerate(list_of(role, "prerequisites")):
        if isinstance(name, str) and not any(name in names for names in known.values()):
            every = [other for names in known.values() for other in names]
            what = _no_such(f"prerequisite {name!r}", name, every)
            yield Finding((*path, "prerequisites", index), what)


def _no_such(what: str, name: str, known: Iterable[str]) -> str:
    return f"there is no {what}{nearest(name, dict.fromkeys(known))}"


def _counts(path: Path, role: Mapping[str, Any]) -> Iterator[Finding]:
    instances = role.get("instances", 1)
    for field in ("minFailedInstances", "minSucceededInstances"):
        count = mapping_of(role, "completion").get(field)
        if is_int(count) and is_int(instances) and count > instances >= 1:
            yield stricter(
                (*path, "completion", field),
                f"{count} is more than instances, {instances}; servers accept it, and it is never reached: "
                "write -1 for never",
            )
    memory = mapping_of(role, "resourcePerInstance").get("memoryMB")
    shm = mapping_of(role, "extraContainerOptions").get("shmMB")
    if is_int(memory) and is_int(shm) and shm > memory >= 1:
        yield warning(
            (*path, "extraContainerOptions", "shmMB"),
            f"{shm} is more than memoryMB, {memory}; shared memory is part of it, and a task that uses so "
            "much is killed",
        )


# ---------------------------------------------------------------- deployments and extras


def _deployments(document: Mapping[str, Any]) -> Iterator[Finding]:
    deployments = list_of(document, "deployments")
    names = [mapping_of(item).get("name") for item in deployments]
    chosen = mapping_of(document, "defaults").get("deployment")
    if isinstance(chosen, str) and chosen not in names:
        known = [name for name in names if isinstance(name, str)]
        yield Finding(("defaults", "deployment"), _no_such(f"deployment {chosen!r}", chosen, known))
    for index, item in enumerate(deployments):
        for role in mapping_of(item, "taskRoles"):
            yield from _unknown_role(
                ("deployments", index, "taskRoles", role), role, document, "and its commands never run"
            )


def _unknown_role(path: Path, role: Any, document: Mapping[str, Any], then: str) -> Iterator[Finding]:
    known = list(mapping_of(document, "taskRoles"))
    if isinstance(role, str) and known and role not in known:
        yield stricter(
            path, f"there is no task role {role!r}{nearest(role, known)}; servers accept it, {then}"
        )


def _extras(document: Mapping[str, Any]) -> Iterator[Finding]:
    extras = mapping_of(document, "extras")
    for index, plugin in enumerate(list_of(extras, PLUGIN)):
        path: Path = ("extras", PLUGIN, index)
        for position, role in enumerate(list_of(plugin, "taskroles")):
            yield from _unknown_role(
                (*path, "taskroles", position), role, document, "and the plugin does not run for it"
            )
        jobssh = mapping_of(plugin, "parameters").get("jobssh")
        if (
            mapping_of(plugin).get("plugin") == "ssh"
            and jobssh in (True, "true")
            and extras.get("gangAllocation") is False
        ):
            yield warning(
                (*path, "parameters", "jobssh"), "has no effect while extras.gangAllocation is false"
            )
    for role in mapping_of(mapping_of(extras, "hivedScheduler"), "taskRoles"):
        yield from _unknown_role(
            ("extras", "hivedScheduler", "taskRoles", role), role, document, "except those with HiveD"
        )
    yield from _mounts(extras)


def _mounts(extras: Mapping[str, Any]) -> Iterator[Finding]:
    names: dict[str, int] = {}
    mounts: dict[str, int] = {}
    for index, item in enumerate(list_of(extras, "storages")):
        name = mapping_of(item).get("name")
        mount = mapping_of(item).get("mountPath") or f"/mnt/{name}"
        if not isinstance(name, str) or not isinstance(mount, str):
            continue
        for field, value, seen in (("name", name, names), ("mountPath", mount, mounts)):
            first = seen.setdefault(value, index)
            if first != index:
                yield stricter(
                    ("extras", "storages", index, field),
                    f"{value!r} is the {field} of storages[{first}] too; servers accept it, and Kubernetes "
                    "makes no container of it",
                )


# ---------------------------------------------------------------- texts of plugins

# The runtime of 1.x writes the parameters of plugins with Python's ``repr``, fills in references, and reads
# the result as YAML (``replace_ref`` in its initializer). Most texts stay the same.
_AWKWARD = frozenset("'\"\\")  # a text without these and without unprintable characters stays the same
_MISREAD = (
    "has line breaks, backslashes or both kinds of quotes; servers accept it, and their runtime misreads "
    "such a text in a plugin's parameters: write each line as a command of its own, use one kind of quotes, "
    "or call a script"
)


def _plugin_texts(document: Mapping[str, Any]) -> Iterator[Finding]:
    """Yield a finding for each text that the runtime changes for its plugin. No finding quotes the text."""
    for _, path, text in plugin_texts(document):
        if (not text.isprintable() or _AWKWARD.intersection(text)) and not _survives(text):
            yield stricter(path, _MISREAD)


def _survives(text: str) -> bool:
    """Return whether the runtime reads a text as it was written."""
    try:
        return bool(yaml.safe_load(repr([text])) == [text])
    except (yaml.YAMLError, ValueError):
        return False
