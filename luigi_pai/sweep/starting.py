"""Looks up points, and submits a point if needed, as the only point of a job or with others in an array.

In an array, a point has the same submissions (NAME, NAME__attempt2, ...), output folder, claims and
completion flag as in a job without other points, but its claims name the array as their job. The array's
name is made from the names of the intended submissions, so the server accepts only one of two arrays with the
same submissions. Each submission is claimed before its array is sent, and an array runs only the points whose
claims name it.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from luigi_pai.api.retries import Retry
from luigi_pai.api.submitting import Posting
from luigi_pai.config import OpenPai
from luigi_pai.errors import JobNotFound, PaiApiError, PaiError
from luigi_pai.jobspec.arrays.jobs import array_of
from luigi_pai.jobspec.names import array_name
from luigi_pai.sweep.jobs import OF_ALL, Ended, NotConfirmedError, SweepJob
from luigi_pai.sweep.points import as_protocol, check_cluster
from luigi_pai.sweep.results import Row
from luigi_pai.tasks.events import add_tags
from luigi_pai.tasks.refusals import RunsInArrayError
from luigi_pai.tasks.signals import TRY_AGAIN
from luigi_pai.tasks.task_run import RECENT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.status import JobStatus
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.sweep.jobs import Ending, Member
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.sending import Sending


logger = logging.getLogger("luigi-interface")

_ON_ITS_WAY = 10.0  # maximum time in seconds from the claim of a point to the arrival of its array


@dataclass(slots=True)
class Started:
    """The result of starting points, or of recording ends. Each point to start is in one of the attributes.

    Attributes:
        jobs: the jobs that run points, or have run them.
        ended: the ends of points that were complete or pruned already.
        to_submit: points to submit in an array with others.
        claimed: name of an array that the server does not know -> the points that are claimed for the array.
        again: points to look up again after a moment.
        failed: points that cannot be started, each with its error.
        recorded: the ends that were recorded on HDFS.
    """

    jobs: list[SweepJob] = field(default_factory=list)
    ended: list[Ended] = field(default_factory=list)
    to_submit: list[Member] = field(default_factory=list)
    claimed: dict[str, list[Member]] = field(default_factory=dict)
    again: list[Member] = field(default_factory=list)
    failed: list[tuple[Member, Exception]] = field(default_factory=list)
    recorded: list[Ending] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class Pack:
    """Points that are started together.

    Attributes:
        members: the points.
        name: name of the array that the points are claimed for; empty if the array has no name yet. None if
            the points are still to be looked up.
        due: time of the start in seconds of the monotonic clock; infinity if the pack waits for more points.
    """

    members: list[Member]
    name: str | None = None
    due: float = -math.inf


def start_pack(pack: Pack, limits: SweepLimits, sending: Sending) -> Started:
    """Look up the points of a pack; if they have been looked up, submit them in an array."""
    return begin(pack.members, limits, sending) if pack.name is None else submit(pack, sending)


def begin(members: Sequence[Member], limits: SweepLimits, sending: Sending) -> Started:
    """Look up points, and submit each point that needs a job and is not to share one.

    Points that are to share a job are returned for a later submission. An error that concerns one point only
    is returned, too. ``sending`` has each job from before its post on.

    Raises:
        ConfigError: the cluster does not support arrays.
        PaiApiError: the cluster cannot be reached, or refuses the user.
        HdfsError: HDFS failed, but another try may succeed.
    """
    started, alone, book = Started(), limits.points_per_job == 1, members[0].run.book
    if not alone:
        Retry(book.api.polling.patience, book.api.clock).call(lambda: check_cluster(book))
    for member in members:
        try:
            if member.is_proposed:
                _begin(member, started, limits, sending, alone=alone)
            else:
                started.jobs.append(_confirmed(member))
        except Exception as error:
            if isinstance(error, OF_ALL) or (isinstance(error, PaiError) and error.transient):
                raise
            started.failed.append((member, error))
    return started


def _confirmed(member: Member) -> SweepJob:
    """Look up a point that only the journal names, and return its job, which the user must have submitted.

    Others may have written the journal, so its parameters are confirmed by the server before they are used:
    no file in an output folder is read or written if the stored job has another output folder.

    Raises:
        NotConfirmedError: there is no such job.
    """
    book, api = member.run.book, member.run.book.api
    entry = book.latest(member.point.name)
    if entry is None or entry.status is None:
        raise NotConfirmedError("the server has no such job")
    if member.run.evidence.has_flag:
        from luigi_pai.hdfs.paths import same_path  # noqa: PLC0415  costs what only HDFS needs

        stored = Retry(api.polling.patience, api.clock).call(lambda: api.config(entry.job))
        theirs = api.dialect.output_folder(stored)
        if member.folder is None or theirs is None or not same_path(member.folder, theirs):
            raise NotConfirmedError(
                f"the output folder of job {entry.job!r} is {theirs}, not {member.folder}"
            )
    return _taken_over(member, entry)


def _begin(member: Member, started: Started, limits: SweepLimits, sending: Sending, *, alone: bool) -> None:
    run, record = member.run, member.point.record
    run.options.check()
    entry = None
    if not _is_new(member, alone=alone) or run.evidence.last() is not None:
        entry = run.newest(max_age=RECENT if not member.looked_up else 0.0)
    member.looked_up = run.book.api.clock.monotonic()
    if run.is_done(entry):
        started.ended.append(Ended(member.point, Row("SUCCEEDED")))
        return
    if (
        entry is not None
        and entry.status is not None
        and not (entry.failed and _is_old(entry, member, limits))
    ):
        started.jobs.append(_taken_over(member, entry))
        return
    if record.pruned:
        started.ended.append(Ended(member.point, Row("PRUNED")))
        return
    if entry is not None and entry.void:
        member.claims.release_void(entry.number)
    member.number = run.evidence.next_number(entry, run.options["on_forgotten"])
    is_claimed = entry is not None and entry.number == member.number and entry.status is None
    if entry is not None and is_claimed and entry.job != member.submission:
        (started.again if _may_arrive(member) else started.claimed.setdefault(entry.job, [])).append(member)
    elif alone or is_claimed:  # a claimed job may be sent again, as the server accepts its name only once
        started.jobs += _submit_alone(member, started, sending)
    else:
        started.to_submit.append(member)


def _is_new(member: Member, *, alone: bool) -> bool:
    """Return whether a point needs no lookup, because a recent list of jobs does not contain it."""
    # if the list lacks the point's job by mistake, a 409 or a claim on HDFS still prevents a second job
    is_corrected = alone or member.run.evidence.has_flag
    is_first = not member.looked_up and member.point.record.claim is None
    return is_first and member.run.book.is_unlisted(member.point.name, is_corrected=is_corrected)


def _is_old(entry: Entry, member: Member, limits: SweepLimits) -> bool:
    """Return whether a failed submission no longer counts, which lets the point be submitted again.

    This is so if there is a later submission, if this run retries the failed submission, or if a new run
    has given the point new attempts. Before True is returned, events of other processes are read and checked.
    """
    number, point = entry.number, member.point
    if point.posted >= limits.attempts(point):
        return False
    for read in (False, True):
        if read:
            member.claims.journal.read()
        is_last = number == max(point.record.made, default=0)
        if is_last and (number > point.handled or point.is_final(number, limits)):
            return False
    return True


def _may_arrive(member: Member) -> bool:
    """Return whether the array that a point is claimed for may still be on its way to the server.

    After 10 s, the array is sent again with the points claimed for it; the server accepts its name only once.
    """
    claim = member.run.evidence.last()
    return claim is not None and 0 <= member.run.book.api.clock.time() - claim.claimed_ms / 1000 < _ON_ITS_WAY


def _taken_over(member: Member, entry: Entry) -> SweepJob:
    assert entry.status is not None
    member.number, member.index = entry.number, entry.index
    member.point.posted += entry.posted
    if entry.index is None and not entry.posted:
        member.run.evidence.check_taken_over(entry.status)
    status = member.run.evidence.with_start(entry.status)
    return SweepJob(entry.job, member.run.book, [member], status, posted=entry.posted)


def _submit_alone(member: Member, started: Started, sending: Sending) -> list[SweepJob]:
    """Submit a point as a job of its own."""
    run, member.index, member.claims.shares_job = member.run, None, False
    note = sending.noting(run.book, [member])
    try:
        entry = run.submit(member.number, note)
    except RunsInArrayError:
        entry = None
    if entry is None or not entry.posted:
        note("")
    if entry is None or entry.status is None or (entry.failed and not entry.posted):
        started.again.append(member)
        return []
    job = _taken_over(member, entry)
    _add_tags(job)
    return [job]


def _add_tags(job: SweepJob) -> None:
    """Add the first point's tags to a job that was submitted just now."""
    api = job.book.api
    if not job.posted or api.dialect.version == "v1":
        return
    try:
        takes_tags = job.book.remembered("takes tags", lambda: job.book.of(job.name).takes_tags)
    except PaiApiError as error:
        logger.debug("Whether jobs take tags is not known: %s", error)
        return
    add_tags(api, replace(job.status, takes_tags=takes_tags), job.members[0].run.options.tags)


