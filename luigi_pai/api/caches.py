"""BoundedCache: a mapping that drops its oldest entries."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TypeVar

_MOST = 20_000  # entries of a cache

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(OrderedDict[K, V]):
    """A mapping that drops its oldest entries. Safe to share between threads and across a fork.

    Read it as a dict, but change it only with ``put``, ``get_or_make`` and ``clear``.
    """

    def __init__(self, most: int = _MOST) -> None:
        super().__init__()
        self._most = most
        # by process id, because a child process could never release a lock that was held at the fork
        self._locks: dict[int, threading.Lock] = {}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({len(self)} entries)"  # no values, because they may contain secrets

    def put(self, key: K, value: V) -> None:
        """Store a value."""
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            self[key] = value
            self.move_to_end(key)
            while len(self) > self._most:
                self.popitem(last=False)

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return a key's value. If there is none, create and store it while other threads wait."""
        with self._locks.setdefault(os.getpid(), threading.Lock()):
            value = self.get(key)
            if value is None:
                value = self[key] = make()
            while len(self) > self._most:
                self.popitem(last=False)
            return value
