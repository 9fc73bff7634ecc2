"""Stops the job of a point for which ``keep()`` returns False, or the jobs of a sweep after a message."""

from __future__ import annotations

import logging
import math
from typing import TYPE_CHECKING, Any

from luigi_pai.api.status import JobState
from luigi_pai.console import first_line, user_error
from luigi_pai.errors import PaiError
from luigi_pai.sweep.point import PointMember
from luigi_pai.work.stopping import stop, stop_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.api.clock import Clock
    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.journal.journal import Journal
    from luigi_pai.sweep.point import Point
    from luigi_pai.work.submission import Submission

logger = logging.getLogger("luigi-interface")

_REPORTS_EVERY = 10.0  # seconds between two readings of the reports of a job; containers send them every 10 s
_SLICE = 0.5  # maximum time in seconds to read reports, before the sweep does other work
_MESSAGE_WITHIN = 30.0  # seconds for the requests after the message ``stop``


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
        self._due: dict[Submission, float] = {}

    def watch(self, job: Submission, status: JobStatus) -> None:
        """Watch a job. If an earlier, killed run has pruned its point already, ``step()`` stops the job."""
        now = self._clock.monotonic()
        # a sweep without keep() stops nothing, whatever its journal says
        member = job.members[0] if job.members else None
        if job.is_array or self._keep is None or not isinstance(member, PointMember):
            return
        if member.point.record.pruned:
            self._due.setdefault(job, now)
        elif status.state is JobState.RUNNING:
            self._due.setdefault(job, now + _REPORTS_EVERY)

    def forget(self, job: Submission) -> None:
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
            assert isinstance(member, PointMember)
            point, outputs = member.point, member.work.outputs
            self._due[job] = self._clock.monotonic() + _REPORTS_EVERY
            try:
                if not point.record.pruned:
                    if self._is_kept(point, outputs.reports(job.name)):
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


def stopped_by_message(watched: Sequence[Submission], in_flight: Sequence[Submission]) -> str:
    """Ask the server to stop the jobs that wait or run, and return a summary.

    Args:
        watched: these jobs.
        in_flight: all jobs that may be there; those that are being submitted are stopped when the server has
            them.
    """
    names = {job.name for job in watched}
    starting = [job for job in in_flight if job.name not in names]
    asked, problems = stop_jobs(watched, _MESSAGE_WITHIN)
    text = f"{counted_jobs(len(asked))} asked to stop"
    if problems:
        text += f"; {len(watched) - len(asked)} could not be: {first_line(problems[0])}"
    if starting:
        text += f"; stopped once the server has taken them: {counted_jobs(len(starting))}"
    return text


def counted_jobs(count: int) -> str:
    """Return a number of jobs in words: ``1 job``, ``2,000 jobs``."""
    return f"{count:,} job{'' if count == 1 else 's'}"
