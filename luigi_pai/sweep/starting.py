"""Looks up points, and submits those that need it, each in its own job or several in an array.

The functions may run in any thread. They return a result for each point: the job that runs it, its row if it
has finished, the decision to submit it, an error, or None to look it up again after a moment.
"""

from __future__ import annotations

import functools
import logging
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from luigi_pai.api.retries import Retry
from luigi_pai.config import OpenPai
from luigi_pai.errors import PaiApiError, PaiError
from luigi_pai.jobspec.arrays.jobs import array_of
from luigi_pai.jobspec.names import array_name
from luigi_pai.sweep.packs import AT_ONCE, run_in_thread
from luigi_pai.sweep.points import as_protocol, check_cluster
from luigi_pai.sweep.rows import Row
from luigi_pai.work.decide import Refuse, Submit, decide
from luigi_pai.work.lookup import check_unique, look_up, situation
from luigi_pai.work.piece import RECENT
from luigi_pai.work.stopping import OF_ALL
from luigi_pai.work.submission import Submission
from luigi_pai.work.submit import Submitter, add_tags

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future

    from luigi_pai.api.book.entries import Entry
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.sweep.journal.journal import Journal
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.packs import Pack
    from luigi_pai.sweep.point import Point
    from luigi_pai.work.decide import Situation
    from luigi_pai.work.submission import InFlight

logger = logging.getLogger("luigi-interface")

Result = Submission | Row | Submit | Exception | None


class NotConfirmedError(PaiError):
    """The cluster does not confirm a point that exists only in a search's journal."""


class Starter:
    """Starts points. ``in_flight`` gets each job before its first post."""

    def __init__(self, journal: Journal, limits: SweepLimits, in_flight: InFlight) -> None:
        self._journal = journal
        self._limits = limits
        self._submitter = Submitter(in_flight, journal, single=False)

    def start(self, pack: Pack) -> list[tuple[Point, Result]]:
        """Look up a pack's points; if they have already been looked up, submit them in an array.

        Raises:
            SpecError: the points differ in shared fields, or the array is too large; no job was sent.
            ConfigError: the cluster does not support arrays.
            PaiError: the cluster cannot be reached or rejects the user; the message says whether an array
                may have been submitted.
            HdfsError: the file system failed, but a retry may succeed.
        """
        results = self._look_up(pack.points) if pack.name is None else self._submit(pack)
        for point, result in results:
            if isinstance(result, Submission):  # its next event is its end
                point.save_memory()
        return results

    def _look_up(self, points: Sequence[Point]) -> list[tuple[Point, Result]]:
        """Look up points, and submit each point that needs a separate job."""
        book = points[0].work.book
        if self._limits.points_per_job > 1:
            Retry(book.api.polling.patience, book.api.clock).call(lambda: check_cluster(book))
        results: list[tuple[Point, Result]] = []
        for point in points:
            result: Result
            try:
                result = self._look_up_one(point) if point.is_proposed else _confirmed(point)
            except Exception as error:
                if isinstance(error, OF_ALL) or (isinstance(error, PaiError) and error.transient):
                    raise
                result = error
            results.append((point, result))
        return results

    def _look_up_one(self, point: Point) -> Result:
        point.work.options.check()
        known = self._situation_of(point)
        decision = decide(known)
        if isinstance(decision, Refuse):
            raise decision.error
        if not isinstance(decision, Submit):
            return Row("SUCCEEDED") if decision.entry is None else _taken_over(point, decision.entry)
        if point.record.pruned:
            return Row("PRUNED")
        point.evidence.check_folder_is_ours()
        entry, point.number = known.entry, decision.number
        if entry is not None and entry.void:
            self._journal.withdraw(point.name, entry.number)
        if decision.wait:
            return None
        # a claimed single-point job that has not reached the server is sent again as recorded
        is_again = bool(decision.reason) and entry is not None and entry.number == decision.number
        if decision.array is not None or (self._limits.points_per_job > 1 and not is_again):
            return decision
        if decision.reason:
            logger.warning("%s", decision.reason)
        return _counted(self._submitter.submit([point]).job)

    def _situation_of(self, point: Point) -> Situation:
        """Return a point's situation, for the decision. A recent job list may replace the lookup."""
        work, evidence = point.work, point.evidence
        evidence.noted = point.record.claim
        # if the list omits the job by mistake, a 409 or a claim still prevents a second job
        is_corrected = self._limits.points_per_job == 1 or evidence.is_durable
        is_first = not point.looked_up and point.record.claim is None
        is_new = is_first and work.book.is_unlisted(point.name, is_corrected=is_corrected)
        if is_new and evidence.last() is None:
            check_unique(work)
            known = situation(work, evidence, None)
        else:
            known = look_up(work, evidence, max_age=0.0 if point.looked_up else RECENT)
        point.looked_up = work.book.api.clock.monotonic()
        entry = known.entry
        is_final = entry is not None and entry.failed and not self._is_old(entry.number, point)
        return replace(known, shares_jobs=True, is_final=is_final)

    def _is_old(self, number: int, point: Point) -> bool:
        """Return whether a failed submission no longer counts, so that the point can be submitted again.

        It no longer counts if there is a later submission, if this run retries the failed submission, or if a
        new run gave the point new attempts. Reads other processes' events before it returns True.
        """
        if point.posted >= self._limits.attempts(point):
            return False
        for is_read in (False, True):
            if is_read:
                self._journal.read()
            is_last = number == max(point.record.made, default=0)
            if is_last and (number > point.handled or point.is_final(number, self._limits)):
                return False
        return True

    def _submit(self, pack: Pack) -> list[tuple[Point, Result]]:
        """Submit an array with the points that can be claimed. All other points must be looked up again."""
        points, clock = pack.points, pack.points[0].work.book.api.clock
        if any(clock.monotonic() - point.looked_up > RECENT for point in points):
            return [(point, None) for point in points]
        settings = OpenPai.current(points[0].task.cluster)

        def build(name: str, jobs: list[Any]) -> JobProtocol:
            return array_of(name, [as_protocol(job, settings).protocol for job in jobs])

        name = pack.name or array_name(point.own_name for point in points)
        job = _counted(self._submitter.submit(points, name, build).job)
        return [(point, job if job is not None and point in job.members else None) for point in points]


