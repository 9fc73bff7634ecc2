"""Jobs: the statuses of single jobs, looked up one by one or in a list, and cached while they are valid."""

from __future__ import annotations

import contextlib
import math
import os
from typing import TYPE_CHECKING, Any

from luigi_pai.api.book.explanations import Explanations
from luigi_pai.api.book.failed_posts import FailedPosts
from luigi_pai.api.book.lists import Lists
from luigi_pai.api.caches import BoundedCache
from luigi_pai.errors import JobNotFound, PaiApiError
from luigi_pai.jobspec.names import attempt_name, base_name, is_array_name, may_hold

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from luigi_pai.api.book.lists import Listing
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.shared import SharedDocument
    from luigi_pai.api.status import JobStatus

UNREACHABLE = "unreachable"
"""A key of the document that forks share. Its value is the time and text of the last ClusterUnreachable."""

_VIRTUAL_CLUSTERS_KEPT = _END_KEPT = 10.0  # seconds
# seconds for which a list is trusted to contain the newest submission. Another machine may submit a later
# one after the list was made, but the job of this later one is assumed not to end within these seconds.
_NEWEST_FOR = 2.0


class Jobs:
    """The known statuses of single jobs; see ``Book``.

    Args:
        api: the REST API of the cluster.
        shared, shared_lists: see ``Book``.

    Attributes:
        api: as given.
        failed_posts: the failed submissions to the server.
        explanations: the reasons why jobs wait.
    """

    def __init__(self, api: RestApi, shared: SharedDocument, shared_lists: SharedDocument) -> None:
        self.api = api
        self.failed_posts = FailedPosts(shared, api.clock)
        self._shared, self._shared_lists = shared, shared_lists
        self._ends: BoundedCache[tuple[str, str], tuple[float, JobStatus]] = BoundedCache()  # see _end_of
        self._lists = Lists(shared_lists)
        self.explanations = Explanations(shared, api.clock)
        self._asked: BoundedCache[tuple[str, str], float] = BoundedCache()  # the time of the last status
        self._members: BoundedCache[str, list[str]] = BoundedCache()
        self._held: tuple[float, list[str], set[str]] = (-1.0, [], set())  # see _arrays_of

    def clear(self) -> None:
        """Clear all caches."""
        self._lists.clear()
        for cache in (self._ends, self._asked, self._members):
            cache.clear()

    def job_name(self, name: str, number: int) -> str:
        """Return the name of a submission on this cluster."""
        return attempt_name(self.api.job_name(name), number)

    def note_post(self, name: str) -> None:
        """Record that a job was posted just now, because lists made before may lack the job."""
        with self._shared.update() as state:
            last = state.get("posted", [0, -1.0])
            if last[0] != os.getpid():
                state["posted before"] = last
            state["posted"] = [os.getpid(), self.api.clock.monotonic()]
        if is_array_name(name):
            self._lists.note_array(name)

    def of(self, name: str) -> JobStatus:
        """Return the status of a job; the status of a finished job is cached for 10 s.

        Raises:
            JobNotFound: the server knows no job of this name.
        """
        known = self._end_of(self._key(name))
        if known is not None:
            return known
        try:
            if self._is_unlisted(name):
                self.api.check_there(name)
            status = self.api.status(name)
        except JobNotFound:
            self._note(name, None)
            raise
        self._note(name, status)
        return status

    def one_of_many(self, name: str) -> JobStatus:
        """Return the status of one of many jobs. Use the list of jobs if possible, else look up the job.

        A status from a list has no tasks and no diagnostics.

        Raises:
            JobNotFound: the server knows no job of this name.
        """
        since = self._lists.made_at(self.api)  # a list that another thread makes after this counts as new
        known = self._listed(name)
        if known is not None:
            return known
        if self._lists.is_worth_it(self.api, self.api.job_name(name)):
            with contextlib.suppress(PaiApiError):
                self._lists.make(self.api, since)
                known = self._listed(name)
                if known is not None:
                    return known
        before = self.api.dialect.version
        try:
            status = self.of(name)
        except JobNotFound as error:
            if error.code is not None:  # a 404 without an error code is from a mocked test
                self._lists.count(self.api, before)
            raise
        if status.identified:
            self._lists.count(self.api, before)
        return status

    def statuses(self, names: Iterable[str]) -> dict[str, JobStatus]:
        """Request a new list, and return the statuses, by name, of the jobs in ``names`` that it contains.

        Raises:
            PaiApiError: the request for the list failed.
        """
        full = {name: self.api.job_name(name) for name in names}
        rows = self._usable_rows(self._lists.make(self.api), full)
        return {name: rows[own] for name, own in full.items() if own in rows}

    def _usable_rows(self, listing: Listing, names: Mapping[str, str]) -> Mapping[str, JobStatus]:
        """Return ``Lists.rows``; if they depend on a lookup by name, look up one of the listed jobs first.

        Args:
            listing: the list.
            names: the names of the jobs that are needed, with their names on the server.

        Raises:
            PaiApiError: the lookup failed.
        """
        rows = self._lists.rows(listing)
        listed = None if rows else next((name for name, own in names.items() if own in listing.jobs), None)
        if listed is None:
            return rows
        with contextlib.suppress(JobNotFound):
            self.of(listed)
        return self._lists.rows(listing)

    def list_wait(self) -> float | None:
        """Return the seconds until ``statuses`` may be called (0.0: now), or None; see ``Lists.wait``."""
        return self._lists.wait(self.api)

    def space_lists(self, waits: list[float]) -> None:
        """Delay the next list according to ``waits``, the seconds until the next lookup of each job."""
        self._lists.space(self.api, waits)

    def members(self, array: str) -> list[str]:
        """Return the names of the submissions in an array, in order; [] if the job is not an array.

        Raises:
            JobNotFound: the server has no such job.
        """
        members = self._members.get(array)
        if members is None:
            from luigi_pai.jobspec.arrays.jobs import jobs_in  # noqa: PLC0415  a slow import, for arrays only

            members = jobs_in(self.api.config(array)) or []
            self._members.put(array, members)
        return members

    def note_members(self, array: str, members: list[str]) -> None:
        """Record the names of the submissions in a new array, in the order of their indexes."""
        self._members.put(array, members)

    def arrays(self) -> list[str]:
        """Return the user's arrays by name: this process's arrays, newest first, then the others in the list.

        Raises:
            PaiApiError: there was no current list, and the request for a new one failed.
        """
        return self._lists.arrays(self._newest_list())

    def is_unlisted(self, name: str, *, is_corrected: bool = True) -> bool:
        """Return whether a current list has no submission of some work, and no array that may contain it.

        Args:
            name: of the work.
            is_corrected: whether the server (409) or a claim refuses a second post of the name, so that an
                incomplete or outdated list does no harm. If False, the list must be complete, at most 2 s
                old, and newer than the last post by another forked process.
        """
        listing = self._lists.current(self.api)
        full = self.api.job_name(name)
        if listing is None or full in listing.jobs or full in listing.latest:
            return False
        if not is_corrected:
            since = max(self._posted_by_others(), self.api.clock.monotonic() - _NEWEST_FOR)
            if listing.at <= since or not self.api.dialect.whole_lists:
                return False
        unknown, held = self._arrays_of(listing)
        return full not in held and not any(may_hold(array, full) for array in unknown)

    def _posted_by_others(self) -> float:
        """Return the monotonic time of the last post by another forked process; -1.0 if there is none."""
        state = self._shared.read()
        posts = (state.get(key, [0, -1.0]) for key in ("posted", "posted before"))
        return max(float(at) for process, at in posts if process != os.getpid())

    def _arrays_of(self, listing: Listing) -> tuple[list[str], set[str]]:
        """Return the listed arrays with unknown members, and the names of the work in all other arrays."""
        if self._held[0] != listing.at:
            arrays = {name: self._members.get(name) for name in listing.jobs if is_array_name(name)}
            held = {base_name(member) for members in arrays.values() for member in members or ()}
            self._held = listing.at, [name for name in arrays if arrays[name] is None], held
        return self._held[1:]

    def listed_number(self, name: str, *, is_needed: bool = False) -> int:
        """Return the number of the work's last submission in the list; 0 if the list has no NAME__attemptN.

        Args:
            name: of the work.
            is_needed: whether to request a list if none is current, which may raise PaiApiError.
        """
        listing = self._newest_list() if is_needed else self._lists.current(self.api)
        return 0 if listing is None else listing.latest.get(self.api.job_name(name), 0)

    def is_newest(self, name: str, number: int) -> bool:
        """Return whether a list of the last 2 s shows that a submission is the newest one of its work.

        The list must be newer than the last post by any of the forked processes.
        """
        listing = self._lists.current(self.api)
        if listing is None or self.job_name(name, number) not in self._lists.rows(listing):
            return False
        posted = self._shared.read().get("posted", [0, -1.0])[1]
        is_new = posted < listing.at and self.api.clock.monotonic() - listing.at < _NEWEST_FOR
        return is_new and listing.latest.get(self.api.job_name(name), 1) == number

    def virtual_clusters(
        self, max_age: float = _VIRTUAL_CLUSTERS_KEPT, may_ask: Callable[[], bool] = lambda: True
    ) -> Mapping[str, Any] | None:
        """Return the virtual clusters by name; forked processes share the reply.

        Args:
            max_age: seconds for which a reply may be reused.
            may_ask: returns whether a request may be made. If not, and no reply can be reused, return None.
        """
        key, clock = "virtual clusters", self.api.clock

        def young() -> Mapping[str, Any] | None:
            at, known = self._shared_lists.read().get(key, (-math.inf, None))
            return known if 0 <= clock.monotonic() - at < max_age else None

        if (known := young()) is not None:
            return known
        with self._shared_lists.locked(key):
            known = young()  # another process may have requested them meanwhile
            if known is None and may_ask():
                now, is_known = clock.monotonic(), self.api.detector.known is not None
                # RestApi detects an unknown dialect from the reply
                known = self.api.dialect.virtual_clusters() if is_known else self.api.virtual_clusters()
                with self._shared_lists.update() as state:
                    state[key] = [now, known]
        return known

    def shared_status(self, name: str, max_age: float) -> JobStatus | None:
        """Return a job's status from the list that forks share; None if the job is to be looked up alone.

        Args:
            name: of the job.
            max_age: seconds for which a list may be reused; at most 10.
        """
        listing, now = self._lists.current(self.api), self.api.clock.monotonic()
        own = self.api.job_name(name)
        try:
            if listing is None or now - listing.at >= max_age:
                if self.list_wait() != 0:
                    return None
                listing = self._lists.make(self.api, now - max_age)
            return self._usable_rows(listing, {name: own}).get(own)
        except PaiApiError:
            return None

    def _note(self, name: str, status: JobStatus | None) -> None:
        """Record the reply to the lookup of a single job."""
        key, now = self._key(name), self.api.clock.monotonic()
        self._asked.put(key, now)
        # a status that is not ``identified`` is from a mocked test, whose next reply may differ
        if status is not None and status.finished and status.identified:
            self._ends.put(key, (now, status))
            listing = self._lists.current(self.api)
            listed = None if listing is None else listing.jobs.get(key[1])
            if listed is not None and not listed.finished:
                with self._shared.update() as state:
                    state["ended"] = now  # this list is now outdated for all processes
        if status is not None and key[0] == "v1":
            self._lists.note_v1(key[1])
        if UNREACHABLE in self._shared.read():
            with self._shared.update() as state:
                state.pop(UNREACHABLE, None)

    def _is_unlisted(self, name: str) -> bool:
        """Return whether LTP's current list, made after the last submission, does not have a job."""
        listing = None if self.api.dialect.whole_lists else self._lists.current(self.api)
        if listing is None or self.api.job_name(name) in listing.jobs:
            return False
        return bool(self._shared.read().get("posted", [0, -1.0])[1] < listing.at)

    def _end_of(self, key: tuple[str, str]) -> JobStatus | None:
        """Return a job's status if a lookup in the last 10 s showed that the job has ended; else None."""
        at, status = self._ends.get(key, (-math.inf, None))
        return status if self.api.clock.monotonic() - at < _END_KEPT else None

    def _newest_list(self) -> Listing:
        return self._lists.current(self.api) or self._lists.make(self.api)

    def _listed(self, name: str) -> JobStatus | None:
        """Return a status from the cache or list if it is final or newer than the last lookup; else None."""
        key, listing = self._key(name), self._lists.current(self.api)
        known = self._end_of(key)
        job = self._lists.rows(listing).get(key[1]) if listing is not None and known is None else None
        if listing is None or job is None:
            return known
        if job.finished:
            return job if job.identified else None
        if max(self._asked.get(key, -1.0), self._shared.read().get("ended", -1.0)) >= listing.at:
            return None
        self._asked.put(key, listing.at)
        return job

    def _key(self, name: str) -> tuple[str, str]:
        dialect = self.api.dialect
        return dialect.version, dialect.job_name(name)
