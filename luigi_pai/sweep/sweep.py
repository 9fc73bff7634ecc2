"""PaiSweep: a Luigi task that runs many of the user's tasks and collects their results."""

from __future__ import annotations

import abc
import functools
import hashlib
import json
import shlex
from typing import TYPE_CHECKING, Any, ClassVar

import luigi

from luigi_pai.api.retries import Retry
from luigi_pai.config import OpenPai
from luigi_pai.errors import SpecError
from luigi_pai.sweep.limits import LIMITS, SweepLimits
from luigi_pai.sweep.results import SweepResults
from luigi_pai.sweep.sheet import points_digest
from luigi_pai.tasks.attributes import Task, attribute
from luigi_pai.tasks.class_checks import text_problems, warn_of_class
from luigi_pai.tasks.luigi_page import has_page

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from luigi_pai.errors import Problem
    from luigi_pai.tasks.job_task import JobTask

__all__ = ["PaiSweep", "default_folder"]

_HASH = 10  # characters
_PATIENCE = 2.0  # how long complete() retries transient file errors, in seconds
_count = functools.partial(luigi.IntParameter, significant=False)


def default_folder(name: str) -> str:
    """Return the default folder of a sweep's table, used if ``results_dir`` is not set."""
    settings = OpenPai.current()
    account = settings.hdfs_account()
    user = account.user if account is not None else settings.username if settings.storage else None
    home = "" if user is None else f"$PAI_DEFAULT_FS_URI/user/{user}/"
    return f"{home}sweeps/{name}"


