"""Ends points: records their outcomes, prunes points with ``keep()``, and stops them on a message."""

from __future__ import annotations

import logging
import math
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from luigi_pai.api.status import JobState, instance_statuses
from luigi_pai.api.watched import Outcome
from luigi_pai.console import first_line, user_error
from luigi_pai.durations import counted
from luigi_pai.errors import PaiError, PaiJobFailed, PaiJobTimeout
from luigi_pai.redaction import printable
from luigi_pai.sweep.packs import run_in_thread
from luigi_pai.sweep.point import Ended, Point
from luigi_pai.sweep.rows import Row
from luigi_pai.tasks.events import PaiEvent, trigger
from luigi_pai.work.record import failure_of, record
from luigi_pai.work.stopping import stop, stop_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

    from luigi_pai.api.book.entries import Entry
    from luigi_pai.api.clock import Clock
    from luigi_pai.api.retries import Retry
    from luigi_pai.api.status import JobStatus
    from luigi_pai.api.watched import Update
    from luigi_pai.sweep.journal.journal import Journal
    from luigi_pai.work.submission import Submission

    Keep = Callable[[Any, list[dict[str, Any]]], bool | None]

logger = logging.getLogger("luigi-interface")

_LONGEST = 300  # how many characters of a log's last line the reason for a failed job may contain
_REPORTS_EVERY = 10.0  # seconds between two reads of a job's reports; containers send them every 10 s
_SLICE = 0.5  # how long to read reports, in seconds, before the sweep does other work
_MESSAGE_WITHIN = 30.0  # time limit in seconds for the requests after the message ``stop``


@dataclass(slots=True, eq=False)
class Ending:
    """The end of one of a point's submissions.

    Attributes:
        job: The job that ran the submission.
        point: The point.
        entry: The submission, with its status before ``update``.
        update: The update that reported the submission's end.
        error: The error from ``record()``, which makes the point fail. An HdfsError is only logged.
        unrecorded: Whether the end could not be recorded in the output folder.
    """

    job: Submission
    point: Point
    entry: Entry
    update: Update
    error: Exception | None = None
    unrecorded: bool = False

    @property
    def is_news(self) -> bool:
        """Whether this process submitted the job, or saw it before it finished."""
        return self.entry.posted or not self.entry.known.finished

    def record(self, retry: Retry) -> None:
        """Record the end; any thread may call this."""
        if self.update.outcome is Outcome.LOST:
            return
        work, evidence, is_news = self.point.work, self.point.evidence, self.is_news
        ended = replace(self.entry, status=self.update.status, posted=False)
        try:
            if is_news:
                work.book.record_entry(work.name, ended)
            self.unrecorded = not record(work, evidence, ended, watched=is_news, retry=retry)
        except Exception as error:  # noqa: BLE001  raised again by ended()
            self.error = error

    def ended(self) -> Ended:
        """Trigger the event for the end, and return the point's end."""
        status, point, work = self.update.status, self.point, self.point.work
        start_ms, seconds = status.launched_ms or point.started_ms, None
        if start_ms is not None and status.completed_ms is not None:
            seconds = max(0.0, (status.completed_ms - start_ms) / 1000)
        page = work.book.api.page(status.name)
        row = Row(status.state.value, seconds=seconds, job=status.name, page=page)
        ended = Ended(point, row, number=self.entry.number, unrecorded=self.unrecorded)
        error = self.error or failure_of(work, self.update)
        if self.error is None and error is not None:
            trigger(point.task, PaiEvent.FAILED, status, error)
        elif error is None and self.is_news:
            trigger(point.task, PaiEvent.SUCCEEDED, status)
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


class Recorder:
    """Records how points end, and when they started if the server does not send the start time.

    Attributes:
        seen: Running points, with their statuses, whose start times will be recorded.
    """

    def __init__(self, retry: Retry) -> None:
        self.seen: list[tuple[Point, JobStatus]] = []
        self._endings: list[Ending] = []
        self._unrecorded: Counter[Submission] = Counter()  # number of ended points
        self._retry = retry
        self._future: Future[list[Ending]] | None = None

    @property
    def running(self) -> list[Future[list[Ending]]]:
        """The recording thread, if there is one."""
        return [] if self._future is None else [self._future]

    def add(self, ended: Iterable[Ending]) -> None:
        """Add ends for the next step to record."""
        todo = list(ended)
        self._endings += todo
        self._unrecorded.update(ending.job for ending in todo)

    def has(self, job: Submission) -> bool:
        """Return whether a job has points whose ends have not been recorded yet."""
        return job in self._unrecorded

    def step(self) -> list[Ending]:
        """Return the ends recorded since the last step, and record the added ends, in one thread."""
        ended: list[Ending] = []
        if self._future is not None and self._future.done():
            ended, self._future = self._future.result(), None
            self._unrecorded.subtract(ending.job for ending in ended)
            self._unrecorded = +self._unrecorded  # without zeros
        if self._future is None and (self.seen or self._endings):
            seen, todo = self.seen, self._endings
            self.seen, self._endings = [], []
            self._future = run_in_thread(lambda: self._record(seen, todo))
        return ended

    def _record(self, seen: Sequence[tuple[Point, JobStatus]], todo: list[Ending]) -> list[Ending]:
        for point, status in seen:
            point.evidence.with_start(status)
            point.save_memory()
        for ending in todo:
            ending.record(self._retry)
        return todo


