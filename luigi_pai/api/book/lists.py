"""Lists: all jobs of a user in one request, and when to request a list rather than single jobs."""

from __future__ import annotations

import logging
import statistics
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING

from luigi_pai.api.request_limits import Kind
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.errors import ClusterUnreachable, PaiApiError
from luigi_pai.jobspec.names import is_array_name, latest_attempts

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.shared import SharedDocument

logger = logging.getLogger(__name__)

_KEPT = 10.0  # seconds
_SINGLE = 2  # requests for single jobs within half a minute, after which a list is made for the next job
_FORGOTTEN = 30.0  # seconds
# _TIME_SHARE: requests for lists take at most this share of the time. _LONGEST_PACE: the longest pause, in
# seconds, that is made to keep to this share. It is bounded, because a list seems slow if the process was
# suspended during the request.
_TIME_SHARE, _LONGEST_PACE = 0.1, 30.0
_LIMIT_SHARE = 0.5
_WAITS_SHARE = 0.2
_FIRST_PAUSE, _LONGEST_PAUSE = 15.0, 600.0  # seconds
_MOST_ROWS = 20_000
_MOST_ARRAYS = 200  # arrays submitted by this process that are remembered
_FIELDS = (  # of a row that is shared between processes
    "raw_state",
    "retries",
    "exit_code",
    "created_ms",
    "launched_ms",
    "completed_ms",
    "virtual_cluster",
    "legacy",
)


@dataclass(frozen=True)
class Listing:
    """The user's jobs at one time, as the server lists them. The list may lack a job that exists or existed.

    The reasons: lists are truncated, servers delete old jobs, LTP omits jobs in some virtual clusters.

    Attributes:
        version: of the API.
        at: when the list was requested, in seconds of the monotonic clock.
        took: seconds until the reply.
        jobs: the statuses by the jobs' names on the server; of the newest 20,000 jobs at most.
        latest: see ``latest_attempts``.
    """

    version: str
    at: float
    took: float
    jobs: Mapping[str, JobStatus]
    latest: dict[str, int]


