"""Caches of a Cluster: finished jobs, and lookups of submissions."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.submissions import LatestSubmission

__all__ = ["BoundedCache", "Cache", "FinishedJobs", "Lookup"]

_MOST = 20_000  # entries of a cache
_VALID_FOR = 30.0  # seconds
_SAME_CREATION = 60_000  # ms by which a list and a lookup may differ

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class Lookup:
    """The result of a lookup of a task's latest submission.

    Attributes:
        found: the result.
        version: the dialect of the lookup.
        at: its time on the monotonic clock, in seconds.
        reusable: whether ``run()`` may use it in place of a lookup of its own.
    """

    found: LatestSubmission
    version: str
    at: float
    reusable: bool

    def age(self, clock: Clock) -> float:
        """Return its age in seconds."""
        return clock.monotonic() - self.at


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

    def put_all(self, values: Mapping[K, V]) -> None:
        """Store several values."""
        with self._lock():
            for key, value in values.items():
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

    def pop(self, key: K) -> None:
        """Remove a key."""
        with self._lock():
            self._values.pop(key, None)

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


class FinishedJobs:
    """The statuses of finished jobs. They never change as long as the same server replies.

    The cache is valid for 30 s, and only while the connections on which the server replied last. Then
    the next job is looked up: if its status is the cached one, the cache is valid for another 30 s; if
    not, another server replies, and the cache is emptied. A list renews it, too.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._statuses: BoundedCache[tuple[str, str], JobStatus] = BoundedCache()
        self._listed: BoundedCache[tuple[str, str], JobStatus] = BoundedCache()
        self._valid: tuple[int, float] | None = None  # connection epoch, end on the monotonic clock

    def get(self, key: tuple[str, str], epoch: int, *, listed: bool = False) -> JobStatus | None:
        """Return the cached status of a job; None if it must be looked up.

        Args:
            key: dialect and name.
            epoch: of the connections, see ``Session.connection_epoch``.
            listed: what a list says of the job is enough.
        """
        if self._valid is None:
            return None
        status = self._statuses.get(key) or (self._listed.get(key) if listed else None)
        return status if status is not None and self._is_valid(epoch) else None

    def update(self, key: tuple[str, str], status: JobStatus | None, epoch: int) -> None:
        """Record the result of a lookup; None if the server does not know the job."""
        known = self._statuses.get(key)
        listed = self._listed.get(key)
        if (known is not None and known != status) or (listed is not None and not _is_same(listed, status)):
            self.clear()  # another server replies
        # Replies of mocked tests name neither owner nor time: such tests must not see each other's jobs.
        if status is not None and status.finished and status.identified:
            is_first = self._valid is None or not (len(self._statuses) or len(self._listed))
            if known is not None or listed is not None or is_first:
                self._renew(epoch)
            self._statuses.put(key, status)

    def update_listed(self, jobs: Mapping[tuple[str, str], JobStatus], epoch: int) -> None:
        """Record the finished jobs of a list."""
        ends = {key: job for key, job in jobs.items() if job.finished and job.identified}
        known = [(self._statuses.get(key) or self._listed.get(key), jobs[key]) for key in jobs]
        before = [(status, job) for status, job in known if status is not None]
        if not all(_is_same(status, job) for status, job in before) or (
            not before and not self._is_valid(epoch)
        ):
            self.clear()  # another server may reply
        self._listed.put_all(ends)
        if ends:
            self._renew(epoch)

    def clear(self) -> None:
        """Remove them all."""
        self._statuses.clear()
        self._listed.clear()
        self._valid = None

    def _renew(self, epoch: int) -> None:
        self._valid = epoch, self._clock.monotonic() + _VALID_FOR

    def _is_valid(self, epoch: int) -> bool:
        return (
            self._valid is not None and self._valid[0] == epoch and self._clock.monotonic() < self._valid[1]
        )


def _is_same(end: JobStatus, status: JobStatus | None) -> bool:
    """Return whether a status is that of a job whose end is known, in fewer facts or more."""
    return (
        status is not None
        and (status.state, status.username) == (end.state, end.username)
        and abs((status.created_ms or 0) - (end.created_ms or 0)) < _SAME_CREATION
    )


Cache = BoundedCache[Any, Any]
"""A cache whose users have keys of their own."""
