"""Checks of the body of POST /api/v2/jobs, which return a valid protocol or raise the server's error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from luigi_pai.errors import Level, SpecError
from luigi_pai.jobspec.dialects.yaml_text import read_yaml
from luigi_pai.jobspec.releases import release_number
from luigi_pai.jobspec.schema_problems import schema_findings
from luigi_pai.jobspec.templates.callbacks import PLUGIN
from luigi_pai.jobspec.templates.commands import entrypoints
from luigi_pai.jobspec.templates.secrets import masked
from luigi_pai.jobspec.validate_protocol import validate_protocol
from luigi_pai.local.container.protocol_spec import job_spec
from luigi_pai.local.json_http import ApiError
from luigi_pai.local.rest.base import MAX_JOB_PORTS, MAX_TASKS, is_too_large
from luigi_pai.redaction import MASK

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.local.releases import Release


def _with_storages(
    extras: Mapping[str, Any], known: Sequence[str], defaults: Sequence[str]
) -> dict[str, Any]:
    """Return a protocol's extras, in which ``storages`` has only the name and mount path of each storage.

    Items without a name are left out. The server takes ``share`` and ``readOnly`` from its own
    configuration, not from the job. ``known`` has the names of all storages, ``defaults`` the names of the
    storages that a job with an empty list gets.

    Raises:
        ApiError: 404 for a storage that does not exist.
    """
    wanted = extras.get("storages")
    if wanted == []:
        wanted = [{"name": name} for name in defaults]
    named = [item for item in wanted or () if item.get("name")]
    for item in named:
        if item["name"] not in known:
            raise ApiError(404, "NoStorageError", f"Storage {item['name']} is not found.")
    return {
        **extras,
        "storages": [{key: item[key] for key in ("name", "mountPath") if key in item} for item in named],
    }


def read_protocol(text: str, release: Release) -> dict[str, Any]:
    """Return the job protocol in a body.

    Raises:
        ApiError: 500 if the YAML is invalid, if a command cannot be rendered, or if a task role has no
            ``instances``; 400 if the protocol is invalid in another way.
    """
    try:
        document = read_yaml(text).value
        problems = validate_protocol(document, release=release.spec_release)
        refused = [problem for problem in problems if problem.level is Level.REFUSED]
        if refused and _fits_schema(document, release_number(release.spec_release)):
            entrypoints(document)
    except SpecError as error:
        raise _failure(error) from None
    if refused:
        raise ApiError(400, "InvalidProtocolError", "; ".join(map(str, refused)))
    if any("instances" not in role for role in document["taskRoles"].values()):
        raise ApiError(500, "UnknownError", "a task role has no instances")
    return dict(document)


def _fits_schema(document: Any, number: tuple[int, ...]) -> bool:
    findings = schema_findings(document, "protocol.v2", lambda value, _: type(value).__name__, number)
    return not any(finding.level is Level.REFUSED for finding in findings)


def _failure(error: SpecError) -> ApiError:
    return ApiError(500, None, "; ".join(map(str, error.problems)))


def virtual_cluster(document: Mapping[str, Any]) -> Any:
    """Return a protocol's virtual cluster, by default ``default``. The schema allows any type of value."""
    chosen = (document.get("defaults") or {}).get("virtualCluster")
    return "default" if chosen is None else chosen


def spec_of(
    document: Mapping[str, Any], storages: Sequence[str], defaults: Sequence[str], release: Release
) -> dict[str, Any]:
    """Return the launcher's spec of a protocol; ``storages`` and ``defaults`` are as in `_with_storages`.

    Raises:
        ApiError: 404 if a storage does not exist; 500 if a command cannot be rendered, or if the extras have
            a shape on which the real server fails; 400 if there are more tasks or ports than allowed here.
    """
    try:
        extras = _with_storages(document.get("extras") or {}, storages, defaults)
        plugins = [item for item in extras.get(PLUGIN) or () if item["plugin"] not in release.started_by_site]
        spec = job_spec({**document, "extras": {**extras, PLUGIN: plugins}})
    except SpecError as error:
        raise _failure(error) from None
    except (AttributeError, LookupError, TypeError):
        raise ApiError(500, None, "extras: something is missing, or of a wrong shape") from None
    if is_too_large(spec):
        text = f"luigi-pai local runs at most {MAX_TASKS} tasks with {MAX_JOB_PORTS} ports in a job"
        raise ApiError(400, "InvalidProtocolError", text)
    return spec


def shown_config(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return a protocol as GET config returns it; its secrets and credentials of registries are masked."""
    shown = masked(document)
    return {**shown, "secrets": MASK} if "secrets" in shown else shown
