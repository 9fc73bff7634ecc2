"""Allocates the CPUs, memory and GPUs of virtual clusters to tasks, and releases them."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from luigi_pai.local.config.settings import Resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


_UNITS = {"cpu": "CPUs", "memory": "MB of memory", "gpu": "GPUs"}


@dataclass(frozen=True, eq=False)
class Allocation:
    """The resources of a running task in a virtual cluster; ``gpus`` is a comma-separated list of numbers."""

    cluster: str
    resources: Resources
    gpus: str


@dataclass(frozen=True)
class InsufficientResources:
    """Why tasks cannot run now.

    Attributes:
        reason: the reason, as a sentence.
        permanent: whether the virtual cluster is too small even if no other task runs.
        machine_wide: whether the virtual cluster has resources, but this machine's limit of tasks is reached.
    """

    reason: str
    permanent: bool = False
    machine_wide: bool = False


class Scheduler:
    """The resources of every virtual cluster.

    GPUs are numbered across all virtual clusters, from 0 in the first; a GPU has one task at a time. At most
    ``max_tasks`` tasks run at once on this machine. A larger gang runs, too, but only if no other task runs.

    Attributes:
        allocations: the allocations of the running tasks.
    """

    def __init__(self, clusters: Mapping[str, Resources], max_tasks: int) -> None:
        self.clusters = clusters
        self._max_tasks = max_tasks
        self._used = dict.fromkeys(clusters, Resources())
        self._gpus: dict[str, range] = {}
        self.allocations: set[Allocation] = set()
        first = 0
        for name, capacity in clusters.items():
            self._gpus[name] = range(first, first + capacity.gpu)
            first += capacity.gpu

    @property
    def total(self) -> Resources:
        """The resources of all virtual clusters together."""
        return sum(self.clusters.values(), Resources())

    def used(self, cluster: str) -> Resources:
        """Return the resources of the running tasks of a virtual cluster."""
        return self._used.get(cluster, Resources())

    def allocate(
        self, cluster: str, requests: Sequence[Resources]
    ) -> list[Allocation] | InsufficientResources:
        """Allocate resources to all tasks of a gang; if they do not suffice, allocate none and return why."""
        insufficient = self._insufficient(cluster, requests)
        if insufficient is not None:
            return insufficient
        free = self._free_gpus(cluster)
        allocations = []
        for request in requests:
            gpus = ",".join(map(str, free[: request.gpu]))
            del free[: request.gpu]
            allocations.append(self.restore(cluster, request, gpus))
        return allocations

    def restore(self, cluster: str, resources: Resources, gpus: str) -> Allocation:
        """Record the resources of a task that runs already, even if the virtual cluster has less."""
        allocation = Allocation(cluster, resources, gpus)
        self.allocations.add(allocation)
        self._used[cluster] = self.used(cluster) + resources
        return allocation

    def release(self, allocations: Iterable[Allocation]) -> None:
        """Release the resources of tasks."""
        for allocation in allocations:
            self.allocations.remove(allocation)
            self._used[allocation.cluster] = self.used(allocation.cluster) - allocation.resources

    def never_fits(self, name: str, requests: Sequence[Resources]) -> InsufficientResources | None:
        """Return why a gang of tasks exceeds its virtual cluster; None if it does not."""
        capacity = self.clusters.get(name)
        if capacity is None:
            return InsufficientResources(f"there is no virtual cluster {name} any more", permanent=True)
        lacking = sum(requests, Resources()).beyond(capacity)
        if not lacking:
            return None
        has = asdict(capacity)
        more = ",".join(f"{key}={count}" for key, count in lacking.items())
        return InsufficientResources(
            f"virtual cluster {name} has {_listed({key: has[key] for key in lacking})} in all, "
            f"the job wants {_listed(lacking)}: it can never run. Stop it, and ask for less or "
            f"start the local server with --virtual-cluster {name}:{more}",
            permanent=True,
        )

    def _insufficient(self, name: str, requests: Sequence[Resources]) -> InsufficientResources | None:
        never = self.never_fits(name, requests)
        if never is not None:
            return never
        total, capacity = sum(requests, Resources()), self.clusters[name]
        free = replace(capacity - self.used(name), gpu=len(self._free_gpus(name)))
        lacking = total.beyond(free)
        if lacking:
            there, has = asdict(free), asdict(capacity)
            left = _listed({key: f"{max(0, there[key])} of {has[key]}" for key in lacking})
            return InsufficientResources(
                f"virtual cluster {name} has {left} free, the job wants {_listed(lacking)}"
            )
        running = len(self.allocations)
        if running and running + len(requests) > self._max_tasks:
            return InsufficientResources(
                f"{running} of at most {self._max_tasks} tasks run on this machine", machine_wide=True
            )
        return None

    def _free_gpus(self, cluster: str) -> list[int]:
        """Return the numbers of the free GPUs, the lowest first."""
        used = {number for allocation in self.allocations for number in allocation.gpus.split(",")}
        return [number for number in self._gpus[cluster] if str(number) not in used]


def _listed(counts: Mapping[str, object]) -> str:
    """Return counts of resources as a text, such as ``2 CPUs and 1 GPU``."""
    return " and ".join(
        f"{count} {_UNITS[key].removesuffix('s') if count == 1 else _UNITS[key]}"
        for key, count in counts.items()
    )
