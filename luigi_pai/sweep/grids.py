"""Lists of points: all combinations of values, values paired by position, and random combinations."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import luigi

from luigi_pai.jobspec.hints import nearest

__all__ = ["grid", "sample", "zipped"]

T = TypeVar("T")

_TRIES = 100  # sample() gives up after n * 100 random draws; a draw may repeat an earlier combination


def grid(task: Callable[..., T], /, **values: Iterable[Any]) -> list[T]:
    """Return a task for each combination of values; the last parameter's values change fastest.

    ``grid(Train, rate=[0.1, 0.01], batch=[16, 32])`` returns four tasks.

    Args:
        task: The class, or any function that returns a task.
        values: Parameter -> a list of its values.

    Raises:
        TypeError: a parameter's values are not a list, or the task has no such parameter.
    """
    lists = _lists(values, task)
    return [task(**dict(zip(lists, point, strict=True))) for point in itertools.product(*lists.values())]


def zipped(task: Callable[..., T], /, **values: Iterable[Any]) -> list[T]:
    """Return a task with each parameter's first value, a task with each parameter's second value, and so on.

    ``zipped(Train, rate=[0.1, 0.01], steps=[100, 1000])`` returns two tasks.

    Args:
        task: The class, or any function that returns a task.
        values: Parameter -> a list of its values. All lists must have the same length.

    Raises:
        TypeError: a parameter's values are not a list, or the task has no such parameter.
        ValueError: the lists have different lengths.
    """
    lists = _lists(values, task)
    if len({len(each) for each in lists.values()}) > 1:
        counts = ", ".join(f"{name} has {len(each)}" for name, each in lists.items())
        raise ValueError(f"zipped() needs lists of equal length, but {counts}")
    return [task(**dict(zip(lists, point, strict=True))) for point in zip(*lists.values(), strict=True)]


def sample(task: Callable[..., T], n: int, /, *, seed: int, **space: Any) -> list[T]:
    """Return tasks with different random combinations of values; the same seed gives the same tasks.

    ``sample(Train, 20, seed=1, rate=lambda random: 10 ** random.uniform(-4, -1), batch=[16, 32])``
    returns twenty tasks.

    Args:
        task: The class, or any function that returns a task.
        n: The number of tasks.
        seed: The seed of the random numbers.
        space: Parameter -> a list to choose from, or a function that takes a ``random.Random``.

    Raises:
        TypeError: a parameter has neither a list nor a function, or the task has no such parameter.
        ValueError: fewer than ``n`` different combinations were found.
    """
    chance = random.Random(seed)  # noqa: S311  reproducible on purpose
    lists = _lists({name: values for name, values in space.items() if not callable(values)}, task)
    points: dict[str, T] = {}
    for _ in range(n * _TRIES):
        if len(points) == n:
            break
        point = {
            name: values(chance) if callable(values) else chance.choice(lists[name])
            for name, values in space.items()
        }
        if repr(point) not in points:
            points[repr(point)] = task(**point)
    if len(points) < n:
        raise ValueError(f"sample() found only {len(points)} different points of {n}; ask for fewer")
    return list(points.values())


def _lists(values: Mapping[str, Iterable[Any]], task: Callable[..., object]) -> dict[str, list[Any]]:
    if not callable(task):
        raise TypeError(f"{task!r} is not a class of tasks; write {type(task).__name__} instead")
    known = dict(task.get_params()) if isinstance(task, type) and issubclass(task, luigi.Task) else values
    for name, value in values.items():
        if name not in known:
            raise TypeError(f"{task.__name__} has no parameter {name!r}{nearest(name, known)}")
        if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
            raise TypeError(f"{name} = {value!r} is not a list of values; write {name}=[{value!r}]")
    return {name: list(value) for name, value in values.items()}
