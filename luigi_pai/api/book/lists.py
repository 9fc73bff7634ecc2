"""Lists: gets all of a user's jobs in one request, and decides when that beats single lookups."""

from __future__ import annotations

import logging
from collections import deque
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from luigi_pai.api.dialects.job_replies import JobRow, listed_row
from luigi_pai.api.request_limits import Kind
from luigi_pai.errors import ClusterUnreachable, PaiApiError
from luigi_pai.jobspec.names import is_array_name, latest_attempts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.shared import SharedDocument

logger = logging.getLogger(__name__)

KEPT = 10.0
"""How long a list is current, in seconds."""

_SINGLE = 2  # after this many requests for single jobs within half a minute, the next job causes a list
_FORGOTTEN = 30.0  # seconds
# _TIME_SHARE: requests for lists take at most this share of the time. _LONGEST_PACE: the longest pause in
# seconds to stay within this share. It is bounded, because a list seems slow if the process was suspended
# during the request.
_TIME_SHARE, _LONGEST_PACE = 0.2, 30.0
_LIMIT_SHARE = 0.5
_WAITS_SHARE = 0.2
_FIRST_PAUSE, _LONGEST_PAUSE = 15.0, 600.0  # seconds
_MOST_ROWS = 20_000
_MOST_ARRAYS = 200  # maximum number of this process's arrays to remember


@dataclass(frozen=True)
class Listing:
    """The user's jobs at one time, as listed by the server. Existing and former jobs may be missing.

    Lists are truncated, servers delete old jobs, and LTP omits jobs in some virtual clusters.

    Attributes:
        version: The API version.
        requested: When the list was requested, in seconds of the monotonic clock.
        took: Seconds until the response.
        rows: Name on the server -> job, for at most the newest 20,000 jobs.
        latest: See ``latest_attempts``.
    """

    version: str
    requested: float
    took: float
    rows: Mapping[str, JobRow]
    latest: dict[str, int]

    @cached_property
    def arrays(self) -> list[str]:
        """The names of the listed arrays."""
        return list(filter(is_array_name, self.rows))