class Tags:
    """Adds tags to submitted jobs, in up to eight threads, so that tagging does not delay other points.

    Attributes:
        jobs: The submitted jobs without tags; each gets its first point's tags.
        running: The threads.
    """

    def __init__(self) -> None:
        self.jobs: deque[Submission] = deque()
        self.running: list[Future[None]] = []

    def step(self) -> None:
        """Start threads."""
        self.running = [future for future in self.running if not future.done()]
        while self.jobs and len(self.running) < AT_ONCE:
            self.running.append(run_in_thread(functools.partial(_add_tags, self.jobs.popleft())))


def _counted(job: Submission | None) -> Submission | None:
    """Count a posted job's attempts."""
    for point in () if job is None else job.members:
        point.posted += 1  # type: ignore[attr-defined]  # of points only
    return job


def _confirmed(point: Point) -> Submission:
    """Look up a point that exists only in the journal; return its job, which the user must have submitted.

    Others may have written the journal, so its parameters are compared with the server's before they are
    used. If the stored job has another output folder, no file in an output folder is read or written.

    Raises:
        NotConfirmedError: there is no such job.
    """
    work, api = point.work, point.work.book.api
    entry = work.book.latest(work.name)
    if entry is None or entry.status is None:
        raise NotConfirmedError("the server has no such job")
    fs = work.outputs.fs
    if fs is not None:
        stored = Retry(api.polling.patience, api.clock).call(lambda: api.config(entry.job))
        theirs = api.dialect.output_folder(stored)
        if work.folder is None or theirs is None or not fs.is_same(work.folder, theirs):
            raise NotConfirmedError(f"the output folder of job {entry.job!r} is {theirs}, not {work.folder}")
    return _taken_over(point, entry)


def _taken_over(point: Point, entry: Entry) -> Submission:
    if entry.index is None:
        point.evidence.check_taken_over(entry.known)
    return Submission.from_entry(point, replace(entry, posted=False))


def _add_tags(job: Submission) -> None:
    """Add the first point's tags to a job that was just submitted."""
    api = job.book.api
    if api.dialect.version == "v1":
        return
    try:
        takes_tags = job.book.remembered("takes tags", lambda: job.book.status(job.name).takes_tags)
    except PaiApiError as error:
        logger.debug("Cannot find out whether the cluster supports tags: %s", error)
        return
    add_tags(api, replace(job.status, takes_tags=takes_tags), job.members[0].work.options.tags)
