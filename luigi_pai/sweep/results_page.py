"""The page of a sweep's table: one HTML file that includes its style and script, and loads nothing."""

from __future__ import annotations

import base64
import hashlib
from datetime import datetime, timezone
from functools import cache
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_ASSETS = Path(__file__).parent / "assets"
_LINKS = ("http://", "https://")


def results_page(
    summary: Mapping[str, Any], columns: Sequence[str], rows: Sequence[Mapping[str, Any]]
) -> str:
    """Return the page. It has counts, a chart that a script draws, and a table that needs no script.

    Args:
        summary: the fields of a ``Summary``.
        columns: the columns of the table, as in ``results.json``.
        rows: the rows of the table; each is a dict of column -> JSON value.
    """
    shown = _shown(columns, rows)
    style, script = _asset("results.css"), _asset("results.js")
    policy = (
        f"default-src 'none'; style-src {_hash_of(style)}; script-src {_hash_of(script)}; base-uri 'none'; "
        "form-action 'none'"
    )
    name = escape(str(summary["sweep"]))
    heads = "".join(f'<th scope="col">{escape(column)}</th>' for column in shown)
    lines = "\n".join(f"<tr>{''.join(_cell(column, row) for column in shown)}</tr>" for row in rows)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width">
<meta name="referrer" content="no-referrer">
<title>{name}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{name}</h1>
<p>{_counts(summary)}</p>
<p>{_times(summary)}</p>
<figure hidden>
<label>Value <select id="value"></select></label>
<div class="scroll"><div id="picture"></div></div>
<figcaption></figcaption>
</figure>
<table>
<caption>Points</caption>
<thead><tr>{heads}</tr></thead>
<tbody>
{lines}
</tbody>
</table>
</main>
<script>{script}</script>
</body>
</html>
"""


def _shown(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the columns of the page in order; parameters with one value for all points are near the end."""
    given = columns[: columns.index("state")]
    same = [column for column in given if len(rows) > 1 and len({str(row[column]) for row in rows}) == 1]
    left_out = ("page", "error", *same)  # ``_cell`` puts the URL of ``page`` into ``job``
    return [*(column for column in columns if column not in left_out), *same, "error"]


def _counts(summary: Mapping[str, Any]) -> str:
    counts = ", ".join(
        f'{count:,} <b class="{escape(state)}">{escape(state)}</b>'
        for state, count in summary["counts"].items()
    )
    points = summary["points"]
    return f"{points:,} point{'' if points == 1 else 's'}{': ' * bool(counts)}{counts}."


def _times(summary: Mapping[str, Any]) -> str:
    started, updated = (
        f"{datetime.fromtimestamp(summary[key] / 1000, timezone.utc):%Y-%m-%d %H:%M:%S} UTC"
        for key in ("started_ms", "updated_ms")
    )
    state = "Complete." if summary["complete"] else "Not complete."
    return f"{state} Began {started}, this page was written {updated}."


def _cell(column: str, row: Mapping[str, Any]) -> str:
    text = escape(text_of(row[column]))
    if column == "state":
        return f'<td class="{text}">{text}</td>'
    if column == "job" and str(row["page"]).startswith(_LINKS):
        return f'<td><a href="{escape(row["page"])}">{text}</a></td>'
    return f"<td>{text}</td>"


def text_of(value: Any) -> str:
    """Return the text of a value in a row."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


@cache
def _asset(name: str) -> str:
    return (_ASSETS / name).read_text("utf-8")


def _hash_of(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8", "backslashreplace")).digest()
    return f"'sha256-{base64.b64encode(digest).decode('ascii')}'"