def record(seen: Sequence[tuple[Member, JobStatus]], endings: list[Ending], retry: Retry) -> Started:
    """Record on HDFS the start times of points whose server does not send them, and the ends of points."""
    for member, status in seen:
        member.run.evidence.with_start(status)
    for ending in endings:
        ending.record(retry)
    return Started(recorded=endings)


def submit(pack: Pack, sending: Sending) -> Started:
    """Claim points, and submit an array of the claimed points. All other points are to be looked up again.

    ``sending`` has the array from before its post on.

    Raises:
        SpecError: the points differ in shared fields, or the array is too large; no job was sent.
        PaiError: the text says whether the array was not submitted, or may have been submitted.
    """
    book, started = pack.members[0].run.book, Started()
    book = book.with_version("v2")
    if any(book.api.clock.monotonic() - member.looked_up > RECENT for member in pack.members):
        started.again = list(pack.members)
        return started
    name = pack.name or array_name(member.submission for member in pack.members)
    claimed: list[Member] = []
    note = sending.noting(book, claimed)
    posting = Posting(book, name, single=False, before_post=note)
    try:
        jobs = _claim(pack.members, name, claimed, started)
        if not claimed:
            return started
        status = posting.post(array_of(name, jobs))
    except PaiError as error:
        if not posting.may_be_submitted:
            note("")
            _release(claimed)
        raise posting.outcome(error, TRY_AGAIN) from None
    if status is None or posting.may_be_submitted:  # a job has the name, perhaps with other points
        entry = book.holder(name, 1)
        if entry is None or entry.status is None:
            raise JobNotFound(f"the server refuses the name {name!r} as in use, but has no job of this name")
        started.again += claimed
        return started
    note(name, is_there=True)
    book.note_members(name, [member.submission for member in claimed])
    for member in claimed:
        member.point.posted += 1
    job = SweepJob(name, book, claimed, status, posted=True)
    _add_tags(job)
    started.jobs.append(job)
    return started


def _claim(
    members: Sequence[Member], name: str, claimed: list[Member], started: Started
) -> list[JobProtocol]:
    """Claim points for an array. Append the successfully claimed points to ``claimed``; return their jobs."""
    jobs, settings = [], OpenPai.current(members[0].point.task.cluster)
    for member in members:
        member.claims.shares_job = True
        job = as_protocol(member.run.prepare(member.number), settings).protocol
        if member.run.evidence.claim(member.number, name) == name:
            member.index = len(claimed)
            claimed.append(member)
            jobs.append(job)
        else:
            started.again.append(member)
    members[0].claims.journal.flush()
    return jobs


def _release(members: Sequence[Member]) -> None:
    """Remove claims, but keep claims older than 10 s, as another process may be sending their array again."""
    for member in members:
        if _may_arrive(member):
            member.run.evidence.release()
