"""Sheet: a sweep's table and its files, results.json, results.csv and results.html.

The page includes its style and script, and loads nothing.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timezone
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any, NamedTuple

from luigi_pai.api.clock import LATEST_MS
from luigi_pai.durations import counted
from luigi_pai.errors import SpecError
from luigi_pai.jobspec.dialects.json_text import read_json
from luigi_pai.sweep.rows import FIXED, Best, flattened, shown_value

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from luigi_pai.sweep.rows import Row

_ASSETS = Path(__file__).parent / "assets"
_LINKS = ("http://", "https://")
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")  # strings for the floats that JSON does not support
_FORMULA = re.compile(r'(^|[;\t\n])(?=[\s"]*[-=+@\uff1d\uff0b\uff0d\uff20])|^(?=[\t\n])')
"""Matches before a string that a spreadsheet may run as a formula; some locales split cells at ``;``."""


@dataclass(frozen=True)
class Summary:
    """A sweep's summary.

    Attributes:
        sweep: The sweep's name.
        points: The number of points.
        complete: Whether the sweep succeeded, so that its run no longer changes the table.
        started_ms, updated_ms: When the sweep's run started and when this summary was made, in ms since 1970
            UTC.
        digest: A hash of the points' names, see ``points_digest``.
        best: The sweep's ``best``, such as ``max accuracy``; empty if it is not set.
        counts: State -> number of rows in this state; ``SweepResults.write`` counts the rows.
    """

    sweep: str
    points: int
    complete: bool
    started_ms: int
    updated_ms: int
    digest: str
    best: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)


def points_digest(names: Iterable[str]) -> str:
    """Return a hash of the names of a sweep's points, independent of their order."""
    return hashlib.sha256("\n".join(sorted(names)).encode("utf-8", "surrogatepass")).hexdigest()


class Sheet(NamedTuple):
    """A table, as stored in ``results.json``.

    Attributes:
        summary: The sweep's summary.
        columns: The columns in order; the columns before ``state`` are parameters.
        rows: A dict of column -> JSON value for each point.
    """

    summary: Summary
    columns: list[str]
    rows: list[dict[str, Any]]

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[Mapping[str, Any], Row]], summary: Summary) -> Sheet:
        """Return the table for points, each given as parameters and row; adds the counts to ``summary``."""
        columns, flat = flattened(rows)
        return cls(replace(summary, counts=dict(Counter(row["state"] for row in flat))), columns, flat)

    @classmethod
    def from_json(cls, data: bytes, path: str) -> Sheet:
        """Return the table in a file.

        Raises:
            ValueError: the file is not a table; the message names ``path``.
        """
        try:
            document = read_json(data.decode(), path)
            if _is_table(document):
                return cls(Summary(**document["summary"]), document["columns"], document["rows"])
        except (SpecError, ValueError, TypeError, KeyError, AttributeError):
            pass
        raise ValueError(
            f"{path} is not a sweep's table; remove the file and run the sweep again, which collects the "
            "points again"
        )

    @property
    def parameters(self) -> list[str]:
        """The parameters' columns."""
        return self.columns[: self.columns.index("state")]

    def varying(self) -> list[str]:
        """Return the parameters whose values differ between rows; for a single row, all parameters."""
        if len(self.rows) < 2:  # noqa: PLR2004
            return self.parameters
        return [name for name in self.parameters if len({str(row[name]) for row in self.rows}) > 1]

    def ranked(self) -> tuple[str, list[dict[str, Any]]]:
        """Return a description of the best point, and the rows with the best row first.

        If no best point is declared or found, the description is empty and the rows keep their order.
        """
        try:
            best = Best(self.summary.best)
        except ValueError:
            return "", self.rows
        for row in self.rows:
            best.add(row)
        return str(best), sorted(self.rows, key=best.rank)

    def json_parts(self) -> Iterator[str]:
        """Yield the parts of ``results.json``, which has one line for each row."""
        summary, columns = json.dumps(asdict(self.summary)), json.dumps(self.columns)
        yield f'{{"summary": {summary},\n"columns": {columns},\n"rows": ['
        for number, row in enumerate(self.rows):
            yield f"{',' if number else ''}\n{json.dumps(row, allow_nan=False)}"
        yield "\n]}\n"

    def csv_text(self) -> str:
        """Return the table as CSV, escaped so that no spreadsheet treats a cell as a formula."""
        buffer = io.StringIO()
        writer = csv.writer(buffer, lineterminator="\n")
        writer.writerow(map(_csv_cell, self.columns))
        for row in self.rows:
            writer.writerow(_csv_cell(row[column]) for column in self.columns)
        return buffer.getvalue()

    def page_parts(self) -> Iterator[str]:
        """Yield the parts of the page: counts, a chart drawn by a script, and a table that needs no script.

        The table's first row is the best point, if there is one. Parameters with the same value in all rows
        are in the last columns.
        """
        summary, first = self.summary, self.varying()
        same = [column for column in self.parameters if column not in first]
        left_out = ("page", "error", *same)  # ``_page_cell`` puts the URL of ``page`` into ``job``
        errors = ["error"] if any(row["error"] for row in self.rows) else []
        shown = [*(column for column in self.columns if column not in left_out), *same, *errors]
        best, rows = self.ranked()
        style, script = _asset("results.css"), _asset("results.js")
        states = ((escape(state), count) for state, count in summary.counts.items())
        counts = ", ".join(f'{count:,} <b class="{state}">{state}</b>' for state, count in states)
        fields = {
            "policy": (
                f"default-src 'none'; style-src {_hash_of(style)}; script-src {_hash_of(script)}; "
                "base-uri 'none'; form-action 'none'"
            ),
            "name": escape(summary.sweep),
            "style": style,
            "script": script,
            "counts": f"{counted(summary.points, 'point')}{': ' * bool(counts)}{counts}.",
            "times": (
                f"{'Complete' if summary.complete else 'Not complete'}. "
                f"Started {_moment(summary.started_ms)}, this page was written {_moment(summary.updated_ms)}."
            ),
            "best": f"<p><b>★ {escape(best[0].upper() + best[1:])}</b></p>" if best else "",
            "heads": "".join(_page_head(column, summary.best if best else "") for column in shown),
        }
        head, _, tail = _asset("results.html").partition("$rows\n")
        yield Template(head).substitute(fields)
        for number, row in enumerate(rows):
            mark = ' class="best" title="the best point"' if best and not number else ""
            yield f"<tr{mark}>{''.join(_page_cell(column, row) for column in shown)}</tr>\n"
        yield Template(tail).substitute(fields)


