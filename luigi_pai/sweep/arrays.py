"""The arrays of a sweep: jobs of which each instance is a point, as the server has them (v2 only)."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING

from luigi_pai.api.retries import Retry
from luigi_pai.config import OpenPai
from luigi_pai.errors import ConfigError
from luigi_pai.spec.arrays.jobs import check_alike
from luigi_pai.spec.containers import for_containers
from luigi_pai.spec.convert import Conversion, convert
from luigi_pai.spec.job import PaiJob
from luigi_pai.spec.names import v2_name
from luigi_pai.tasks.task_run import TaskRun

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.retries import Steps
    from luigi_pai.spec.protocol import JobProtocol
    from luigi_pai.sweep.jobs import Point

__all__ = ["Arrays", "check_cluster", "check_points"]

logger = logging.getLogger("luigi-interface")

_ON_ITS_WAY = 10.0  # seconds from the claim of an array to its arrival on the server
_LEAVE_OUT = "leave points_per_job out"
_MAY_DIFFER = ("jobName", "dataDir", "outputDir", "codeDir", "jobEnvs")


def check_points(points: Sequence[Point]) -> None:
    """Check that any points of a sweep can be instances of one job; nothing is sent.

    Raises:
        SpecError: they cannot; the text has the first point that differs, and what differs.
        ConfigError: the cluster is one of v1.
    """
    clusters = sorted({point.task.cluster or "" for point in points})
    if len(clusters) > 1:
        named = ", ".join(repr(cluster) if cluster else "that of [OpenPai]" for cluster in clusters)
        raise ConfigError(f"points of one job are on one cluster, not on several: {named}; {_LEAVE_OUT}")
    settings = OpenPai.current(points[0].task.cluster)
    if settings.api_version == "v1":
        raise _no_arrays("api_version = v1 is set in luigi.cfg")
    jobs = (
        for_containers(point.task.job(), v2_name(point.name), with_runtime=point.task.runtime)
        for point in points
    )
    check_alike(_converted(job, settings).protocol for job in _of_each_kind(jobs))


def check_cluster(point: Point) -> None:
    """Ask the cluster of a point whether it takes arrays.

    Raises:
        ConfigError: it is one of v1.
        PaiApiError: it does not answer.
    """
    api = _book_of(point).api
    if api.detector.detect() == "v1":
        raise _no_arrays(f"{api.url} is an OpenPAI 0.7 to 0.14")


def _book_of(point: Point) -> Book:
    return TaskRun(point.task._definition(), single=False).book  # noqa: SLF001  of this package


def _of_each_kind(jobs: Iterable[PaiJob | JobProtocol]) -> Iterator[PaiJob | JobProtocol]:
    """Yield jobs without v1 jobs that differ from an earlier one in what may differ only."""
    kinds = set()
    for job in jobs:
        if isinstance(job, PaiJob):
            fields = {key: value for key, value in job.to_dict().items() if key not in _MAY_DIFFER}
            fields["taskRoles"] = [{**role, "command": ""} for role in fields["taskRoles"]]
            kind = json.dumps(fields, sort_keys=True)
            if kind in kinds:
                continue
            kinds.add(kind)
        yield job


class Arrays:
    """The arrays of a sweep on a cluster.

    Args:
        sweep: the sweep's name.
        point: one of them; the others are on the same cluster.

    Attributes:
        book: of the cluster, in v2.
    """

    def __init__(self, sweep: str, point: Point) -> None:
        self._settings = OpenPai.current(point.task.cluster)
        self._given = _book_of(point)
        self.book = self._given.with_api(self._given.api.with_version("v2"))
        self._sweep = sweep
        self._is_checked = False
        self._losses_logged = False
        self._unposted: dict[str, float] = {}  # jobs that are claimed and not there, by when that was seen

    def check(self) -> Steps[None]:
        """Check that the cluster takes arrays, once.

        Raises:
            ConfigError: it is one of v1.
            PaiApiError: it does not answer.
        """
        api = self.book.api
        if not self._is_checked:
            retry = Retry(api.polling.patience, api.clock, f"sweep {self._sweep}")
            if (yield from retry.call(self._given.api.detector.detect)) == "v1":
                raise _no_arrays(f"{api.url} is an OpenPAI 0.7 to 0.14")
        self._is_checked = True

    def is_on_its_way(self, array: str) -> bool:
        """Return whether an array that is claimed, and not on the server, may arrive within seconds.

        It is waited for, so that its points stay together. Then it is sent again: its name decides.
        """
        now = self.book.api.clock.monotonic()
        return now - self._unposted.setdefault(array, now) < _ON_ITS_WAY

    def protocol(self, job: PaiJob | JobProtocol) -> JobProtocol:
        """Return a job as a protocol; a v1 job is converted. What the first of a sweep loses is logged."""
        conversion = _converted(job, self._settings)
        for loss in () if self._losses_logged else conversion.notable_losses:
            logger.warning("%s, jobs of a v2 cluster: %s", self._sweep, loss)
        self._losses_logged = True
        return conversion.protocol


def _converted(job: PaiJob | JobProtocol, settings: OpenPai) -> Conversion:
    if not isinstance(job, PaiJob):
        return Conversion(job, ())
    return convert(job, fs_uri=settings.fs_uri)


def _no_arrays(why: str) -> ConfigError:
    return ConfigError(
        "points_per_job needs a cluster of OpenPAI 0.15 to 1.8 or LTP, whose jobs have instances that end "
        f"by themselves: {why}; {_LEAVE_OUT}"
    )
