"""Collects and validates a sweep's points, including points that share jobs."""

from __future__ import annotations

import contextlib
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

from luigi_pai.config import OpenPai
from luigi_pai.console import user_error
from luigi_pai.errors import ConfigError, Problem, SpecError
from luigi_pai.jobspec.arrays.jobs import check_alike
from luigi_pai.jobspec.containers import for_containers
from luigi_pai.jobspec.convert import Conversion
from luigi_pai.jobspec.job import PaiJob
from luigi_pai.sweep.limits import LIMITS
from luigi_pai.sweep.point import Point, describe
from luigi_pai.sweep.rows import Best
from luigi_pai.tasks.attributes import misspelt, users_classes
from luigi_pai.tasks.job_task import JobTask
from luigi_pai.tasks.task_work import TaskWork

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from luigi_pai.api.book.book import Book
    from luigi_pai.jobspec.protocol import JobProtocol
    from luigi_pai.sweep.journal.journal import Journal
    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.sweep import PaiSweep

logger = logging.getLogger("luigi-interface")

_MOST_LINES = 20  # of an error
_NONE = "there are none: points() has returned an empty list"
_OTHERS = (
    "returns different points each time it is called, so the sweep would never be complete: give "
    "random numbers a seed, as in sample(..., seed=1)"
)
_LEAVE_OUT = "leave points_per_job out"
_LIKENESS = 0.85  # minimum similarity of a misspelled setting to a known one, see difflib


def checked_points(sweep: PaiSweep, limits: SweepLimits) -> tuple[list[Point], list[str]]:
    """Return a sweep's points (none for a search), and warnings about their jobs. Sends nothing.

    Raises:
        SpecError: the sweep or a point is invalid; the error names all problems.
    """
    problems, listed = _sweep_problems(sweep, limits), [] if sweep.is_search else points_of(sweep)
    most = _most(limits.max_points)
    if len(listed) > most > 0:
        raise SpecError(sweep.name, [*problems, Problem("points", too_many_points(most))], "sweep")
    invalid: dict[str, list[str]] = {}  # problem -> the affected points
    if not (listed or sweep.is_search):
        invalid[_NONE] = ["points"]
    warnings: Counter[str] = Counter()
    points: dict[str, Point] = {}
    firsts: dict[tuple[str, str | None], int] = {}
    for index, task in enumerate(listed):
        try:
            warnings.update(check_job(task))
            folder = task._output_folder()  # noqa: SLF001  of this package
            points.setdefault(task.name, Point(task, task.name))
            for attribute, value in (("name", task.name), ("output_dir", folder)):
                first = firsts.setdefault((attribute, value), index)
                if first != index and value is not None:
                    other = f"point {first} ({describe(listed[first])})"
                    hint = f"let {attribute} depend on all parameters that differ"
                    raise ValueError(f"has the {attribute} {value!r}, like {other}; {hint}")  # noqa: TRY301
        except Exception as error:  # noqa: BLE001  users' own code may raise anything
            for problem in problem_texts(error):
                invalid.setdefault(problem, []).append(f"points()[{index}], {describe(task)}")
    if not (problems or invalid) and getattr(sweep, "_points_before", None) not in (None, points.keys()):
        invalid[_OTHERS] = ["points"]
    if problems or invalid:
        raise SpecError(sweep.name, [*problems, *_problems(invalid)], "sweep")
    counted = [f"{warning} ({count} of {len(listed)} points)" for warning, count in warnings.items()]
    return list(points.values()), counted


def checked_sweep(sweep: PaiSweep, limits: SweepLimits) -> tuple[Best | None, list[Point]]:
    """Validate a sweep and its points, including shared jobs; return the sweep's ``Best`` and points.

    Raises:
        SpecError, ConfigError: see ``checked_points`` and ``check_shared``.
    """
    points, warnings = checked_points(sweep, limits)
    if sweep.requires_other_tasks:
        known: dict[str, bool] = {}
        missing = ((describe(point.task), missing_requirement(point.task, known)) for point in points)
        if problems := [Problem(where, problem) for where, problem in missing if problem is not None]:
            raise SpecError(sweep.name, problems[:_MOST_LINES], "sweep")
    if limits.points_per_job > 1 and points:
        check_shared(sweep.name, points)
        warnings += ["keep() is not called for points that share a job"] if sweep.prunes else []
    for warning in warnings:
        logger.warning("%s: %s", sweep.name, warning)
    return _best_of(sweep), points


