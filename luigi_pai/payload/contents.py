"""Contents: what a payload and the values beside it consist of, for people to read before they are sent."""

from __future__ import annotations

from dataclasses import dataclass
from types import FunctionType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from luigi_pai.payload.file import Payload


@dataclass(frozen=True)
class SentValue:
    """A value that travels in clear.

    Attributes:
        name: its name in the code: ``self.rate``, ``Train.classes``, ``TABLE``.
        type: the name of its class.
        size: the bytes of its pickle.
        value: the start of its repr; empty for ``os.environ``, which is the container's there.
        place: where it is used, ``Train.work (train.py:12)``; empty for a value of the task itself.
    """

    name: str
    type: str
    size: int
    value: str
    place: str = ""


@dataclass(frozen=True)
class Contents:
    """What travels with a task's method.

    Attributes:
        parts: the compressed bytes of each part of the zip file.
        functions: the functions that travel, by their qualified names.
        values: the values that travel in clear.
        secrets: the names of the values that travel as a secret of the job.
    """

    parts: Mapping[str, int]
    functions: Sequence[str]
    values: Sequence[SentValue]
    secrets: Sequence[str]


def contents_of(payload: Payload, public: Mapping[str, Any], secrets: Mapping[str, Any]) -> Contents:
    """Return the contents of a payload without problems, and of a task's public and secret values."""
    functions = [function.__qualname__ for function in payload.reach.functions]
    return Contents(
        payload.parts, functions, list(_values(payload, public)), [f"self.{name}" for name in secrets]
    )


def _values(payload: Payload, public: Mapping[str, Any]) -> Iterator[SentValue]:
    named = [(f"self.{name}", value, "") for name, value in public.items()]
    for name, value, place in [*named, *payload.reach.values.values()]:
        if not isinstance(value, FunctionType) or value not in payload.reach.functions:
            size = len(payload.dumps(value))
            yield SentValue(name, type(value).__name__, size, payload.shown(value), place)
