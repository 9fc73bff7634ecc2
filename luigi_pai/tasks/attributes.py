"""Declares attributes of task classes, and determines which attributes and classes are the user's.

An attribute such as ``image`` may be a property, a plain class attribute or a Luigi parameter. At run time,
``attribute`` is just ``property``, and ``Task`` is ``luigi.Task``. Type checkers let only a property override
a property, so they see a different ``attribute`` function. They also see a different ``Task`` class;
``TakesAnyArguments`` explains why.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import luigi

from luigi_pai.jobspec.hints import closest
from luigi_pai.settings import SETTINGS

_LIKENESS = 0.9  # minimum similarity between a misspelt attribute and a known one, see difflib

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from luigi.task_register import Register
    from typing_extensions import dataclass_transform

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
    Handler = TypeVar("Handler", bound=Callable[..., object])

    class Computed(Protocol[T_co]):
        """A property, a Luigi parameter, or another descriptor that returns a value when read from a task."""

        @overload
        def __get__(self, instance: None, owner: Any, /) -> Any: ...

        @overload
        def __get__(self, instance: Any, owner: Any, /) -> T_co: ...

    def attribute(getter: Callable[[Any], T], /) -> T | Computed[T]:
        """Declare an attribute that a subclass may define as a value or descriptor; reads return a value."""
        ...

    overriding = attribute

    class TakesAnyArguments(Register):
        """Metaclass of tasks whose constructor takes any arguments; Luigi checks them at run time.

        Luigi 3.8 declares its tasks as dataclasses, so pyright sees a parameter without an annotation as
        neither a field nor an argument. ``__call__`` may return Any, which keeps pyright from checking
        arguments.
        """

        def __call__(cls: type[T], *args: Any, **kwargs: Any) -> T | Any:  # noqa: N805  a metaclass
            """Return an instance, as any class does."""
            ...

    @dataclass_transform(kw_only_default=True, eq_default=False)  # as on luigi.Task, without field_specifiers
    class Task(luigi.Task, metaclass=TakesAnyArguments):
        """A Luigi task whose constructor takes any arguments."""

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        def requires(self) -> Any:
            """Return the tasks that this task needs: one task, a list of tasks or a dict of tasks."""
            ...

        @classmethod
        def event_handler(cls, event: str) -> Callable[[Handler], Handler]:
            """Register an event handler for this class and its subclasses."""
            ...

else:
    attribute = property
    Task = luigi.Task

    def overriding(getter: Callable[[Any], T]) -> property:
        """Declare an attribute that overrides the setting with the same name, unless it is None."""
        description = SETTINGS[getter.__name__].description
        getter.__doc__ = f"{description}\n\nIf None, the setting of the same name in luigi.cfg applies."
        return property(getter)


def base_folder(task: object, attribute: str) -> Path:
    """Return the folder of the module whose class defines an attribute; in a notebook, the current folder."""
    definer = next(kind for kind in type(task).__mro__ if attribute in vars(kind))
    file = getattr(sys.modules.get(definer.__module__), "__file__", None)
    return Path(file).resolve().parent if file else Path.cwd()


def is_ours(code: Any) -> bool:
    """Return whether a class or function belongs to this package, not to the user."""
    return str(code.__module__).startswith("luigi_pai.")


def users_classes(kind: type) -> list[type]:
    """Return the user's classes from a class and its bases."""
    ours = next(filter(is_ours, kind.__mro__))
    return [each for each in kind.__mro__ if not issubclass(ours, each)]


def misspelt(kind: type, known: Iterable[str], likeness: float = _LIKENESS) -> Iterator[tuple[str, str]]:
    """Yield each attribute of a user's class that resembles a known, missing attribute, and the latter."""
    users = users_classes(kind)
    ours = {name for each in set(kind.__mro__).difference(users) for name in vars(each)}
    for members in map(vars, users):
        missing = {name.replace("_", ""): name for name in known if name not in members}
        for name in sorted(members.keys() - ours):
            value = members[name]
            if name.startswith("_") or inspect.isroutine(value) or isinstance(value, luigi.Parameter):
                continue
            near = closest(name.replace("_", "").lower(), missing, likeness=likeness)
            if near is not None:
                yield name, missing[near]


def attribute_names(kind: type) -> list[str]:
    """Return the names of the properties that a class gets from this package and that users may override."""
    ours = map(vars, filter(is_ours, kind.__mro__))
    return [name for each in ours for name, value in each.items() if isinstance(value, property)]
