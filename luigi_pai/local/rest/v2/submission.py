"""Checks of the body of POST /api/v2/jobs: a valid protocol, or the server's refusal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, SpecError
from luigi_pai.jobspec.dialects.yaml_text import read_yaml
from luigi_pai.jobspec.paths import mapping_of
from luigi_pai.jobspec.releases import release_number
from luigi_pai.jobspec.schema_problems import schema_findings
from luigi_pai.jobspec.templates.callbacks import PLUGIN
from luigi_pai.jobspec.templates.commands import entrypoints
from luigi_pai.jobspec.templates.secrets import masked
from luigi_pai.jobspec.validate_protocol import validate_protocol
from luigi_pai.local.container.v2.protocol_spec import job_spec
from luigi_pai.local.json_http import ApiError
from luigi_pai.local.rest.base import MAX_JOB_PORTS, MAX_TASKS, is_too_large
from luigi_pai.redaction import MASK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.local.releases import V2Release


def _read_extras(extras: Mapping[str, Any], known: Sequence[str], defaults: Sequence[str]) -> dict[str, Any]:
    """Return extras in which ``storages`` and plugins are lists of objects.

    Args:
        extras: those of a protocol.
        known: the names of all storages.
        defaults: the storages of a job that asks for storages and names none.

    Raises:
        ApiError: 500 for a shape that the server fails over, 404 for a storage that is not there.
    """
    plugins = _list(extras, PLUGIN) if extras.get(PLUGIN) else []
    for item in plugins:
        if not isinstance(item.get("plugin"), str) or not isinstance(item.get("taskroles", []), list):
            raise ApiError(500, None, f"extras.{PLUGIN}: a plugin has no name, or its taskroles are no list")
    storages: list[Any] = []
    if extras.get("storages") or isinstance(extras.get("storages"), list):
        storages = _list(extras, "storages") or [{"name": name} for name in defaults]
    return {**extras, PLUGIN: plugins, "storages": _storages(storages, known)}


def _list(extras: Mapping[str, Any], field: str) -> list[Any]:
    items = extras[field]
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ApiError(500, None, f"extras.{field}: is not a list of objects")
    return items


def _storages(wanted: Sequence[Any], known: Sequence[str]) -> list[dict[str, Any]]:
    """Return the storages that are named, with their mount paths.

    Other fields of a storage are ignored: the server takes ``share`` and ``readOnly`` from its own
    configuration.
    """
    named = [item for item in wanted if mapping_of(item).get("name")]
    for item in named:
        if item["name"] not in known:
            raise ApiError(404, "NoStorageError", f"Storage {item['name']} is not found.")
    return [{key: item[key] for key in ("name", "mountPath") if key in item} for item in named]


def read_protocol(text: str, release: V2Release) -> dict[str, Any]:
    """Return the job protocol in a body.

    Raises:
        ApiError: 500 for invalid YAML and for commands that cannot be rendered, 400 for an invalid protocol.
    """
    try:
        document = read_yaml(text).value
    except SpecError as error:
        raise _failure(error) from None
    number = release_number(release.spec_release)
    problems = validate_protocol(document, release=release.spec_release)
    refused = [problem for problem in problems if problem.level is Level.REFUSED]
    if refused and _fits_schema(document, number):
        _render(document)
    if refused:
        raise _invalid("; ".join(map(str, refused)))
    if any("instances" not in role for role in document["taskRoles"].values()):
        raise ApiError(500, "UnknownError", "a task role has no instances")
    return dict(document)


def _fits_schema(document: Any, number: tuple[int, ...]) -> bool:
    findings = schema_findings(document, "protocol.v2", lambda value, _: type(value).__name__, number)
    return not any(finding.level is Level.REFUSED for finding in findings)


def _render(document: Mapping[str, Any]) -> None:
    """Raise ApiError 500 if the commands cannot be rendered."""
    try:
        entrypoints(document)
    except SpecError as error:
        raise _failure(error) from None


def _failure(error: SpecError) -> ApiError:
    return ApiError(500, None, "; ".join(map(str, error.problems)))


def _invalid(message: str) -> ApiError:
    return ApiError(400, "InvalidProtocolError", message)


def virtual_cluster(document: Mapping[str, Any]) -> Any:
    """Return the virtual cluster of a protocol, as text; the schema accepts other values, too."""
    chosen = (document.get("defaults") or {}).get("virtualCluster")
    return "default" if chosen is None else chosen


def spec_of(
    document: Mapping[str, Any], storages: Sequence[str], defaults: Sequence[str], release: V2Release
) -> dict[str, Any]:
    """Return a protocol as the launcher reads it; ``storages`` and ``defaults`` are those of `_read_extras`.

    Raises:
        ApiError: 404 for a storage that is not there, 500 for extras that the server fails over and commands
            that cannot be rendered, 400 for more tasks or ports than this server takes.
    """
    extras = _read_extras(document.get("extras") or {}, storages, defaults)
    mine = [item for item in extras[PLUGIN] if item["plugin"] not in release.started_by_site]
    extras = {**extras, PLUGIN: mine}
    try:
        spec = job_spec({**document, "extras": extras})
    except SpecError as error:
        raise _failure(error) from None
    if is_too_large(spec):
        raise _invalid(f"luigi-pai local runs at most {MAX_TASKS} tasks with {MAX_JOB_PORTS} ports in a job")
    return spec


def shown_config(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a protocol as GET config shows it: without secrets, and without passwords of registries."""
    shown = masked(document)
    return {**shown, "secrets": MASK} if "secrets" in shown else shown
