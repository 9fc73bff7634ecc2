"""Submits a job with one or more pieces of work: claims each, posts, and checks whose job the server has.

In an array, a piece of work has the same submissions (NAME, NAME__attempt2, ...), output folder, claims and
completion flag as in a separate job, but its claims name the array as their job. The array's name is derived
from the names of the intended submissions. Each submission is claimed before its job is posted, and a job
runs only the work whose claims name it. A process that loses a claim does not post.
"""

from __future__ import annotations

import contextlib
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from luigi_pai.api.submitting import Posting
from luigi_pai.errors import JobNotFound, PaiApiError, PaiError, PaiHttpError
from luigi_pai.work.decide import still_on_its_way
from luigi_pai.work.evidence import warn_of_other_definition
from luigi_pai.work.submission import TRY_AGAIN, Member, Submission

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.api.rest_api import RestApi
    from luigi_pai.api.status import JobStatus
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.work.claims import Claim
    from luigi_pai.work.submission import InFlight

logger = logging.getLogger("luigi-interface")

_Job = Any  # PaiJob | JobProtocol


@dataclass(slots=True)
class Submitted:
    """The result of a submission.

    Attributes:
        job: The job that this process posted; None if it posted none.
        again: The work that is not in ``job``; look it up again.
        is_known: Whether the book already knows the newest submission of the work in ``again``.
    """

    job: Submission | None = None
    again: list[Member] = field(default_factory=list)
    is_known: bool = False


class Ledger:
    """An additional place that records claims. This class records nothing."""

    def begin(self, claims: Sequence[Claim]) -> list[Claim]:
        """Record claims before their job is posted; return them, or their submissions' earlier claims."""
        return list(claims)

    def release(self, claims: Sequence[Claim]) -> None:
        """Record that the job for these claims was certainly not submitted."""


