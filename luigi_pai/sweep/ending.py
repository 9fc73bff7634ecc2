"""Ending: the end of a submission of a point, which is recorded before the end of the point."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from luigi_pai.api.status import JobState, instance_statuses
from luigi_pai.api.watched import Outcome
from luigi_pai.console import first_line
from luigi_pai.errors import PaiError, PaiJobFailed, PaiJobTimeout
from luigi_pai.redaction import printable
from luigi_pai.sweep.packs import run_in_thread
from luigi_pai.sweep.point import Ended, PointMember
from luigi_pai.sweep.rows import Row
from luigi_pai.tasks.events import PaiEvent, trigger
from luigi_pai.work.record import failure_of, record

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.retries import Retry
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.watched import Update
    from luigi_pai.work.submission import Member, Submission

_LONGEST = 300  # maximum number of characters of a log's last line in the reason of a failed job


@dataclass(slots=True, eq=False)
class Ending:
    """The end of a submission of a point.

    Attributes:
        job: the job that ran the submission.
        member: the point.
        entry: the submission, with its status before ``update``.
        update: the update that reported the end of the submission.
        error: the error that ``record()`` met, which makes the point fail. An HdfsError is only logged.
        unrecorded: the end could not be recorded in the output folder.
    """

    job: Submission
    member: PointMember
    entry: Entry
    update: Update
    error: Exception | None = None
    unrecorded: bool = False

    @property
    def is_news(self) -> bool:
        """Whether this process has submitted the job, or has seen that it had not ended."""
        return self.entry.posted or not self.entry.known.finished

    def record(self, retry: Retry) -> None:
        """Record the end, in any thread."""
        if self.update.outcome is Outcome.LOST:
            return
        work, ended = self.member.work, replace(self.entry, status=self.update.status, posted=False)
        try:
            if self.is_news:
                work.book.take(work.name, ended)
            is_news, evidence = self.is_news, self.member.evidence
            self.unrecorded = not record(work, evidence, ended, watched=is_news, retry=retry)
        except Exception as error:  # noqa: BLE001  raised again by ended()
            self.error = error

    def ended(self) -> Ended:
        """Trigger the event of the end, and return how the point has ended."""
        status, work, point = self.update.status, self.member.work, self.member.point
        began, seconds = status.launched_ms or self.member.started_ms, None
        if began is not None and status.completed_ms is not None:
            seconds = max(0.0, (status.completed_ms - began) / 1000)
        page = work.book.api.page(status.name)
        row = Row(status.state.value, seconds=seconds, job=status.name, page=page)
        ended = Ended(point, row, number=self.entry.number, unrecorded=self.unrecorded)
        error = self.error or failure_of(work, self.update)
        if self.error is None:
            self._tell(error)
        if error is None:
            return ended
        if isinstance(error, PaiJobFailed):
            if status.state is JobState.STOPPED and point.record.pruned:
                return replace(ended, row=replace(row, state="PRUNED"))
            may_retry = status.state is JobState.FAILED and not isinstance(error, PaiJobTimeout)
            may_retry = may_retry and work.options.is_retried(status)
            return replace(ended, row=replace(row, error=_reason(error, self.update)), may_retry=may_retry)
        if not isinstance(error, PaiError):
            raise error
        return replace(ended, row=replace(row, state="FAILED", error=first_line(error)))

    def _tell(self, error: Exception | None) -> None:
        """Trigger the event of the end."""
        if error is not None:
            trigger(self.member.point.task, PaiEvent.FAILED, self.update.status, error)
        elif self.is_news:
            trigger(self.member.point.task, PaiEvent.SUCCEEDED, self.update.status)


class Recorder:
    """Records the start times of points whose server does not send them, and the ends of points.

    Args:
        retry: of the requests.

    Attributes:
        seen: running points, with their statuses, whose starts are to be recorded.
    """

    def __init__(self, retry: Retry) -> None:
        self.seen: list[tuple[PointMember, JobStatus]] = []
        self._endings: list[Ending] = []
        self._unrecorded: Counter[Submission] = Counter()  # number of ended points
        self._retry = retry
        self._future: Future[list[Ending]] | None = None

    @property
    def running(self) -> list[Future[list[Ending]]]:
        """The thread that records, if there is one."""
        return [] if self._future is None else [self._future]

    def add(self, ended: Iterable[Ending]) -> None:
        """Let the next step record ends."""
        todo = list(ended)
        self._endings += todo
        self._unrecorded.update(ending.job for ending in todo)

    def has(self, job: Submission) -> bool:
        """Return whether ends of points of a job are not recorded yet."""
        return job in self._unrecorded

    def step(self) -> list[Ending]:
        """Return the ends that are recorded since the last step, and record what was added, in one thread."""
        ended: list[Ending] = []
        if self._future is not None and self._future.done():
            ended, self._future = self._future.result(), None
            self._unrecorded.subtract(ending.job for ending in ended)
            self._unrecorded = +self._unrecorded  # without zeros
        if self._future is None and (self.seen or self._endings):
            seen, todo = self.seen, self._endings
            self.seen, self._endings, self._future = [], [], Future()
            run_in_thread(lambda: self._record(seen, todo), self._future)
        return ended

    def _record(self, seen: Sequence[tuple[PointMember, JobStatus]], todo: list[Ending]) -> list[Ending]:
        for member, status in seen:
            member.evidence.with_start(status)
            member.save_memory()
        for ending in todo:
            ending.record(self._retry)
        return todo


def endings(job: Submission, update: Update, kept: Sequence[Member]) -> Iterator[Ending]:
    """Yield an end for each point that has ended; if the job has ended, for each point without an end.

    ``job.status`` must still be the status before ``update``. Points in ``kept`` that fail get their ends
    only when the job ends, so that they can be submitted again in one job.
    """
    before, is_array = instance_statuses(job.status), job.is_array
    job.is_over = update.outcome is not Outcome.CHANGED
    for member, status in job.statuses(update.status):
        if not job.is_over and not (status.finished and (status.succeeded or member not in kept)):
            continue
        job.members.remove(member)
        outcome = update.outcome if not is_array else Outcome.LOST
        outcome = Outcome.ENDED if status.finished else outcome
        known = job.entry_of(member, job.status if member.index is None else before(member.index))
        assert isinstance(member, PointMember)
        yield Ending(job, member, known, replace(update, status=status, outcome=outcome))


def announce(job: Submission) -> None:
    """Trigger the events of the points of a job that was submitted or taken over."""
    for member, status in job.statuses(job.status):
        if isinstance(member, PointMember) and (job.posted or not status.finished):
            event = PaiEvent.SUBMITTED if job.posted else PaiEvent.TAKEN_OVER
            trigger(member.point.task, event, status)


def _reason(error: PaiJobFailed, update: Update) -> str:
    """Return in a line why a job failed: how it ended, and the last line of its log, or the reason."""
    if update.missed is not None:
        return f"{update.missed.value}: it was stopped, because it took longer"
    end = first_line(error).removeprefix(f"job {error.status.name!r} ").removeprefix("ended as FAILED with ")
    end, last = end.replace(" (UNKNOWN)", ""), error.last_line
    return f"{end.partition(': ')[0]}: {printable(last)[:_LONGEST]}" if last else end
