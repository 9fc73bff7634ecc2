"""The points of a sweep: collecting, validating and describing them, and checking if they can share jobs."""

from __future__ import annotations

import inspect
import itertools
import logging
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi
import luigi.task
from luigi.parameter import ParameterVisibility

from luigi_pai.config import OpenPai
from luigi_pai.console import user_error
from luigi_pai.errors import ConfigError, Problem, SpecError
from luigi_pai.jobspec.arrays.jobs import check_alike
from luigi_pai.jobspec.containers import for_containers
from luigi_pai.jobspec.convert import Conversion, convert
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.jobspec.names import v2_name
from luigi_pai.sweep.limits import LIMITS
from luigi_pai.sweep.point import Point
from luigi_pai.sweep.progress import Best
from luigi_pai.tasks.attributes import misspelt, users_classes
from luigi_pai.tasks.job_task import JobTask
from luigi_pai.tasks.task_work import TaskWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.sweep.journal import Journal
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.sweep import PaiSweep

logger = logging.getLogger("luigi-interface")

_LEAVE_OUT = "leave points_per_job out"
_MOST_LINES = 20  # of an error
_LIKENESS = 0.85  # least similarity of a misspelled setting to a known one, see difflib


def checked_points(
    sweep: PaiSweep, limits: SweepLimits, problems: Sequence[Problem]
) -> tuple[list[Point], list[str]]:
    """Return the points of a sweep, and warnings about their jobs; nothing is sent.

    Args:
        sweep: the sweep.
        limits: of the sweep.
        problems: of the sweep itself; the error names them together with the problems of its points.

    Raises:
        SpecError: the sweep or a point is not valid; the error names all problems.
    """
    name, most = sweep.name, _most(limits.max_points)
    listed = points_of(sweep)
    if len(listed) > most > 0:
        raise SpecError(name, [*problems, Problem("points", too_many_points(most))], "sweep")
    wrong: dict[str, list[str]] = (
        {} if listed else {"there are none: points() has returned an empty list": ["points"]}
    )
    warnings: Counter[str] = Counter()
    checked: dict[str, Point] = {}
    for index, task in enumerate(listed):
        try:
            warnings.update(check_job(task))
            point = Point(task, task.name, index)
            first = checked.setdefault(point.name, point)
            if first is not point:
                other = f"point {first.index} ({describe(first.task)})"
                hint = "let name depend on all parameters that differ"
                raise ValueError(f"has the name {point.name!r}, as {other} has; {hint}")  # noqa: TRY301  one of many
        except Exception as error:  # noqa: BLE001  users' own code may raise anything
            for text in problem_texts(error):
                wrong.setdefault(text, []).append(f"points()[{index}], {describe(task)}")
    if problems or wrong:
        raise SpecError(name, [*problems, *_problems(wrong)], "sweep")
    return list(checked.values()), [f"{text} ({warnings[text]} of {len(listed)} points)" for text in warnings]


def checked_sweep(sweep: PaiSweep, limits: SweepLimits) -> tuple[Best | None, list[Point]]:
    """Validate a sweep and its points; no job is sent.

    Returns:
        ``best`` and the points. ``best`` is None if the sweep does not set it. A search has no points yet.

    Raises:
        SpecError: the sweep or a point is not valid; the error names all problems.
        ConfigError: points are to share jobs, but their cluster has the API v1, or their clusters differ.
    """
    name, problems, best = sweep.name, [*limits.problems(), *_sweep_problems(sweep)], None
    try:
        best = Best(sweep.best) if sweep.best is not None else None
    except ValueError as error:
        problems.append(Problem("best", str(error)))
    if sweep.is_search:
        if problems:
            raise SpecError(name, problems, "sweep")
        return best, []
    points, warnings = checked_points(sweep, limits, problems)
    _check_same(sweep, points)
    if sweep.requires_other_tasks:
        known: dict[str, bool] = {}
        missing = ((describe(point.task), missing_requirement(point.task, known)) for point in points)
        if problems := [Problem(where, text) for where, text in missing if text is not None]:
            raise SpecError(name, problems[:_MOST_LINES], "sweep")
    if limits.points_per_job > 1:
        check_shared(name, points)
        warnings += ["keep() is not called for points that share a job"] if sweep.prunes else []
    for warning in warnings:
        logger.warning("%s: %s", name, warning)
    return best, points


