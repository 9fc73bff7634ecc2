"""Book: finds the newest submission of a piece of work, the job that runs it, and its state."""

from __future__ import annotations

import copy
import math
from typing import TYPE_CHECKING, Any, TypeVar

from luigi_pai.api.book.entries import Entry
from luigi_pai.api.book.search import Search
from luigi_pai.api.book.statuses import UNREACHABLE, Statuses
from luigi_pai.api.caches import BoundedCache
from luigi_pai.errors import ClusterUnreachable

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping

    from luigi_pai.api.book.entries import Records
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.shared import SharedDocument
    from luigi_pai.api.status import JobStatus

T = TypeVar("T")

_OUTAGE_KEPT = _VIRTUAL_CLUSTERS_KEPT = 10.0  # seconds


class Book(Statuses):
    """The known state of a user's jobs on a cluster. It looks up jobs and caches the responses.

    A finished job's status is cached for 10 s. For any other job, each result is newer than the one
    before, so an older list never replaces a newer lookup. A failed submission counts as the newest
    only if no later submission is found, either by a lookup or in a list that is at most 2 s old.

    A job is looked up by name, with a request for this job only. After two such requests within half a
    minute, the next lookup requests a list of all jobs instead. If the list does not contain the job, it
    is then requested by name. If a piece of work's newest submission is unknown or failed, the
    search continues with the last submission recorded for the work. If none was recorded, the search
    continues with the list, and with the listed arrays that may contain the work, judging by their names.

    Safe to share between threads and across a fork.

    Args:
        api: The REST API of the cluster.
        shared: A document that forked processes share. It is small, because it is written often.
        shared_lists: Another such document, with the last list of jobs and the virtual clusters.

    Attributes:
        api: The REST API that was passed to the constructor.
    """

    def __init__(self, api: RestApi, shared: SharedDocument, shared_lists: SharedDocument) -> None:
        super().__init__(api, shared, shared_lists)
        self._answers: BoundedCache[tuple[str, str], tuple[float, Entry | None]] = BoundedCache()
        self._remembered: BoundedCache[Hashable, Any] = BoundedCache()

    def with_version(self, api_version: str) -> Book:
        """Return a view of this book that shares its server and caches, but always uses the given dialect."""
        view = copy.copy(self)
        view.api = self.api.with_version(api_version)
        return view

    def clear(self) -> None:
        """Clear all caches."""
        super().clear()
        self._answers.clear()
        self._remembered.clear()

    def latest(
        self,
        name: str,
        records: Records | None = None,
        *,
        max_age: float = 0.0,
        patience: float | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> Entry | None:
        """Find the newest submission of a piece of work; None if there is none.

        Look it up by its names. If that finds nothing or only a failed submission, read the records; the
        last one decides where to look. If there is no record, the list of jobs decides.

        Args:
            name: The work's name, which is also the name of its first submission.
            records: The work's records outside of the server, if it can have any.
            max_age: How long the last result for this name may be reused, in seconds.
            patience: How long to retry after transient errors, in seconds; default: the cluster's setting.
            sleep: Waits for a number of seconds; default: the sleep of the cluster's clock.

        Raises:
            PaiNameTaken: The name belongs to another user.
            ClusterUnreachable: The server does not respond, or did not respond to a lookup in the last 10 s.
            PaiApiError: A lookup failed.
            HdfsError: The records cannot be read.
        """
        now = self.api.clock.monotonic()
        found_at, known = self._answers.get(self._key(name), (-math.inf, None))
        if now - found_at < max_age:
            return known
        # Forked processes share the error, so that a thousand tasks do not each wait for a timeout.
        failed_at, problem = self._shared.read().get(UNREACHABLE, (-math.inf, ""))
        if 0 <= now - failed_at < _OUTAGE_KEPT:
            raise ClusterUnreachable(problem)
        search = Search(self, name, patience, sleep)
        try:
            entry = search.newest(1 if known is None else known.number, records)
        except ClusterUnreachable as error:
            with self._shared.update() as state:
                state[UNREACHABLE] = [self.api.clock.monotonic(), str(error)]
            raise
        self.record_entry(name, entry)
        return entry

    def holder(self, name: str, number: int, sleep: Callable[[float], None] | None = None) -> Entry | None:
        """Look up a submission under its own name. If it failed, return the newest later submission."""
        search = Search(self, name, sleep=sleep)
        entry = search.look_up(number, single=True)
        if entry is not None and entry.failed:
            entry = search.later_than(entry)
        self.record_entry(name, entry)
        return entry

    def cached_entry(self, name: str) -> Entry | None:
        """Return the last recorded entry of a piece of work, however old it is; None if there is no entry."""
        return self._answers.get(self._key(name), (0.0, None))[1]

    def record_posted(self, name: str, number: int, status: JobStatus) -> Entry:
        """Record a submission that this process just posted as a separate job; return the new entry."""
        entry = Entry(number, self.job_name(name, number), status, posted=True)
        self.record_entry(name, entry)
        return entry

    def record_entry(self, name: str, entry: Entry | None) -> None:
        """Record the newest submission of a piece of work; ``None`` means that there is no submission."""
        self._answers.put(self._key(name), (self.api.clock.monotonic(), entry))

    def remembered(self, key: Hashable, make: Callable[[], T]) -> T:
        """Return the object that another module cached under a key. If there is none, make and cache it."""
        kept: T = self._remembered.get_or_make(key, make)
        return kept

    def remember(self, key: Hashable, value: object) -> None:
        """Replace the object that ``remembered`` returns for a key."""
        self._remembered.put(key, value)

    def virtual_clusters(
        self, max_age: float = _VIRTUAL_CLUSTERS_KEPT, may_ask: Callable[[], bool] = lambda: True
    ) -> Mapping[str, Any] | None:
        """Return the virtual clusters by name; forked processes share the response.

        Args:
            max_age: How long a response may be reused, in seconds.
            may_ask: Returns whether a request may be made. If it returns False and no response can be
                reused, the result is None.
        """
        key, clock = "virtual clusters", self.api.clock

        def young() -> Mapping[str, Any] | None:
            received, known = self._shared_lists.read().get(key, (-math.inf, None))
            return known if 0 <= clock.monotonic() - received < max_age else None

        if (known := young()) is not None:
            return known
        with self._shared_lists.locked(key):
            known = young()  # another process may have requested them meanwhile
            if known is None and may_ask():
                now, is_known = clock.monotonic(), self.api.detector.known is not None
                # if the dialect is not known yet, RestApi detects it from the response
                known = self.api.dialect.virtual_clusters() if is_known else self.api.virtual_clusters()
                with self._shared_lists.update() as state:
                    state[key] = [now, known]
        return known
