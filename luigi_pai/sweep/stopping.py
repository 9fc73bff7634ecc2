"""Stops the job of a point for which ``keep()`` returns False, or several jobs of a sweep at once."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from typing import TYPE_CHECKING, Any

from luigi_pai.api.status import JobState
from luigi_pai.console import first_line, user_error
from luigi_pai.errors import JobNotFound, PaiApiError, PaiError
from luigi_pai.sweep.jobs import OF_ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.api.clock import Clock
    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.jobs import Point, SweepJob
    from luigi_pai.sweep.journal import Journal

logger = logging.getLogger("luigi-interface")

_REPORTS_EVERY = 10.0  # seconds between two readings of the reports of a job; containers send them every 10 s
_SLICE = 0.5  # maximum time in seconds to read reports, before the sweep does other work
_THREADS = 16  # for requests to stop jobs
_MESSAGE_WITHIN = 30.0  # seconds for the requests after the message ``stop``
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0  # seconds between requests to stop a job that is being submitted


class Pruning:
    """Calls ``keep`` with reports of running jobs that are no arrays. Stops a job if ``keep`` returns False.

    Args:
        keep: called with a task and its reports while its job runs; if it returns False, the job is stopped.
            If ``keep`` is None, no reports are read.
        journal: records pruned points before their jobs are stopped.
        clock: for the times of the next reports.
        failed_code: called with the text of an error that ``keep`` has raised, and with the point.
    """

    def __init__(
        self,
        keep: Callable[[Any, list[dict[str, Any]]], bool | None] | None,
        journal: Journal,
        clock: Clock,
        failed_code: Callable[[str, Point], None],
    ) -> None:
        self._keep = keep
        self._journal = journal
        self._clock = clock
        self._failed_code = failed_code
        self._due: dict[SweepJob, float] = {}

    def watch(self, job: SweepJob, status: JobStatus) -> None:
        """Watch a job. If an earlier, killed run has pruned its point already, ``step()`` stops the job."""
        now = self._clock.monotonic()
        # a sweep without keep() stops nothing, whatever its journal says
        if job.shared or self._keep is None:
            return
        if job.members[0].point.record.pruned:
            self._due.setdefault(job, now)
        elif status.state is JobState.RUNNING:
            self._due.setdefault(job, now + _REPORTS_EVERY)

    def forget(self, job: SweepJob) -> None:
        """Forget a job that has ended."""
        self._due.pop(job, None)

    def idle(self) -> float:
        """Return the seconds until ``step()`` has work to do; infinity if it has none."""
        return max(0.0, min(self._due.values(), default=math.inf) - self._clock.monotonic())

    def step(self) -> None:
        """Call ``keep`` with the reports that are due, and stop the jobs for which it returns False."""
        now = self._clock.monotonic()
        for job in [job for job, due in self._due.items() if due <= now]:
            if self._clock.monotonic() > now + _SLICE:
                break
            member = job.members[0]
            point = member.point
            self._due[job] = self._clock.monotonic() + _REPORTS_EVERY
            try:
                if not point.record.pruned:
                    if self._is_kept(point, member.run.outputs.reports(job.name)):
                        continue
                    self._journal.write({"event": "pruned", "point": point.name, "job": job.name})
            except (PaiError, OSError) as error:
                logger.debug("Job %s: its reports cannot be read: %s", job.name, error)
            else:
                if stop(job) is None:
                    self._due[job] = math.inf

    def _is_kept(self, point: Point, reports: list[dict[str, Any]]) -> bool:
        if not reports or self._keep is None:
            return True
        try:
            return self._keep(point.task, reports) is not False
        except Exception as error:  # noqa: BLE001  users' own code may raise anything
            self._failed_code(user_error(error, "keep()"), point)
            return True


def stop(job: SweepJob) -> PaiApiError | None:
    """Ask the server to stop a job; retry for some seconds. Return the error if the request still fails."""
    try:
        job.book.api.stop_surely(job.name)
    except JobNotFound:
        return None
    except PaiApiError as error:
        return error
    return None


def stop_jobs(
    jobs: Sequence[SweepJob], seconds: float, stopped: Callable[[SweepJob], None] = lambda _: None
) -> tuple[list[SweepJob], str]:
    """Ask the server to stop as many jobs as the time allows, several at once, the last of ``jobs`` first.

    Args:
        jobs: to stop.
        seconds: the time.
        stopped: called with each job that was asked to stop.

    Returns:
        the jobs that were asked to stop; the first problem, or an empty text.
    """
    asked: list[SweepJob]
    problems: list[PaiApiError]
    left, asked, problems = list(jobs), [], []

    def work() -> None:
        with contextlib.suppress(IndexError):
            while True:
                error = _stop_when_there(job := left.pop(), end)
                if error is None:
                    asked.append(job)
                    stopped(job)
                else:
                    problems.append(error)
                if isinstance(error, OF_ALL):  # all other requests would fail too, perhaps slowly
                    left.clear()

    end = time.monotonic() + seconds
    threads = [threading.Thread(target=work, daemon=True) for _ in range(min(_THREADS, len(left)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, end - time.monotonic()))
    return list(asked), first_line(problems[0]) if problems else ""


def _stop_when_there(job: SweepJob, end: float) -> PaiApiError | None:
    """Ask the server to stop a job; if it is being submitted and not there yet, ask again until ``end``."""
    if job.is_there:
        return stop(job)
    pause = _FIRST_PAUSE
    while True:
        try:
            job.book.api.stop_surely(job.name)
        except JobNotFound as error:
            if job.is_over or time.monotonic() + pause >= end:
                return error
        except PaiApiError as error:
            return error
        else:
            return None
        time.sleep(pause)
        pause = min(2 * pause, _LONGEST_PAUSE)


def stopped_by_message(watched: Sequence[SweepJob], sending: Sequence[SweepJob]) -> str:
    """Ask the server to stop the jobs that wait or run, and return a summary.

    Args:
        watched: these jobs.
        sending: jobs that are being submitted; they are stopped as soon as the server has them.
    """
    asked, problem = stop_jobs(watched, _MESSAGE_WITHIN)
    text = f"{counted_jobs(len(asked))} asked to stop"
    if problem:
        text += f"; {len(watched) - len(asked)} could not be: {problem}"
    if sending:
        text += f"; stopped once the server has taken them: {counted_jobs(len(sending))}"
    return text


def counted_jobs(count: int) -> str:
    """Return a number of jobs in words: ``1 job``, ``2,000 jobs``."""
    return f"{count:,} job{'' if count == 1 else 's'}"
