"""Who may run: the CPUs, memory and GPUs of virtual clusters, handed out and taken back."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from luigi_pai.local.config.virtual_clusters import Resources

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from luigi_pai.local.config.virtual_clusters import VirtualCluster

__all__ = ["Holding", "Scheduler", "Shortage"]

_UNITS = {"cpu": "CPUs", "memory": "MB of memory", "gpu": "GPUs"}


@dataclass(frozen=True, eq=False)
class Holding:
    """What one running task has.

    Attributes:
        cluster: the name of its virtual cluster.
        has: how much of what.
        gpus: bit map of its GPUs.
    """

    cluster: str
    has: Resources
    gpus: int


@dataclass(frozen=True)
class Shortage:
    """Why tasks cannot run now.

    Attributes:
        reason: a sentence.
        for_ever: nothing that ends will change it.
        everywhere: it is the machine that is full, not one virtual cluster.
    """

    reason: str
    for_ever: bool = False
    everywhere: bool = False


class Scheduler:
    """The resources of every virtual cluster.

    A GPU has one number in all of them, from 0 in the first, and one task at a time.

    Args:
        clusters: what there is.
        max_tasks: how many tasks may run at once, whatever they want; a job
            that alone has more of them runs alone.
    """

    def __init__(self, clusters: Sequence[VirtualCluster], max_tasks: int) -> None:
        self.clusters = {cluster.name: cluster for cluster in clusters}
        self._max_tasks = max_tasks
        self._used = {cluster.name: Resources() for cluster in clusters}
        self._gpus: dict[str, int] = {}
        self._holdings: set[Holding] = set()
        self._taken = 0
        self._holders: Counter[int] = Counter()  # of each of its bits
        first = 0
        for cluster in clusters:
            self._gpus[cluster.name] = ((1 << cluster.has.gpu) - 1) << first
            first += cluster.has.gpu

    @property
    def running_tasks(self) -> int:
        """How many tasks have resources."""
        return len(self._holdings)

    @property
    def total(self) -> Resources:
        """What all virtual clusters have together."""
        return sum((cluster.has for cluster in self.clusters.values()), Resources())

    def used(self, cluster: str) -> Resources:
        """Return what the running tasks of a virtual cluster have."""
        return self._used.get(cluster, Resources())

    def take(self, cluster: str, wanted: Sequence[Resources]) -> list[Holding] | Shortage:
        """Hand out what a gang of tasks wants, or nothing of it.

        Args:
            cluster: the virtual cluster's name.
            wanted: what each task wants.

        Returns:
            What each task has; or why they have to wait.
        """
        shortage = self._shortage(cluster, wanted)
        if shortage is not None:
            return shortage
        free = self._free_gpus(cluster)
        holdings = []
        for one in wanted:
            gpus = _lowest(free, one.gpu)
            free &= ~gpus
            holdings.append(self.hold(cluster, one, gpus))
        return holdings

    def hold(self, cluster: str, has: Resources, gpus: int) -> Holding:
        """Write down what a task has, whether there is as much or not: one that runs already has it."""
        holding = Holding(cluster, has, gpus)
        self._holdings.add(holding)
        self._used[cluster] = self.used(cluster) + has
        for bit in _bits(gpus):
            self._holders[bit] += 1
        self._taken |= gpus
        return holding

    def release(self, holdings: Iterable[Holding]) -> None:
        """Take back what tasks had."""
        for holding in holdings:
            self._holdings.remove(holding)
            self._used[holding.cluster] = self.used(holding.cluster) - holding.has
            for bit in _bits(holding.gpus):
                self._holders[bit] -= 1
                if not self._holders[bit]:
                    del self._holders[bit]
                    self._taken &= ~bit

    def never(self, name: str, wanted: Sequence[Resources]) -> Shortage | None:
        """Return why a gang of tasks can never run, whatever ends; None if it can."""
        cluster = self.clusters.get(name)
        if cluster is None:
            return Shortage(f"there is no virtual cluster {name} any more", for_ever=True)
        lacking = sum(wanted, Resources()).beyond(cluster.has)
        if not lacking:
            return None
        has = asdict(cluster.has)
        more = ",".join(f"{key}={count}" for key, count in lacking.items())
        return Shortage(
            f"virtual cluster {name} has {_listed({key: has[key] for key in lacking})} in all, "
            f"the job wants {_listed(lacking)}: it can never run. Stop it, and ask for less or "
            f"start the local server with --virtual-cluster {name}:{more}",
            for_ever=True,
        )

    def _shortage(self, name: str, wanted: Sequence[Resources]) -> Shortage | None:
        never = self.never(name, wanted)
        if never is not None:
            return never
        total, cluster = sum(wanted, Resources()), self.clusters[name]
        free = replace(cluster.has - self.used(name), gpu=self._free_gpus(name).bit_count())
        lacking = total.beyond(free)
        if lacking:
            there, has = asdict(free), asdict(cluster.has)
            left = _listed({key: f"{max(0, there[key])} of {has[key]}" for key in lacking})
            return Shortage(f"virtual cluster {name} has {left} free, the job wants {_listed(lacking)}")
        running = self.running_tasks
        if running and running + len(wanted) > self._max_tasks:
            return Shortage(
                f"{running} of at most {self._max_tasks} tasks run on this machine", everywhere=True
            )
        return None

    def _free_gpus(self, cluster: str) -> int:
        """Return the bit map of a virtual cluster's GPUs that no task has."""
        return self._gpus[cluster] & ~self._taken


def _listed(counts: Mapping[str, object]) -> str:
    """Return counts as text: ``2 CPUs and 1 GPU``."""
    return " and ".join(
        f"{count} {_UNITS[key].removesuffix('s') if count == 1 else _UNITS[key]}"
        for key, count in counts.items()
    )


def _lowest(gpus: int, count: int) -> int:
    """Return the bit map of the first GPUs of one."""
    return sum(islice(_bits(gpus), count))


def _bits(gpus: int) -> Iterator[int]:
    """Yield the GPUs of a bit map, each as a bit map."""
    while gpus > 0:
        yield gpus & -gpus
        gpus &= gpus - 1
