"""The rows in a sweep's table, one for each point: columns, values, and the best row."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from textwrap import shorten
from typing import TYPE_CHECKING, Any

from luigi_pai.jobspec.hints import nearest

if TYPE_CHECKING:
    from collections.abc import Container, Iterable

FIXED = ("state", "seconds", "job", "page", "error")
"""The columns that all tables have in common."""

_MOST_VALUES = 100  # values in a point's result
_LONGEST_VALUE = 1000  # characters
_LONGEST_WHERE = 100  # characters of the best point's parameters


@dataclass(frozen=True, slots=True)
class Row:
    """A point's row in the table, without its parameters. The journal stores finished points' rows.

    Attributes:
        state: ``PENDING`` until it is submitted, then ``PRUNED``, ``RETRY_PENDING`` or its job's state.
        result: Name -> value; empty if there is no result.
        seconds: The time from its job's start to its end; None if unknown.
        job: The name of its latest submission's job; empty before the first submission.
        page: The URL of this job's page; empty until the point has finished.
        error: One line saying why the point failed or what is wrong with its result; otherwise empty.
    """

    state: str
    result: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    job: str = ""
    page: str = ""
    error: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the point succeeded or was pruned."""
        return self.state in ("SUCCEEDED", "PRUNED")


def flattened(rows: Iterable[tuple[Mapping[str, Any], Row]]) -> tuple[list[str], list[dict[str, Any]]]:
    """Return a table's columns, and its rows as dicts of column -> JSON value.

    Args:
        rows: For each point, its parameters and its row.
    """
    points = [(_renamed(parameters, FIXED, "parameter"), row) for parameters, row in rows]
    names = list(dict.fromkeys(column for parameters, _ in points for column in parameters))
    reserved = {*names, *FIXED}
    results = [_renamed(row.result, reserved, "result") for _, row in points]
    values = dict.fromkeys(column for result in results for column in result)
    columns = [*names, "state", *values, *FIXED[1:]]
    table = []
    for (parameters, row), result in zip(points, results, strict=True):
        fixed = {column: None if (value := getattr(row, column)) == "" else value for column in FIXED}
        found = parameters | result | fixed
        table.append({column: found.get(column) for column in columns})
    return columns, table


def _renamed(values: Mapping[str, Any], reserved: Container[str], prefix: str) -> dict[str, Any]:
    """Return values as columns; names that are already taken get a prefix."""
    return {f"{prefix}.{key}" if key in reserved else key: value for key, value in flat(values).items()}


def flat(values: Mapping[Any, Any]) -> dict[str, Any]:
    """Return values as a dict of column -> JSON value.

    Mappings become columns with dotted names; lists, NaN and infinities become JSON strings.
    """
    columns: dict[str, Any] = {}
    for key, raw in values.items():
        value = _plain(raw)
        if isinstance(value, dict):
            columns |= {f"{key}.{column}": each for column, each in flat(value).items()}
        else:
            is_string = isinstance(value, list) or (isinstance(value, float) and not math.isfinite(value))
            columns[str(key)] = json.dumps(value) if is_string else value
    return columns


def _plain(value: Any) -> Any:
    """Convert a value to JSON types: mappings, lists, strings, numbers, bools and None."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):
        value = value.item()  # a numpy or torch scalar
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def bounded(values: Mapping[Any, Any]) -> tuple[dict[str, Any], str]:
    """Return a result's columns that fit in a row, and a message that names the rest, if any."""
    columns = flat(values)
    fitting = [column for column, value in columns.items() if len(str(value)) <= _LONGEST_VALUE]
    kept = {column: columns[column] for column in fitting[:_MOST_VALUES]}
    left_out = [column for column in columns if column not in kept]
    if not left_out:
        return kept, ""
    names = f"{', '.join(left_out[:5])}{', ...' if len(left_out) > 5 else ''}"  # noqa: PLR2004
    return kept, (
        f"left out of the result: {names} (a row has at most {_MOST_VALUES} values of {_LONGEST_VALUE} "
        "characters)"
    )


def shown_value(value: Any) -> str:
    """Return a row's value in readable form."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


class Best:
    """The best point so far.

    Args:
        declaration: ``max COLUMN`` or ``min COLUMN``.

    Attributes:
        declaration: The declaration.
        sign: 1 for max, -1 for min.
        column: The name of the column.

    Raises:
        ValueError: the declaration has neither of these forms.
    """

    def __init__(self, declaration: str) -> None:
        words = declaration.split() if isinstance(declaration, str) else []
        if len(words) != 2 or words[0] not in ("max", "min"):  # noqa: PLR2004
            raise ValueError(f"{declaration!r} is not max COLUMN or min COLUMN, such as 'max accuracy'")
        self.declaration = declaration
        self.sign = 1 if words[0] == "max" else -1
        self.column = words[1]
        self._value: float | None = None
        self._where = ""
        self._results: set[str] = set()  # columns of the results
        self._numbers: set[str] = set()  # columns with a number
        self._is_there = False

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the row of a finished point.

        Args:
            row: Column -> value, in the table's order: the parameters, ``state``, the result.
        """
        if row["state"] != "SUCCEEDED":
            return
        columns = list(row)
        parameters = columns[: columns.index("state")]
        results = {*columns}.difference(parameters, FIXED)
        self._results |= results
        self._numbers |= {column for column in results if _is_number(row[column])}
        self._is_there |= self.column in columns
        value: Any = row.get(self.column)
        if _is_number(value) and (self._value is None or self.sign * value > self.sign * self._value):
            self._value = value
            names = [name for name in parameters if row[name] is not None]
            self._where = ", ".join(f"{name}={shown_value(row[name])}" for name in names)

    def rank(self, row: Mapping[str, Any]) -> float:
        """Return a key that sorts rows: the best row is first, and rows that cannot be the best are last."""
        counts = row["state"] == "SUCCEEDED" and _is_number(row.get(self.column))
        return -self.sign * row[self.column] if counts else math.inf

    def missing(self) -> str:
        """Return a problem if there are results but none has the column; otherwise an empty string."""
        if self._value is not None or not self._results:
            return ""
        number = "a number in " if self._is_there else ""
        return f"no point has {number}{self.column}{nearest(self.column, sorted(self._numbers))}"

    def __str__(self) -> str:
        if self._value is None:
            return ""
        where = shorten(self._where, _LONGEST_WHERE, placeholder=" ...")
        return f"best {self.column} {self._value:.6g}" + (f" ({where})" if where else "")


def _is_number(value: object) -> bool:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return False
    return abs(value) <= sys.float_info.max  # an int may be larger than any float
