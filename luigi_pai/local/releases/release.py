"""The releases that the local server can be: everything in which they differ, each as one value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.local.releases.launchers import FRAMEWORK_CONTROLLER, FRAMEWORK_LAUNCHER
from luigi_pai.spec.dialects.yaml_readers import JS_YAML_3, JS_YAML_4, YamlReader

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.local.releases.launchers import LauncherRules

__all__ = [
    "LTP_1_5",
    "OPENPAI_0_7_1",
    "OPENPAI_1_8",
    "RELEASES",
    "Release",
    "V2Release",
]


@dataclass(frozen=True, kw_only=True)
class Release:
    """A release of OpenPAI, or of its successor.

    Rooms that show or prepare jobs have tables of their own functions, by ``api``.

    Attributes:
        name: what people call it.
        api: ``v1`` or ``v2``, the API that its jobs are submitted to.
        launcher: what runs its jobs: exit codes, retries, events.
        log_streams: the names of a task's logs.
        window_of_each_key: whether request limits begin to count with the first request of each address or
            user, and ``Retry-After`` is the rest of the window; if not, they begin with the server, and it is
            the whole window.
    """

    name: str
    api: str
    launcher: LauncherRules
    log_streams: tuple[str, ...]
    window_of_each_key: bool = False


@dataclass(frozen=True, kw_only=True)
class V2Release(Release):
    """A release of the v2 API, whose jobs are job protocols; what is not named of one is as on 1.8.

    Attributes:
        version: the version in ``GET /api/v2/info``.
        reader: of the YAML of job protocols.
        spec_release: the release whose rules ``luigi_pai.spec`` checks a protocol by.
        checks_bodies: whether JSON bodies are checked. If not, they are taken as they are, and what is
            missing fails where it is used.
        failed_lookup: message of the 500 UnknownError by which GET of a job, or of a part of it, reports that
            it does not exist; None to report the failure itself.
        private_jobs: whether only its owner and administrators may see a job.
        own_virtual_clusters: whether virtual clusters, and the jobs in them, are listed only for users who
            may use them.
        job_types: whether a job has a type, which becomes a tag of it and a filter of lists.
        started_by_site: runtime plugins that the cluster itself serves, and that run nothing here.
    """

    version: str
    reader: YamlReader
    spec_release: str
    checks_bodies: bool
    failed_lookup: str | None = None
    private_jobs: bool = False
    own_virtual_clusters: bool = False
    job_types: bool = False
    started_by_site: frozenset[str] = frozenset()


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
    checks_bodies=True,
)

LTP_1_5 = V2Release(
    name="LTP 1.5",
    api="v2",
    launcher=FRAMEWORK_CONTROLLER,
    log_streams=_V2_LOG_STREAMS,
    version="v1.8.1",
    reader=JS_YAML_4,
    spec_release="ltp-1.5",
    checks_bodies=False,
    failed_lookup="Failed to retrieve job {}.",
    private_jobs=True,
    own_virtual_clusters=True,
    job_types=True,
    started_by_site=frozenset({"dind"}),
    window_of_each_key=True,
)


RELEASES: Mapping[str, Release] = {"v1": OPENPAI_0_7_1, "v2": OPENPAI_1_8, "ltp": LTP_1_5}
"""The releases by the setting ``--api``."""
