"""FunctionTask: the task behind a call of a function."""

from __future__ import annotations

import abc
import copy
import inspect
from typing import TYPE_CHECKING, Any

import luigi

from luigi_pai.errors import PaiError, Problem, SpecError
from luigi_pai.python_task import PaiPythonTask
from luigi_pai.tasks.attributes import attribute_names
from luigi_pai.tasks.job_task import JobTask

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from luigi_pai.api.cluster import Cluster
    from luigi_pai.functions.function import Function
    from luigi_pai.payload.file import Payload

_NOT_GIVEN = {"accepts_messages", "cluster", "pai", "runtime", "tasks", "uploads"}
SETTINGS = frozenset(attribute_names(PaiPythonTask)) - _NOT_GIVEN
"""The names of a call's settings. Each is an attribute of PaiPythonTask."""


class FunctionTask(PaiPythonTask):
    """A task that calls a function. ``Cluster.call`` creates it, without Luigi's scheduler.

    Attributes:
        args, kwargs: The arguments of the function, which ``work`` of ``Function.kind`` reads.
    """

    default_name = luigi.Parameter(description="name of the job if none is given; it identifies the call")

    args: Sequence[Any] = ()
    kwargs: Mapping[str, Any] = {}
    _function: Function
    _given: Mapping[str, Any]
    _on: Cluster
    _inputs = JobTask._inputs  # noqa: SLF001  default_name covers everything that the function uses

    @classmethod
    def of(
        cls,
        cluster: Cluster,
        function: Function,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        given: Mapping[str, Any],
    ) -> FunctionTask:
        """Return the task of a call with its settings. It is not in Luigi's cache of equal tasks.

        Raises:
            SpecError: the function cannot be called with the arguments, or something cannot be sent.
        """
        payload = copy.copy(function.payload)
        payload.problems = [*payload.problems, *function.problems(args, kwargs)]
        payload.pickled({"args": args, "kwargs": kwargs})
        _raise(function.name, payload.problems)
        task: FunctionTask = type.__call__(cls, default_name=function.job_name(args, kwargs))
        task.args, task.kwargs = args, kwargs
        task._on, task._function, task._given = cluster, function, given
        return task

    def work(self) -> Mapping[str, Any] | None:
        """Run the function here; the payload has ``work`` of ``Function.kind``."""
        return dict(self._function.work(self))

    def value(self) -> Any:
        """Return the function's return value in the job.

        Raises:
            PaiError: the result cannot be read, or there is none.
        """
        found = self.result()
        if "result" not in found:
            raise PaiError(
                f"the result of job {self.name!r} is missing: neither metrics.json in its output folder "
                "nor the end of its log contains it"
            )
        return found["result"]

    @property
    def task_family(self) -> str:
        """The function's name, which is a tag of the job."""
        return self._function.name

    @property
    def cluster(self) -> Any:
        """The cluster of the job, as an object."""
        return self._on

    # of PaiPythonTask

    def _kind(self) -> type:
        return self._function.kind

    def _payload(self) -> Payload:
        payload = copy.copy(self._function.payload)
        payload.problems = []
        return payload

    def _raise(self, problems: Sequence[str]) -> None:
        _raise(self._function.name, problems)


def _raise(name: str, problems: Sequence[str]) -> None:
    """Raise a SpecError with the problems, if there are any."""
    if problems:
        call = f"{name}()"
        raise SpecError(name, [Problem(call, problem.replace("work()", call)) for problem in problems])


def _setting(name: str) -> property:
    """Return a property with the setting of a call; its default is the attribute of PaiPythonTask."""
    inherited = inspect.getattr_static(PaiPythonTask, name)
    return property(lambda task: task._given[name] if name in task._given else inherited.fget(task))  # noqa: SLF001  of this module


FunctionTask.name = property(lambda task: task._given.get("name", task.default_name))  # type: ignore[method-assign]  # noqa: SLF001
for _name in SETTINGS - {"name"}:
    setattr(FunctionTask, _name, _setting(_name))
abc.update_abstractmethods(FunctionTask)  # type: ignore[type-abstract]  # ``image`` has a property now
