"""SweepRun: a run of a sweep: its points are validated, run by the engine, shown and collected."""

from __future__ import annotations

import contextlib
import logging
import math
from typing import TYPE_CHECKING

from luigi_pai.api.waiting import WaitingReasons
from luigi_pai.config import OpenPai
from luigi_pai.console import note_progress
from luigi_pai.errors import PaiApiError, PaiError, PaiSweepFailed, Problem, SpecError
from luigi_pai.sweep.arrays import Arrays, check_points
from luigi_pai.sweep.control import Control
from luigi_pai.sweep.engine import Engine
from luigi_pai.sweep.jobs import Ended
from luigi_pai.sweep.journal import Journal, retried
from luigi_pai.sweep.limits import SweepLimits, pace, seconds_to_submit
from luigi_pai.sweep.points import (
    Requirements,
    check_journal,
    check_same,
    checked_points,
    describe,
    file_of,
    parameters_of,
    sweep_problems,
)
from luigi_pai.sweep.progress import Best, Progress
from luigi_pai.sweep.sources import SearchedPoints, Source
from luigi_pai.sweep.stopping import stop_within
from luigi_pai.sweep.table import Table
from luigi_pai.tasks.luigi_page import LuigiPage
from luigi_pai.tasks.signals import before_signals

if TYPE_CHECKING:
    from collections.abc import Mapping

    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.jobs import Point, SweepJob
    from luigi_pai.sweep.sweep import PaiSweep

__all__ = ["SweepRun"]

logger = logging.getLogger("luigi-interface")

_SHOWN_FAILURES = 10  # in an error, and in the log
_DRAWN_EVERY = 0.5  # seconds between two updates of the live bar
_STOPPED_WITHIN = 4.5  # seconds; before_signals waits for 5


