"""Statuses: looks up single jobs' statuses, by name or in a list, and caches them."""

from __future__ import annotations

import contextlib
import math
import os
from typing import TYPE_CHECKING

from luigi_pai.api.book.explanations import Explanations
from luigi_pai.api.book.failed_posts import FailedPosts
from luigi_pai.api.book.lists import KEPT, Lists
from luigi_pai.api.caches import BoundedCache
from luigi_pai.errors import JobNotFound, PaiApiError
from luigi_pai.jobspec.names import attempt_name, base_name, is_array_name, may_hold

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from luigi_pai.api.book.lists import Listing
    from luigi_pai.api.dialects.job_replies import JobRow
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.shared import SharedDocument
    from luigi_pai.api.status import JobStatus

UNREACHABLE = "unreachable"
"""The forks' shared document stores the time and message of the last ClusterUnreachable under this key."""

_END_KEPT = 10.0  # seconds
# How long a list is trusted to contain the newest submission, in seconds. Another machine may submit a later
# one after the list was made, but that job is assumed not to end within this time.
_NEWEST_FOR = 2.0
_NEVER = -1.0  # earlier than all times of the monotonic clock


class Statuses:
    """Single jobs' known statuses; see ``Book``.

    Args:
        api: The REST API of the cluster.
        shared, shared_lists: See ``Book``.

    Attributes:
        api: The REST API that was passed to the constructor.
        failed_posts: The failed submissions to the server.
        explanations: The reasons why jobs are waiting.
    """

    def __init__(self, api: RestApi, shared: SharedDocument, shared_lists: SharedDocument) -> None:
        self.api = api
        self._shared, self._shared_lists = shared, shared_lists
        self._lists = Lists(shared_lists)
        self.failed_posts = FailedPosts(shared, api.clock)
        self.explanations = Explanations(shared, api.clock)
        # by version of the API and name on the server: when the last status was received, and the last end
        self._asked: BoundedCache[tuple[str, str], float] = BoundedCache()
        self._ends: BoundedCache[tuple[str, str], tuple[float, JobStatus]] = BoundedCache()
        self._members: BoundedCache[str, list[str]] = BoundedCache()
        self._held: tuple[float, list[str], set[str]] = (_NEVER, [], set())  # see _arrays_of

    def clear(self) -> None:
        """Clear all caches."""
        self._lists.clear()
        for cache in (self._ends, self._asked, self._members):
            cache.clear()

    def job_name(self, name: str, number: int) -> str:
        """Return a submission's name on this cluster."""
        return attempt_name(self.api.job_name(name), number)

    def record_post(self, name: str) -> None:
        """Record that a job was just posted, because older lists may not contain it."""
        with self._shared.update() as state:
            last = state.get("posted", [0, _NEVER])
            if last[0] != os.getpid():
                state["posted before"] = last
            state["posted"] = [os.getpid(), self.api.clock.monotonic()]
        if is_array_name(name):
            self._lists.record_array(name)

    # single jobs

    def status(self, name: str, *, of_many: bool = False) -> JobStatus:
        """Return a job's status; a finished job's status is cached for 10 s.

        Args:
            name: The job's name.
            of_many: Whether the list of jobs may be used, because many jobs are looked up one by one. A
                status from a list does not contain tasks or diagnostics.

        Raises:
            JobNotFound: The server knows no job with this name.
        """
        dialect = self.api.dialect
        before, own_name = key = dialect.version, dialect.job_name(name)
        known = self._ended(key) or (self._from_list(key) if of_many else None)
        if known is not None:
            return known
        try:
            if not dialect.whole_lists and self._is_absent(own_name):
                dialect.check_there(name)
            status = self.api.status(name)
        except JobNotFound as error:
            self._record(name, None)
            if of_many and error.code is not None:  # a 404 without an error code comes from a mocked test
                self._count(before)
            raise
        self._record(name, status)
        if of_many and status.identified:
            self._count(before)
        return status

    def _count(self, before: str) -> None:
        """Count a lookup of a single job. If it detected another API version, it made two requests."""
        self._lists.count(self.api.clock.monotonic(), 1 if self.api.dialect.version == before else 2)

    def _record(self, name: str, status: JobStatus | None) -> None:
        """Record the response to a single job's lookup."""
        key, now = self._key(name), self.api.clock.monotonic()  # the response may have revealed the dialect
        self._asked.put(key, now)
        if status is not None and key[0] == "v1":
            self._lists.record_v1(key[1])
        # a status that is not ``identified`` comes from a mocked test, whose next response may differ
        if status is not None and status.finished and status.identified:
            self._ends.put(key, (now, status))
            listing = self._lists.current(self.api)
            row = None if listing is None else listing.rows.get(key[1])
            if row is not None and not row.status().finished:
                with self._shared.update() as state:
                    state["ended"] = now  # this list is now outdated for all processes
        self._shared.discard(UNREACHABLE)

    def _is_absent(self, own_name: str) -> bool:
        """Return whether a current list, newer than the last submission, does not contain the job."""
        listing = self._lists.current(self.api)
        if listing is None or own_name in listing.rows:
            return False
        return self._posted_at() < listing.requested

    def _ended(self, key: tuple[str, str]) -> JobStatus | None:
        """Return a job's status if a lookup in the last 10 s showed that the job has ended; else None."""
        received, status = self._ends.get(key, (-math.inf, None))
        return status if status is not None and self.api.clock.monotonic() - received < _END_KEPT else None

    def _from_list(self, key: tuple[str, str]) -> JobStatus | None:
        """Return a status from the current list, or from a new list if it is worth a request; else None."""
        lists, listing, began = self._lists, self._lists.current(self.api), self.api.clock.monotonic()
        status = None if listing is None else self._still_true(listing, key)
        if status is not None or not lists.is_worth_it(self.api, listing, key[1]):
            return status
        with contextlib.suppress(PaiApiError):
            # a list that another thread requests now is new enough
            since = began - KEPT if listing is None else listing.requested
            return self._still_true(lists.make(self.api, since), key)
        return None

    def _still_true(self, listing: Listing, key: tuple[str, str]) -> JobStatus | None:
        """Return a status from a list if it is final or newer than the last lookup; else None."""
        row = self._lists.rows(listing).get(key[1])
        if row is None:
            return None
        status = row.status()
        if status.finished:
            return status if status.identified else None
        if max(self._asked.get(key, _NEVER), self._shared.read().get("ended", _NEVER)) >= listing.requested:
            return None
        self._asked.put(key, listing.requested)
        return status

    def _key(self, name: str) -> tuple[str, str]:
        dialect = self.api.dialect
        return dialect.version, dialect.job_name(name)

    # lists

    def statuses(self, names: Iterable[str]) -> dict[str, JobStatus]:
        """Request a new list; return a dict from name to status for the jobs in ``names`` that it contains.

        Raises:
            PaiApiError: The request for the list failed.
        """
        job_name = self.api.dialect.job_name
        full_names = {name: job_name(name) for name in names}
        rows = self._usable_rows(self._lists.make(self.api), full_names)
        return {name: rows[full_name].status() for name, full_name in full_names.items() if full_name in rows}

    def shared_status(self, name: str, max_age: float) -> JobStatus | None:
        """Return a job's status from the list that forks share; None if the job must be requested by name.

        Args:
            name: The job's name.
            max_age: How long a list may be reused, in seconds; at most 10.
        """
        listing, now = self._lists.current(self.api), self.api.clock.monotonic()
        full_name = self.api.job_name(name)
        try:
            if listing is None or now - listing.requested >= max_age:
                if self.list_wait() != 0:
                    return None
                listing = self._lists.make(self.api, now - max_age)
            row = self._usable_rows(listing, {name: full_name}).get(full_name)
        except PaiApiError:
            return None
        return None if row is None else row.status()

    def _usable_rows(self, listing: Listing, names: Mapping[str, str]) -> Mapping[str, JobRow]:
        """Return ``Lists.rows``. If they depend on a lookup by name, first look up one of the listed jobs.

        Args:
            listing: The list.
            names: Name of each needed job -> its name on the server.

        Raises:
            PaiApiError: The lookup failed.
        """
        rows = self._lists.rows(listing)
        listed = None if rows else next((name for name, full in names.items() if full in listing.rows), None)
        if listed is None:
            return rows
        with contextlib.suppress(JobNotFound):
            self.status(listed)
        return self._lists.rows(listing)

    def list_wait(self) -> float | None:
        """Return the seconds until ``statuses`` may be called (0.0: now), or None; see ``Lists.wait``."""
        return self._lists.wait(self.api)

    def space_lists(self, waits: list[float]) -> None:
        """Delay the next list according to ``waits``, the seconds until the next lookup of each job."""
        self._lists.space(self.api.clock.monotonic(), waits)

    def listed_number(self, name: str, *, is_needed: bool = False) -> int:
        """Return the number of the work's last submission in the list; 0 if there is no NAME__attemptN.

        Args:
            name: The work's name.
            is_needed: Whether to request a list if none is current, which may raise PaiApiError.
        """
        listing = self._newest_list() if is_needed else self._lists.current(self.api)
        return 0 if listing is None else listing.latest.get(self.api.job_name(name), 0)

    def is_newest(self, name: str, number: int) -> bool:
        """Return whether a list from the last 2 s shows that a submission is the newest for its work.

        The list must be newer than the last post by any of the forked processes.
        """
        listing = self._lists.current(self.api)
        if listing is None or self.job_name(name, number) not in self._lists.rows(listing):
            return False
        return self._is_recent(listing) and listing.latest.get(self.api.job_name(name), 1) == number

    def is_unlisted(self, name: str, *, is_corrected: bool = True) -> bool:
        """Return whether a current list has no submission of some work and no array that may contain one.

        Args:
            name: The work's name.
            is_corrected: Whether the server (409) or a claim rejects a second post with the name, so that an
                incomplete or outdated list does no harm. If False, the list must be complete, at most 2 s
                old, and newer than the last post by another forked process.
        """
        listing = self._lists.current(self.api)
        full = self.api.job_name(name)
        if listing is None or full in listing.rows or full in listing.latest:
            return False
        is_whole = self.api.dialect.whole_lists
        if not (is_corrected or (is_whole and self._is_recent(listing, by_others=True))):
            return False
        unknown, held = self._arrays_of(listing)
        return full not in held and not any(may_hold(array, full) for array in unknown)

    def _newest_list(self) -> Listing:
        return self._lists.current(self.api) or self._lists.make(self.api)

    def _is_recent(self, listing: Listing, *, by_others: bool = False) -> bool:
        """Return whether a list is at most 2 s old and newer than the last post; see ``_posted_at``."""
        oldest = self.api.clock.monotonic() - _NEWEST_FOR
        return listing.requested > max(self._posted_at(by_others=by_others), oldest)

    def _posted_at(self, *, by_others: bool = False) -> float:
        """Return the monotonic time of the last post by any forked process, or by any except this one."""
        posts = [self._shared.read().get(key, [0, _NEVER]) for key in ("posted", "posted before")]
        return max(float(posted) for process, posted in posts if not by_others or process != os.getpid())

    # arrays

    def members(self, array: str) -> list[str]:
        """Return the names of the submissions in an array, in order; [] if the job is not an array.

        Raises:
            JobNotFound: The server has no such job.
        """
        members = self._members.get(array)
        if members is None:
            from luigi_pai.jobspec.arrays.jobs import jobs_in  # noqa: PLC0415  a slow import, for arrays only

            members = jobs_in(self.api.config(array)) or []
            self._members.put(array, members)
        return members

    def record_members(self, array: str, members: list[str]) -> None:
        """Record the names of the submissions in a new array, in the order of their indexes."""
        self._members.put(array, members)

    def arrays(self) -> list[str]:
        """Return the user's arrays by name: this process's arrays, newest first, then the others in the list.

        Raises:
            PaiApiError: There was no current list, and the request for a new one failed.
        """
        return self._lists.arrays(self._newest_list())

    def _arrays_of(self, listing: Listing) -> tuple[list[str], set[str]]:
        """Return the listed arrays with unknown members, and the work's names in all other arrays."""
        if self._held[0] != listing.requested:
            arrays = {name: self._members.get(name) for name in listing.arrays}
            held = {base_name(member) for members in arrays.values() for member in members or ()}
            self._held = listing.requested, [name for name in arrays if arrays[name] is None], held
        return self._held[1:]
