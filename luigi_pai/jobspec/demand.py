"""Demand: the resources that a job requests, compared with what virtual clusters have."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from luigi_pai.jobspec.paths import list_of, mapping_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from luigi_pai.jobspec.job import PaiJob
    from luigi_pai.jobspec.protocol import JobProtocol

_UNITS = (("GPU", "GPUs"), ("CPU", "CPUs"), ("MB of memory", "MB of memory"))
_LARGEST = 1e15  # larger numbers from servers and jobs are ignored, so that the product of two stays finite


class Resources(NamedTuple):
    """GPUs, CPUs and MB of memory; None if the server's release does not report the number."""

    gpus: float | None = None
    cpus: float | None = None
    memory_mb: float | None = None


@dataclass(frozen=True)
class VirtualCluster:
    """A virtual cluster as a server reports it. Servers up to 0.13 send ``share`` but not ``total``.

    Attributes:
        name: The virtual cluster's name.
        total: The virtual cluster's resources.
        used: The resources in use.
        share: The percentage of the whole cluster that it owns; None if the server does not report this.
        load: The percentage of the whole cluster that its jobs use; None if the server does not report this.
        jobs_waiting: The number of its queued jobs; None if the server does not report this.
    """

    name: str
    total: Resources
    used: Resources
    share: float | None = None
    load: float | None = None
    jobs_waiting: int | None = None

    @classmethod
    def of(cls, name: str, about: object) -> VirtualCluster:
        """Read a virtual cluster from the response of a server of any release."""
        given = mapping_of(about)
        waiting = _number(given.get("numPendingJobs"))
        return cls(
            name,
            _resources(given.get("resourcesTotal")),
            _resources(given.get("resourcesUsed")),
            _number(given.get("capacity")),
            _number(given.get("usedCapacity")),
            None if waiting is None else int(waiting),
        )

    @property
    def free(self) -> Resources:
        """The free resources. A value is None if the server does not report the total."""
        pairs = zip(self.total, self.used, strict=True)
        return Resources(*(None if size is None else max(0, size - (in_use or 0)) for size, in_use in pairs))


@dataclass(frozen=True)
class Demand:
    """The resources that a job requests.

    Attributes:
        whole: The resources of all the job's instances together.
        at_once: The resources that must be free before an instance can start. If all instances start
            together (a gang), this is ``whole``. Otherwise it is each resource's maximum over all instances.
        virtual_cluster: The name of the virtual cluster to run in.
    """

    whole: Resources
    at_once: Resources
    virtual_cluster: str

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> Demand:
        """Return a job's demand from its v1 job config or job protocol."""
        if "protocolVersion" in config:
            roles = [mapping_of(role) for role in mapping_of(config, "taskRoles").values()]
            is_gang = mapping_of(config, "extras").get("gangAllocation") is not False
            name = mapping_of(config, "defaults").get("virtualCluster")
            counts = [role.get("instances") for role in roles]
            wanted = [mapping_of(role, "resourcePerInstance") for role in roles]
            keys = ("gpu", "cpu", "memoryMB")
        else:
            wanted = [mapping_of(role) for role in list_of(config, "taskRoles")]
            is_gang, name = True, config.get("virtualCluster")
            counts = [role.get("taskNumber") for role in wanted]
            keys = ("gpuNumber", "cpuNumber", "memoryMB")
        each = [[_number(role.get(key)) or 0 for role in wanted] for key in keys]
        numbers = [max(1, int(_number(count) or 1)) for count in counts]
        whole = Resources(*(sum(map(operator.mul, numbers, values)) for values in each))
        largest = Resources(*(max(values, default=0) for values in each))
        named = name if isinstance(name, str) and name else "default"
        return cls(whole, whole if is_gang else largest, named)


