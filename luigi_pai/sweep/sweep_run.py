"""SweepRun: a run of a sweep.

It validates the points, runs the engine, reports progress to the log, a terminal or notebook, and Luigi's
page, and responds to messages from Luigi's scheduler.
"""

from __future__ import annotations

import contextlib
import logging
import math
from dataclasses import replace
from typing import TYPE_CHECKING

from luigi_pai.api.retries import Retry
from luigi_pai.api.waiting import WaitingReasons
from luigi_pai.config import OpenPai
from luigi_pai.console import note_progress
from luigi_pai.durations import counted
from luigi_pai.errors import PaiApiError, PaiError, PaiSweepFailed, Problem, SpecError
from luigi_pai.notebook import Drawing, is_notebook
from luigi_pai.redaction import printable
from luigi_pai.sweep.engine import Engine
from luigi_pai.sweep.journal.journal import Journal
from luigi_pai.sweep.limits import SweepLimits, pace, seconds_to_submit
from luigi_pai.sweep.points import check_cluster, check_journal, check_shared, checked_sweep, file_of
from luigi_pai.sweep.source import Source
from luigi_pai.sweep.table import SHOWN_FAILURES, Table, failure
from luigi_pai.tasks.luigi_page import LuigiPage, may_send_messages, responding
from luigi_pai.work.stopping import before_signals, stop_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from luigi_pai.sweep.sweep import PaiSweep
    from luigi_pai.work.submission import Submission

logger = logging.getLogger("luigi-interface")

_DRAWN_EVERY = 0.5  # seconds between two updates of the live bar
_STOPPED_WITHIN = 4.5  # seconds for stopping jobs after a signal; before_signals() allows 5 s for this
_LEAST_PAUSE = 0.001  # shortest pause in seconds; not 0, because messages are read only during pauses
_LOOKED_UP = "the next run of the sweep looks up each of them first"
_NOTHING = "0 submits nothing, and without a luigid no message can change it; use 1 or more"
_RESOURCE = "pai"  # the Luigi resource; each job takes one unit of it


