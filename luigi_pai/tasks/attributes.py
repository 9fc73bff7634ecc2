"""Attributes of task classes: how they are declared, and what folder their relative paths refer to.

``image`` of a task may be a property, a plain class attribute or a Luigi parameter. At run time that
needs nothing: ``attribute`` is ``property``, and ``Task`` is ``luigi.Task``. A type checker accepts only
a property as an override of a property, so it sees other declarations.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import luigi

__all__ = ["Task", "attribute", "base_folder"]

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi.task_register import Register
    from typing_extensions import dataclass_transform

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)
    Handler = TypeVar("Handler", bound=Callable[..., object])

    class Computed(Protocol[T_co]):
        """A descriptor that returns a value when read from a task: a property or a Luigi parameter."""

        @overload
        def __get__(self, instance: None, owner: Any, /) -> Any: ...

        @overload
        def __get__(self, instance: Any, owner: Any, /) -> T_co: ...

    def attribute(getter: Callable[[Any], T], /) -> T | Computed[T]:
        """Declare an attribute defined by a subclass as value or descriptor; reading it gives a value."""
        ...

    class TakesAnyArguments(Register):
        """Metaclass of tasks whose constructor takes any arguments; Luigi checks them.

        Luigi 3.8 declares its tasks as dataclasses. To pyright, a parameter without an annotation is then
        neither a field nor an argument. If the constructor may return Any, pyright does not check arguments.
        """

        def __call__(cls: type[T], *args: Any, **kwargs: Any) -> T | Any:  # noqa: N805  a metaclass
            ...

    @dataclass_transform(kw_only_default=True, eq_default=False)  # as Luigi's, but no call makes a field
    class Task(luigi.Task, metaclass=TakesAnyArguments):
        """A Luigi task whose constructor takes any arguments."""

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

        @classmethod
        def event_handler(cls, event: str) -> Callable[[Handler], Handler]:
            """Register a handler of an event for this class and those derived from it."""
            ...

else:
    attribute = property
    Task = luigi.Task


def base_folder(task: object, attribute: str) -> Path:
    """Return the folder of the module whose class defines an attribute; the current one in a notebook."""
    definer = next(kind for kind in type(task).__mro__ if attribute in vars(kind))
    file = getattr(sys.modules.get(definer.__module__), "__file__", None)
    return Path(file).resolve().parent if file else Path.cwd()
