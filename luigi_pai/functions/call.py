"""Calls of functions: finds or submits the job of each call, and returns the jobs' handles."""

from __future__ import annotations

import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from luigi_pai.api.job import FunctionJob
from luigi_pai.errors import Problem, SpecError
from luigi_pai.functions.function import Function
from luigi_pai.functions.task import SETTINGS, FunctionTask
from luigi_pai.jobspec.hints import nearest
from luigi_pai.tasks.job_watch import JobWatch
from luigi_pai.tasks.task_work import TaskWork
from luigi_pai.work.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.work.submission import Submission

    Arguments = tuple[Sequence[Any], Mapping[str, Any]]

logger = logging.getLogger(__name__)

_AT_ONCE = 8  # submissions


def call_each(
    cluster: Cluster, function: Callable[..., Any], calls: Sequence[Arguments], settings: Mapping[str, Any]
) -> list[FunctionJob]:
    """Find or submit the job of each call, and return the handles in the order of the calls.

    All calls are checked before the first job is submitted. Equal calls have the same handle.

    Args:
        cluster: The cluster.
        function: The function.
        calls: The positional and the keyword arguments of each call.
        settings: The settings of the jobs.

    Raises:
        TypeError, PaiError: see ``Cluster.call``.
    """
    tasks = _tasks(cluster, function, calls, settings)
    made = {task.name: _Call(task) for task in tasks}
    if len(made) < len(tasks):
        logger.warning(
            "map(%s): %d of %d calls are equal to an earlier call, and share its job and result; for "
            "separate jobs, give each call a different argument, such as a seed",
            tasks[0].task_family,
            len(tasks) - len(made),
            len(tasks),
        )
    for each in made.values():
        each.run.check()
    if len(made) == 1:
        handles = [each.submitted() for each in made.values()]
    else:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            handles = list(pool.map(_Call.submitted, made.values()))
    by_name = dict(zip(made, handles, strict=True))
    return [by_name[task.name] for task in tasks]


def arguments_of(iterables: Sequence[Any]) -> list[tuple[Any, ...]]:
    """Return the positional arguments of each call of ``map``.

    Raises:
        TypeError: there is no iterable, or something cannot be iterated over.
        ValueError: the iterables differ in length.
    """
    if not iterables:
        hint = "write map(fit, [0.1, 0.2], ...), without the argument's name"
        raise TypeError(f"map() needs a list of values: {hint}; kwargs={{...}} are the same for all calls")
    for each in iterables:
        if not hasattr(each, "__iter__") and not hasattr(each, "__getitem__"):
            raise TypeError(f"map() calls a function for each element of a list: write [{each!r:.40}]")
    return list(zip(*iterables, strict=True))


class _Call:
    """A call of a function, and its run."""

    def __init__(self, task: FunctionTask) -> None:
        self._task = task
        self._work = TaskWork(task)
        self.run = Run(self._work, JobWatch(task, self._work))

    def submitted(self) -> FunctionJob:
        """Find or submit the job, and return its handle."""
        job, work = self.run.start(), self._work
        name, status = (work.name, None) if job is None else (job.name, job.status)
        handle = FunctionJob(work.book, name, status, lambda: self._finish(job, handle), self._task.value)
        return handle

    def _finish(self, job: Submission | None, handle: FunctionJob) -> None:
        """Wait until the job has finished, and set the handle's name to that of the last attempt."""
        try:
            self.run.finish(job)
        finally:
            if self.run.job is not None:
                handle.name = self.run.job.name


def _tasks(
    cluster: Cluster, function: Callable[..., Any], calls: Sequence[Arguments], settings: Mapping[str, Any]
) -> list[FunctionTask]:
    """Return the task of each call.

    Raises:
        SpecError: the function, an argument or a setting is invalid.
    """
    called = _checked(function, settings, len(calls))
    called.pack(settings.get("packages", ()))
    return [FunctionTask.of(cluster, called, args, kwargs, settings) for args, kwargs in calls]


def _checked(function: Any, settings: Mapping[str, Any], calls: int) -> Function:
    """Return a function for calls with these settings.

    Raises:
        SpecError: it is not a function, or a setting is missing or unknown.
    """
    if not callable(function):
        text = f"{function!r:.40} is not a function: write call(fit, 0.1), not call(fit(0.1))"
        raise SpecError("call()", [Problem("function", text)])
    called = Function(function)
    problems = []
    for key, value in settings.items():
        if key in SETTINGS:
            continue
        text = f"is not a setting of a job{nearest(key, [*called.arguments, *sorted(SETTINGS)])}"
        if key in called.arguments:
            text = f"is an argument of {called.name}(): write kwargs={{{key!r}: {value!r:.20}}}"
            if calls > 1 and isinstance(value, (list, tuple, range)):
                text += f", the same for all calls, or map({called.name}, ..., {value!r:.20}), one for each"
        problems.append(Problem(key, text))
    if not settings.get("image"):
        problems.append(Problem("image", 'is missing; name a Docker image, such as image="python:3.11"'))
    if calls > 1 and "name" in settings:
        problems.append(Problem("name", "is the same for all calls of map(); leave it out"))
    if problems:
        raise SpecError(called.name, problems)
    return called
