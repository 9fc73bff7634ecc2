"""What becomes of the body of POST /api/v2/jobs: a protocol that is taken, or the server's refusal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, SpecError
from luigi_pai.local.container.v2.protocol_spec import job_spec
from luigi_pai.local.node.http import ApiError
from luigi_pai.local.rest.base.body_rules import MAX_JOB_PORTS, MAX_PORTS, MAX_TASKS
from luigi_pai.local.rest.v2.extras import read_extras
from luigi_pai.spec.dialects.yaml_text import read_yaml
from luigi_pai.spec.templates.callbacks import PLUGIN
from luigi_pai.spec.templates.commands import entrypoints
from luigi_pai.spec.templates.secrets import MASK, masked
from luigi_pai.spec.validate_protocol import validate_protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from luigi_pai.local.releases.release import V2Release

__all__ = ["read_protocol", "shown_config", "spec_of", "virtual_cluster"]

_KINDS = {"script": "script", "output": "output", "data": "data", "dockerImage": "dockerimage"}


def read_protocol(text: str, release: V2Release) -> dict[str, Any]:
    """Return the document of a body that a release takes.

    Raises:
        ApiError: 500 for what is no YAML and commands that cannot be rendered, 400 for no protocol.
    """
    try:
        document = read_yaml(text, reader=release.reader).value
    except SpecError as error:
        raise ApiError(500, None, "; ".join(map(str, error.problems))) from None
    known = document
    if isinstance(document, dict):
        known = {field: value for field, value in document.items() if field not in release.beyond_spec}
    problems = validate_protocol(known, release=release.spec_release)
    wrong = release.schema_errors(document) if problems or known != document else []
    if wrong:
        raise _invalid(json.dumps(wrong, separators=(",", ":")))
    _check_names(document, release)
    try:
        entrypoints(document)
    except SpecError as error:
        raise ApiError(500, None, "; ".join(map(str, error.problems))) from None
    if any("instances" not in role for role in document["taskRoles"].values()):
        raise ApiError(500, "UnknownError", "a task role has no instances")
    refused = [problem for problem in problems if problem.level is Level.REFUSED]
    if refused:
        raise _invalid("; ".join(map(str, refused)))
    return dict(document)


def _invalid(message: str) -> ApiError:
    return ApiError(400, "InvalidProtocolError", message)


def _check_names(document: Mapping[str, Any], release: V2Release) -> None:
    """Refuse names that are there twice and references to what is not there, as the server does."""
    known = _unique(
        ((item["type"], item["name"]) for item in document.get("prerequisites") or ()),
        "Duplicate {0} prerequisites {1}.",
    )
    deployments = _unique(
        (("", item["name"]) for item in document.get("deployments") or ()), "Duplicate deployments {1}."
    )
    roles = document["taskRoles"].values()
    for role in roles:
        for name in role.get("prerequisites") or ():
            if name not in {item for _, item in known}:
                raise _invalid(f"Prerequisite {name} does not exist.")
    release.check_parameters(document)
    for role in roles:
        for field, kind in _KINDS.items():
            if field in role and (kind, role[field]) not in known:
                raise _invalid(f"Prerequisite {role[field]} does not exist.")
    chosen = (document.get("defaults") or {}).get("deployment")
    if chosen is not None and ("", chosen) not in deployments:
        raise _invalid(f"Default deployment {chosen} does not exist.")


def _unique(names: Iterable[tuple[str, str]], complaint: str) -> set[tuple[str, str]]:
    known: set[tuple[str, str]] = set()
    for name in names:
        if name in known:
            raise _invalid(complaint.format(*name))
        known.add(name)
    return known


def virtual_cluster(document: Mapping[str, Any]) -> Any:
    """Return the virtual cluster of a protocol, as text; the schema accepts other values, too."""
    chosen = (document.get("defaults") or {}).get("virtualCluster")
    return "default" if chosen is None else chosen


def spec_of(document: Mapping[str, Any], storages: Sequence[str], release: V2Release) -> dict[str, Any]:
    """Return a protocol as the launcher reads it; ``storages`` are those that `read_extras` may find.

    Raises:
        ApiError: 404 for a storage that the user has not, 500 for extras that the server fails over, 400
            for more tasks or ports than this server takes.
    """
    asked = document.get("extras") or {}
    extras = read_extras(asked, storages)
    release.check_extras(asked)
    if PLUGIN in extras:
        mine = [item for item in extras[PLUGIN] if item["plugin"] not in release.started_by_site]
        extras = {**extras, PLUGIN: mine}
    spec = job_spec({**document, "extras": extras}, release.shm_mb)
    _check_size(spec)
    return spec


def _check_size(spec: Mapping[str, Any]) -> None:
    """Refuse more tasks and ports than this machine is meant for."""
    tasks = sum(role["taskNumber"] for role in spec["taskRoles"])
    ports = [sum(port["portNumber"] for port in role["portList"]) for role in spec["taskRoles"]]
    wanted = sum(role["taskNumber"] * count for role, count in zip(spec["taskRoles"], ports, strict=True))
    if tasks > MAX_TASKS or max(ports) > MAX_PORTS + 2 or wanted > MAX_JOB_PORTS + 2 * MAX_TASKS:
        raise _invalid(f"luigi-pai local runs at most {MAX_TASKS} tasks with {MAX_JOB_PORTS} ports in a job")


def shown_config(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a protocol as GET config shows it: without secrets, and without passwords of registries."""
    shown = masked(document)
    return {**shown, "secrets": MASK} if "secrets" in shown else shown