class Lists:
    """The last list of a user's jobs, and when the next one may be made. Forked processes share it.

    A list is requested when two requests for single jobs were made within 30 s and another job is to be
    looked up. The list is used for 10 s. Before the next one is requested, there is a pause. It is the
    longest of

    - a fifth of the median time until the watched jobs are to be looked up again,
    - the pause that lets lists use half of the server's limit for lists: 2 s if the limit is 60 a minute,
    - the pause that ``Limits.polling_wait`` returns,
    - ten times the duration of the last list, but at most 30 s: 5 s after a list that took 0.5 s.

    After a failed list, there is no request for a list for 15 s. This pause doubles with each further
    failure, up to 10 minutes. But after a failure in which the server did not reply at all, it is 15 s.

    Args:
        document: forked processes share it.
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
        self._single_v1: str | None = None
        self._flat = False  # whether the jobs of a v1 list can be looked up by name alone
        self._pause = 0.0
        self._paused_until = 0.0
        self._not_before = 0.0  # see space()
        self._failure: tuple[float, PaiApiError] | None = None  # time and error of the last failed list

    def wait(self, api: RestApi) -> float | None:
        """Return the seconds until the next list may be made; None if lists fail or no dialect is known."""
        now = api.clock.monotonic()
        if api.detector.known is None or now < self._paused_until:
            return None
        last, limits = self._read(api), api.session.limits
        if last is None:
            return limits.polling_wait()
        pace = last.at + last.took + min(last.took / _TIME_SHARE, _LONGEST_PACE) - now
        limit = limits.wait(Kind.LIST, _LIMIT_SHARE, last.at)
        return max(0.0, pace, limit, limits.polling_wait(), self._not_before - now)

    def space(self, api: RestApi, waits: list[float]) -> None:
        """Delay the next list by a fifth of the median of ``waits``, the seconds until each job's lookup."""
        longest = _WAITS_SHARE * statistics.median(waits) if waits else 0.0
        self._not_before = api.clock.monotonic() + longest

    def current(self, api: RestApi) -> Listing | None:
        """Return the last list of any process, if it is less than 10 s old and of this API version."""
        listing = self._read(api)
        if listing is None or listing.version != api.dialect.version:
            return None
        return listing if 0 <= api.clock.monotonic() - listing.at < _KEPT else None

    def make(self, api: RestApi, since: float | None = None) -> Listing:
        """Return a new list, or a list that another thread or process has requested after ``since``.

        Args:
            api: makes the request.
            since: in seconds of the monotonic clock; default: now.

        Raises:
            PaiApiError: the request failed. For a while after the failure, ``wait`` returns None.
        """
        clock, version = api.clock, api.dialect.version
        asked = clock.monotonic()
        since = asked if since is None else since
        with self._document.locked("list"):
            listing = self._read(api)
            if listing is not None and listing.version == version and listing.at > since:
                return listing
            at = clock.monotonic()
            if self._failure is not None and asked < self._failure[0] <= at:  # another thread's list failed
                raise self._failure[1]
            try:
                jobs = api.list()
            except PaiApiError as error:
                self._record_failure(api, error)
                raise
            self._pause = 0.0
            return self._store(api, at, clock.monotonic() - at, jobs)

    def _record_failure(self, api: RestApi, error: PaiApiError) -> None:
        pause = _FIRST_PAUSE if isinstance(error, ClusterUnreachable) else 2 * self._pause or _FIRST_PAUSE
        self._pause = min(pause, _LONGEST_PAUSE)
        now = api.clock.monotonic()
        self._failure, self._paused_until = (now, error), now + self._pause
        logger.debug("The list of jobs failed, the next one is in %.0f s: %s", self._pause, error)

    def rows(self, listing: Listing) -> Mapping[str, JobStatus]:
        """Return the listed jobs that can be looked up by their names, without the user's name.

        Lists of 0.8 to 0.14 mark these jobs as ``legacy``. The lookup of any other job needs its user's name,
        too. Lists of 0.7 mark no job. They are used only after a lookup by name has found a listed job.
        """
        marked = next((job.legacy for job in listing.jobs.values()), False)  # all jobs are marked or none is
        return listing.jobs if listing.version != "v1" or self._flat or marked else {}

    def made_at(self, api: RestApi) -> float:
        """Return the monotonic time of the current list; if there is none, the time 10 s ago."""
        last = self.current(api)
        return api.clock.monotonic() - _KEPT if last is None else last.at

    def arrays(self, listing: Listing) -> list[str]:
        """Return the names of the noted arrays, newest first, then of the other arrays in ``listing``."""
        return list(dict.fromkeys([*self._own_arrays, *filter(is_array_name, listing.jobs)]))

    def note_array(self, name: str) -> None:
        """Note an array that was submitted just now."""
        self._own_arrays.appendleft(name)

    def is_worth_it(self, api: RestApi, name: str) -> bool:
        """Return whether to request a new list now to look up one of many jobs, and not the job alone."""
        if api.clock.monotonic() - self._single_at > _FORGOTTEN:
            self._single = 0
        if self._single < _SINGLE:
            return False
        listing = self.current(api)
        if listing is not None and name not in listing.jobs:  # a new list is likely to lack it, too
            return False
        return self.wait(api) == 0

    def count(self, api: RestApi, before: str) -> None:
        """Count the requests of a single job's lookup; ``is_worth_it`` depends on the count.

        ``before`` is the API version before the lookup. If the lookup has detected another version, it has
        made a request in both.
        """
        self._single += 1 if api.dialect.version == before else 2
        self._single_at = api.clock.monotonic()

    def note_v1(self, name: str) -> None:
        """Note a v1 job that was found by its name alone."""
        self._single_v1 = name
        self._flat = self._flat or (self._listing is not None and self._shows_flat(self._listing))

    def _store(self, api: RestApi, at: float, took: float, jobs: Iterable[JobStatus]) -> Listing:
        jobs = list(jobs)
        own = [job for job in jobs if job.username == api.username]
        if any(job.legacy for job in own):
            own = [job for job in own if job.legacy]
        if len(own) > _MOST_ROWS:
            own = sorted(own, key=lambda job: job.created_ms or 0, reverse=True)[:_MOST_ROWS]
        latest = latest_attempts(job.name for job in jobs)
        listing = Listing(api.dialect.version, at, took, {job.name: job for job in own}, latest)
        rows = {job.name: [getattr(job, name) for name in _FIELDS] for job in own}
        with self._document.update() as state:
            state["list"] = {
                "version": listing.version,
                "at": at,
                "took": took,
                "latest": latest,
                "rows": rows,
            }
        self._use(listing)
        return listing

    def _read(self, api: RestApi) -> Listing | None:
        """Return the last list of any process."""
        state = self._document.read().get("list")
        if not state:
            return None
        known = self._listing
        if known is not None and known.at == state["at"]:
            return known
        jobs = {
            name: JobStatus(
                name, JobState.of(row[0]), username=api.username, **dict(zip(_FIELDS, row, strict=True))
            )
            for name, row in state["rows"].items()
        }
        listing = Listing(state["version"], state["at"], state["took"], jobs, state["latest"])
        self._use(listing)
        return listing

    def _use(self, listing: Listing) -> None:
        self._listing = listing
        self._single = 0
        self._flat = self._flat or self._shows_flat(listing)

    def _shows_flat(self, listing: Listing) -> bool:
        return listing.version == "v1" and self._single_v1 in listing.jobs
