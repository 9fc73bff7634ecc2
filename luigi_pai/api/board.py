"""Board: the states of a user's jobs from one list call, shared between forked processes.

Luigi calls ``complete()`` of one task after the other, so nobody says beforehand how many jobs will be
looked up. The first two are looked up alone; from then on the list answers. What a list lacks proves
nothing: lists are cut, servers drop old jobs, and LTP omits virtual clusters.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.api.request_limits import Kind
from luigi_pai.api.shared_state import SharedState
from luigi_pai.api.status import JobState, JobStatus
from luigi_pai.errors import PaiApiError
from luigi_pai.spec.names import is_array_name, latest_attempts

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from luigi_pai.api.caches import FinishedJobs
    from luigi_pai.api.dialects.dialect import Dialect
    from luigi_pai.api.session import Session

__all__ = ["Board", "Listing"]

logger = logging.getLogger(__name__)

_KEPT = 10.0  # seconds for which a list is used
_ALONE = 2  # jobs that are looked up alone before the first list
_MOST_ALONE = 256  # the same, after lists that answered nothing
_FORGOTTEN = 30.0  # seconds after which a lookup no longer counts towards a list
_TIME_SHARE = 0.1  # of the time, spent on lists at most
_LONGEST_PACE = (
    30.0  # seconds from a list that took very long to the next; the process may have been suspended
)
_LIMIT_SHARE = 0.5  # of the server's limit of lists
_FIRST_PAUSE, _LONGEST_PAUSE = 15.0, 600.0  # seconds without lists after one that failed
_MOST_ROWS = 20_000
_FIELDS = (  # of a row that is shared between processes
    "raw_state",
    "sub_state",
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
    """The user's jobs at one time, as the server lists them.

    Attributes:
        version: the dialect of the list.
        at: when the list was requested, in seconds of the monotonic clock.
        took: seconds until its reply.
        jobs: by the name on the server; at most 20,000, the newest.
        latest: see ``latest_attempts``.
        served: names of jobs that have been looked up since: it does not answer for them until they end.
    """

    version: str
    at: float
    took: float
    jobs: Mapping[str, JobStatus]
    latest: dict[str, int]
    served: set[str] = field(default_factory=set)


class Board:
    """The last list of a user's jobs, and when the next one is worth its request.

    Lists take at most half of the server's limit of lists, and at most a tenth of the time; the pause
    between two is at most 30 s. After a list that failed there is none for 15 s, then twice as long each
    time, up to 10 minutes; for as long as nothing else is answered either, 15 s each time. Safe to share
    between threads and over a fork.

    Args:
        session: of the server and the user.
        finished: gets the ends of jobs that lists show, in each process.
    """

    def __init__(self, session: Session, finished: FinishedJobs) -> None:
        self._session = session
        self._limits = session.limits
        self._clock = session.clock
        self._finished = finished
        self._state = SharedState()
        self._listing: Listing | None = None
        self._arrays: list[str] = []  # that this process has submitted
        self._alone = 0  # lookups since the last list
        self._alone_at = 0.0
        self._needed = _ALONE
        self._answered = 0  # lookups that the last list answered
        self._found: str | None = None  # a v1 job that was looked up alone
        self._flat = False  # v1 lists have no jobs but those that are looked up by their name alone
        self._pause = 0.0
        self._paused_until = 0.0
        self._replied = False  # a lookup was answered since the last list that failed
        self._failure: tuple[float, PaiApiError] | None = None  # of the last list that failed, and its time

    def wait(self) -> float | None:
        """Return the seconds until the next list may be made; None if lists fail at present."""
        now = self._clock.monotonic()
        if now < self._paused_until:
            return None
        last = self._read()
        if last is None:
            return self._limits.polling_wait()
        pace = last.at + last.took + min(last.took / _TIME_SHARE, _LONGEST_PACE) - now
        limit = self._limits.wait(Kind.LIST, _LIMIT_SHARE, last.at)
        return max(0.0, pace, limit, self._limits.polling_wait())

    def current(self, dialect: Dialect) -> Listing | None:
        """Return the last list of any process, if it is less than 10 s old and of this dialect."""
        listing = self._read()
        if listing is None or listing.version != dialect.version:
            return None
        return listing if 0 <= self._clock.monotonic() - listing.at < _KEPT else None

    def made_at(self, dialect: Dialect) -> float:
        """Return the time of the list of ``current``, on the monotonic clock; without one, 10 s ago."""
        last = self.current(dialect)
        return self._clock.monotonic() - _KEPT if last is None else last.at

    def refresh(
        self, dialect: Dialect, request: Callable[[], Iterable[JobStatus]], since: float | None = None
    ) -> Listing:
        """Make a list and return it; or that of another thread or process, made after ``since``.

        Args:
            dialect: of the list.
            request: makes the list.
            since: in seconds of the monotonic clock; default: the time of the last list, at most 10 s ago.

        Raises:
            PaiApiError: the list failed; there is none for a while.
        """
        since = self.made_at(dialect) if since is None else since
        version, asked = dialect.version, self._clock.monotonic()
        with self._state.locked("list"):
            listing = self._read()
            if listing is not None and listing.version == version and listing.at > since:
                return listing
            at = self._clock.monotonic()
            if self._failure is not None and asked < self._failure[0] <= at:  # of another thread, meanwhile
                raise self._failure[1]
            try:
                jobs = list(request())
            except PaiApiError as error:
                if self._replied or not self._pause:  # else no request is answered, a list or not
                    self._pause = min(2 * self._pause or _FIRST_PAUSE, _LONGEST_PAUSE)
                self._replied = False
                now = self._clock.monotonic()
                self._failure, self._paused_until = (now, error), now + self._pause
                logger.debug("The list of jobs failed, the next one is in %.0f s: %s", self._pause, error)
                raise
            self._pause = 0.0
            self._needed = _ALONE if self._answered or self._listing is None else 2 * self._needed
            self._needed = min(self._needed, _MOST_ALONE)
            return self._store(version, at, self._clock.monotonic() - at, jobs)

    def newest(self, dialect: Dialect, request: Callable[[], Iterable[JobStatus]]) -> Listing:
        """Return a list of any process that is less than 10 s old; a new one if there is none.

        Raises:
            PaiApiError: the list failed.
        """
        return self.current(dialect) or self.refresh(dialect, request)

    def arrays(self, dialect: Dialect, request: Callable[[], Iterable[JobStatus]]) -> list[str]:
        """Return the names of the arrays in that list and those of ``add_array``, newest first."""
        listed = [name for name in self.newest(dialect, request).jobs if is_array_name(name)]
        return list(dict.fromkeys([*self._arrays, *listed]))

    def add_array(self, name: str) -> None:
        """Add an array that was submitted just now."""
        self._arrays.insert(0, name)

    def usable(self, listing: Listing) -> Mapping[str, JobStatus]:
        """Return the jobs of a list that a lookup of their name finds, as far as that is known.

        From 0.8 to 0.14 a v1 list also has jobs of another API, which a lookup needs the user for; the others
        are marked there. On 0.7 none is marked, so such jobs are used once one of them has been looked up.
        """
        return listing.jobs if self._is_usable(listing) else {}

    def answer(self, dialect: Dialect, name: str) -> JobStatus | None:
        """Return what is known of a job without a request; of an unfinished one, once for each list."""
        full = dialect.job_name(name)
        listing = self.current(dialect)
        job = self.usable(listing).get(full) if listing is not None else None
        known = self._finished.get((dialect.version, full), self._session.connection_epoch, listed=True)
        if listing is None or job is None or full in listing.served:
            return known
        self._answered += 1
        if known is not None or job.finished:
            return known
        listing.served.add(full)
        return job

    def is_worth_it(self, dialect: Dialect, name: str) -> bool:
        """Return whether to make a list now, in order to look up a job that the last one does not answer."""
        now = self._clock.monotonic()
        if now - self._alone_at > _FORGOTTEN:
            self._alone = 0
        if self._alone < self._needed:
            return False
        listing = self.current(dialect)
        if listing is not None and dialect.job_name(name) not in listing.jobs:  # nor would it be in a new one
            return False
        return self.wait() == 0

    def looked_up(self) -> None:
        """Count a job that was looked up alone."""
        self._alone += 1
        self._alone_at = self._clock.monotonic()

    def seen(self, version: str, name: str, *, found: bool) -> None:
        """Record a lookup of a job alone: its next one is not answered by a list that is older.

        Args:
            version: the dialect.
            name: on the server.
            found: whether the server knows the job.
        """
        self._replied = True
        if self._listing is not None and name in self._listing.jobs:
            self._listing.served.add(name)
        if version != "v1" or self._flat or not found:
            return
        self._found = name
        if self._listing is not None and self._shows_flat(self._listing):
            self._flat = True
            self._cache_ends(self._listing)

    def clear(self) -> None:
        """Forget everything."""
        with self._state.update() as state:
            state.clear()
        self._listing = self._found = None
        self._arrays = []
        self._alone, self._needed, self._answered = 0, _ALONE, 0
        self._flat, self._pause, self._paused_until, self._failure = False, 0.0, 0.0, None
        self._replied = False

    def _store(self, version: str, at: float, took: float, jobs: list[JobStatus]) -> Listing:
        own = [job for job in jobs if job.username == self._session.account.username]
        if any(job.legacy for job in own):
            own = [job for job in own if job.legacy]
        if len(own) > _MOST_ROWS:
            own = sorted(own, key=lambda job: job.created_ms or 0)[-_MOST_ROWS:]
        listing = Listing(version, at, took, {job.name: job for job in own}, _latest(jobs))
        rows = {job.name: [getattr(job, name) for name in _FIELDS] for job in own}
        with self._state.update() as state:
            state.update(version=version, at=at, took=took, latest=listing.latest, rows=rows)
        self._use(listing)
        return listing

    def _read(self) -> Listing | None:
        """Return the last list of any process."""
        state = self._state.read()
        if not state:
            return None
        known = self._listing
        if known is not None and known.at == state["at"]:
            return known
        jobs = {
            name: JobStatus(
                name,
                JobState.of(row[0]),
                username=self._session.account.username,
                **dict(zip(_FIELDS, row, strict=True)),
            )
            for name, row in state["rows"].items()
        }
        listing = Listing(state["version"], state["at"], state["took"], jobs, state["latest"])
        self._use(listing)
        return listing

    def _use(self, listing: Listing) -> None:
        self._listing = listing
        self._alone = self._answered = 0
        self._flat = self._flat or self._shows_flat(listing)
        if self._is_usable(listing):
            self._cache_ends(listing)

    def _cache_ends(self, listing: Listing) -> None:
        jobs = {(listing.version, name): job for name, job in listing.jobs.items()}
        self._finished.update_listed(jobs, self._session.connection_epoch)

    def _is_usable(self, listing: Listing) -> bool:
        marked = next((job.legacy for job in listing.jobs.values()), False)  # all of them, or none
        return listing.version != "v1" or self._flat or marked

    def _shows_flat(self, listing: Listing) -> bool:
        return listing.version == "v1" and self._found in listing.jobs


def _latest(jobs: Iterable[JobStatus]) -> dict[str, Any]:
    return latest_attempts(job.name for job in jobs)
