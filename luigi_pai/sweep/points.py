"""The points of a sweep: collected, validated and named; drawn one by one in a search."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi
import luigi.task
from luigi.parameter import ParameterVisibility

from luigi_pai.errors import PaiError, Problem, SpecError
from luigi_pai.spec.hints import closest
from luigi_pai.sweep.jobs import Point, first_line
from luigi_pai.sweep.limits import LIMITS
from luigi_pai.sweep.user_code import user_error
from luigi_pai.tasks.job_task import JobTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from luigi_pai.sweep.limits import SweepLimits
    from luigi_pai.sweep.sweep import PaiSweep

__all__ = [
    "checked_point",
    "checked_points",
    "describe",
    "file_of",
    "parameters_of",
    "problem_texts",
    "requirements_of",
    "sweep_problems",
    "too_many_points",
]

_MOST_LINES = 20  # of an error
_LIKENESS = 0.85  # of a misspelt setting


def checked_points(
    name: str, points: Callable[[], Any], limits: SweepLimits, problems: Sequence[Problem]
) -> tuple[list[Point], list[str]]:
    """Return the points of a sweep, and warnings about their jobs; nothing is sent.

    Args:
        name: of the sweep.
        points: ``points()`` of the sweep.
        limits: of the sweep.
        problems: of the sweep itself; raised together with those of its points.

    Raises:
        SpecError: all problems of the sweep and of its points.
    """
    found = [*problems]
    most = limits.max_points if isinstance(limits.max_points, int) else None
    try:
        given = points()
        if given is None:
            raise TypeError("returned None; return a list of tasks")  # noqa: TRY301
        listed = list(itertools.islice(given, None if most is None else most + 1))
    except Exception as error:
        raise SpecError(name, [*found, Problem("points", user_error(error, "points()"))], "sweep") from error
    if most is not None and len(listed) > most:
        raise SpecError(name, [*found, too_many_points(most)], "sweep")
    if not listed:
        found.append(Problem("points", "there are none: points() has returned an empty list"))
    checked: list[Point] = []
    wrong: dict[str, list[str]] = {}
    warnings: Counter[str] = Counter()
    first_of: dict[str, Point] = {}
    for index, task in enumerate(listed):
        try:
            point, said = checked_point(task, index)
            _check_name(point, first_of.setdefault(point.name, point))
        except Exception as error:  # noqa: BLE001  users' own code may raise anything
            for text in problem_texts(error):
                wrong.setdefault(text, []).append(f"points()[{index}], {describe(task)}")
        else:
            checked.append(point)
            warnings.update(said)
    found += _problems(wrong)
    if found:
        raise SpecError(name, found, "sweep")
    return checked, [f"{text} ({count} of {len(checked)} points)" for text, count in warnings.items()]


def _check_name(point: Point, first: Point) -> None:
    """Check that no point before has the name of a point.

    Raises:
        ValueError: ``first``, which has the name, is another one.
    """
    if first is not point:
        raise ValueError(
            f"has the name {point.name!r}, as point {first.index} ({describe(first.task)}) has; let name "
            "depend on all parameters that differ"
        )


def _problems(wrong: Mapping[str, Sequence[str]]) -> Iterator[Problem]:
    """Yield the problems of points: text -> the points that have it."""
    for text, whose in itertools.islice(wrong.items(), _MOST_LINES):
        others = f" and {len(whose) - 1} more" if len(whose) > 1 else ""
        yield Problem(f"{whose[0]}{others}", text)
    if len(wrong) > _MOST_LINES:
        yield Problem("", f"and {len(wrong) - _MOST_LINES} further problems")


def checked_point(task: Any, index: int) -> tuple[Point, list[str]]:
    """Return a point, and warnings about its job.

    Raises:
        ValueError: it is no task of this package.
        SpecError: its job is not valid.
    """
    if not isinstance(task, JobTask):
        what = "the class itself, not a task of it" if isinstance(task, type) else f"{type(task).__name__}"
        raise ValueError(f"is {what}; a point is a PaiTask or PaiProtocolTask")  # noqa: TRY004  one of many
    definition = task._definition()  # noqa: SLF001  of this package
    return Point(task, definition.name, index), definition.check(task.job())


def too_many_points(most: int) -> Problem:
    """Return the problem of a sweep that has more points than ``max_points``."""
    return Problem(
        "points", f"there are more than max_points = {most}; set max_points to a higher number if you mean it"
    )


def parameters_of(task: luigi.Task) -> dict[str, Any]:
    """Return the significant parameters of a task; those that Luigi's page does not show are left out."""
    shown = _shown_parameters(type(task))
    return {name: getattr(task, name) for name in shown}


@functools.lru_cache(maxsize=100)
def _shown_parameters(kind: type[luigi.Task]) -> tuple[str, ...]:
    return tuple(
        name
        for name, parameter in kind.get_params()
        if parameter.significant and parameter.visibility == ParameterVisibility.PUBLIC
    )


def describe(task: object) -> str:
    """Return a point for people: ``rate=0.1, batch=16``."""
    if not isinstance(task, luigi.Task):
        return f"{task!r:.60}"
    values = ", ".join(f"{name}={value}" for name, value in parameters_of(task).items())
    return f"{values:.200}" or task.task_family


def requirements_of(tasks: Iterable[Any]) -> Iterator[luigi.Task]:
    """Yield what tasks require, each task once."""
    known = set()
    for task in tasks:
        if not isinstance(task, luigi.Task):
            continue
        for required in luigi.task.flatten(task.requires()):
            if required.task_id not in known:
                known.add(required.task_id)
                yield required


def problem_texts(error: Exception) -> list[str]:
    """Return the problems that an error has, each in a line."""
    if isinstance(error, SpecError):
        return [str(problem) for problem in error.problems]
    if isinstance(error, (PaiError, ValueError)):
        return [first_line(error)]
    return [f"{type(error).__name__}: {first_line(error)}"]


def sweep_problems(sweep: PaiSweep) -> list[Problem]:
    """Return attributes of a sweep's class that are settings of its points, or that are misspelt."""
    ours = next(kind for kind in type(sweep).__mro__ if kind.__module__.startswith("luigi_pai."))
    own = {name for kind in type(sweep).__mro__ if not issubclass(ours, kind) for name in vars(kind)}
    known = {*LIMITS, "best", "direction", "name", "results_dir", "trials"}
    of_tasks = {name for name in vars(JobTask) if not name.startswith("_")} - set(dir(ours))
    problems = []
    for name in sorted(name for name in own if not name.startswith("_") and not hasattr(ours, name)):
        value = inspect.getattr_static(sweep, name)
        if inspect.isroutine(value) or isinstance(value, (property, luigi.Parameter)):
            continue
        near = closest(name, known, likeness=_LIKENESS)
        if name in of_tasks:
            problems.append(Problem(name, "is a setting of tasks: set it in the class of the points"))
        elif near is not None:
            problems.append(Problem(name, f"is no setting of a sweep (did you mean {near!r}?)"))
    return problems


def file_of(sweep: PaiSweep) -> str:
    """Return the name of the file that defines a sweep; empty where it has none."""
    try:
        return Path(inspect.getfile(type(sweep))).name
    except (TypeError, OSError):
        return ""
