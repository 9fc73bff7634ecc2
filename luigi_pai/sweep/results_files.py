"""The files of a sweep's table: results.json, results.csv, and results.html.

The page includes its style and script, and loads nothing.
"""

from __future__ import annotations

import base64
import csv
import hashlib
import io
import json
import re
from datetime import datetime, timezone
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING, Any

from luigi_pai.durations import counted
from luigi_pai.sweep.progress import ranked
from luigi_pai.sweep.rows import shown_value

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

_ASSETS = Path(__file__).parent / "assets"
_LINKS = ("http://", "https://")
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")  # strings for the floats that JSON does not have
_FORMULA = re.compile(r'(^|[;\t\n])(?=[\s"]*[-=+@\uff1d\uff0b\uff0d\uff20])|^(?=[\t\n])')
"""Matches before text that a spreadsheet may run as a formula. In some locales, ``;`` begins a cell, too."""


def varying(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns of the parameters whose values differ between rows; of a single row, all."""
    parameters = columns[: columns.index("state")]
    return [column for column in parameters if len(rows) < 2 or len({str(row[column]) for row in rows}) > 1]  # noqa: PLR2004


def json_parts(
    summary: Mapping[str, Any], columns: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the parts of ``results.json``, which has a line for each row."""
    yield f'{{"summary": {json.dumps(summary)},\n"columns": {json.dumps(columns)},\n"rows": ['
    for number, row in enumerate(rows):
        yield f"{',' if number else ''}\n{json.dumps(row, allow_nan=False)}"
    yield "\n]}\n"


def csv_text(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of a table as CSV, written so that no spreadsheet takes a cell for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_csv_cell, columns))
    for row in rows:
        writer.writerow(_csv_cell(row[column]) for column in columns)
    return text.getvalue()


def _csv_cell(value: Any) -> Any:
    """Return a value for CSV. A ``'`` is put before text that a spreadsheet may run as a formula."""
    if isinstance(value, bool):
        return shown_value(value)
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")  # the csv module does not quote every \r
    return text if text in _NOT_FINITE else _FORMULA.sub(r"\g<0>'", text)


def page_parts(
    summary: Mapping[str, Any], columns: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield the parts of the page. It has counts, a chart that a script draws, and a table.

    The table needs no script. Its first row is the best point, if there is one. Parameters with the same
    value in all rows are near its end.

    Args:
        summary: the fields of a ``Summary``.
        columns: the columns of the table, as in ``results.json``.
        rows: the rows of the table; each is a dict of column -> JSON value.
    """
    first = varying(columns, rows)
    same = [column for column in columns[: columns.index("state")] if column not in first]
    left_out = ("page", "error", *same)  # ``_page_cell`` puts the URL of ``page`` into ``job``
    errors = ["error"] if any(row["error"] for row in rows) else []
    shown = [*(column for column in columns if column not in left_out), *same, *errors]
    best, rows = ranked(summary["best"], rows)
    style, script = _asset("results.css"), _asset("results.js")
    fields = {
        "policy": (
            f"default-src 'none'; style-src {_hash_of(style)}; script-src {_hash_of(script)}; "
            "base-uri 'none'; form-action 'none'"
        ),
        "name": escape(str(summary["sweep"])),
        "style": style,
        "script": script,
        "counts": _counts(summary),
        "times": _times(summary),
        "best": f"<p><b>★ {escape(best[0].upper() + best[1:])}</b></p>" if best else "",
        "heads": "".join(_page_head(column, summary["best"] if best else "") for column in shown),
    }
    head, _, tail = _asset("results.html").partition("$rows\n")
    yield Template(head).substitute(fields)
    for number, row in enumerate(rows):
        mark = ' class="best" title="the best point"' if best and not number else ""
        yield f"<tr{mark}>{''.join(_page_cell(column, row) for column in shown)}</tr>\n"
    yield Template(tail).substitute(fields)


def _counts(summary: Mapping[str, Any]) -> str:
    counts = ", ".join(
        f'{count:,} <b class="{escape(state)}">{escape(state)}</b>'
        for state, count in summary["counts"].items()
    )
    return f"{counted(summary['points'], 'point')}{': ' * bool(counts)}{counts}."


def _times(summary: Mapping[str, Any]) -> str:
    started, updated = (
        f"{datetime.fromtimestamp(summary[key] / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
        for key in ("started_ms", "updated_ms")
    )
    state = "Complete." if summary["complete"] else "Not complete."
    return f"{state} Began {started}, this page was written {updated}."


def _page_head(column: str, best: str) -> str:
    """Return the title of a column, which says how the rows are sorted if it is the column of ``best``."""
    sorts = {f"max {column}": ' aria-sort="descending"', f"min {column}": ' aria-sort="ascending"'}
    return f'<th scope="col"{sorts.get(" ".join(best.split()), "")}>{escape(column)}</th>'


def _page_cell(column: str, row: Mapping[str, Any]) -> str:
    text = escape(shown_value(row[column]))
    if column == "state":
        return f'<td class="{text}">{text}</td>'
    if column == "error":
        return f'<td class="error">{text}</td>'
    if column == "job" and str(row["page"]).startswith(_LINKS):
        return f'<td><a href="{escape(row["page"])}">{text}</a></td>'
    return f"<td>{text}</td>"


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def _hash_of(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
