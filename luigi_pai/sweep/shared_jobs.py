"""Jobs that points share: checks that a cluster supports them, and that points can be in the same job."""

from __future__ import annotations

import itertools
import logging
from typing import TYPE_CHECKING

from luigi_pai.config import OpenPai
from luigi_pai.errors import ConfigError
from luigi_pai.jobspec.arrays.jobs import check_alike
from luigi_pai.jobspec.containers import for_containers
from luigi_pai.jobspec.convert import Conversion
from luigi_pai.jobspec.job import PaiJob

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.sweep.point import Point

logger = logging.getLogger("luigi-interface")

_LEAVE_OUT = "leave points_per_job out"


def check_shared(name: str, points: Sequence[Point]) -> None:
    """Check that the points of a sweep can be instances of the same job; nothing is sent.

    If the first job is a v1 job, warnings are logged about what it loses when it is converted to v2.

    Raises:
        SpecError: a point cannot share a job, or shared fields differ. The text names the point and fields.
        ConfigError: ``api_version`` of the cluster is v1, or the points are on several clusters.
    """
    clusters = sorted({point.task.cluster or "" for point in points})
    if len(clusters) > 1:
        named = ", ".join(repr(cluster) if cluster else "that of [OpenPai]" for cluster in clusters)
        raise ConfigError(f"points that share a job need the same cluster, but have {named}; {_LEAVE_OUT}")
    settings = OpenPai.current(points[0].task.cluster)
    if settings.api_version == "v1":
        raise _no_arrays("api_version = v1 is set in luigi.cfg")
    jobs = (
        for_containers(point.task._job(), point.name, with_runtime=point.task.runtime)  # noqa: SLF001  of this package
        for point in points
    )
    conversions = (as_protocol(job, settings) for job in jobs)
    first = next(conversions)
    for loss in first.notable_losses:
        logger.warning("%s, jobs of a v2 cluster: %s", name, loss)
    check_alike(each.protocol for each in itertools.chain([first], conversions))


def check_cluster(book: Book) -> None:
    """Check that a cluster supports jobs with several points. This may take a request.

    Raises:
        ConfigError: the cluster has the API v1.
        PaiApiError: the cluster does not answer.
    """
    if book.api.detector.detect() == "v1":
        raise _no_arrays(f"{book.api.url} is an OpenPAI 0.7 to 0.14")


def as_protocol(job: PaiJob | JobProtocol, settings: OpenPai) -> Conversion:
    """Return a job as a protocol; a v1 job is converted."""
    if not isinstance(job, PaiJob):
        return Conversion(job, ())
    return settings.cluster().convert(job)


def _no_arrays(why: str) -> ConfigError:
    return ConfigError(
        "points_per_job needs a cluster of OpenPAI 0.15 to 1.8 or LTP, where the instances of a job end "
        f"independently, but {why}; {_LEAVE_OUT}"
    )