def points_of(sweep: PaiSweep) -> list[Any]:
    """Return the points of a sweep, at most ``max_points`` + 1 of them.

    Raises:
        SpecError: ``points()`` raised an error; the text has the error and the line of the user's code.
    """
    try:
        if isinstance(inspect.getattr_static(sweep, "points"), property):
            raise TypeError("is a property; take @property away")  # noqa: TRY301
        return list(itertools.islice(iterated(sweep.points), _most(sweep.max_points) + 1))
    except Exception as error:
        wrong = [Problem("points", user_error(error, "points()"))]
        raise SpecError(sweep.name, wrong, "sweep") from error


def _most(max_points: object) -> int:
    """Return ``max_points``, or 0 if it is not valid. ``SweepLimits.problems`` reports such a value."""
    return max(0, max_points) if isinstance(max_points, int) else 0


def iterated(points: Callable[[], Any]) -> Iterator[Any]:
    """Yield the tasks that ``points()`` returns.

    Raises:
        TypeError: ``points()`` returns something that cannot be iterated.
    """
    given = points()
    if not isinstance(given, Iterable):
        raise TypeError(f"returned {given!r:.60}; return a list of tasks")
    yield from given


def _problems(wrong: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield the problems of points, from a dict of problem text -> points with this problem."""
    for text, whose in itertools.islice(wrong.items(), _MOST_LINES):
        others = f" and {len(whose) - 1} more" if len(whose) > 1 else ""
        yield Problem(f"{whose[0]}{others}", text)
    if len(wrong) > _MOST_LINES:
        yield Problem("", f"and {len(wrong) - _MOST_LINES} further problems")


def check_job(task: Any) -> list[str]:
    """Return warnings about the job of a point.

    Raises:
        ValueError: the point is no task of this package.
        SpecError: the job of the point is not valid.
    """
    if not isinstance(task, JobTask):
        what = "the class itself, not a task of it" if isinstance(task, type) else f"{type(task).__name__}"
        raise ValueError(f"is {what}; a point is a PaiTask or PaiProtocolTask")  # noqa: TRY004  one of many
    return TaskWork(task).check_job()


def too_many_points(most: int) -> str:
    """Return the problem of a sweep with more points than ``max_points``."""
    return f"there are more than max_points = {most}; set max_points to a higher number if you mean it"


def parameters_of(task: luigi.Task) -> dict[str, Any]:
    """Return the parameters of a task that are both significant and public."""
    return {
        name: getattr(task, name)
        for name, parameter in type(task).get_params()
        if parameter.significant and parameter.visibility == ParameterVisibility.PUBLIC
    }


def describe(task: object) -> str:
    """Return the text that shows a point to users: ``rate=0.1, batch=16``."""
    if not isinstance(task, luigi.Task):
        return f"{task!r:.60}"
    values = ", ".join(f"{name}={value}" for name, value in parameters_of(task).items())
    return f"{values:.200}" or task.task_family


def requirements_of(tasks: Iterable[Any]) -> Iterator[luigi.Task]:
    """Yield the requirements of tasks, each once."""
    known = set()
    for task in tasks:
        if not isinstance(task, luigi.Task):
            continue
        for required in luigi.task.flatten(task.requires()):
            if required.task_id not in known:
                known.add(required.task_id)
                yield required


def problem_texts(error: Exception) -> list[str]:
    """Return the problems of an error, each in a line."""
    return [str(each) for each in error.problems] if isinstance(error, SpecError) else [user_error(error)]


def _sweep_problems(sweep: PaiSweep) -> list[Problem]:
    """Return a problem for each attribute of a sweep's class that is a setting of tasks or a misspelling."""
    users = users_classes(type(sweep))
    ours = {name for kind in set(type(sweep).__mro__).difference(users) for name in vars(kind)}
    of_tasks = {name for kind in users for name in vars(kind)} & vars(JobTask).keys() - ours
    known = {*LIMITS, "best", "direction", "name", "results_dir", "trials"}
    return [
        *sweep._problems(),  # noqa: SLF001  of this package
        *(Problem(name, "is a setting of tasks: set it in the class of the points") for name in of_tasks),
        *(
            Problem(name, f"is not a setting of sweeps (did you mean {near!r}?)")
            for name, near in misspelt(type(sweep), known, _LIKENESS)
        ),
    ]


def _check_same(sweep: PaiSweep, points: Sequence[Point]) -> None:
    """Check that ``points()`` returns the same points as when ``complete()`` called it.

    Raises:
        SpecError: ``points()`` returns other points now.
    """
    before = getattr(sweep, "_points_before", None)
    if before is None or before == {point.name for point in points}:
        return
    wrong = (
        "returns other points each time it is called, so that the sweep would never be complete: give "
        "random numbers a seed, as sample(..., seed=1) does"
    )
    raise SpecError(sweep.name, [Problem("points", wrong)], "sweep")


def check_journal(sweep: PaiSweep, journal: Journal, points: Sequence[Point]) -> None:
    """Check that a journal belongs to this sweep.

    Raises:
        SpecError: the journal belongs to another sweep.
    """
    file, other = Path(file_of(sweep)), Path(str(journal.info.get("file", "")))
    is_known = not journal.records or any(point.name in journal.records for point in points)
    # if ``other`` does not exist, the sweep's file was moved from there, or ``other`` is on another machine
    is_moved = file.name == other.name and (file == other or not os.path.exists(other))  # noqa: PTH110  never raises
    if is_known or is_moved or not other.name or not file.name:
        return
    wrong = (
        f"{sweep.results.folder} has the results of {journal.info.get('sweep')!r} of {other}; set "
        "results_dir or name of one of the two sweeps, or remove that folder"
    )
    raise SpecError(sweep.name, [Problem("results_dir", wrong)], "sweep")


def missing_requirement(task: JobTask, known: dict[str, bool]) -> str | None:
    """Return the problem of a point with an incomplete requirement; None if it has no such requirement.

    Args:
        task: the point.
        known: id of a task -> whether the task is complete; the checked requirements are added to it.
    """
    for required in requirements_of([task]):
        if required.task_id not in known:
            known[required.task_id] = required.complete()
        if not known[required.task_id]:
            return f"requires {required}, which is not complete; return it in requires() of the sweep, too"
    return None


def file_of(sweep: PaiSweep) -> str:
    """Return the path of the file that defines a sweep; empty for none."""
    try:
        return str(Path(inspect.getfile(type(sweep))).resolve())
    except (TypeError, OSError):
        return ""


# points that share a job


def check_shared(name: str, points: Sequence[Point]) -> None:
    """Check that the points of a sweep can be instances of the same job; nothing is sent.

    If the first job is a v1 job, warnings are logged about what it loses when it is converted to v2.

    Raises:
        SpecError: a point cannot share a job, or shared fields differ. The text names the point and fields.
        ConfigError: ``api_version`` of the cluster is v1, or the points are on several clusters.
    """
    clusters = sorted({point.task.cluster or "" for point in points})
    if len(clusters) > 1:
        named = ", ".join(repr(cluster) if cluster else "that of [OpenPai]" for cluster in clusters)
        raise ConfigError(f"points that share a job need the same cluster, but have {named}; {_LEAVE_OUT}")
    settings = OpenPai.current(points[0].task.cluster)
    if settings.api_version == "v1":
        raise _no_arrays("api_version = v1 is set in luigi.cfg")
    jobs = (
        for_containers(point.task.job(), v2_name(point.name), with_runtime=point.task.runtime)
        for point in points
    )
    conversions = (as_protocol(job, settings) for job in jobs)
    first = next(conversions)
    for loss in first.notable_losses:
        logger.warning("%s, jobs of a v2 cluster: %s", name, loss)
    check_alike(each.protocol for each in itertools.chain([first], conversions))


def check_cluster(book: Book) -> None:
    """Check that a cluster supports jobs with several points. This may take a request.

    Raises:
        ConfigError: the cluster has the API v1.
        PaiApiError: the cluster does not answer.
    """
    if book.api.detector.detect() == "v1":
        raise _no_arrays(f"{book.api.url} is an OpenPAI 0.7 to 0.14")


def as_protocol(job: PaiJob | JobProtocol, settings: OpenPai) -> Conversion:
    """Return a job as a protocol; a v1 job is converted."""
    if not isinstance(job, PaiJob):
        return Conversion(job, ())
    return convert(job, fs_uri=settings.fs_uri)


def _no_arrays(why: str) -> ConfigError:
    return ConfigError(
        "points_per_job needs a cluster of OpenPAI 0.15 to 1.8 or LTP, where the instances of a job end "
        f"independently, but {why}; {_LEAVE_OUT}"
    )