def shortage(demand: Demand, clusters: Mapping[str, Any], name: str | None = None) -> str | None:
    """Return a message about the resources that a job needs but a virtual cluster does not have.

    Return None if the virtual cluster has all of them, or is unknown. If the server does not report totals
    (up to 0.13), the message contains the cluster's load and the job's demand. ``clusters`` is a server's
    response, with virtual clusters by name. ``name`` defaults to the demand's cluster.
    """
    name = name or demand.virtual_cluster
    if not isinstance(clusters.get(name), dict):
        return None
    about = VirtualCluster.of(name, clusters[name])
    if about.total == Resources():
        return _without_total(demand, about)
    short = list(_insufficient(demand.at_once, about.total, about.used))
    if not short:
        return None
    never = [part for impossible, part in short if impossible]
    end = "; it can never start there" if never else ""
    return f"virtual cluster {name} has {'; '.join(never or [part for _, part in short])}{end}"


def _without_total(demand: Demand, about: VirtualCluster) -> str | None:
    """Return a message about a virtual cluster's load and queue, if its total is unknown (up to 0.13)."""
    rows = zip(_UNITS, demand.at_once, about.used, strict=True)
    unit, want, in_use = next((row for row in rows if row[1]), (_UNITS[0], 0, about.used.gpus))
    parts = []
    if about.share is not None and about.load is not None:
        load, share = _format_number(round(about.load, 1)), _format_number(round(about.share, 1))
        parts.append(f"{load} % of its {share} % of the cluster in use")
    if in_use is not None:
        parts.append(f"{_format_amount(in_use, unit)} in use")
    if not parts:
        return None
    if pending := about.jobs_waiting:
        parts.append(f"{pending} job{'' if pending == 1 else 's'} pending")
    wanted = _format_amount(want or 0, unit)
    return f"virtual cluster {about.name} has {', '.join(parts)}; the job wants {wanted}"


def free_in(about: object) -> str | None:
    """Format a virtual cluster's free GPUs and CPUs; None if they are unknown."""
    known = VirtualCluster.of("", about)
    parts = [
        f"{_format_number(free)} of {_format_amount(total, unit)}"
        for unit, total, free in zip(_UNITS[:2], known.total[:2], known.free[:2], strict=True)
        if total is not None and free is not None
    ]
    return f"{' and '.join(parts)} free" if parts else None


def oversize_warning(clusters: Mapping[str, Any], job: PaiJob | JobProtocol) -> str | None:
    """Return a warning if a job can never start because its virtual cluster is too small; otherwise None.

    The cluster is too small if ``Demand.at_once`` exceeds its total. The result is also None if the server
    does not report resources. ``clusters`` is the server's response.
    """
    demand = Demand.of_config(job.to_dict())
    about = VirtualCluster.of(demand.virtual_cluster, clusters.get(demand.virtual_cluster))
    parts = [part for never, part in _insufficient(demand.at_once, about.total, Resources()) if never]
    if not parts:
        return None
    return f"virtual cluster {demand.virtual_cluster} has {'; '.join(parts)}: it would wait forever"


def _insufficient(wanted: Resources, total: Resources, used: Resources) -> Iterator[tuple[bool, str]]:
    """For each insufficient resource, yield whether even the total is too small, and a message."""
    for unit, want, available, in_use in zip(_UNITS, wanted, total, used, strict=True):
        if available is None or want is None:
            continue
        if want > available:
            yield True, f"{_format_amount(available, unit)} in all, the job wants {_format_number(want)}"
        elif in_use is not None and want > available - in_use:
            free = f"{_format_number(max(0, available - in_use))} of {_format_amount(available, unit)} free"
            yield False, f"{free}, the job wants {_format_number(want)}"


def _resources(response: object) -> Resources:
    """Read resources from a response with the field names of API version 1 or 2."""
    given = mapping_of(response)
    return Resources(
        _number(given.get("GPUs", given.get("gpu"))),
        _number(given.get("vCores", given.get("cpu"))),
        _number(given.get("memory")),
    )


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < _LARGEST:
        return float(value)
    return None


def _format_amount(value: float, unit: tuple[str, str]) -> str:
    return f"{_format_number(value)} {unit[0] if value == 1 else unit[1]}"


def _format_number(value: float) -> str:
    return f"{value:g}" if value != int(value) else str(int(value))