class PaiSweep(Task):
    """Runs many tasks, called points, as jobs from one process, and collects their results in a table.

    Subclass it and define ``points``::

        class Study(PaiSweep):
            parallel_jobs = 50
            tolerance = 0.05

            def points(self):
                return grid(Train, rate=[0.1, 0.01, 0.001], batch=[16, 32])

    A point is the same task as outside a sweep, with the same submissions, completion flag, output and
    ``complete()``. Each point has its own job, unless ``points_per_job`` is above 1. If a point succeeded,
    the next run of the sweep, or another sweep with the same point, does not run it again. If its job is
    waiting or running, the run takes it over. ``output()`` is the table. The sweep is complete if all points
    that ``points()`` returns have finished and are in the table, and no more failed than allowed.

    A sweep that defines ``tell`` is a search. The ``points()`` of a search is a generator, which is asked for
    a point whenever another job may start.
    """

    @abc.abstractmethod
    def points(self) -> Iterable[JobTask | None]:
        """Return the points: PaiTasks and PaiProtocolTasks with different names. Required.

        In a search, this is a generator, which yields None to wait until another point has finished.
        """

    def tell(self, point: Any, row: Mapping[str, Any]) -> None:
        """Receive a point's result; a sweep that defines this method is a search.

        Args:
            point: The task.
            row: The task's row in the table: column -> value; ``state`` is SUCCEEDED, FAILED, STOPPED or
                PRUNED.
        """

    def keep(self, point: Any, reports: list[dict[str, Any]]) -> bool:
        """Return whether a point should continue; define this method to stop poor points early.

        It is called at most every 10 s while a point runs, if its job runs no other point and its containers
        have sent reports. If it returns False, the job is stopped and the row gets the state PRUNED, which
        does not count as a failure.

        Args:
            point: The task.
            reports: The reports that its containers sent with ``luigi_pai.runtime.report``, oldest first.
        """
        del point, reports
        return True

    @attribute
    def name(self) -> str:
        """The sweep's name, used in its folder's path and in its log lines.

        The default is the class name. If the sweep has significant Luigi parameters, a hash of them is added.
        """
        parameters = self.to_str_params(only_significant=True)  # type: ignore[no-untyped-call]
        significant = {key: value for key, value in parameters.items() if key not in LIMITS}
        if not significant:
            return str(self.task_family)
        digest = hashlib.sha256(json.dumps(significant, sort_keys=True).encode()).hexdigest()
        return f"{self.task_family}_{digest[:_HASH]}"

    @attribute
    def best(self) -> str | None:
        """``max COLUMN`` or ``min COLUMN``, which selects the point that is logged as the best; or None."""
        return None

    @attribute
    def results_dir(self) -> str | None:
        """The table's folder, on the cluster's file system or local.

        The default is ``sweeps/NAME``, in ``$PAI_DEFAULT_FS_URI/user/USER`` if HDFS or a storage is
        configured, otherwise in the current folder.
        """
        return None

    @attribute
    def accepts_messages(self) -> bool:
        """Whether Luigi's web page may send messages: ``parallel_jobs = 100``, ``status``, ``stop``."""
        return has_page()

    # the type ClassVar[Any] lets subclasses define these as plain attributes or as properties
    parallel_jobs: ClassVar[Any] = _count(default=50, description="jobs that wait or run at once")
    tolerance: ClassVar[Any] = luigi.FloatParameter(
        default=0.0, significant=False, description="share (below 1) or number of points that may fail"
    )
    max_attempts: ClassVar[Any] = _count(default=1, description="number of submissions of a failing point")
    points_per_job: ClassVar[Any] = _count(default=1, description="points that share a job")
    max_points: ClassVar[Any] = _count(default=10_000, description="most points")

    @property
    def is_search(self) -> bool:
        """Whether the sweep is a search: its class defines ``tell``."""
        return type(self).tell is not PaiSweep.tell

    @property
    def prunes(self) -> bool:
        """Whether the sweep defines ``keep``."""
        return type(self).keep is not PaiSweep.keep

    @property
    def requires_other_tasks(self) -> bool:
        """Whether the sweep defines ``requires``, which replaces the requirements of its points."""
        return type(self).requires is not PaiSweep.requires

    @property
    def results(self) -> SweepResults:
        """The table; raises SpecError if its folder is not a string."""
        if problems := text_problems(self, "name", "results_dir"):
            raise SpecError(self.name, problems, "sweep")
        return SweepResults(default_folder(self.name) if self.results_dir is None else self.results_dir)

    @property
    def shown_by(self) -> str:
        """The argument with which ``luigi-pai sweep`` finds the table: the name or the folder."""
        folder = self.results_dir
        if folder is None:
            return shlex.quote(self.name)
        return shlex.quote(folder if "/" in folder else f"./{folder}")

    def requires(self) -> Any:
        """Return the points' requirements; none for a search, whose points are not known in advance."""
        if self.is_search:
            return []
        from luigi_pai.sweep.points import requirements_of  # noqa: PLC0415  loads what only runs need

        return requirements_of(self.points() or ())

    def output(self) -> Any:
        """Return the table, a ``SweepResults``; its ``rows()`` are dicts of column -> value."""
        return self.results

    def complete(self) -> bool:
        """Return whether all points have finished and are in the table, and no more failed than allowed.

        A search is complete only if its last run also succeeded and its ``points()`` has finished.

        Raises:
            SpecError: a limit, ``name`` or ``results_dir`` is invalid, or ``points()`` failed.
            HdfsError: the file system failed.
            ValueError: the journal cannot be read.
        """
        warn_of_class(type(self))
        if type(self).output is not PaiSweep.output:
            return bool(super().complete())  # type: ignore[no-untyped-call]
        from luigi_pai.sweep.journal.journal import Journal  # noqa: PLC0415  loads files
        from luigi_pai.sweep.points import points_of  # noqa: PLC0415

        limits = SweepLimits.from_sweep(self)
        if problems := limits.problems():
            raise SpecError(self.name, problems, "sweep")
        settings, results = OpenPai.current(), self.results
        clock = settings.cluster().clock
        retry = Retry(_PATIENCE, clock, self.name, token_limit=settings.poll_patience)
        names: list[str] = []
        if not self.is_search:
            names = [getattr(point, "name", "") for point in points_of(self)]
            self._points_before = set(names)
        journal = Journal(results.folder, clock)
        retry.call(journal.read)
        is_over = bool(names)
        if self.is_search:
            is_over = journal.over and journal.complete and self._budget <= journal.budget
            names = journal.asked
        if not is_over or not journal.is_complete(names, limits.failures(len(names))):
            return False
        summary = retry.call(results.complete_summary)
        if summary is None or summary.digest != points_digest(names):
            return False
        # the counts differ if points were retried after the table was written
        return dict(summary.counts) == journal.counts(names)

    def run(self) -> None:
        """Run the incomplete points, and collect all points' results.

        Raises:
            SpecError: the sweep or some of its points are invalid; no job was sent.
            ConfigError: a setting is invalid.
            PaiSweepFailed: more points failed than the tolerance allows, or the user's code failed.
            PaiApiError: the cluster cannot be reached, or rejects the user; running jobs continue.
            HdfsError, OSError: the journal or the table cannot be written.
        """
        from luigi_pai.sweep.sweep_run import SweepRun  # noqa: PLC0415  only runs need it

        SweepRun(self).execute()

    @property
    def _budget(self) -> int:
        """How many points a search proposes; 0 if unknown. If you raise it, the search continues."""
        return 0

    def _note(self) -> Any:
        """Return what changed in a search since the last call, as JSON for the journal; or None."""

    def _recall(self, notes: list[Any]) -> None:
        """Restore a search from its notes in the journal. Called before ``points()``."""

    def _problems(self) -> Iterable[Problem]:
        """Return what is wrong with attributes that a subclass adds."""
        return ()
