"""SweepJob: a job and the points that it runs. Ending: the end of a submission. Ended: the end of a point."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from luigi_pai.api.book.entries import Entry
from luigi_pai.api.status import JobState, instance_statuses
from luigi_pai.api.watching import Outcome, Update
from luigi_pai.console import first_line
from luigi_pai.errors import (
    AuthenticationError,
    ClusterUnreachable,
    ConfigError,
    PaiError,
    PaiJobFailed,
    PaiJobTimeout,
    RateLimited,
)
from luigi_pai.redaction import printable
from luigi_pai.sweep.point_records import Record
from luigi_pai.sweep.results import Row
from luigi_pai.tasks.task_run import TaskRun

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterator, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.api.retries import Retry
    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.journal import Journal
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.tasks.claims import Claim
    from luigi_pai.tasks.job_task import JobTask
    from luigi_pai.tasks.options import Options

OF_ALL = (AuthenticationError, ClusterUnreachable, ConfigError, RateLimited)
"""Errors that concern all points of a sweep."""

_LONGEST = 300  # maximum number of characters of a log's last line in the reason of a failed job


@dataclass(slots=True, eq=False)
class Point:
    """A point of a sweep.

    Attributes:
        task: the user's task.
        name: the ``name`` of its task, which is also the name of its first submission.
        index: its number in the sweep, from 0.
        record: its state in the journal.
        max_attempts: the setting ``max_attempts`` of its task.
        handled: number of the last failed submission that this run has decided to retry; 0 for none.
        posted: how often this run has submitted it.
        proposed: ``points()`` has returned its task in this run. If False, only the journal of a search names
            the point; then it is looked up and watched, and never submitted.
    """

    task: JobTask
    name: str
    index: int
    record: Record = field(default_factory=Record)
    max_attempts: int = 1
    handled: int = 0
    posted: int = 0
    proposed: bool = True

    def is_final(self, number: int, limits: SweepLimits) -> bool:
        """Return whether a failed submission is the last one that is allowed.

        It is also the last if this run has submitted the point as often, whatever the journal says.
        """
        most = limits.attempts(self)
        return not self.proposed or self.posted >= most or self.record.is_final(number, most)


class NotConfirmedError(PaiError):
    """The cluster does not confirm a point that only the journal of a search names."""


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of a point, or of a submission after which the point may be submitted again.

    Attributes:
        point: the point.
        row: its row of the table; the result is added when the end is recorded.
        may_retry: another submission may succeed.
        number: number of the submission that has ended; 0 if it is not known.
        recorded: the end is in the journal.
    """

    point: Point
    row: Row
    may_retry: bool = False
    number: int = 0
    recorded: bool = False


class JournalClaims:
    """The claims of a point in the journal of its sweep, for points without an output folder on HDFS.

    See ``tasks.claims.Claims``. Points with an output folder on HDFS have their claims there; the journal
    then has copies of the claims, so that attempts can be counted.

    Attributes:
        journal: of the sweep.
        shares_job: whether the job runs several points. If so, ``replace`` only queues the claim, so that the
            claims of these points can be written together.
    """

    shares_job = False

    def __init__(self, journal: Journal, name: str) -> None:
        self.journal = journal
        self._name = name

    def last(self) -> Claim | None:
        """Return the claim of the last submission; None if there is none."""
        return self.journal.of(self._name).claim

    def claim(self, claim: Claim) -> Claim:
        """Claim a submission. Return ``claim``, or the earlier claim if another process was faster."""
        return self.journal.begin(claim)

    def replace(self, claim: Claim) -> Claim:
        """Replace the stored claim by ``claim``, and return ``claim``."""
        self.journal.note_claim(claim)
        if not self.shares_job:
            self.journal.flush()
        return claim

    def release(self, claim: Claim) -> None:
        """Release a claim whose job was certainly not submitted."""
        self.release_void(claim.number)

    def release_void(self, number: int) -> None:
        """Record that a submission never runs, so that it does not count as an attempt of the point."""
        record = self.journal.of(self._name)
        if number in record.begun:
            token = record.claim.token if record.claim is not None else ""
            event = {"event": "released", "point": self._name, "number": number, "token": token}
            self.journal.write(event)


@dataclass(slots=True, eq=False)
class Member:
    """A point that is looked up, submitted or run.

    Attributes:
        point: the point.
        claims: its claims in the journal, see ``JournalClaims``.
        run: the ``TaskRun`` of its task.
        number: number of its submission.
        index: number of its instance in an array; None if its job is no array.
        looked_up: time of the last lookup in seconds of the monotonic clock; 0 before the first lookup.
        started_ms: start time that the server sends, in ms since 1970. If it sends none, the time of the
            first lookup that found the point running.
        folder: output folder of its task; None if the task does not name it.
    """

    point: Point
    claims: JournalClaims
    run: TaskRun = field(init=False)
    number: int = 0
    index: int | None = None
    looked_up: float = 0.0
    started_ms: int | None = None
    folder: str | None = field(init=False)
    _task: JobTask = field(init=False)

    def __post_init__(self) -> None:
        definition = self.point.task._definition()  # noqa: SLF001  of this package
        self.run = TaskRun(definition, single=False, claims=self.claims)
        self.point.max_attempts = int(self.run.options["max_attempts"])
        self.folder, self._task = definition.folder, definition.task

    @property
    def is_proposed(self) -> bool:
        """Whether its task is the one that ``points()`` has returned, not one that the journal describes."""
        return self.point.proposed and self.point.task is self._task

    @property
    def submission(self) -> str:
        """The name of its submission (NAME, NAME__attempt2, ...), even if an array runs it."""
        return self.run.book.job_name(self.point.name, self.number)


