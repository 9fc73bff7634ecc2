"""What a Cluster remembers of jobs: ends, lookups, and for how long they can be trusted."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.submissions import Found

__all__ = ["Ends", "Lookup", "Notes", "Remembered"]

_MOST = 20_000  # entries of each kind
_TRUSTED_FOR = 30.0  # seconds after which the server is asked whether it is still the same

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class Lookup:
    """What a lookup of a piece of work's newest submission found.

    Attributes:
        found: that.
        version: the dialect in which it was made.
        at: when, on the monotonic clock, in seconds.
        reusable: whether ``run()`` may build on it in place of a lookup of its own.
    """

    found: Found
    version: str
    at: float
    reusable: bool

    def age(self, clock: Clock) -> float:
        """Return the seconds since."""
        return clock.monotonic() - self.at


class Remembered(Generic[K, V]):
    """A mapping that forgets its oldest entries. Safe to share between threads and over a fork."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()
        self._locks: dict[int, threading.Lock] = {}  # of each process

    def get(self, key: K) -> V | None:
        """Return the value of a key, None where there is none."""
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Remember a value."""
        with self._held():
            self._put(key, value)

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; where there is none, make it, once."""
        with self._held():
            value = self._values.get(key)
            if value is None:
                value = make()
                self._put(key, value)
            return value

    def values(self) -> list[V]:
        """Return all values."""
        with self._held():
            return list(self._values.values())

    def pop(self, key: K) -> None:
        """Forget a key."""
        with self._held():
            self._values.pop(key, None)

    def clear(self) -> None:
        """Forget everything."""
        with self._held():
            self._values.clear()

    def __len__(self) -> int:
        return len(self._values)

    def _put(self, key: K, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        while len(self._values) > self._most:
            self._values.popitem(last=False)

    def _held(self) -> threading.Lock:
        # a fork has a lock of its own: the thread that held that of its parent is not in it
        return self._locks.setdefault(os.getpid(), threading.Lock())


class Ends:
    """The last statuses of finished jobs, which never change while the same server answers.

    They are trusted for half a minute at a time, and no longer than the connections last
    on which the server answered. Then the next job that is asked for is looked up: if it
    is as it was remembered, so are the others; if not, all are forgotten.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._statuses: Remembered[tuple[str, str], JobStatus] = Remembered()
        self._trusted: tuple[int, float] | None = None  # connection epoch, end on the monotonic clock

    def trusted(self, key: tuple[str, str], epoch: int) -> JobStatus | None:
        """Return the status of a job that need not be looked up.

        Args:
            key: dialect and name.
            epoch: of the connections, see ``Session.connection_epoch``.
        """
        status = self._statuses.get(key)
        if status is None or self._trusted is None:
            return None
        known_epoch, ends = self._trusted
        return status if known_epoch == epoch and self._clock.monotonic() < ends else None

    def confirm(self, key: tuple[str, str], status: JobStatus | None, epoch: int) -> None:
        """Record what a lookup says; None: the server does not know the job."""
        known = self._statuses.get(key)
        if known is not None and known != status:
            self._statuses.clear()  # another server answers
            self._trusted = None
        # The bare replies of mocked tests do not say whose job it is; they are not remembered.
        if status is not None and status.finished and status.identified:
            if known is not None or self._trusted is None or not len(self._statuses):
                self._trusted = epoch, self._clock.monotonic() + _TRUSTED_FOR
            self._statuses.put(key, status)

    def clear(self) -> None:
        """Forget them all."""
        self._statuses.clear()
        self._trusted = None


Notes = Remembered[Any, Any]
"""What other rooms remember of a cluster's jobs, by keys of their own."""
