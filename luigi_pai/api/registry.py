"""A process's registry, with one Cluster for each set of settings."""

from __future__ import annotations

from typing import Any

from luigi_pai.api.caches import BoundedCache
from luigi_pai.api.clock import Clock
from luigi_pai.api.cluster import Cluster

__all__ = ["CLUSTERS", "Clusters", "reset_clusters"]

_MOST_CLUSTERS = 100


class Clusters:
    """This process's clusters, by their settings.

    Attributes:
        clock: The clock for each new Cluster.
        cache: Values that other modules store, each under its own key. ``reset`` empties it.
    """

    def __init__(self) -> None:
        self.clock: Clock = Clock()
        self.cache: BoundedCache[Any, Any] = BoundedCache()
        self._clusters: BoundedCache[Any, Cluster] = BoundedCache(most=_MOST_CLUSTERS)

    def get(self, **settings: Any) -> Cluster:
        """Return the Cluster for these constructor arguments; equal arguments return the same Cluster."""
        key = tuple(sorted(settings.items()))
        return self._clusters.get_or_make(key, lambda: Cluster(**settings, clock=self.clock))

    def reset(self) -> None:
        """Close all connections and forget all clusters and the cache, as in a new process."""
        for cluster in list(self._clusters.values()):
            cluster.close()
        self._clusters.clear()
        self.cache.clear()


CLUSTERS = Clusters()
"""This process's only registry."""


def reset_clusters() -> None:
    """Close all connections and forget everything about clusters and their jobs."""
    CLUSTERS.reset()
