"""SweepRun: a run of a sweep: its points are validated, run by the engine, shown and collected."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from typing import TYPE_CHECKING, Any

from luigi_pai.config import OpenPai
from luigi_pai.console import note_progress
from luigi_pai.errors import PaiApiError, PaiError, PaiSweepFailed, Problem, SpecError
from luigi_pai.sweep.array_units import Lookup, packed
from luigi_pai.sweep.arrays import Arrays, check_cluster, check_points
from luigi_pai.sweep.engine import Engine
from luigi_pai.sweep.limits import SweepLimits
from luigi_pai.sweep.pacing import pace, seconds_to_submit
from luigi_pai.sweep.points import checked_points, describe, parameters_of, requirements_of
from luigi_pai.sweep.progress import Best, Progress
from luigi_pai.sweep.sources import ListedPoints, SearchedPoints
from luigi_pai.sweep.table import Table
from luigi_pai.sweep.units import Ended, PointUnit
from luigi_pai.tasks.luigi_page import LuigiPage
from luigi_pai.tasks.messages import answered_within
from luigi_pai.tasks.signals import before_signals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.api.status import JobStatus
    from luigi_pai.sweep.sources import Source
    from luigi_pai.sweep.sweep import PaiSweep
    from luigi_pai.sweep.units import Point, Unit

__all__ = ["SweepRun"]

logger = logging.getLogger("luigi-interface")

_SHOWN_FAILURES = 10  # in an error, and in the log
_DRAWN_EVERY = 0.5  # seconds between two updates of the live bar
_LEAST_PAUSE = 0.001  # seconds; a message is read in them while there is always more to submit
_STOPPERS = 16  # threads that stop jobs when the process is ended
_STOPPED_WITHIN = 4.5  # seconds; before_signals waits for 5
_RESOURCE = "pai"


class SweepRun:
    """A run of a sweep.

    Args:
        sweep: the task.

    Raises:
        SpecError: the sweep or points of it are not valid; names all problems.
        ConfigError: a setting is wrong.
    """

    def __init__(self, sweep: PaiSweep) -> None:
        self._sweep = sweep
        self._name = sweep.name
        self._clock = OpenPai.current().cluster().clock
        self._limits = SweepLimits.of(sweep)
        resources: Mapping[str, float] = sweep.resources or {}
        held = resources.get(_RESOURCE)
        self._limits.resource = None if held is None else int(held)
        self._complete: dict[str, bool] = {}
        self._progress, self._source, self._table = self._checked()
        self._arrays: Arrays | None = None
        self._engine = Engine(
            self._source,
            self._limits,
            self._clock,
            self._units_of,
            self,
            sweep.keep if sweep.prunes else None,
        )
        self._drawn_at = -math.inf
        self._page = LuigiPage(sweep, self._clock)
        self._pace_shown = False
        self._failures_shown = 0

    def execute(self) -> None:
        """Run all points.

        Raises:
            PaiSweepFailed: more points failed than the tolerance allows, or the sweep was stopped.
            PaiApiError: the cluster cannot be reached; jobs continue.
            HdfsError, OSError: the table cannot be written.
        """
        logger.info("%s: results go to %s", self._name, self._sweep.results.folder)
        try:
            with before_signals(self._killed) as check_signals:
                while not self._step():
                    check_signals()
                    self._pause(min(self._engine.idle(), self._table.idle(), self._progress.idle() or 1.0))
        except PaiApiError as error:
            self._save()
            raise error.extended(self._continuing()) from None
        except KeyboardInterrupt:  # said already
            raise
        except BaseException:
            self._save()
            logger.warning("%s: interrupted: %s", self._name, self._continuing())
            raise
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

    def changed(self, unit: Unit, status: JobStatus) -> None:
        """Show the status of a job."""
        self._progress.changed(status)
        for point, own in unit.statuses(status):
            self._table.changed(point, own)

    def ended(self, ended: Ended) -> Mapping[str, Any]:
        """Collect the result of a point, and return its row."""
        self._progress.left(ended.job)
        self._progress.ended(ended.state)
        row = self._table.ended(ended)
        task = ended.point.task
        if self._progress.best is not None:
            self._progress.best.add(row, parameters_of(task))
        if ended.state not in ("SUCCEEDED", "PRUNED"):
            self._failures_shown += 1
            if self._failures_shown <= _SHOWN_FAILURES:
                logger.warning("%s: %s", self._name, _failure(ended))
            elif self._failures_shown == _SHOWN_FAILURES + 1:
                logger.warning("%s: further failures are in its table only", self._name)
        return row

    def retried(self, ended: Ended) -> None:
        """Show that a point will be submitted again."""
        self._progress.left(ended.job)
        attempts = f"attempt {ended.point.attempts + 1} of {self._limits.max_attempts}"
        logger.info("%s: %s; it is submitted again, %s", self._name, _failure(ended), attempts)

    def pruned(self, point: Point, job: str) -> None:
        """Note that a point is not kept: it is not submitted again, though this run may not see its end."""
        self._table.pruning(point, job)

    def _units_of(self, points: Sequence[Point]) -> Sequence[Unit]:
        units: list[Unit] = []
        if points and self._limits.points_per_job > 1:
            return [self._lookup(points)]
        units += [PointUnit(point, lambda point: self._lookup([point])) for point in points]
        if self._arrays is not None and self._source.exhausted:
            units += packed(self._arrays, (), self._limits, self._more_to_pack)
        return units

    def _lookup(self, points: Sequence[Point]) -> Unit:
        if self._arrays is None:
            self._arrays = Arrays(self._name, points[0])
        return Lookup(self._arrays, points, self._limits, self._more_to_pack)

    def _more_to_pack(self) -> bool:
        """Return whether further points may share a job with those that are looked up."""
        return not (self._sweep.is_search or self._source.exhausted)

    # beginning

    def _checked(self) -> tuple[Progress, Source, Table]:
        """Validate the sweep and its points; nothing is sent."""
        sweep, problems, best = self._sweep, self._limits.problems(), None
        try:
            best = Best(sweep.best) if sweep.best is not None else None
        except ValueError as error:
            problems.append(Problem("best", str(error)))
        source: Source
        if sweep.is_search:
            if problems:
                raise SpecError(self._name, problems, "sweep")
            source = SearchedPoints(self._name, sweep.points(), self._limits, self._known, sweep.tell)
        else:
            points, warnings = checked_points(self._name, sweep.points(), self._limits, problems)
            self._check_requirements(points)
            if self._limits.points_per_job > 1:
                check_points(points)
            if best is not None:
                for point in points:
                    best.note(parameters_of(point.task))
            for warning in warnings:
                logger.warning("%s: %s", self._name, warning)
            table = Table(sweep.results, self._name, points, self._clock)
            source = ListedPoints(points, table.place, self._known, sweep.tell)
            return Progress(self._clock, best), source, table
        return (
            Progress(self._clock, best),
            source,
            Table(sweep.results, self._name, source.points, self._clock),
        )

    def _check_requirements(self, points: Sequence[Point]) -> None:
        """Check that what points require is complete, unless Luigi has run it for the sweep."""
        if not self._sweep.requires_other_tasks:
            return
        problems = [
            Problem(describe(point.task), missing)
            for point in points
            if (missing := self._missing_requirement(point)) is not None
        ]
        if problems:
            raise SpecError(self._name, problems[:_SHOWN_FAILURES], "sweep")

    def _missing_requirement(self, point: Point) -> str | None:
        for required in requirements_of([point.task]):
            if required.task_id not in self._complete:
                self._complete[required.task_id] = required.complete()
            if not self._complete[required.task_id]:
                return (
                    f"requires {required}, which is not complete; return it in requires() of the sweep, too"
                )
        return None

    def _known(self, point: Point) -> Ended | None:
        """Return how a point has ended without a job of this run."""
        ended = self._table.pruned(point)
        if ended is None and self._sweep.is_search:
            missing = self._missing_requirement(point)
            ended = None if missing is None else Ended(point, "FAILED", error=missing)
        return ended

    # showing

    def _show(self) -> None:
        """Show where the sweep stands: in the log, on a terminal, on Luigi's page, and to its scheduler."""
        jobs = math.ceil(self._source.left / self._limits.points_per_job)
        window = self._engine.window
        if not self._pace_shown and window is not None:
            book = self._engine.book
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
        self._give_back()

    def _give_back(self) -> None:
        """Give back what the sweep no longer needs of Luigi's resource."""
        held, callback = self._limits.resource, "decrease_running_resources"
        if held is None or self._source.total is None or not hasattr(self._sweep, callback):
            return
        needed = math.ceil(self._source.left / self._limits.points_per_job) + len(self._engine.watched())
        if max(1, needed) < held:
            self._limits.resource = max(1, needed)
            if not self._page.report(callback, {_RESOURCE: held - self._limits.resource}):
                self._limits.resource = held

    # messages and signals

    def _pause(self, seconds: float) -> None:
        """Wait, until a message of the scheduler comes."""
        for _ in answered_within(self._sweep, max(seconds, _LEAST_PAUSE), self._clock, self._handle):
            return

    def _handle(self, message: str) -> str:
        """Handle a message and return the response."""
        if message.lower() == "stop":
            text = self._engine.stop()
        elif message.lower() == "status":
            return self._progress.text(self._source.total)
        else:
            try:
                text = self._change(message)
            except (ValueError, PaiApiError) as error:
                return str(error)
        logger.info("%s: by message: %s", self._name, text)
        return text

    def _change(self, message: str) -> str:
        """Change a limit, and return what was done.

        Raises:
            ValueError: the message is not valid, or the points cannot share jobs; the limits are as before.
            PaiApiError: the cluster was to be asked whether they can, and does not answer.
        """
        before, points = self._limits.points_per_job, self._source.points
        text = self._limits.change(message)
        if self._limits.points_per_job > before == 1 and points:
            try:
                check_points(points)
                check_cluster(points[0])
            except PaiError:
                self._limits.points_per_job = before
                raise
        return text

    def _killed(self) -> None:
        """Stop the jobs whose ``on_kill`` says so, as many as the time allows, and say what continues."""
        watched = self._engine.watched()
        to_stop = [each for each in watched if each[0].options["on_kill"] == "stop"]
        stopped: list[str] = []

        def stop() -> None:
            while to_stop:
                with contextlib.suppress(IndexError, PaiError):
                    unit, name = to_stop.pop()
                    unit.book.api.stop(name)
                    stopped.append(name)

        end = time.monotonic() + _STOPPED_WITHIN
        threads = [threading.Thread(target=stop, daemon=True) for _ in range(min(_STOPPERS, len(to_stop)))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))
        asked = f"{_jobs(len(stopped))} asked to stop; " if stopped else ""
        left = len(watched) - len(stopped)
        logger.warning("%s: interrupted: %s%s", self._name, asked, self._continuing(left))
        self._save()

    def _continuing(self, jobs: int | None = None) -> str:
        """Return what becomes of the jobs that wait or run."""
        count = len(self._engine.watched()) if jobs is None else jobs
        if not count:
            return "to go on, run the sweep again"
        verb, them = ("continues", "it") if count == 1 else ("continue", "them")
        return f"{_jobs(count)} {verb}; the next run of the sweep takes {them} over"

    # ending

    def _save(self) -> None:
        """Write the rows so far, if that is possible."""
        with contextlib.suppress(PaiError, OSError):
            self._table.write()

    def _conclude(self) -> None:
        """Write the table, and raise if the sweep has failed."""
        self._table.collect_again()
        failed, total = self._engine.failed, len(self._source.points)
        ended = self._source.total is not None and self._engine.done and not self._engine.stopping
        if ended and not self._engine.is_hopeless:
            self._table.write(complete=True)
            logger.info("%s: %s", self._name, self._progress.text(total))
            return
        self._save()
        allowed = self._limits.failures(total)
        if self._engine.is_hopeless:
            what = f"{len(failed)} of {total:,} points failed, and tolerance = {self._limits.tolerance:g}"
            what += f" allows {allowed}"
        else:
            what = f"it was stopped by a message, {len(failed)} of {total:,} points failed"
        lines = [f"  {_failure(each)}" for each in failed[:_SHOWN_FAILURES]]
        if len(failed) > _SHOWN_FAILURES:
            lines.append(f"  and {len(failed) - _SHOWN_FAILURES} more")
        lines.append(f"  all points: {self._sweep.results.path('html')}")
        lines.append(f"  {self._continuing()}")
        names = [each.point.name for each in failed]
        raise PaiSweepFailed("\n".join([f"sweep {self._name!r} failed: {what}", *lines]), self._name, names)


def _failure(ended: Ended) -> str:
    point = ended.point
    job = f" ({ended.job})" if ended.job and ended.job not in describe(point.task) else ""
    return f"{describe(point.task)}{job}: {ended.error}"


def _jobs(count: int) -> str:
    return f"{count:,} job{'' if count == 1 else 's'}"