class Lists:
    """The last list of a user's jobs, and the time of the next one. Forked processes share it.

    A list is requested if two requests for single jobs were made within 30 s and another job must be looked
    up. The list is used for 10 s. Before requesting the next list, there is a pause, the longest of

    - a fifth of the median time until the next lookup of the watched jobs,
    - the pause that keeps lists within half of the server's limit: 2 s if the limit is 60 per minute,
    - the pause that ``Limits.polling_wait`` returns,
    - five times as long as the last list took, but at most 30 s: 2.5 s after 0.5 s.

    After a failed list, no list is requested for 15 s. This pause doubles with each additional failure, up to
    10 minutes. After a failure without any response from the server, it is always 15 s.

    Args:
        document: A document that forked processes share.
    """

    def __init__(self, document: SharedDocument) -> None:
        self._document = document
        self.clear()

    def clear(self) -> None:
        """Clear the cache."""
        self._listing: Listing | None = None
        self._own_arrays: deque[str] = deque(maxlen=_MOST_ARRAYS)  # that this process has submitted
        self._single = 0  # requests since the last list
        self._single_at = 0.0
        self._found_v1: str | None = None  # the v1 job most recently found by name
        self._is_flat = False  # whether the jobs of a v1 list can be looked up without the user's name
        self._pause = 0.0
        self._paused_until = 0.0
        self._not_before = 0.0  # see space()
        self._failure: tuple[float, PaiApiError] | None = None  # time and error of the last failed list

    def wait(self, api: RestApi) -> float | None:
        """Return the seconds until a list may be requested; None if lists fail or the dialect is unknown."""
        now = api.clock.monotonic()
        if api.detector.known is None or now < self._paused_until:
            return None
        last, limits = self._read(), api.session.limits
        if last is None:
            return limits.polling_wait()
        pace = last.requested + last.took + min(last.took / _TIME_SHARE, _LONGEST_PACE) - now
        limit = limits.wait(Kind.LIST, _LIMIT_SHARE, last.requested)
        return max(0.0, pace, limit, limits.polling_wait(), self._not_before - now)

    def space(self, now: float, waits: list[float]) -> None:
        """Delay the next list by a fifth of the median of ``waits``, the seconds until each job's lookup."""
        median = sorted(waits)[len(waits) // 2] if waits else 0.0  # the statistics module takes 4 ms to load
        self._not_before = now + _WAITS_SHARE * median

    def current(self, api: RestApi) -> Listing | None:
        """Return any process's last list if it is less than 10 s old and has this API version."""
        listing = self._read()
        if listing is None or listing.version != api.dialect.version:
            return None
        return listing if 0 <= api.clock.monotonic() - listing.requested < KEPT else None

    def make(self, api: RestApi, since: float | None = None) -> Listing:
        """Return a new list, or a list that another thread or process requested after ``since``.

        Args:
            api: The API that makes the request.
            since: A time in seconds of the monotonic clock; default: now.

        Raises:
            PaiApiError: The request failed. For a while after the failure, ``wait`` returns None.
        """
        clock, version = api.clock, api.dialect.version
        called = clock.monotonic()
        since = called if since is None else since
        with self._document.locked("list"):
            listing = self._read()
            if listing is not None and listing.version == version and listing.requested > since:
                return listing
            requested = clock.monotonic()
            if self._failure is not None and called < self._failure[0] <= requested:
                raise self._failure[1]  # of another thread's list
            try:
                rows = api.detector.call(lambda dialect: dialect.list(api.username, each=listed_row))
            except PaiApiError as error:
                self._record_failure(clock.monotonic(), error)
                raise
            self._pause = 0.0
            return self._store(api, requested, clock.monotonic() - requested, rows)

    def _record_failure(self, now: float, error: PaiApiError) -> None:
        pause = _FIRST_PAUSE if isinstance(error, ClusterUnreachable) else 2 * self._pause or _FIRST_PAUSE
        self._pause = min(pause, _LONGEST_PAUSE)
        self._failure, self._paused_until = (now, error), now + self._pause
        logger.debug("The list of jobs failed, the next one is in %.0f s: %s", self._pause, error)

    def rows(self, listing: Listing) -> Mapping[str, JobRow]:
        """Return the listed jobs that can be looked up by name alone, without the user's name.

        Lists from 0.8 to 0.14 mark these jobs as ``legacy``. Looking up any other job also takes its user's
        name. Lists from 0.7 mark no jobs. They are used only after a lookup by name has found a listed job.
        """
        if listing.version != "v1" or self._is_flat:
            return listing.rows
        self._is_flat = self._found_v1 in listing.rows
        first = next(iter(listing.rows.values()), None)  # all jobs are marked or none is
        return listing.rows if self._is_flat or (first is not None and first.legacy) else {}

    def arrays(self, listing: Listing) -> list[str]:
        """Return the names of the recorded arrays, newest first, followed by other arrays in ``listing``."""
        return list(dict.fromkeys([*self._own_arrays, *listing.arrays]))

    def record_array(self, name: str) -> None:
        """Record an array that was just submitted."""
        self._own_arrays.appendleft(name)

    def is_worth_it(self, api: RestApi, listing: Listing | None, name: str) -> bool:
        """Return whether to look up one of many jobs by requesting a new list rather than that job.

        Args:
            api: The API that would make the request.
            listing: The current list.
            name: The job's name on the server.
        """
        if self._single < _SINGLE:
            return False
        if api.clock.monotonic() - self._single_at > _FORGOTTEN:
            self._single = 0
            return False
        if listing is not None and name not in listing.rows:  # probably also missing from a new list
            return False
        return self.wait(api) == 0

    def count(self, now: float, requests: int = 1) -> None:
        """Count the requests that looking up a single job took; ``is_worth_it`` depends on the count."""
        self._single = requests if now - self._single_at > _FORGOTTEN else self._single + requests
        self._single_at = now

    def record_v1(self, name: str) -> None:
        """Record a v1 job that was found without its user's name."""
        self._found_v1 = name
        listing = self._listing
        self._is_flat = self._is_flat or (
            listing is not None and listing.version == "v1" and name in listing.rows
        )

    def _store(self, api: RestApi, requested: float, took: float, rows: Sequence[JobRow]) -> Listing:
        mine = [row for row in rows if row.username == api.username]
        if any(row.legacy for row in mine):
            mine = [row for row in mine if row.legacy]
        if len(mine) > _MOST_ROWS:
            mine = sorted(mine, key=lambda row: row.status().created_ms or 0, reverse=True)[:_MOST_ROWS]
        latest = latest_attempts(row.name for row in rows)
        listing = Listing(api.dialect.version, requested, took, {row.name: row for row in mine}, latest)
        with self._document.update() as state:
            state["list"] = [listing.version, requested, took, mine, latest]
        self._use(listing)
        return listing

    def _read(self) -> Listing | None:
        """Return the last list requested by any process."""
        state = self._document.read().get("list")
        if not state:
            return None
        version, requested, took, rows, latest = state
        if self._listing is None or self._listing.requested != requested:
            self._use(Listing(version, requested, took, {row[0]: JobRow(*row) for row in rows}, latest))
        return self._listing

    def _use(self, listing: Listing) -> None:
        self._listing = listing
        self._single = 0
