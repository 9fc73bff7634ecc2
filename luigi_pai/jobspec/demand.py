"""Demand: the resources that a job asks for, beside those that virtual clusters have."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from luigi_pai.jobspec.job import PaiJob
    from luigi_pai.jobspec.protocol import JobProtocol

__all__ = ["Demand", "Resources", "VirtualCluster", "free_in", "oversize_warning", "shortage"]

_NAMES = {"gpus": ("GPU", "GPUs"), "cpus": ("CPU", "CPUs"), "memory_mb": ("MB of memory", "MB of memory")}


@dataclass(frozen=True)
class Resources:
    """GPUs, CPUs and MB of memory; None where a release does not say.

    Attributes:
        gpus, cpus: their number.
        memory_mb: MB.
    """

    gpus: float | None = None
    cpus: float | None = None
    memory_mb: float | None = None

    def __add__(self, other: Resources) -> Resources:
        return Resources(
            *((mine or 0) + (its or 0) for mine, its in zip(_values(self), _values(other), strict=True))
        )

    def times(self, count: int) -> Resources:
        """Return that many times as much."""
        return Resources(*((value or 0) * count for value in _values(self)))


@dataclass(frozen=True)
class VirtualCluster:
    """What a server tells of a virtual cluster; releases to 0.13 tell of shares in place of a total.

    Attributes:
        name: of the virtual cluster.
        total: what it has.
        used: what is in use of it.
        share: its part of the whole cluster, in percent; None where the server does not say.
        load: how much of the whole cluster is in use in it, in percent; None likewise.
        jobs_waiting: how many jobs wait in it; None likewise.
    """

    name: str
    total: Resources
    used: Resources
    share: float | None = None
    load: float | None = None
    jobs_waiting: int | None = None

    @classmethod
    def of(cls, name: str, about: object) -> VirtualCluster:
        """Return a virtual cluster by a server's answer of any shape."""
        given = about if isinstance(about, Mapping) else {}
        waiting = _number(given.get("numPendingJobs"))
        return cls(
            name,
            _of_cluster(given.get("resourcesTotal")),
            _of_cluster(given.get("resourcesUsed")),
            _number(given.get("capacity")),
            _number(given.get("usedCapacity")),
            None if waiting is None else int(waiting),
        )

    @property
    def free(self) -> Resources:
        """What is free, where the server says what there is."""
        pairs = zip(_values(self.total), _values(self.used), strict=True)
        return Resources(*(None if has is None else max(0, has - (in_use or 0)) for has, in_use in pairs))


@dataclass(frozen=True)
class Demand:
    """What a job asks for.

    Attributes:
        whole: of all its instances together.
        largest: by resource, the most that one instance asks for.
        gang: all instances start together, or none.
        virtual_cluster: where it is to run.
    """

    whole: Resources
    largest: Resources
    gang: bool
    virtual_cluster: str

    @classmethod
    def of_config(cls, config: Mapping[str, Any]) -> Demand:
        """Return what a stored job asks for: a v1 job config, or a job protocol."""
        if "protocolVersion" in config:
            return _of_protocol(config)
        roles = config.get("taskRoles")
        instances = [
            (_count(role.get("taskNumber")), _resources(role, "gpuNumber", "cpuNumber", "memoryMB"))
            for role in (roles if isinstance(roles, list) else ())
            if isinstance(role, dict)
        ]
        return _demand(instances, gang=True, virtual_cluster=config.get("virtualCluster"))

    @property
    def at_once(self) -> Resources:
        """What must be free before anything of it starts."""
        return self.whole if self.gang else self.largest


def shortage(demand: Demand, clusters: Mapping[str, Any], name: str | None = None) -> str | None:
    """Return of which resource a virtual cluster has too little for a job: free, in all, wanted.

    Args:
        demand: what the job asks for.
        clusters: the answer of a server, virtual clusters by name.
        name: of the virtual cluster; that of the demand where not given.
    """
    name = name or demand.virtual_cluster
    if not isinstance(clusters.get(name), dict):
        return None
    about = VirtualCluster.of(name, clusters[name])
    if about.total == Resources():
        return _without_total(demand, about)
    short = list(_short(demand.at_once, about.total, about.used))
    if not short:
        return None
    never = any(impossible for impossible, _ in short)
    texts = [text for impossible, text in short if impossible or not never]
    end = "; it can never start there" if never else ""
    return f"virtual cluster {name} has {'; '.join(texts)}{end}"