def endings(job: Submission, update: Update, kept: Sequence[Point]) -> Iterator[Ending]:
    """Yield an end for each finished point or, if the job has finished, for each point without an end.

    ``job.status`` must still be the status before ``update``. Failed points in ``kept`` get their ends only
    when the job finishes, so that they can be submitted again in one job.
    """
    before, is_array = instance_statuses(job.status), job.is_array
    job.is_over = update.outcome is not Outcome.CHANGED
    for point, status in job.statuses(update.status):
        assert isinstance(point, Point)
        if not job.is_over and not (status.finished and (status.succeeded or point not in kept)):
            continue
        job.members.remove(point)
        outcome = update.outcome if not is_array else Outcome.LOST
        outcome = Outcome.ENDED if status.finished else outcome
        known = job.entry_of(point, job.status if point.index is None else before(point.index))
        yield Ending(job, point, known, replace(update, status=status, outcome=outcome))


def announce(job: Submission) -> None:
    """Trigger the events for a job's points after the job was submitted or taken over."""
    event = PaiEvent.SUBMITTED if job.posted else PaiEvent.TAKEN_OVER
    for point, status in job.statuses(job.status):
        if isinstance(point, Point) and (job.posted or not status.finished):
            trigger(point.task, event, status)


def _reason(error: PaiJobFailed, update: Update) -> str:
    """Return why a job failed, on one line: how it ended, and its log's last line or the cause."""
    if update.missed is not None:
        return f"{update.missed.value}: it was stopped, because it took longer"
    end = first_line(error).removeprefix(f"job {error.status.name!r} ").removeprefix("ended as FAILED with ")
    end, last = end.replace(" (UNKNOWN)", ""), error.last_line
    return f"{end.partition(': ')[0]}: {printable(last)[:_LONGEST]}" if last else end


@dataclass(eq=False)
class Pruning:
    """Calls ``keep`` with running jobs' reports, except for arrays. Stops a job if ``keep`` returns False.

    The journal records pruned points before their jobs are stopped. Without ``keep``, no reports are read. If
    ``keep`` raises an error, ``failed_code`` is called with the error's message and the point.
    """

    keep: Keep | None
    journal: Journal
    clock: Clock
    failed_code: Callable[[str, Point], None]
    _due: dict[Submission, float] = field(default_factory=dict, init=False)

    def watch(self, job: Submission, status: JobStatus) -> None:
        """Watch a job. If an earlier, killed run already pruned its point, ``step()`` stops the job."""
        now = self.clock.monotonic()
        point = job.members[0] if job.members else None
        # a sweep without keep() stops nothing, even if its journal contains pruned points
        if job.is_array or self.keep is None or not isinstance(point, Point):
            return
        if point.record.pruned:
            self._due.setdefault(job, now)
        elif status.state is JobState.RUNNING:
            self._due.setdefault(job, now + _REPORTS_EVERY)

    def forget(self, job: Submission) -> None:
        """Forget a finished job."""
        self._due.pop(job, None)

    def idle(self) -> float:
        """Return how long until ``step()`` has work to do, in seconds; infinity if there is none."""
        return max(0.0, min(self._due.values(), default=math.inf) - self.clock.monotonic())

    def step(self) -> None:
        """Call ``keep`` with the reports that are due, and stop the jobs for which it returns False."""
        now = self.clock.monotonic()
        for job in [job for job, due in self._due.items() if due <= now]:
            if self.clock.monotonic() > now + _SLICE:
                break
            point = job.members[0]
            assert isinstance(point, Point)
            self._due[job] = self.clock.monotonic() + _REPORTS_EVERY
            try:
                if not point.record.pruned:
                    if self._is_kept(point, point.work.outputs.reports(job.name)):
                        continue
                    self.journal.write({"event": "pruned", "point": point.name, "job": job.name})
            except (PaiError, OSError) as error:
                logger.debug("Job %s: its reports cannot be read: %s", job.name, error)
            else:
                if stop(job) is None:
                    self._due[job] = math.inf

    def _is_kept(self, point: Point, reports: list[dict[str, Any]]) -> bool:
        if not reports or self.keep is None:
            return True
        try:
            return self.keep(point.task, reports) is not False
        except Exception as error:  # noqa: BLE001  users' own code may raise anything
            self.failed_code(user_error(error, "keep()"), point)
            return True


def stopped_by_message(watched: Sequence[Submission], in_flight: Sequence[Submission]) -> str:
    """Ask the server to stop the watched jobs, and return a summary.

    The other jobs in ``in_flight`` are being submitted. They are stopped once the server has them.
    """
    names = {job.name for job in watched}
    starting = [job for job in in_flight if job.name not in names]
    stopping, problems = stop_jobs(watched, _MESSAGE_WITHIN)
    summary = f"{counted(len(stopping), 'job')} asked to stop"
    if problems:
        summary += f"; {len(watched) - len(stopping)} could not be asked: {first_line(problems[0])}"
    if starting:
        summary += f"; stopped once the server has accepted them: {counted(len(starting), 'job')}"
    return summary