def _is_table(document: Any) -> bool:
    """Return whether a JSON document is a table. May also raise an error if it is not."""
    summary, columns, rows = (document[key] for key in Sheet._fields)
    numbers = [summary[key] for key in ("points", "started_ms", "updated_ms")]
    return (
        isinstance(summary["complete"], bool)
        and all(isinstance(summary.get(key, ""), str) for key in ("sweep", "digest", "best"))
        and all(isinstance(number, int) for number in (*numbers, *summary["counts"].values()))
        and max(map(abs, numbers)) < LATEST_MS
        and isinstance(columns, list)
        and {str(column) for column in columns}.issuperset(FIXED)
        and isinstance(rows, list)
        and all(isinstance(row["state"], str) and row.keys() >= {*columns} for row in rows)
    )


def _csv_cell(value: Any) -> Any:
    """Return a value for CSV. Strings that a spreadsheet may run as a formula are prefixed with ``'``."""
    if isinstance(value, bool):
        return shown_value(value)
    if not isinstance(value, str):
        return value
    string = value.replace("\r\n", "\n").replace("\r", "\n")  # the csv module does not quote every \r
    return string if string in _NOT_FINITE else _FORMULA.sub(r"\g<0>'", string)


def _moment(milliseconds: int) -> str:
    return f"{datetime.fromtimestamp(milliseconds / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"


def _page_head(column: str, best: str) -> str:
    """Return a column's header; for the column of ``best``, the header includes the rows' sort order."""
    sorts = {f"max {column}": ' aria-sort="descending"', f"min {column}": ' aria-sort="ascending"'}
    return f'<th scope="col"{sorts.get(" ".join(best.split()), "")}>{escape(column)}</th>'


def _page_cell(column: str, row: Mapping[str, Any]) -> str:
    content = escape(shown_value(row[column]))
    if column == "state":
        return f'<td class="{content}">{content}</td>'
    if column == "error":
        return f'<td class="error">{content}</td>'
    if column == "job" and str(row["page"]).startswith(_LINKS):
        return f'<td><a href="{escape(row["page"])}">{content}</a></td>'
    return f"<td>{content}</td>"


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def _hash_of(content: str) -> str:
    digest = hashlib.sha256(content.encode("utf-8", "backslashreplace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