class SweepRun:
    """A run of a sweep. Raises the same errors as ``PaiSweep.run``, and ValueError for an invalid journal."""

    def __init__(self, sweep: PaiSweep) -> None:
        self._sweep = sweep
        self._name, file = sweep.name, file_of(sweep)
        settings = OpenPai.current()
        self._clock, self._patience = settings.cluster().clock, settings.poll_patience
        self._limits = SweepLimits.from_sweep(sweep)
        self._journal = Journal(sweep.results.folder, self._clock)
        best, points = checked_sweep(sweep, self._limits)
        if self._limits.parallel_jobs == 0 and not may_send_messages(sweep):
            raise SpecError(self._name, [Problem("parallel_jobs", _NOTHING)], "sweep")
        self._retry(self._journal.read)
        check_journal(sweep, self._journal, points)
        self._is_complete = not sweep.is_search and self._journal.is_complete(
            (point.name for point in points), self._limits.failures(len(points))
        )
        if not self._is_complete:
            self._retry(lambda: self._journal.start(self._name, file))
        self._table = Table(sweep.results, self._name, self._journal, self._clock, best)
        self._progress = self._table.progress
        self._source = Source(sweep, points, self._limits, self._journal, self._table)
        self._table.points = self._source.points
        keep = sweep.keep if sweep.prunes else None
        self._engine = Engine(self._source, self._clock, self._patience, keep)
        self._page = LuigiPage(sweep, self._clock)
        held = (sweep.resources or {}).get(_RESOURCE)
        self._limits.resource = None if held is None else int(held)
        self._drawn_at = -math.inf
        self._drawing = Drawing() if is_notebook() else None
        self._pace_shown = False
        self._reasons: WaitingReasons | None = None
        self._reason = ""

    def _retry(self, act: Callable[[], object]) -> None:
        """Call a function, retrying transient errors."""
        Retry(self._patience, self._clock).call(act)

    def execute(self) -> None:
        """Run all points.

        Raises:
            PaiSweepFailed: more points failed than the tolerance allows, a message stopped the sweep, the
                user's code failed, or another process runs the search.
            PaiApiError, HdfsError, OSError: see ``PaiSweep.run``.
        """
        if self._is_complete:
            self._table.write(complete=True)
            logger.info("%s: all points have finished; the table is written again", self._name)
            return
        logger.info("%s: results go to %s", self._name, self._sweep.results.folder)
        try:
            with before_signals(self._killed) as check_signals:
                self._engine.step()
                while not (self._engine.done or self._engine.is_hopeless):
                    self._show()
                    self._table.write_if_due()
                    check_signals()
                    idle = min(self._engine.idle(), self._table.idle(), self._progress.idle() or 1.0)
                    pause = max(idle, _LEAST_PAUSE)
                    # a message from the scheduler ends the pause
                    next(responding(self._sweep, pause, self._clock, self._handle), None)
                    self._engine.step()
        except PaiApiError as error:
            self._save()
            raise error.extended(self._continuing()) from None
        except (KeyboardInterrupt, PaiSweepFailed):
            # No _save(): before a KeyboardInterrupt, _killed() wrote the table; a PaiSweepFailed means that
            # another process now runs this search.
            raise
        except BaseException:
            self._save()
            logger.warning("%s: interrupted: %s", self._name, self._continuing())
            raise
        finally:
            self._source.warn_of_dropped()
        self._conclude()

    # showing

    def _show(self) -> None:
        """Show progress in the log, on a terminal and on Luigi's page."""
        left, per_job = self._source.left, self._limits.points_per_job
        window, total = self._engine.window, self._source.total
        if not self._pace_shown and (message := pace(window, left, per_job)) is not None:
            self._pace_shown = True
            logger.info("%s: %s", self._name, message)
        line = self._progress.line(total, seconds_to_submit(window, math.ceil(left / per_job)))
        if line is not None:
            if self._drawing is None:
                logger.info("%s: %s", self._name, line)
            percentage = self._progress.percentage(total)
            self._page.report("set_status_message", line)
            if percentage is not None:
                self._page.report("set_progress_percentage", percentage)
        now = self._clock.monotonic()
        if now - self._drawn_at >= _DRAWN_EVERY:
            self._drawn_at = now
            best = "" if self._progress.best is None else str(self._progress.best)
            note_progress({"sweep": self._name, "total": total, "best": best, **self._progress.counts})
            self._draw()
            self._show_reason()

    def _draw(self) -> None:
        """Draw the progress in a notebook; the log then contains no progress lines."""
        if self._drawing is not None:
            total = self._source.total
            part = (self._progress.percentage(total) or 0) / 100
            self._drawing.draw(f"{self._name}: {self._progress.summary(total)}", part if total else None)

    def _show_reason(self) -> None:
        """Log why the first job is waiting, if no job is running and the reason has changed."""
        jobs = self._engine.watched()
        if self._progress.counts["running"] or not jobs:
            return
        if self._reasons is None:
            self._reasons = WaitingReasons(jobs[0].book)
        reason = self._reasons.reason(jobs[0].status) or ""
        if reason not in ("", self._reason):
            self._reason = reason
            logger.info("%s: job %s waits: %s", self._name, jobs[0].name, reason)

    # messages

    def _handle(self, message: str) -> str:
        """Handle a message and return the response."""
        if message.lower() == "status":
            return self._progress.summary(self._source.total)
        try:
            response = self._engine.stop() if message.lower() == "stop" else self._change(message)
        except (ValueError, PaiApiError) as error:
            return str(error)
        logger.info("%s: by message: %s", self._name, response)
        return response

    def _change(self, message: str) -> str:
        """Change a limit, and return a message about it. If this raises an error, nothing changes."""
        changed, points, book = replace(self._limits), self._source.points, self._engine.book
        changed.change(message)
        if changed.points_per_job > self._limits.points_per_job == 1 and points:
            check_shared(self._name, points)
            if book is not None:
                check_cluster(book)
        return self._limits.change(message)

    # signals

    def _killed(self) -> None:
        """Stop as many ``on_kill = stop`` jobs as time allows, and log how many jobs continue."""
        self._engine.in_flight.close()
        jobs = [job for job in self._engine.in_flight.jobs() if job.members]
        to_stop = [job for job in jobs if job.members[0].work.options["on_kill"] == "stop"]
        self._journal.again([member.work.name for job in to_stop for member in job.members])
        stopped, _ = stop_jobs(to_stop, _STOPPED_WITHIN)
        stopping = f"{counted(len(stopped), 'job')} asked to stop; " if stopped else ""
        continuing = self._continuing(stopped)
        logger.warning("%s: interrupted: %s%s", self._name, stopping, continuing)
        with contextlib.suppress(PaiError, OSError):
            # Not _save(): if it recorded the run as over, the next run would retry all failed points.
            self._table.write(complete=False)

    def _continuing(self, stopped: Sequence[Submission] = ()) -> str:
        """Return a message: how many jobs, except ``stopped``, continue, or how to continue the sweep.

        The message names the jobs that may have been submitted.
        """
        jobs = [job for job in self._engine.in_flight.jobs() if job.members and job not in stopped]
        unsure = sorted(job.name for job in jobs if not job.is_there)
        count, parts = len(jobs) - len(unsure), []
        if count:
            verb, them = ("continues", "it") if count == 1 else ("continue", "them")
            parts.append(f"{counted(count, 'job')} {verb}; the next run of the sweep takes {them} over")
        if unsure:
            names = ", ".join(unsure)
            parts.append(f"{counted(len(unsure), 'job')} may have been submitted ({names}); {_LOOKED_UP}")
        return "; ".join(parts) or "to continue, run the sweep again"

    # ending

    def _save(self) -> None:
        """Write the journal and the rows if possible."""
        with contextlib.suppress(PaiError, OSError):
            self._finish(complete=False)

    def _finish(self, *, complete: bool) -> None:
        budget = self._sweep._budget  # noqa: SLF001  of this package
        self._journal.finish(complete=complete, budget=budget, dropped=self._source.dropped)
        self._table.write(complete=complete)

    def _conclude(self) -> None:
        """Write the table; raise an error if the sweep failed."""
        table, engine, error = self._table, self._engine, self._source.error
        if self._sweep.is_search:
            self._journal.check_newest()
        table.collect_again()
        self._draw()
        self._remark()
        failed, total = table.failed, len(table.points)
        is_whole = engine.done and self._source.total is not None
        if is_whole and not (engine.stopping or engine.is_hopeless or error):
            self._retry(lambda: self._finish(complete=True))
            logger.info("%s: %s", self._name, self._progress.summary(total))
            return
        self._save()
        failures = f"{len(failed)} of {total:,} points failed"
        reason = (
            f"{failures}, and tolerance = {self._limits.tolerance:g} allows {self._limits.failures(total)}"
        )
        if error:
            reason = f"{error}; {failures}"
        elif engine.stopping:
            reason = f"it was stopped by a message, {failures}"
        lines = [f"  {failure(each)}" for each in failed[:SHOWN_FAILURES]]
        if len(failed) > SHOWN_FAILURES:
            lines.append(f"  and {len(failed) - SHOWN_FAILURES} more")
        lines.append(f"  all points: luigi-pai sweep {self._sweep.shown_by}")
        lines.append(f"  {self._continuing()}")
        names = [each.point.name for each in failed]
        raise PaiSweepFailed("\n".join([f"sweep {self._name!r} failed: {reason}", *lines]), self._name, names)

    def _remark(self) -> None:
        """Log which results are missing."""
        table, best = self._table, self._progress.best
        if len(table.failed) == len(table.points) > 0:
            allowed = f"tolerance = {self._limits.tolerance:g} allows it"
            logger.warning("%s: all %d points failed, and %s", self._name, len(table.points), allowed)
        if table.without_metrics:
            logger.warning(
                "%s: %s written no metrics.json; their last reports are used as results",
                self._name,
                _have(table.without_metrics),
            )
        if table.without_result or table.result_error:
            rows = ((point.task._output_folder(), point.record.row) for point in table.points)  # noqa: SLF001  of this package
            folder = next((folder for folder, row in rows if row and row.is_good and not row.result), None)
            why = f"there is no metrics.json in {folder or 'output()'}, for example: let the job copy it to "
            why += "$PAI_OUTPUT_DIR, or let result() of the task return a dict"
            why = f"the last error: {table.result_error}" if table.result_error else why
            logger.warning("%s: %s no result; %s", self._name, _have(max(table.without_result, 1)), why)
        if best is not None and (missing := best.missing()):
            logger.warning("%s: best = %r: %s", self._name, best.declaration, printable(missing))


def _have(points: int) -> str:
    return f"{points:,} point{' has' if points == 1 else 's have'}"