def points_of(sweep: PaiSweep) -> list[Any]:
    """Return a sweep's points, at most ``max_points`` + 1; raise SpecError if ``points()`` failed."""
    try:
        if isinstance(inspect.getattr_static(sweep, "points"), property):
            raise TypeError("is a property; remove @property")  # noqa: TRY301
        return list(itertools.islice(iterated(sweep.points), _most(sweep.max_points) + 1))
    except Exception as error:
        problems = [Problem("points", user_error(error, "points()"))]
        raise SpecError(sweep.name, problems, "sweep") from error


def _most(max_points: object) -> int:
    """Return ``max_points``, or 0 if it is invalid. ``SweepLimits.problems`` reports an invalid value."""
    return max(0, max_points) if isinstance(max_points, int) else 0


def iterated(points: Callable[[], Any]) -> Iterator[Any]:
    """Yield the tasks that ``points()`` returns; raise TypeError if they cannot be iterated."""
    returned = points()
    if not isinstance(returned, Iterable):
        raise TypeError(f"returned {returned!r:.60}; return a list of tasks")
    yield from returned


def _problems(invalid: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield the problems, each with its points, from a dict of problem -> affected points."""
    for problem, whose in itertools.islice(invalid.items(), _MOST_LINES):
        others = f" and {len(whose) - 1} more" if len(whose) > 1 else ""
        yield Problem(f"{whose[0]}{others}", problem)
    if len(invalid) > _MOST_LINES:
        yield Problem("", f"and {len(invalid) - _MOST_LINES} more problems")


def check_job(task: Any) -> list[str]:
    """Return warnings about a point's job; raise ValueError or SpecError if the job is invalid."""
    if not isinstance(task, JobTask):
        kind = "the class itself, not an instance" if isinstance(task, type) else f"{type(task).__name__}"
        raise ValueError(f"is {kind}; a point is a PaiTask or PaiProtocolTask")  # noqa: TRY004  one of many
    return TaskWork(task).check_job()


def too_many_points(most: int) -> str:
    """Return the problem for a sweep with more than ``max_points`` points."""
    return f"there are more than max_points = {most}; set max_points to a higher number if you mean it"


def requirements_of(tasks: Iterable[Any]) -> list[luigi.Task]:
    """Return the tasks' requirements, without duplicates."""
    required = (luigi.task.flatten(task.requires()) for task in tasks if isinstance(task, luigi.Task))
    return list(dict.fromkeys(itertools.chain.from_iterable(required)))


def problem_texts(error: Exception) -> list[str]:
    """Return an error's problems, each on one line."""
    return [str(each) for each in error.problems] if isinstance(error, SpecError) else [user_error(error)]


def _sweep_problems(sweep: PaiSweep, limits: SweepLimits) -> list[Problem]:
    """Return what is wrong with a sweep's limits and attributes, including task settings and misspellings."""
    users = users_classes(type(sweep))
    ours = {name for kind in set(type(sweep).__mro__).difference(users) for name in vars(kind)}
    of_tasks = {name for kind in users for name in vars(kind)} & vars(JobTask).keys() - ours
    known = {*LIMITS, "best", "direction", "name", "results_dir", "trials"}
    problems = [
        *limits.problems(),
        *_uncallable(sweep),
        *sweep._problems(),  # noqa: SLF001  of this package
        *(Problem(name, "is a setting of tasks: set it in the class of the points") for name in of_tasks),
        *(
            Problem(name, f"is not a setting of sweeps (did you mean {near!r}?)")
            for name, near in misspelt(type(sweep), known, _LIKENESS)
        ),
    ]
    try:
        _best_of(sweep)
    except ValueError as error:
        problems.append(Problem("best", str(error)))
    return problems


def _uncallable(sweep: PaiSweep) -> Iterator[Problem]:
    """Yield a problem if ``tell`` or ``keep`` does not take the expected arguments."""
    for name, last in (("tell", "row"), ("keep", "reports")):
        try:
            inspect.signature(getattr(sweep, name)).bind(None, None)
        except TypeError as error:
            yield Problem(name, f"is called as {name}(self, point, {last}): {error}")


def _best_of(sweep: PaiSweep) -> Best | None:
    """Return a sweep's ``Best``, from ``best`` or from a search's only ``direction``."""
    if sweep.best is not None:
        return Best(sweep.best)
    with contextlib.suppress(ValueError):  # the search's _problems() reports an invalid direction
        return Best(getattr(sweep, "direction", ""))
    return None


def check_journal(sweep: PaiSweep, journal: Journal, points: Sequence[Point]) -> None:
    """Raise SpecError if a journal belongs to another sweep."""
    file, other = Path(file_of(sweep)), Path(str(journal.info.get("file", "")))
    is_known = not journal.records or any(point.name in journal.records for point in points)
    # if ``other`` does not exist, the sweep's file was moved away, or ``other`` is on another machine
    is_moved = file.name == other.name and (file == other or not os.path.exists(other))  # noqa: PTH110  never raises
    if is_known or is_moved or not other.name or not file.name:
        return
    problem = (
        f"{sweep.results.folder} has the results of {journal.info.get('sweep')!r} of {other}; set "
        "results_dir or name of one of the two sweeps, or remove that folder"
    )
    raise SpecError(sweep.name, [Problem("results_dir", problem)], "sweep")


def missing_requirement(task: JobTask, known: dict[str, bool]) -> str | None:
    """Return the problem for a point with an incomplete requirement; None if there is no such requirement.

    The checked requirements are added to ``known``: task id -> whether the task is complete.
    """
    for required in requirements_of([task]):
        if required.task_id not in known:
            known[required.task_id] = required.complete()
        if not known[required.task_id]:
            return f"requires {required}, which is not complete; also return it in requires() of the sweep"
    return None


def file_of(sweep: PaiSweep) -> str:
    """Return the path of the file that defines a sweep; empty if there is none."""
    try:
        return str(Path(inspect.getfile(type(sweep))).resolve())
    except (TypeError, OSError):
        return ""


def task_like(like: JobTask, parameters: Mapping[str, str]) -> JobTask:
    """Return a copy of a task, with the significant parameters from an "asked" event.

    All other parameters are copied from the task, because a point's name usually does not depend on them.
    """
    significant = {name for name, parameter in type(like).get_params() if parameter.significant}
    current = like.to_str_params(only_public=True)  # type: ignore[no-untyped-call]
    recorded = {name: value for name, value in parameters.items() if name in significant}
    task: JobTask = type(like).from_str_params({**current, **recorded})  # type: ignore[no-untyped-call]
    return task


def check_shared(name: str, points: Sequence[Point]) -> None:
    """Check that a sweep's points can be instances of the same job. Sends nothing.

    If the first job is a v1 job, a warning is logged for each field that the conversion to v2 drops.

    Raises:
        SpecError: a point cannot share a job, or shared fields differ. The message names the point and
            fields.
        ConfigError: the cluster's ``api_version`` is v1, or the points are on several clusters.
    """
    clusters = sorted({point.task.cluster or "" for point in points})
    if len(clusters) > 1:
        named = ", ".join(repr(cluster) if cluster else "that of [OpenPai]" for cluster in clusters)
        raise ConfigError(f"points that share a job need the same cluster, but have {named}; {_LEAVE_OUT}")
    settings = OpenPai.current(points[0].task.cluster)
    if settings.api_version == "v1":
        raise _no_arrays("api_version = v1 is set in luigi.cfg")
    jobs = (
        for_containers(point.task._job(), point.name, with_runtime=point.task.runtime)  # noqa: SLF001  of this package
        for point in points
    )
    conversions = (as_protocol(job, settings) for job in jobs)
    first = next(conversions)
    for loss in first.notable_losses:
        logger.warning("%s, jobs of a v2 cluster: %s", name, loss)
    check_alike(each.protocol for each in itertools.chain([first], conversions))


def check_cluster(book: Book) -> None:
    """Raise ConfigError if a cluster does not support jobs with several points. This may take a request."""
    if book.api.detector.detect() == "v1":
        raise _no_arrays(f"{book.api.url} runs OpenPAI 0.7 to 0.14")


def as_protocol(job: PaiJob | JobProtocol, settings: OpenPai) -> Conversion:
    """Return a job as a protocol, converting a v1 job."""
    if not isinstance(job, PaiJob):
        return Conversion(job, ())
    return settings.cluster().convert(job)


def _no_arrays(why: str) -> ConfigError:
    return ConfigError(
        "points_per_job needs a cluster with OpenPAI 0.15 to 1.8 or LTP, where a job's instances end "
        f"independently, but {why}; {_LEAVE_OUT}"
    )
