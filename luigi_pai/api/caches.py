"""BoundedCache: a mapping that forgets its oldest entries."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

__all__ = ["BoundedCache"]

_MOST = 20_000  # entries of a cache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """A mapping that drops its oldest entries. Safe to share between threads and over a fork."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._locks: dict[int, threading.Lock] = {}  # of each process

    def get(self, key: K) -> V | None:
        """Return the value of a key; None if there is none."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Store a value."""
        with self._lock():
            self._put(key, value)

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; make it, once, if there is none."""
        with self._lock():
            value = self._values.get(key)
            if value is None:
                value = make()
                self._put(key, value)
            return value

    def values(self) -> list[V]:
        """Return all values."""
        with self._lock():
            return list(self._values.values())

    def clear(self) -> None:
        """Remove everything."""
        with self._lock():
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)

    def _put(self, key: K, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._most:
            self._values.popitem(last=False)

    def _lock(self) -> threading.Lock:
        # one for each process: a thread of the parent that holds the lock does not exist in a fork
        return self._locks.setdefault(os.getpid(), threading.Lock())