def _without_total(demand: Demand, about: VirtualCluster) -> str | None:
    """Return what releases tell that do not say what a virtual cluster has (to 0.13).

    That is which part of its share of the cluster is in use, in percent, what is in use, and how many
    jobs are pending.
    """
    wanted = [(resource, want) for resource, want, _ in _by_resource(demand.at_once, about.used) if want]
    in_use = dict(zip(_NAMES, _values(about.used), strict=True))
    resource, want = next(iter(wanted), ("gpus", 0))
    texts = []
    if about.share is not None and about.load is not None:
        load, share = _plain(round(about.load, 1)), _plain(round(about.share, 1))
        texts.append(f"{load} % of its {share} % of the cluster in use")
    if in_use[resource] is not None:
        texts.append(f"{_amount(in_use[resource] or 0, resource)} in use")
    if not texts:
        return None
    if pending := about.jobs_waiting:
        texts.append(f"{pending} job{'' if pending == 1 else 's'} pending")
    return f"virtual cluster {about.name} has {', '.join(texts)}; the job wants {_amount(want, resource)}"


def free_in(about: object) -> str | None:
    """Return how many GPUs and CPUs of a virtual cluster are free; None where the server does not say."""
    known = VirtualCluster.of("", about)
    texts = [
        f"{_plain(free)} of {_amount(has, resource)}"
        for resource, has, free in zip(_NAMES, _values(known.total), _values(known.free), strict=True)
        if has is not None and free is not None and resource != "memory_mb"
    ]
    return f"{' and '.join(texts)} free" if texts else None


def oversize_warning(clusters: Mapping[str, Any], job: PaiJob | JobProtocol) -> str | None:
    """Return why a job can never start: an instance, or the gang, is larger than the whole virtual cluster.

    None where it may start, or where the server does not say what the virtual cluster has.

    Args:
        clusters: the answer of a server, virtual clusters by name.
        job: the job.
    """
    demand = Demand.of_config(job.to_dict())
    about = VirtualCluster.of(demand.virtual_cluster, clusters.get(demand.virtual_cluster))
    texts = [text for never, text in _short(demand.at_once, about.total, Resources()) if never]
    if not texts:
        return None
    return f"virtual cluster {demand.virtual_cluster} has {'; '.join(texts)}: it would wait for ever"


def _of_protocol(config: Mapping[str, Any]) -> Demand:
    roles, defaults = config.get("taskRoles"), config.get("defaults")
    extras = config.get("extras")
    instances = [
        (_count(role.get("instances")), _resources(role.get("resourcePerInstance"), "gpu", "cpu", "memoryMB"))
        for role in (roles.values() if isinstance(roles, dict) else ())
        if isinstance(role, dict)
    ]
    gang = not (isinstance(extras, dict) and extras.get("gangAllocation") is False)
    name = defaults.get("virtualCluster") if isinstance(defaults, dict) else None
    return _demand(instances, gang=gang, virtual_cluster=name)


def _demand(instances: list[tuple[int, Resources]], *, gang: bool, virtual_cluster: object) -> Demand:
    whole = Resources(0, 0, 0)
    for count, each in instances:
        whole += each.times(count)
    largest = Resources(
        *(max(column, default=0) for column in zip(*(_values(each) for _, each in instances), strict=True))
    )
    name = virtual_cluster if isinstance(virtual_cluster, str) and virtual_cluster else "default"
    return Demand(whole, largest, gang, name)


def _short(wanted: Resources, total: Resources, used: Resources) -> Iterator[tuple[bool, str]]:
    """Yield each resource of which there is too little: whether for ever, and how much."""
    for (resource, want, has), in_use in zip(_by_resource(wanted, total), _values(used), strict=True):
        if has is None:
            continue
        if want > has:
            yield True, f"{_amount(has, resource)} in all, the job wants {_plain(want)}"
        elif in_use is not None and want > has - in_use:
            free = f"{_plain(max(0, has - in_use))} of {_amount(has, resource)} free"
            yield False, f"{free}, the job wants {_plain(want)}"


def _by_resource(wanted: Resources, has: Resources) -> Iterator[tuple[str, float, float | None]]:
    for resource, want, there in zip(_NAMES, _values(wanted), _values(has), strict=True):
        yield resource, want or 0, there


def _values(of: Resources) -> tuple[float | None, float | None, float | None]:
    return of.gpus, of.cpus, of.memory_mb


def _resources(of: object, gpus: str, cpus: str, memory: str) -> Resources:
    given = of if isinstance(of, Mapping) else {}
    return Resources(*(_number(given.get(key)) or 0 for key in (gpus, cpus, memory)))


def _of_cluster(of: object) -> Resources:
    """Return resources as servers of either dialect name them."""
    given = of if isinstance(of, Mapping) else {}
    return Resources(
        _number(given.get("GPUs", given.get("gpu"))),
        _number(given.get("vCores", given.get("cpu"))),
        _number(given.get("memory")),
    )


def _count(value: object) -> int:
    return max(1, int(_number(value) or 1))


def _number(value: object) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_number else None  # type: ignore[arg-type]  # it is a number


def _amount(value: float, resource: str) -> str:
    one, many = _NAMES[resource]
    return f"{_plain(value)} {one if value == 1 else many}"


def _plain(value: float) -> str:
    return f"{value:g}" if value != int(value) else str(int(value))
