"""Search: the newest submission of one piece of work, looked up name by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from luigi_pai.api.book.entries import Entry
from luigi_pai.api.retries import Retry
from luigi_pai.api.status import instance_statuses
from luigi_pai.errors import JobNotFound, PaiNameTaken
from luigi_pai.jobspec.names import attempt_name, may_hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi_pai.api.book.entries import Evidence, Recorded
    from luigi_pai.api.book.jobs import Jobs
    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.retries import Steps
    from luigi_pai.api.status import JobStatus

T = TypeVar("T")

_MOST_ARRAYS = 200  # maximum number of arrays in which one piece of work is looked for


class Search:
    """Looks for the submissions NAME, NAME__attempt2, ... of one piece of work.

    Its methods are steps (``retries.Steps``). They retry transient errors. They yield waits, and never sleep.

    Args:
        jobs: looks up single jobs.
        name: of the work.
        patience: seconds for which transient errors are retried; None: the setting of the cluster.
    """

    def __init__(self, jobs: Jobs, name: str, patience: float | None) -> None:
        self._jobs = jobs
        self._api = jobs.api
        self._name = name
        self._patience = jobs.api.polling.patience if patience is None else patience

    def newest(self, first: int, evidence: Evidence | None) -> Steps[Entry | None]:
        """Find the newest submission.

        Look up the submission ``first`` or, if the server does not know it, NAME. If the submission found has
        failed, look up the highest number in the current list, then the numbers after it one by one, up to
        the first unknown name. Skip the numbers after it if a list of the last 2 s has no later number. If no
        submission is found, or the last one found has failed, use the last record in ``evidence``. If
        ``evidence`` has no record, use the list. If the first reply has no owner and no submission time, as
        in mocked tests, look up nothing more.
        """
        entry = yield from self.at(first)
        if entry is None and first > 1:
            entry = yield from self.at(1)
        if entry is not None and entry.status is not None and not entry.status.identified:
            return entry
        if entry is not None and entry.failed:
            listed = self._jobs.listed_number(self._name)
            entry = ((yield from self.at(listed)) if listed > entry.number else None) or entry
        if entry is not None and entry.failed and not self._jobs.is_newest(self._name, entry.number):
            entry = yield from self.later_than(entry)
        if entry is None or entry.failed:
            entry = yield from self._by_evidence(entry, evidence)
        return entry

    def at(self, number: int, *, single: bool = False) -> Steps[Entry | None]:
        """Look up the job with the name of a submission; None if the server does not know that name.

        Args:
            number: of the submission.
            single: whether to request this job only; if False, a list of jobs may be used.

        Raises:
            PaiNameTaken: the name belongs to another user.
        """
        name = self._own_name(number)
        request = self._jobs.of if single else self._jobs.one_of_many
        try:
            status = yield from self._retried(name, partial(request, name))
        except JobNotFound:
            return None
        name = self._own_name(number)  # the reply may have changed the dialect to v2, with other names
        check_owner(self._api, name, status)
        return Entry(number, name, status)

    def later_than(self, entry: Entry) -> Steps[Entry]:
        """Return the newest submission after a failed one; ``entry`` if there is no later submission."""
        while entry.failed:
            later = yield from self.at(entry.number + 1, single=True)
            if later is None:
                break
            entry = later
        return entry

    def recorded(self, record: Recorded) -> Steps[Entry]:
        """Look up a submission that was recorded; its status is None if the server does not know it."""
        name = self._own_name(record.number)
        if record.job == name:
            entry = yield from self.at(record.number, single=True)
        elif not may_hold(record.job, name):  # others may have written the record
            return Entry(record.number, record.job, None, void=True)
        else:
            members = yield from self._members(record.job)  # once: the array may appear between 2 lookups
            if members is not None and name not in members:
                return Entry(record.number, record.job, None, void=True)
            entry = None if members is None else (yield from self._in_array(record.number, record.job))
        return entry or Entry(record.number, record.job, None)

    def _by_evidence(self, entry: Entry | None, evidence: Evidence | None) -> Steps[Entry | None]:
        """Return a later submission, found by claims or lists; ``entry`` if there is no later submission."""
        record = None if evidence is None else evidence.last()
        if record is not None:
            if entry is not None and entry.number >= record.number:
                return entry
            return (yield from self._from_record(entry, record))
        if self._has_shared_names and evidence is not None and not evidence.may_have_run():
            return entry
        return (yield from self._from_list(entry))

    def _from_record(self, entry: Entry | None, record: Recorded) -> Steps[Entry]:
        next_number = 1 if entry is None else entry.number + 1
        if record.number == next_number and record.job == self._own_name(next_number):
            return Entry(record.number, record.job, None)  # its name was just looked up and is unknown
        found = yield from self.recorded(record)
        return (yield from self.later_than(found)) if found.failed and found.index is None else found

    def _from_list(self, entry: Entry | None) -> Steps[Entry | None]:
        """Look for a submission after the given one: in the list of jobs, then in the arrays of the list."""
        if entry is None:
            ask = partial(self._jobs.listed_number, self._name, is_needed=True)
            number = yield from self._retried("", ask)
            if number == 0 and not self._api.dialect.whole_lists:
                number = 2
            if number > 1:
                entry = yield from self.at(number, single=True)
                entry = entry if entry is None else (yield from self.later_than(entry))
        if self._has_shared_names or (entry is not None and not entry.failed):
            return entry
        listed = yield from self._retried("", self._jobs.arrays)
        names = [name for name in listed if may_hold(name, self._api.job_name(self._name))]
        for array in reversed(names[:_MOST_ARRAYS]):
            while entry is None or entry.failed:
                later = yield from self._in_array(1 if entry is None else entry.number + 1, array)
                if later is None:
                    break
                entry = later
        return entry

    def _in_array(self, number: int, array: str) -> Steps[Entry | None]:
        """Look up a submission as an instance of an array; None if the array does not exist or lacks it."""
        members = (yield from self._members(array)) or []
        name = self._own_name(number)
        if name not in members:
            return None
        try:
            status = yield from self._retried(array, partial(self._jobs.of, array))
        except JobNotFound:
            return None
        index = members.index(name)
        return Entry(number, array, instance_statuses(status)(index), index)

    def _members(self, array: str) -> Steps[list[str] | None]:
        """Return the submissions in an array; None if the server does not know the array."""
        try:
            return (yield from self._retried(array, partial(self._jobs.members, array)))
        except JobNotFound:
            return None

    @property
    def _has_shared_names(self) -> bool:
        """Whether job names are unique among all users, not per user."""
        return self._api.dialect.version == "v1"

    def _own_name(self, number: int) -> str:
        """Return the name of a submission on the server."""
        return attempt_name(self._api.job_name(self._name), number)

    def _retried(self, name: str, request: Callable[[], T]) -> Steps[T]:
        """Make a lookup, and retry transient errors."""
        what = f"job {name}" if name else ""
        token_limit = self._api.polling.token_patience
        retry = Retry(self._patience, self._api.clock, what, token_limit=token_limit)
        return (yield from retry.call(request))


def check_owner(api: RestApi, name: str, status: JobStatus) -> None:
    """Check that a job belongs to the user.

    Raises:
        PaiNameTaken: the job belongs to another user.
    """
    owner = status.username
    if owner is not None and owner != api.username:
        raise PaiNameTaken(
            f"the name {name!r} belongs to a job of user {owner!r} ({api.page(name, owner)}); names are "
            "shared by all users of a cluster, so choose another name for the task",
            name,
        )