class SweepRun:
    """A run of a sweep.

    Args:
        sweep: the task.

    Raises:
        SpecError: the sweep or points of it are not valid; names all problems.
        ConfigError: a setting is wrong.
        HdfsError, OSError, ValueError: its journal cannot be read.
    """

    def __init__(self, sweep: PaiSweep) -> None:
        self._sweep = sweep
        self._name = sweep.name
        self._clock = OpenPai.current().cluster().clock
        self._limits = SweepLimits.of(sweep)
        self._requirements = Requirements()
        self._arrays: dict[str | None, Arrays] = {}
        self._journal = Journal(sweep.results.folder, self._clock)
        self._table = Table(sweep.results, self._name, self._journal, self._clock)
        best, points = self._checked()
        retried(self._journal.read, self._clock, OpenPai.current().poll_patience)
        check_journal(sweep, self._journal, points)
        self._progress = Progress(self._clock, best)
        self._is_complete = not sweep.is_search and self._journal.is_complete(
            (point.name for point in points), self._limits.failures(len(points))
        )
        if not self._is_complete:
            file = file_of(sweep)
            retried(
                lambda: self._journal.start(self._name, file), self._clock, OpenPai.current().poll_patience
            )
        self._source = self._source_of(points)
        self._table.points = self._source.points
        self._engine = Engine(
            self._source,
            self._limits,
            self._clock,
            self._journal,
            self._arrays_of,
            self,
            sweep.keep if sweep.prunes else None,
        )
        self._drawn_at = -math.inf
        self._page = LuigiPage(sweep, self._clock)
        self._control = Control(
            sweep, self._limits, self._engine, self._source, self._progress, self._page, self._clock
        )
        self._pace_shown = False
        self._failures_shown = 0
        self._reasons: WaitingReasons | None = None
        self._reason = ""
        self._code_errors: list[str] = []

    def execute(self) -> None:
        """Run all points.

        Raises:
            PaiSweepFailed: more points failed than the tolerance allows, or the sweep was stopped.
            PaiApiError: the cluster cannot be reached; jobs continue.
            HdfsError, OSError: the table cannot be written.
        """
        if self._is_complete:
            self._table.write(complete=True)
            logger.info("%s: all points have ended; its table is written anew", self._name)
            return
        logger.info("%s: results go to %s", self._name, self._sweep.results.folder)
        try:
            with before_signals(self._killed) as check_signals:
                while not self._step():
                    check_signals()
                    idle = min(self._engine.idle(), self._table.idle(), self._progress.idle() or 1.0)
                    self._control.pause(idle)
        except PaiApiError as error:
            self._save()
            raise error.extended(self._continuing()) from None
        except KeyboardInterrupt:  # said already
            raise
        except BaseException:
            self._save()
            logger.warning("%s: interrupted: %s", self._name, self._continuing())
            raise
        finally:
            self._engine.close()
        self._conclude()

    def _step(self) -> bool:
        """Do what is due, and return whether the sweep has ended."""
        self._engine.step()
        if self._engine.done or self._engine.is_hopeless:
            return True
        self._show()
        self._table.write_if_due()
        return False

    # of the engine

    def changed(self, job: SweepJob, point: Point, status: JobStatus) -> None:
        """Show the status of a point."""
        del job
        self._progress.changed(point.name, status)
        self._table.changed(point, status)

    def ended(self, ended: Ended) -> Mapping[str, object]:
        """Collect the result of a point, and return its row."""
        self._progress.left(ended.point.name)
        self._progress.ended(ended.state)
        row = self._table.ended(ended)
        if self._progress.best is not None:
            self._progress.best.add(row, parameters_of(ended.point.task))
        if ended.state not in ("SUCCEEDED", "PRUNED"):
            self._failures_shown += 1
            if self._failures_shown <= _SHOWN_FAILURES:
                logger.warning("%s: %s", self._name, _failure(ended))
            elif self._failures_shown == _SHOWN_FAILURES + 1:
                logger.warning("%s: further failures are in its table only", self._name)
        return row

    def retried(self, ended: Ended, most: int) -> None:
        """Show that a point will be submitted again."""
        self._progress.left(ended.point.name)
        attempts = f"attempt {len(ended.point.record.made) + 1} of {most}"
        logger.info("%s: %s; it is submitted again, %s", self._name, _failure(ended), attempts)

    def failed_code(self, error: str, point: Point) -> None:
        """Log an error of the user's ``keep()``, each text once; the point goes on."""
        self._table.remark(point, error)
        if error not in self._code_errors:
            self._code_errors.append(error)
            logger.error("%s: %s; the point goes on", self._name, error)

    def _arrays_of(self, point: Point) -> Arrays:
        cluster = point.task.cluster
        if cluster not in self._arrays:
            self._arrays[cluster] = Arrays(self._name, point)
        return self._arrays[cluster]

    # beginning

    def _checked(self) -> tuple[Best | None, list[Point]]:
        """Validate the sweep and its points; nothing is sent."""
        sweep, problems, best = self._sweep, [*self._limits.problems(), *sweep_problems(self._sweep)], None
        try:
            best = Best(sweep.best) if sweep.best is not None else None
        except ValueError as error:
            problems.append(Problem("best", str(error)))
        if sweep.is_search:
            if problems:
                raise SpecError(self._name, problems, "sweep")
            return best, []
        points, warnings = checked_points(self._name, sweep.points, self._limits, problems)
        check_same(sweep, points)
        if sweep.requires_other_tasks:
            self._requirements.check(self._name, points)
        if self._limits.points_per_job > 1:
            check_points(points)
        if best is not None:
            for point in points:
                best.note(parameters_of(point.task))
        for warning in warnings:
            logger.warning("%s: %s", self._name, warning)
        if sweep.prunes and self._limits.points_per_job > 1:
            logger.warning("%s: keep() is not called for points that share a job", self._name)
        return best, points

    def _source_of(self, points: list[Point]) -> Source:
        if self._sweep.is_search:
            return SearchedPoints(
                self._sweep, self._name, self._limits, self._journal, self._known, self._table.row_of
            )
        for point in points:
            point.record = self._journal.of(point.name)
        return Source(points, self._known)

    def _known(self, point: Point) -> Ended | None:
        """Return how a point has ended without a job of this run."""
        ended = self._table.known(point)
        if ended is None and self._sweep.is_search:
            missing = self._requirements.missing(point)
            ended = None if missing is None else Ended(point, "FAILED", error=missing)
        return ended

    # showing

    def _show(self) -> None:
        """Show where the sweep stands: in the log, on a terminal, on Luigi's page, and to its scheduler."""
        jobs = math.ceil(self._source.left / self._limits.points_per_job)
        window, book = self._engine.window, self._engine.book
        if not self._pace_shown and window is not None:
            packs = book is not None and book.api.dialect.version == "v2"
            text = pace(window, self._source.left, self._limits.points_per_job, packs=packs)
            if text is not None:
                self._pace_shown = True
                logger.info("%s: %s", self._name, text)
        total = self._source.total
        line = self._progress.line(total, seconds_to_submit(window, jobs))
        if line is not None:
            logger.info("%s: %s", self._name, line)
            percentage = self._progress.percentage(total)
            if self._page.report("set_status_message", line) and percentage is not None:
                self._page.report("set_progress_percentage", percentage)
        now = self._clock.monotonic()
        if now - self._drawn_at >= _DRAWN_EVERY:
            self._drawn_at = now
            best = "" if self._progress.best is None else str(self._progress.best)
            note_progress({"sweep": self._name, "total": total, "best": best, **self._progress.counts})
            self._show_reason()
        self._control.give_back()

    def _show_reason(self) -> None:
        """Log why the first job waits, while none runs; each reason once."""
        jobs = self._engine.watched()
        if self._progress.counts["running"] or not jobs:
            return
        if self._reasons is None:
            self._reasons = WaitingReasons(jobs[0].book)
        reason = self._reasons.of(jobs[0].status) or ""
        if reason not in ("", self._reason):
            self._reason = reason
            logger.info("%s: job %s waits: %s", self._name, jobs[0].name, reason)

    # signals

    def _killed(self) -> None:
        """Stop the jobs whose ``on_kill`` says so, as many as the time allows, and say what continues."""
        watched = self._engine.watched()
        stopped = stop_within([job for job in watched if job.options["on_kill"] == "stop"], _STOPPED_WITHIN)
        asked = f"{_jobs(stopped)} asked to stop; " if stopped else ""
        continuing = self._continuing(len(watched) - stopped)
        logger.warning("%s: interrupted: %s%s", self._name, asked, continuing)
        self._save()

    def _continuing(self, jobs: int | None = None) -> str:
        """Return what becomes of the jobs that wait or run."""
        count = len(self._engine.watched()) if jobs is None else jobs
        starting = self._engine.starting()
        more = f"; {starting} more may have been submitted just now" if starting else ""
        if not count:
            return f"to go on, run the sweep again{more}"
        verb, them = ("continues", "it") if count == 1 else ("continue", "them")
        return f"{_jobs(count)} {verb}; the next run of the sweep takes {them} over{more}"

    # ending

    def _save(self, *, complete: bool = False) -> None:
        """Write the journal and the rows so far, if that is possible."""
        with contextlib.suppress(PaiError, OSError):
            self._journal.note(self._over(complete=complete))
            self._table.write()

    def _over(self, *, complete: bool) -> Mapping[str, object]:
        return {"event": "over", "complete": complete, "budget": self._sweep._budget}  # noqa: SLF001

    def _conclude(self) -> None:
        """Write the table, and raise if the sweep has failed."""
        self._table.collect_again()
        self._remark()
        failed, total = self._engine.failed, len(self._source.points)
        engine, error = self._engine, self._source.error
        if (
            engine.done
            and self._source.total is not None
            and not (engine.stopping or engine.is_hopeless or error)
        ):
            self._journal.note(self._over(complete=True))
            self._table.write(complete=True)
            logger.info("%s: %s", self._name, self._progress.text(total))
            return
        self._save()
        counted = f"{len(failed)} of {total:,} points failed"
        what = f"{counted}, and tolerance = {self._limits.tolerance:g} allows {self._limits.failures(total)}"
        if error:
            what = f"{error}; {counted}"
        elif engine.stopping:
            what = f"it was stopped by a message, {counted}"
        lines = [f"  {_failure(each)}" for each in failed[:_SHOWN_FAILURES]]
        if len(failed) > _SHOWN_FAILURES:
            lines.append(f"  and {len(failed) - _SHOWN_FAILURES} more")
        lines.append(f"  all points: luigi-pai sweep {self._sweep.shown_by}")
        lines.append(f"  {self._continuing()}")
        names = [each.point.name for each in failed]
        raise PaiSweepFailed("\n".join([f"sweep {self._name!r} failed: {what}", *lines]), self._name, names)

    def _remark(self) -> None:
        """Log what the results lack."""
        table, best = self._table, self._progress.best
        if table.without_metrics:
            logger.warning(
                "%s: %s written no metrics.json; the results of these are their last reports",
                self._name,
                _have(table.without_metrics),
            )
        if table.without_result:
            logger.warning("%s: %s no result", self._name, _have(table.without_result))
        if best is not None and not str(best) and (missing := best.missing()):
            logger.warning("%s: best = %r: %s", self._name, self._sweep.best, missing)


def _failure(ended: Ended) -> str:
    point = ended.point
    job = f" ({ended.job})" if ended.job and ended.job not in describe(point.task) else ""
    return f"{describe(point.task)}{job}: {ended.error}"


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"


def _have(points: int) -> str:
    return f"{points:,} point{' has' if points == 1 else 's have'}"