@dataclass(slots=True, eq=False)
class SweepJob:
    """A job on the server, and the points of a sweep that it runs. It is an array, or runs a single point.

    Attributes:
        name: of the job.
        book: of its cluster.
        members: the points that have not ended.
        status: the last known status.
        posted: this process submitted it.
        is_there: the server has taken it; False while it is being submitted, or if the response was lost.
        is_over: the job has ended, or the server does not know it.
        unrecorded: number of its ended points whose ends are still to be recorded on HDFS.
        shared: the job is an array.
    """

    name: str
    book: Book
    members: list[Member]
    status: JobStatus
    posted: bool = False
    is_there: bool = True
    is_over: bool = False
    unrecorded: int = 0
    shared: bool = field(init=False)

    def __post_init__(self) -> None:
        self.shared = self.members[0].index is not None

    @property
    def key(self) -> Hashable:
        """Key of cluster, user and dialect; one watcher watches all jobs of a key."""
        return self.book.api.url, self.book.api.username, self.book.api.detector.given

    @property
    def options(self) -> Options:
        """``queue_timeout``, ``run_timeout`` and ``on_kill`` of the job, as its first point sets them."""
        return self.members[0].run.options

    def announce(self) -> None:
        """Trigger the events of the points."""
        for member, status in self.statuses(self.status):
            member.run.announce(self._entry(member, status), with_tags=False)

    def stop_sent(self) -> None:
        """Record on HDFS, for each point, that the server was asked to stop the job."""
        for member in list(self.members):
            member.run.evidence.stop_sent(self.name)

    def statuses(self, status: JobStatus) -> Iterator[tuple[Member, JobStatus]]:
        """Yield the points that have not ended, each with its part of the status of the job."""
        of = instance_statuses(status)
        for member in list(self.members):
            yield member, status if member.index is None else of(member.index)

    def endings(self, update: Update, kept: Sequence[Member]) -> Iterator[Ending]:
        """Yield an end for each point that has ended; if the job has ended, for each point without an end.

        ``self.status`` must still be the status before ``update``. Points in ``kept`` that fail get their
        ends only when the job ends, so that they can be submitted again in one job.
        """
        before = instance_statuses(self.status)
        self.is_over = update.outcome is not Outcome.CHANGED
        for member, status in self.statuses(update.status):
            if not self.is_over and not (status.finished and (status.succeeded or member not in kept)):
                continue
            self.members.remove(member)
            self.unrecorded += 1
            outcome = update.outcome if not self.shared else Outcome.LOST
            outcome = Outcome.ENDED if status.finished else outcome
            known = self._entry(member, self.status if member.index is None else before(member.index))
            yield Ending(self, member, known, replace(update, status=status, outcome=outcome))

    def _entry(self, member: Member, status: JobStatus) -> Entry:
        return Entry(member.number, self.name, status, member.index, self.posted)


@dataclass(slots=True, eq=False)
class Ending:
    """The end of a submission of a point.

    Attributes:
        job: the job that ran the submission.
        member: the point.
        entry: the submission, with its status before ``update``.
        update: the update that reported the end of the submission.
        error: the error that ``record()`` met, which makes the point fail. An error of HDFS is only logged.
    """

    job: SweepJob
    member: Member
    entry: Entry
    update: Update
    error: Exception | None = None

    def record(self, retry: Retry) -> None:
        """Record the end on HDFS, in any thread."""
        try:
            self.member.run.record(self.entry, self.update, retry)
        except Exception as error:  # noqa: BLE001  raised again by ended()
            self.error = error

    def ended(self) -> Ended:
        """Trigger the event of the end, and return how the point has ended."""
        status, run = self.update.status, self.member.run
        api = run.book.api
        began = status.launched_ms or self.member.started_ms
        seconds = None
        if began is not None and status.completed_ms is not None:
            seconds = max(0.0, (status.completed_ms - began) / 1000)
        row = Row(status.state.value, seconds=seconds, job=status.name, page=api.page(status.name))
        ended = Ended(self.member.point, row, number=self.entry.number)
        try:
            if self.error is not None:
                raise self.error
            run.finish(self.entry, self.update)
        except PaiJobFailed as error:
            if status.state is JobState.STOPPED and ended.point.record.pruned:
                return replace(ended, row=replace(row, state="PRUNED"))
            may_retry = status.state is JobState.FAILED and not isinstance(error, PaiJobTimeout)
            may_retry = may_retry and run.options.is_retried(status)
            return replace(ended, row=replace(row, error=_reason(error, self.update)), may_retry=may_retry)
        except PaiError as error:
            return replace(ended, row=replace(row, state="FAILED", error=first_line(error)))
        return ended


def _reason(error: PaiJobFailed, update: Update) -> str:
    """Return in a line why a job failed: how it ended, and the last line of its log, or the reason."""
    if update.missed is not None:
        return f"{update.missed.value}: it was stopped, because it took longer"
    end = first_line(error).removeprefix(f"job {error.status.name!r} ").removeprefix("ended as FAILED with ")
    end, last = end.replace(" (UNKNOWN)", ""), error.last_line
    return f"{end.partition(': ')[0]}: {printable(last)[:_LONGEST]}" if last else end
