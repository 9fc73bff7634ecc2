"""What a user's task class may say in three ways, and how a type checker is told so.

``image`` of a task is a property, a plain class attribute or a Luigi parameter. At run time that takes
nothing: ``attribute`` is ``property``, and ``Task`` is ``luigi.Task``. A type checker lets only a property
override a property, so it sees other declarations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeVar, overload

import luigi

__all__ = ["Task", "attribute"]

if TYPE_CHECKING:
    from collections.abc import Callable

    from luigi.task_register import Register
    from typing_extensions import dataclass_transform

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)

    class Computed(Protocol[T_co]):
        """What gives a value when it is read from a task: a property, or a Luigi parameter."""

        @overload
        def __get__(self, instance: None, owner: Any, /) -> Any: ...

        @overload
        def __get__(self, instance: Any, owner: Any, /) -> T_co: ...

    def attribute(getter: Callable[[Any], T], /) -> T | Computed[T]:
        """Declare what a subclass gives as a value, or as what computes one; to read it gives a value."""
        ...

    class TakesAnyArguments(Register):
        """Of tasks that are made with any arguments: those are for Luigi to check.

        Luigi 3.8 declares its tasks as dataclasses, and to pyright a parameter without an annotation is no
        field of one and no argument. Where making a task may give Any, pyright does not look for arguments.
        """

        def __call__(cls: type[T], *args: Any, **kwargs: Any) -> T | Any:  # noqa: N805  a metaclass
            ...

    @dataclass_transform(kw_only_default=True, eq_default=False)  # as Luigi's, but no call makes a field
    class Task(luigi.Task, metaclass=TakesAnyArguments):
        """Luigi's task, made with any arguments."""

        def __init__(self, *args: Any, **kwargs: Any) -> None: ...

else:
    attribute = property
    Task = luigi.Task
