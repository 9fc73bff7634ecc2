"""Virtual clusters as they are asked for: names, and how many CPUs, MB of memory and GPUs each has.

The form is that of the command line: ``NAME`` or ``NAME:cpu=N,memory=MB,gpu=N``,
of whose counts any may be left out.
"""

from __future__ import annotations

import os
import re
from dataclasses import asdict, dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from luigi_pai.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

__all__ = ["MAX_GPUS", "Resources", "VirtualCluster", "of_this_machine", "virtual_clusters"]

MAX_GPUS = 62
"""GPUs of all virtual clusters together: as many as the bit map of a task can show."""

_FORM = re.compile(r"([A-Za-z0-9_]+)(?::(.*))?", re.DOTALL)
_COUNT = re.compile(r"(cpu|memory|gpu)=([0-9]{1,12})")
_PRETENDED_GPUS = 8
_MIB = 1024 * 1024


@dataclass(frozen=True)
class Resources:
    """CPUs, MB of memory and GPUs: what there is, or what a task wants."""

    cpu: int = 0
    memory: int = 0
    gpu: int = 0

    @classmethod
    def of_role(cls, role: Mapping[str, Any]) -> Resources:
        """Return what each task of a role wants; less than nothing is nothing."""
        wanted = (role[key] for key in ("cpuNumber", "memoryMB", "gpuNumber"))
        return cls(*(max(0, number) for number in wanted))

    def __add__(self, other: Resources) -> Resources:
        return Resources(self.cpu + other.cpu, self.memory + other.memory, self.gpu + other.gpu)

    def __sub__(self, other: Resources) -> Resources:
        return Resources(self.cpu - other.cpu, self.memory - other.memory, self.gpu - other.gpu)

    def times(self, count: int) -> Resources:
        """Return so many of them."""
        return Resources(self.cpu * count, self.memory * count, self.gpu * count)

    def beyond(self, limit: Resources, word: str) -> str:
        """Say what does not fit into a limit, such as ``3 CPUs wanted, 2 free``; nothing if all does."""
        asked = (
            (self.cpu, limit.cpu, "CPUs"),
            (self.memory, limit.memory, "MB of memory"),
            (self.gpu, limit.gpu, "GPUs"),
        )
        return "; ".join(
            f"{count} {what} wanted, {max(0, most)} {word}" for count, most, what in asked if count > most
        )


@dataclass(frozen=True)
class VirtualCluster:
    """A virtual cluster and what it has."""

    name: str
    has: Resources

    def __str__(self) -> str:
        return f"{self.name}:" + ",".join(f"{key}={count}" for key, count in asdict(self.has).items())

    @classmethod
    def parse(cls, text: str, otherwise: Resources) -> VirtualCluster:
        """Return the virtual cluster that a text asks for.

        Args:
            text: ``NAME`` or ``NAME:cpu=N,memory=MB,gpu=N``.
            otherwise: what it has where the text does not say.

        Raises:
            ConfigError: the text is of another form.
        """
        form = _FORM.fullmatch(text)
        if form is None:
            raise ConfigError(
                f"virtual cluster {text.partition(':')[0]!r}: OpenPAI takes letters, digits and _ only"
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


@cache
def of_this_machine() -> Resources:
    """Return the CPUs and the memory of this machine, and 8 pretended GPUs."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // _MIB
    return Resources(os.cpu_count() or 1, memory, _PRETENDED_GPUS)


def virtual_clusters(texts: Iterable[str], otherwise: Resources | None = None) -> tuple[VirtualCluster, ...]:
    """Return the virtual clusters that texts ask for, ``default`` first, whether asked for or not.

    Of two of one name the later counts.

    Args:
        texts: one each.
        otherwise: what one has where its text does not say; None for `of_this_machine`.

    Raises:
        ConfigError: a text is of another form, or there are more than `MAX_GPUS` GPUs.
    """
    base = of_this_machine() if otherwise is None else otherwise
    clusters = {"default": VirtualCluster("default", base)}
    for text in texts:
        cluster = VirtualCluster.parse(text, base)
        clusters[cluster.name] = cluster
    total = sum(cluster.has.gpu for cluster in clusters.values())
    if total > MAX_GPUS:
        raise ConfigError(
            f"the virtual clusters have {total} GPUs together, more than {MAX_GPUS}; "
            "give each its own number: --virtual-cluster NAME:gpu=N"
        )
    return tuple(clusters.values())