class Submitter:
    """Submits jobs for one run.

    Args:
        in_flight: Receives each job before its first post.
        ledger: An additional place that records the claims.
        single: Whether one job is posted at a time; if so, its post is logged at INFO, and it is looked up.
        sleep: Waits for a number of seconds; by default, the sleep of the cluster's clock.
    """

    def __init__(
        self,
        in_flight: InFlight,
        ledger: Ledger | None = None,
        *,
        single: bool = True,
        sleep: Callable[[float], None] | None = None,
    ) -> None:
        self._in_flight = in_flight
        self._ledger = ledger or Ledger()
        self._single = single
        self._sleep = sleep

    def submit(
        self,
        members: Sequence[Member],
        array: str | None = None,
        build: Callable[[str, list[_Job]], JobProtocol] | None = None,
    ) -> Submitted:
        """Claim work, and submit a job with the claimed work.

        Args:
            members: The work, with its submission numbers.
            array: The name of the array that runs the work; None for one piece of work in its own job.
            build: Makes the array from its name and its members' jobs.

        Raises:
            SpecError: The job is invalid; no job was sent.
            PaiWorkConflict: An output folder belongs to other work; no job was sent.
            PaiError: The message says whether the job was not submitted, or may have been submitted.
        """
        first = members[0]
        name = array or first.own_name
        book = first.work.book if array is None else first.work.book.with_version("v2")
        job, claimed = Submission.new(name, book), dict[Member, _Job]()
        posting = Posting(book, name, single=self._single, sleep=self._sleep)
        posting.before_post = lambda _: self._in_flight.announce(job)
        spoken = book.api.dialect.version
        try:
            self._claim(members, name, claimed)
            if not claimed:
                return Submitted(again=list(members))
            job.members = list(claimed)
            posted = claimed[first] if build is None else build(name, list(claimed.values()))
            status = posting.post(posted)
        except PaiError as error:
            if not posting.may_be_submitted:
                self._in_flight.remove(job)
                self._release(list(claimed))
                if isinstance(error, PaiHttpError) and book.api.dialect.version != spoken:
                    # The error showed that the server uses the other API version, so use that from now on.
                    return Submitted(again=list(members))
            raise posting.outcome(error, TRY_AGAIN) from None
        is_lost = array is not None and posting.may_be_submitted
        if status is None or is_lost or self._is_others(job, status, posted):
            self._in_flight.remove(job)
            self._look_up(job, is_array=array is not None)
            return Submitted(again=list(members), is_known=array is None)
        self._in_flight.add(job)
        job.status = status
        if array is None:
            book.record_posted(first.work.name, first.number, status)
        else:
            book.record_members(name, [member.own_name for member in claimed])
        return Submitted(job, [member for member in members if member not in claimed])

    def _claim(self, members: Sequence[Member], name: str, claimed: dict[Member, _Job]) -> None:
        """Claim work for a job, and add the claimed members to ``claimed``, each with its job.

        Processes with the same array claim its work in the same order, so the first process gets the whole
        array.
        """
        prepared: list[_Job] = []
        claims: dict[Member, Claim] = {}
        for member in members:
            member.evidence.check_folder_is_ours()
            prepared.append(member.work.prepare(member.number))
        for member in sorted(members, key=lambda each: each.own_name):
            claims[member] = own = member.evidence.claim(member.number, name)
            if own.job == name and own.state is None and not _is_ours_to_post(member, own):
                break  # another process is about to post this array
        held_here = [held for held in claims.values() if held.job == name]
        earlier = {held.name: held for held in self._ledger.begin(held_here)}
        for member, job in zip(members, prepared, strict=True):
            if (held := claims.get(member)) is None:
                continue
            if not member.evidence.is_durable:
                held = earlier.get(held.name, held)
            member.evidence.hold(held)
            if held.job == name and _is_ours_to_post(member, held):
                member.evidence.before_post(member.number)
                member.index = None if member.own_name == name else len(claimed)
                claimed[member] = job

    def _release(self, members: Sequence[Member]) -> None:
        """Remove claims; for an array, only recent ones, because another process may be sending it again."""
        released = []
        for member in members:
            claim = member.evidence.last()
            is_young = claim is not None and _is_on_its_way(member.work.book.api, claim)
            if len(members) == 1 or is_young:
                released.append(member.evidence.release())
        self._ledger.release([claim for claim in released if claim is not None])

    def _is_others(self, job: Submission, status: JobStatus, posted: _Job) -> bool:
        """Return whether the server stored a different job under the name than the one that was posted.

        If several processes post a name at once, 1.8 and LTP respond to each with 202 and store one of the
        jobs; 0.x does the same within half a second. On the cluster's file system the claim decides who
        posts, so a stored job is compared only if the submission had an earlier claim. Without one, other
        machines may post the name as well, so on v2, each job with a single piece of work is compared. On v1,
        nothing is compared, because a task makes only the requests that luigi.contrib.pai makes.
        """
        if len(job.members) != 1 or job.members[0].index is not None:
            return False
        member, api = job.members[0], job.book.api
        claim = None if member.evidence.is_mine else member.evidence.last()
        is_contended = claim is not None and member.work.has_changed_since(claim)
        is_open = not member.evidence.is_durable and self._single and status.identified
        if not is_contended and not (is_open and api.dialect.version == "v2"):
            return False
        fields: list[str] = []
        with contextlib.suppress(PaiApiError):  # the job is there, and it is watched in any case
            fields = member.work.differing_fields(job.name, posted)
        if fields:
            warn_of_other_definition(job.name)
        elif is_contended:
            member.evidence.confirm()
        return bool(fields)

    def _look_up(self, job: Submission, *, is_array: bool) -> None:
        """Look up the job with this name.

        Raises:
            JobNotFound: The server rejects an array's name, but does not have such a job.
        """
        if not is_array:
            member = job.members[0]
            job.book.holder(member.work.name, member.number, self._sleep)
            return
        entry = job.book.holder(job.name, 1, self._sleep)
        if entry is None or entry.status is None:
            raise JobNotFound(
                f"the server refuses the name {job.name!r} as in use, but has no job of this name"
            )


def _is_ours_to_post(member: Member, held: Claim) -> bool:
    """Return whether this process posts a claimed job, because the claim is its own or its owner is gone.

    A submission with a recorded final state was posted, even if the server does not know it.
    """
    if member.evidence.is_mine:
        return True
    has_ended = held.state is not None and member.evidence.is_durable
    return not has_ended and not _is_on_its_way(member.work.book.api, held)


def _is_on_its_way(api: RestApi, claim: Claim) -> bool:
    """Return whether a claim's job may still be on its way to the server."""
    return still_on_its_way(api.clock.time() - claim.claimed_ms / 1000) > 0


def add_tags(api: RestApi, status: JobStatus, tags: Sequence[str]) -> None:
    """Add each missing tag to a job, with one request per tag. Send nothing if the server supports no tags.

    After the first error, which is logged, no more tags are added. The job runs without the missing tags.

    Args:
        api: The cluster's API.
        status: The job's status, with its current tags.
        tags: The tags that the job should have.
    """
    if not status.takes_tags:
        return
    for tag in tags:
        if tag in status.tags:
            continue
        try:
            api.add_tag(status.name, tag)
        except PaiApiError as error:
            logger.warning("Job %s runs without the tag %s: %s", status.name, tag, error)
            return
