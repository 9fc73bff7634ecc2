"""Virtual clusters: their names, and how many CPUs, MB of memory and GPUs each has.

They are written as on the command line, ``NAME`` or ``NAME:cpu=N,memory=MB,gpu=N``;
any of the counts may be left out.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["DEFAULT", "MAX_GPUS", "Resources", "VirtualCluster", "virtual_clusters"]

MAX_GPUS = 62
"""GPUs of all virtual clusters together: as many as the bit map of a task can show."""

_FORM = re.compile(r"([A-Za-z0-9_-]+)(?::(.*))?", re.DOTALL)
_COUNT = re.compile(r"(cpu|memory|gpu)=([0-9]{1,12})")


@dataclass(frozen=True)
class Resources:
    """CPUs, MB of memory and GPUs: a capacity, or a request."""

    cpu: int = 0
    memory: int = 0
    gpu: int = 0

    @classmethod
    def of_role(cls, role: Mapping[str, Any]) -> Resources:
        """Return the request of each task of a role; a negative count is 0."""
        wanted = (role[key] for key in ("cpuNumber", "memoryMB", "gpuNumber"))
        return cls(*(max(0, number) for number in wanted))

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.cpu + other.cpu, self.memory + other.memory, self.gpu + other.gpu)

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.cpu - other.cpu, self.memory - other.memory, self.gpu - other.gpu)

    def beyond(self, limit: Resources) -> dict[str, int]:
        """Return the counts that exceed a limit, by field name; empty if all fit."""
        most = asdict(limit)
        return {name: count for name, count in asdict(self).items() if count > most[name]}


DEFAULT = Resources(cpu=64, memory=256 * 1024, gpu=8)
"""The capacity of a virtual cluster where nothing else is configured, the same on every machine."""


@dataclass(frozen=True)
class VirtualCluster:
    """A virtual cluster and its capacity."""

    name: str
    has: Resources

    def __str__(self) -> str:
        return f"{self.name}:" + ",".join(f"{key}={count}" for key, count in asdict(self.has).items())

    @classmethod
    def parse(cls, text: str, otherwise: Resources) -> VirtualCluster:
        """Parse ``NAME`` or ``NAME:cpu=N,memory=MB,gpu=N``; ``otherwise`` has the counts that are left out.

        Raises:
            ConfigError: the text is of another form.
        """
        form = _FORM.fullmatch(text)
        if form is None:
            raise ConfigError(
                f"virtual cluster {text.partition(':')[0]!r}: a name consists of letters, digits, _ and -"
            )
        counts = {}
        for part in [] if form[2] is None else form[2].split(","):
            count = _COUNT.fullmatch(part)
            if count is None or count[1] in counts:
                raise ConfigError(
                    f"virtual cluster {text!r}: it is not of the form NAME:cpu=N,memory=MB,gpu=N, "
                    "in which each count is a whole number and any may be left out"
                )
            counts[count[1]] = int(count[2])
        return cls(form[1], Resources(**{**asdict(otherwise), **counts}))


def virtual_clusters(texts: Iterable[str], otherwise: Resources = DEFAULT) -> tuple[VirtualCluster, ...]:
    """Parse virtual clusters; there is always a ``default``, and it is first; of duplicates the last counts.

    Raises:
        ConfigError: a text is of another form, or there are more than `MAX_GPUS` GPUs.
    """
    clusters = {"default": VirtualCluster("default", otherwise)}
    for text in texts:
        cluster = VirtualCluster.parse(text, otherwise)
        clusters[cluster.name] = cluster
    total = sum(cluster.has.gpu for cluster in clusters.values())
    if total > MAX_GPUS:
        raise ConfigError(
            f"the virtual clusters have {total} GPUs together, more than {MAX_GPUS}; "
            "give each its own number: --virtual-cluster NAME:gpu=N"
        )
    return tuple(clusters.values())
