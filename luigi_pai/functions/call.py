"""Calls functions as jobs: finds or submits each call's job, and returns the jobs' handles."""

from __future__ import annotations

import abc
import copy
import inspect
import logging
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import luigi

from luigi_pai.api.job import FunctionJob
from luigi_pai.errors import PaiError, Problem, SpecError
from luigi_pai.functions.function import Function
from luigi_pai.jobspec.hints import nearest
from luigi_pai.python_task import PaiPythonTask
from luigi_pai.tasks.attributes import attribute_names
from luigi_pai.tasks.job_task import JobTask
from luigi_pai.tasks.job_watch import JobWatch
from luigi_pai.tasks.task_work import TaskWork
from luigi_pai.work.run import Run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.payload.file import Payload
    from luigi_pai.work.submission import Submission

    Arguments = tuple[Sequence[Any], Mapping[str, Any]]

logger = logging.getLogger(__name__)

_AT_ONCE = 8  # submissions
_NOT_GIVEN = {"accepts_messages", "cluster", "pai", "runtime", "tasks", "uploads"}
_SETTINGS = frozenset(attribute_names(PaiPythonTask)) - _NOT_GIVEN


def call_each(
    cluster: Cluster, function: Callable[..., Any], calls: Sequence[Arguments], settings: Mapping[str, Any]
) -> list[FunctionJob]:
    """Find or submit each call's job, and return the handles in the order of the calls.

    All calls are checked before the first job is submitted. Equal calls share a handle.

    Args:
        cluster: The cluster.
        function: The function.
        calls: Each call's positional and keyword arguments.
        settings: The jobs' settings.

    Raises:
        TypeError, PaiError: see ``Cluster.call``.
    """
    called = _checked(function, settings, len(calls))
    called.pack(settings.get("packages", ()))
    tasks = [FunctionTask.from_call(cluster, called, args, kwargs, settings) for args, kwargs in calls]
    made = {task.name: _Call(task) for task in tasks}
    if len(made) < len(tasks):
        logger.warning(
            "map(%s): %d of %d calls equal an earlier call, and share its job and result; to run "
            "separate jobs, pass each call a different argument, such as a seed",
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
    """Return the positional arguments of each of ``map``'s calls.

    Raises:
        TypeError: there is no iterable, or an argument is not iterable.
        ValueError: the iterables have different lengths.
    """
    if not iterables:
        hint = "write map(fit, [0.1, 0.2], ...), without the argument's name"
        raise TypeError(f"map() needs a list of values: {hint}; kwargs={{...}} are the same for all calls")
    for each in iterables:
        if not hasattr(each, "__iter__") and not hasattr(each, "__getitem__"):
            raise TypeError(f"map() calls a function for each element of a list: write [{each!r:.40}]")
    return list(zip(*iterables, strict=True))


class _Call:
    """One call of a function, and the run of its job."""

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
        """Wait for the job to finish, and set the handle's name to the last attempt's name."""
        try:
            self.run.finish(job)
        finally:
            if self.run.job is not None:
                handle.name = self.run.job.name


def _checked(function: Any, settings: Mapping[str, Any], calls: int) -> Function:
    """Wrap a function so that it can be called with these settings.

    Raises:
        SpecError: ``function`` is not a function, or a setting is missing or unknown.
    """
    if not callable(function):
        problem = f"{function!r:.40} is not a function: write call(fit, 0.1), not call(fit(0.1))"
        raise SpecError("call()", [Problem("function", problem)])
    called = Function(function)
    problems = []
    for key, value in settings.items():
        if key in _SETTINGS:
            continue
        problem = f"is not a setting of a job{nearest(key, [*called.arguments, *sorted(_SETTINGS)])}"
        if key in called.arguments:
            problem = f"is an argument of {called.name}(): write kwargs={{{key!r}: {value!r:.20}}}"
            if calls > 1 and isinstance(value, (list, tuple, range)):
                problem += (
                    f", the same for all calls, or map({called.name}, ..., {value!r:.20}), one for each"
                )
        problems.append(Problem(key, problem))
    if not settings.get("image"):
        problems.append(Problem("image", 'is missing; name a Docker image, such as image="python:3.11"'))
    if calls > 1 and "name" in settings:
        problems.append(Problem("name", "is the same for all calls of map(); leave it out"))
    if problems:
        raise SpecError(called.name, problems)
    return called


class FunctionTask(PaiPythonTask):
    """A task that calls a function. ``Cluster.call`` creates it, without Luigi's scheduler.

    Attributes:
        args, kwargs: The function's arguments, which ``Function.kind.work`` reads.
    """

    default_name = luigi.Parameter(description="the job's name if you give none; it identifies the call")

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    _function: Function
    _given: Mapping[str, Any]
    _on: Cluster
    _inputs = JobTask._inputs  # noqa: SLF001  default_name covers everything that the function uses

    @classmethod
    def from_call(
        cls,
        cluster: Cluster,
        function: Function,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> FunctionTask:
        """Create the task for a call with its settings. Luigi does not cache this instance.

        Raises:
            SpecError: the function cannot be called with these arguments, or something cannot be sent.
        """
        payload = copy.copy(function.payload)
        payload.problems = [*payload.problems, *function.problems(args, kwargs)]
        payload.pickled({"args": args, "kwargs": kwargs})
        function.refuse(payload.problems)
        task: FunctionTask = type.__call__(cls, default_name=function.job_name(args, kwargs))
        task.args, task.kwargs = args, kwargs
        task._on, task._function, task._given = cluster, function, given
        return task

    def work(self) -> Mapping[str, Any] | None:
        """Run the function in this process; the payload contains ``Function.kind.work`` instead."""
        return dict(self._function.work(self))

    def value(self) -> Any:
        """Return what the function returned in the job.

        Raises:
            PaiError: the result cannot be read or does not exist.
        """
        api = self._on.book.api
        found = api.repeat(self.result, api.polling.patience, f"result of job {self.name}")
        if "result" not in found:
            raise PaiError(
                f"the result of job {self.name!r} is missing: neither metrics.json in its output folder "
                "nor the end of its log contains it"
            )
        return found["result"]

    @property
    def task_family(self) -> str:
        """The function's name, which becomes one of the job's tags."""
        return self._function.name

    @property
    def cluster(self) -> Any:
        """The job's cluster, as an object."""
        return self._on

    # of PaiPythonTask

    def _kind(self) -> type:
        return self._function.kind

    def _payload(self) -> Payload:
        payload = copy.copy(self._function.payload)
        payload.problems = []
        return payload

    def _raise(self, problems: Sequence[str]) -> None:
        self._function.refuse(problems)


def _setting(name: str) -> property:
    """Return a property for a call's setting; the default is PaiPythonTask's attribute."""
    inherited = inspect.getattr_static(PaiPythonTask, name)
    return property(lambda task: task._given[name] if name in task._given else inherited.fget(task))  # noqa: SLF001  of this module


FunctionTask.name = property(lambda task: task._given.get("name", task.default_name))  # type: ignore[method-assign]  # noqa: SLF001
for _name in _SETTINGS - {"name"}:
    setattr(FunctionTask, _name, _setting(_name))
abc.update_abstractmethods(FunctionTask)  # type: ignore[type-abstract]  # ``image`` is a property now
