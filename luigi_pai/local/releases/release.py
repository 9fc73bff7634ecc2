"""The releases that the local server can be: everything in which they differ, each as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.local.node import ajv, ajv8
from luigi_pai.local.node.express_query import read_flat_query, read_query
from luigi_pai.local.releases import ltp_rules
from luigi_pai.local.releases.framework_controller import FRAMEWORK_CONTROLLER
from luigi_pai.local.releases.framework_launcher import FRAMEWORK_LAUNCHER
from luigi_pai.local.releases.ltp_schema import PROTOCOL
from luigi_pai.spec.dialects.yaml_readers import JS_YAML_3, JS_YAML_4, YamlReader
from luigi_pai.spec.schema_problems import schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from luigi_pai.local.node.express_query import Fields
    from luigi_pai.local.releases.launcher_rules import LauncherRules

__all__ = [
    "LTP_1_5",
    "OPENPAI_0_7_1",
    "OPENPAI_1_8",
    "Release",
    "V2Release",
    "releases_by_api",
    "v2_release",
]


def _nothing(*_: Any) -> None:
    """Refuse nothing."""


@dataclass(frozen=True)
class Release:
    """A release of OpenPAI, or of its successor.

    Rooms that show or prepare jobs have tables of their own functions, by ``api``.

    Attributes:
        name: what people call it.
        api: ``v1`` or ``v2``, the API that its jobs are submitted to.
        launcher: what runs its jobs: exit codes, retries, events.
        log_streams: the names of a task's logs.
    """

    name: str
    api: str
    launcher: LauncherRules
    log_streams: tuple[str, ...]


@dataclass(frozen=True)
class V2Release(Release):
    """A release of the v2 API, whose jobs are job protocols.

    Attributes:
        version: what ``GET /api/v2/info`` says.
        reader: of the YAML of job protocols.
        spec_release: the release whose refusals of a protocol ``luigi_pai.spec`` is asked for.
        beyond_spec: fields of a protocol that are checked here, in the words of its server.
        complaints: return what the schema finds wrong with a document, in the words of its Ajv.
        reads_query: return the fields of an address's query.
        checks_bodies: whether JSON bodies are checked. If not, they are taken as they are, and what is
            missing fails where it is used.
        failed_lookup: what GET of a job, and of what is its own, says of any failure to find it, with 500
            UnknownError: that it is not there, or that there is no database; None for the failure itself.
        attempt_0_is_latest: whether ``attempts/0`` shows a job's latest attempt.
        private_jobs: whether a job is shown to its owner and administrators only.
        own_virtual_clusters: whether virtual clusters, and the jobs in them, are listed only to those who
            may use them, or could.
        job_types: whether a job has a type, which becomes a tag of it and a filter of lists.
        check_parameters: refuse a document for the parameters that its type needs.
        check_leave: refuse a document that its owner's record, an extension, has no leave for.
        check_extras: refuse extras.
        started_by_site: runtime plugins that the cluster itself serves, and that run nothing here.
        shm_mb: MB of shared memory of a task that asks for none.
        window_of_each_key: whether request limits begin to count with the first request of each address or
            user, and ``Retry-After`` is what is left; if not, with the server, and it is the whole window.
        caches_users: whether the record of a user is kept in memory. GET of the user takes the password
            out of it, and password logins fail until the record is written anew. It also says which
            virtual clusters the user had and administers, and has a key for the ssh of jobs.
    """

    version: str
    reader: YamlReader
    spec_release: str
    beyond_spec: frozenset[str]
    complaints: Callable[[Any], list[dict[str, Any]]]
    reads_query: Callable[[str], Fields]
    checks_bodies: bool
    failed_lookup: str | None
    attempt_0_is_latest: bool
    private_jobs: bool
    own_virtual_clusters: bool
    job_types: bool
    check_parameters: Callable[[Mapping[str, Any]], None]
    check_leave: Callable[[Mapping[str, Any], Mapping[str, Any]], None]
    check_extras: Callable[[Mapping[str, Any]], None]
    started_by_site: frozenset[str]
    shm_mb: int
    window_of_each_key: bool
    caches_users: bool


OPENPAI_0_7_1 = Release(
    name="OpenPAI 0.7.1",
    api="v1",
    launcher=FRAMEWORK_LAUNCHER,
    log_streams=("stdout", "stderr"),
)

_V2_LOG_STREAMS = ("stdout", "stderr", "runtime")

OPENPAI_1_8 = V2Release(
    name="OpenPAI 1.8",
    api="v2",
    launcher=FRAMEWORK_CONTROLLER,
    log_streams=_V2_LOG_STREAMS,
    version="v1.8.0",
    reader=JS_YAML_3,
    spec_release="1.8.0",
    beyond_spec=frozenset(),
    complaints=lambda document: ajv.complaints(schema("protocol.v2"), document),
    reads_query=read_query,
    checks_bodies=True,
    failed_lookup=None,
    attempt_0_is_latest=False,
    private_jobs=False,
    own_virtual_clusters=False,
    job_types=False,
    check_parameters=_nothing,
    check_leave=_nothing,
    check_extras=_nothing,
    started_by_site=frozenset(),
    shm_mb=512,
    window_of_each_key=False,
    caches_users=False,
)

LTP_1_5 = V2Release(
    name="LTP 1.5",
    api="v2",
    launcher=FRAMEWORK_CONTROLLER,
    log_streams=_V2_LOG_STREAMS,
    version="v1.8.1",
    reader=JS_YAML_4,
    spec_release="1.8.0",
    beyond_spec=frozenset({"jobType"}),
    complaints=lambda document: ajv8.complaints(PROTOCOL, document),
    reads_query=read_flat_query,
    checks_bodies=False,
    failed_lookup="Failed to retrieve job {}.",
    attempt_0_is_latest=True,
    private_jobs=True,
    own_virtual_clusters=True,
    job_types=True,
    check_parameters=ltp_rules.check_parameters,
    check_leave=ltp_rules.check_leave,
    check_extras=ltp_rules.check_extras,
    started_by_site=frozenset({"dind"}),
    shm_mb=16384,
    window_of_each_key=True,
    caches_users=True,
)


def v2_release(apis: str) -> V2Release:
    """Return the release whose v2 API a server has.

    Args:
        apis: the setting ``--api``: ``both``, ``v1``, ``v2`` or ``ltp``.
    """
    return LTP_1_5 if apis == "ltp" else OPENPAI_1_8


def releases_by_api(apis: str) -> Mapping[str, Release]:
    """Return the releases whose jobs a server runs, by their APIs.

    A server that has only one API still runs the jobs of the other that its data folder has.

    Args:
        apis: the setting ``--api``: ``both``, ``v1``, ``v2`` or ``ltp``.
    """
    return {release.api: release for release in (OPENPAI_0_7_1, v2_release(apis))}
