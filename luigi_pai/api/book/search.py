"""Search: finds the newest submission of one piece of work by looking up its names."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from luigi_pai.api.book.entries import Entry
from luigi_pai.api.retries import Retry
from luigi_pai.api.status import instance_statuses
from luigi_pai.errors import JobNotFound, PaiNameTaken
from luigi_pai.jobspec.names import may_hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.book.entries import Recorded, Records
    from luigi_pai.api.book.statuses import Statuses
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.status import JobStatus

_MOST_ARRAYS = 200  # maximum number of arrays to search for one piece of work


class Search:
    """Searches for one piece of work's submissions: NAME, NAME__attempt2, ...; retries transient errors.

    Args:
        jobs: The statuses that look up single jobs.
        name: The work's name.
        patience: How long to retry after transient errors, in seconds; None: the cluster's setting.
        sleep: Waits for a number of seconds; default: the sleep of the cluster's clock.
    """

    def __init__(
        self,
        jobs: Statuses,
        name: str,
        patience: float | None = None,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._jobs = jobs
        self._api = api = jobs.api
        self._name = name
        self._own_name = partial(jobs.job_name, name)  # the name on the server, by the number of a submission
        self._retry = Retry(
            api.polling.patience if patience is None else patience,
            api.clock,
            f"job {name}",
            token_limit=api.polling.patience,
            sleep=sleep,
        )

    def newest(self, first: int, records: Records | None) -> Entry | None:
        """Find the newest submission; None if there is none.

        Look up the ``first`` submission or, if the server does not know it, NAME. If the submission found
        failed, look up later ones. If nothing or only a failed submission is found, read the records. The
        last record decides where to look; if there is none, the list of jobs decides. If the first response
        has no owner and no submission time, as in mocked tests, stop there.
        """
        entry = self.look_up(first)
        if entry is None and first > 1:
            entry = self.look_up(1)
        if entry is not None:
            if entry.may_have_successor:
                entry = self._successor(entry)
            if not entry.may_have_successor:
                return entry
        return self._by_list(entry) if records is None else self._by_records(entry, records)

    def look_up(self, number: int, *, single: bool = False) -> Entry | None:
        """Look up the job with a submission's name; None if the server does not know the name.

        Args:
            number: The submission's number.
            single: Whether to request only this job. If False, a list of jobs may be used.

        Raises:
            PaiNameTaken: The name belongs to another user.
        """
        name, version = self._own_name(number), self._api.dialect.version
        try:
            status = self._retry.call(partial(self._jobs.status, name, of_many=not single))
        except JobNotFound:
            return None
        if self._api.dialect.version != version:  # revealed by the response; v2 has other names
            name = self._own_name(number)
        check_owner(self._api, name, status)
        return Entry(number, name, status)

    def later_than(self, entry: Entry) -> Entry:
        """Return the newest submission after a failed one; ``entry`` if there is no later submission."""
        while entry.failed:
            later = self.look_up(entry.number + 1, single=True)
            if later is None:
                break
            entry = later
        return entry

    def recorded(self, record: Recorded) -> Entry:
        """Look up a recorded submission; its status is None if the server does not know it."""
        name = self._own_name(record.number)
        if record.job == name:
            entry = self.look_up(record.number, single=True)
        elif not may_hold(record.job, name):  # others may have written the record
            return Entry(record.number, record.job, None, void=True)
        else:
            members = self._members(record.job)  # once: the array may appear between two lookups
            if members is not None and name not in members:
                return Entry(record.number, record.job, None, void=True)
            entry = None if members is None else self._in_array(record.number, record.job)
        return entry or Entry(record.number, record.job, None)

    def _successor(self, entry: Entry) -> Entry:
        """Return the newest submission after a failed one, by the names of the work's submissions.

        Look up the highest number in the current list, then the numbers after it one by one, up to the first
        unknown name. Skip the later numbers if a list from the last 2 s does not contain any.
        """
        listed = self._jobs.listed_number(self._name)
        if listed > entry.number:
            entry = self.look_up(listed) or entry
        if entry.failed and not self._jobs.is_newest(self._name, entry.number):
            entry = self.later_than(entry)
        return entry

    def _by_records(self, entry: Entry | None, records: Records) -> Entry | None:
        """Return the newest submission from records and, if some may not be recorded, from the list."""
        record = records.last()
        found = entry if record is None else self._by_record(entry, record)
        is_settled = found is not None and found.status is not None and not found.failed
        if is_settled or (record is not None and records.is_durable):
            return found
        # on v1, where names are unique among all users, the server knows new work by its name
        if self._has_shared_names and not records.may_have_run():
            return found
        is_unknown = found is not None and found.status is None
        listed = self._by_list(entry if is_unknown else found)
        is_newer = listed is not None and (found is None or listed.number >= found.number)
        return listed if is_newer else found

    def _by_record(self, entry: Entry | None, record: Recorded) -> Entry:
        """Return the newest submission from a record; ``entry`` if it is not older.

        A failed job was on the server, so if its name was unknown a moment ago, another process has
        posted it since then. Look it up again.
        """
        if entry is not None and entry.number >= record.number:
            return entry
        next_number = 1 if entry is None else entry.number + 1
        is_next = record.number == next_number and record.job == self._own_name(next_number)
        if is_next and not record.has_failed:
            return Entry(record.number, record.job, None)  # its name was just looked up and is unknown
        found = self.recorded(record)
        return self.later_than(found) if found.failed and found.index is None else found

    def _by_list(self, entry: Entry | None) -> Entry | None:
        """Return a later submission from the list of jobs or its arrays; if there is none, ``entry``."""
        if entry is None:
            number = self._retry.call(partial(self._jobs.listed_number, self._name, is_needed=True))
            if number == 0 and not self._api.dialect.whole_lists:
                number = 2
            entry = self.look_up(number, single=True) if number > 1 else None
            entry = None if entry is None else self.later_than(entry)
        if self._has_shared_names or (entry is not None and not entry.failed):
            return entry
        name = self._own_name(1)
        names = [array for array in self._retry.call(self._jobs.arrays) if may_hold(array, name)]
        for array in reversed(names[:_MOST_ARRAYS]):
            while entry is None or entry.failed:
                later = self._in_array(1 if entry is None else entry.number + 1, array)
                if later is None:
                    break
                entry = later
        return entry

    @property
    def _has_shared_names(self) -> bool:
        """Whether job names are unique across all users instead of per user; such clusters have no arrays."""
        return self._api.dialect.version == "v1"

    def _in_array(self, number: int, array: str) -> Entry | None:
        """Look up a submission as an array's instance; None if the array or the instance is missing."""
        members, name = self._members(array) or [], self._own_name(number)
        if name not in members:
            return None
        try:
            status = self._retry.call(partial(self._jobs.status, array))
        except JobNotFound:
            return None
        index = members.index(name)
        return Entry(number, array, instance_statuses(status)(index), index)

    def _members(self, array: str) -> list[str] | None:
        """Return the submissions in an array; None if the server does not know the array."""
        try:
            return self._retry.call(partial(self._jobs.members, array))
        except JobNotFound:
            return None


def check_owner(api: RestApi, name: str, status: JobStatus) -> None:
    """Check that a job belongs to the user.

    Raises:
        PaiNameTaken: The job belongs to another user.
    """
    owner = status.username
    if owner is not None and owner != api.username:
        raise PaiNameTaken(
            f"the name {name!r} belongs to a job of user {owner!r} ({api.page(name, owner)}); names are "
            "shared by all users of a cluster, so choose another name for the task",
            name,
        )
