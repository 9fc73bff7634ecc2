"""Ends: the statuses of finished jobs, which never change while the same server replies."""

from __future__ import annotations

from typing import TYPE_CHECKING

from luigi_pai.api.caches import BoundedCache

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from luigi_pai.api.clock import Clock
    from luigi_pai.api.status import JobStatus

__all__ = ["Ends"]

_VALID_FOR = 30.0  # seconds
_SAME_CREATION = 60_000  # ms by which a list and a lookup may differ

Key = tuple[str, str]  # api_version, and the job's name on the server


class Ends:
    """The statuses of finished jobs.

    They are valid for 30 s, and only while the connections last on which the server replied. Then the
    next job is looked up: if its status is the cached one, they are valid for another 30 s; if not,
    another server replies, and all are forgotten. A list renews them, too. Replies without owner and
    submission time, as mocked tests have them, are not cached.

    Args:
        epoch: returns a number that changes when connections were lost, see ``Session.connection_epoch``.
        clock: measures their age.
    """

    def __init__(self, epoch: Callable[[], int], clock: Clock) -> None:
        self._epoch = epoch
        self._clock = clock
        self._statuses: BoundedCache[Key, JobStatus] = BoundedCache()
        self._listed: BoundedCache[Key, JobStatus] = BoundedCache()
        self._valid: tuple[int, float] | None = None  # connection epoch, end on the monotonic clock

    def of(self, key: Key, *, listed: bool = False) -> JobStatus | None:
        """Return the status of a finished job; None if it must be looked up.

        Args:
            key: of the job.
            listed: what a list says of it is enough; that has no tasks and no diagnostics.
        """
        if self._valid is None:
            return None
        status = self._statuses.get(key) or (self._listed.get(key) if listed else None)
        return status if status is not None and self._is_valid() else None

    def take(self, key: Key, status: JobStatus | None) -> None:
        """Take the result of a lookup; None if the server does not know the job."""
        known, listed = self._statuses.get(key), self._listed.get(key)
        if (known is not None and known != status) or (listed is not None and not _is_same(listed, status)):
            self.clear()  # another server replies
        if status is not None and status.finished and status.identified:
            is_first = self._valid is None or not (len(self._statuses) or len(self._listed))
            if known is not None or listed is not None or is_first:
                self._renew()
            self._statuses.put(key, status)

    def take_listed(self, jobs: Mapping[Key, JobStatus]) -> None:
        """Take the jobs of a list."""
        ends = {key: job for key, job in jobs.items() if job.finished and job.identified}
        known = [(self._statuses.get(key) or self._listed.get(key), jobs[key]) for key in jobs]
        before = [(status, job) for status, job in known if status is not None]
        if not all(_is_same(status, job) for status, job in before) or (not before and not self._is_valid()):
            self.clear()  # another server may reply
        for key, job in ends.items():
            self._listed.put(key, job)
        if ends:
            self._renew()

    def clear(self) -> None:
        """Forget them all."""
        self._statuses.clear()
        self._listed.clear()
        self._valid = None

    def _renew(self) -> None:
        self._valid = self._epoch(), self._clock.monotonic() + _VALID_FOR

    def _is_valid(self) -> bool:
        valid = self._valid
        return valid is not None and valid[0] == self._epoch() and self._clock.monotonic() < valid[1]


def _is_same(end: JobStatus, status: JobStatus | None) -> bool:
    """Return whether a status is that of a job whose end is known, in fewer facts or more."""
    return (
        status is not None
        and (status.state, status.username) == (end.state, end.username)
        and abs((status.created_ms or 0) - (end.created_ms or 0)) < _SAME_CREATION
    )
