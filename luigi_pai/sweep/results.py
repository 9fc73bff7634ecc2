"""SweepResults: the table of a sweep as a Luigi target.

Its files are ``results.json``, ``results.csv`` and ``results.html``. ``results.json`` is the table of a sweep
that has succeeded; ``results.partial.json`` is the table of a running or failed sweep::

    {
      "summary": {"sweep": "study", "points": 1, "counts": {"SUCCEEDED": 1}, "complete": true,
                  "started_ms": 1700000000000, "updated_ms": 1700000061500, "digest": "5f3c..."},
      "columns": ["rate", "batch", "state", "accuracy", "seconds", "job", "page", "error"],
      "rows": [{"rate": 0.1, "batch": 16, "state": "SUCCEEDED", "accuracy": 0.97, "seconds": 61.5,
                "job": "train_1", "page": "http://...", "error": null}]
    }

A row has every column. Objects and lists are converted to other values, as ``docs/sweeps.md`` describes.
"""

from __future__ import annotations

import csv
import hashlib
import io
import json
import math
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import luigi
import luigi.format

from luigi_pai.api.clock import LATEST_MS
from luigi_pai.errors import SpecError
from luigi_pai.jobspec.dialects.json_text import read_json
from luigi_pai.notebook import Link, html_table
from luigi_pai.sweep.results_page import results_page, text_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

FIXED = ("state", "seconds", "job", "page", "error")
"""The columns that all tables have in common."""

_ON_HDFS = ("hdfs:", "webhdfs:", "swebhdfs:", "viewfs:", "$PAI_DEFAULT_FS_URI", "${PAI_DEFAULT_FS_URI}")
_FILE = "file://"
_PARTIAL = "partial.json"
_NOT_FINITE = ("NaN", "Infinity", "-Infinity")  # texts of floats that JSON does not have
_LARGEST = 500_000_000  # bytes of a table
_FORMULA = re.compile(r'(^|[;\t\n])(?=[\s"]*[-=+@\uff1d\uff0b\uff0d\uff20])|^(?=[\t\n])')
"""Matches before text that a spreadsheet may run as a formula. In some locales, ``;`` begins a cell, too."""

_FACTS = {
    "sweep": str,
    "points": int,
    "complete": bool,
    "started_ms": int,
    "updated_ms": int,
    "digest": str,
    "counts": dict,
}  # fields of the summary in results.json, and their types
_MOST_VALUES = 100  # values in the result of a point
_LONGEST_VALUE = 1000  # characters of JSON
_DEEPEST_VALUE = 50  # objects and lists in each other
_MOST_SHOWN = 50  # maximum number of points that a notebook shows


@dataclass(frozen=True, slots=True)
class Row:
    """The row of a point in the table, without its parameters. The journal stores the rows of ended points.

    Attributes:
        state: ``PENDING`` until it is submitted, then ``PRUNED``, ``RETRY_PENDING`` or the state of its job.
        result: name -> value; empty if there is no result.
        seconds: from the start of its job to the end of the job; None if not known.
        job: the name of the job of its latest submission; empty before the first submission.
        page: URL of the page of this job; empty until the point has ended.
        error: why the point failed, or what is wrong with its result, in a line; empty without an error.
    """

    state: str
    result: Mapping[str, Any] = field(default_factory=dict)
    seconds: float | None = None
    job: str = ""
    page: str = ""
    error: str = ""

    @property
    def is_good(self) -> bool:
        """Whether the point has succeeded or was pruned."""
        return self.state in ("SUCCEEDED", "PRUNED")


@dataclass(frozen=True)
class Summary:
    """The summary of a sweep.

    Attributes:
        sweep: name of the sweep.
        points: number of points.
        complete: the sweep has succeeded, so its run no longer changes the table.
        started_ms, updated_ms: start of the sweep's run and time of this summary, in ms since 1970 UTC.
        digest: hash of the points' names, see ``points_digest``.
        counts: state -> number of rows in this state; ``SweepResults.write`` counts the rows.
    """

    sweep: str
    points: int
    complete: bool
    started_ms: int
    updated_ms: int
    digest: str
    counts: Mapping[str, int] = field(default_factory=dict)


def points_digest(names: Iterable[str]) -> str:
    """Return a hash of the names of a sweep's points; their order does not change the hash."""
    return hashlib.sha256("\n".join(sorted(names)).encode("utf-8", "surrogatepass")).hexdigest()


class SweepResults(luigi.Target):
    """The table of a sweep in a folder. Constructing this object makes no requests.

    Each of its files is replaced in one step, so that a reader finds either the old file or the new file.
    Only a run that has succeeded writes ``results.json``. Until then, a run writes ``results.partial.json``,
    so that a second run of the sweep cannot replace a complete table by an incomplete table.

    Args:
        folder: on the cluster's HDFS (``hdfs://...``, ``$PAI_DEFAULT_FS_URI/...``), or a local path.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder.removeprefix(_FILE).rstrip("/") or "/"

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.folder!r})"

    def __str__(self) -> str:
        return self.folder

    def _repr_html_(self) -> str:
        """Return the table for a notebook, with a link to the page of each job."""
        if not any(self._file(ending).exists() for ending in ("json", _PARTIAL)):
            return html_table(("results",), [[f"no table in {self.folder} yet"]])
        _, given = self._read()
        titles = [column for column in (given[0] if given else FIXED) if column != "page"]
        rows = [
            [
                Link(text_of(row[title]), str(row["page"] or "")) if title == "job" else text_of(row[title])
                for title in titles
            ]
            for row in given[:_MOST_SHOWN]
        ]
        note = f"{len(rows)} of {len(given):,} points; all are in {self.folder}"
        return html_table(titles, rows, note)

    @property
    def is_on_hdfs(self) -> bool:
        """Whether the folder is on HDFS."""
        return is_on_hdfs(self.folder)

    def path(self, ending: str) -> str:
        """Return the path of a file by its ending: ``json``, ``partial.json``, ``csv`` or ``html``."""
        return f"{self.folder.rstrip('/')}/results.{ending}"

    def exists(self) -> bool:
        """Return whether there is a complete table.

        Raises:
            HdfsError: HDFS failed.
            ValueError: ``results.json`` is not a table.
        """
        return self.complete_summary() is not None

    def complete_summary(self) -> Summary | None:
        """Return the summary of the complete table, or None. This raises the same errors as ``exists()``."""
        table = self._table("json")
        return None if table is None else table[0]

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows of the table; each is a dict of column -> value for a point.

        Normally, this is the complete table. It is the partial table if there is no complete table, or if a
        later run has written the partial table.

        Raises:
            FileNotFoundError: there is no table.
            HdfsError: HDFS failed.
            ValueError: ``results.json`` or ``results.partial.json`` is not a table.
        """
        return self._read()[1]

    def summary(self) -> Summary:
        """Return the summary of the sweep. This raises the same errors as ``rows()``."""
        return self._read()[0]

    def write(self, rows: Iterable[tuple[Mapping[str, Any], Row]], summary: Summary) -> None:
        """Replace the table.

        Args:
            rows: for each point, its significant and public parameters, and its row.
            summary: of the sweep.

        Raises:
            HdfsError: HDFS failed.
            OSError: the local folder cannot be written.
        """
        given = list(rows)
        facts = asdict(summary) | {"counts": dict(Counter(row.state for _, row in given))}
        columns, flat = flattened(given)
        self._replace("csv", csv_text(columns, flat))
        self._replace("html", results_page(facts, columns, flat))
        text = _json(facts, columns, flat)
        if summary.complete:
            self._replace("json", text)
            if (partial := self._file(_PARTIAL)).exists():
                partial.remove()
        else:
            self._replace(_PARTIAL, text)

    def _file(self, ending: str) -> Any:
        if not self.is_on_hdfs:
            return luigi.LocalTarget(self.path(ending), format=luigi.format.Nop)
        from luigi_pai.hdfs import HdfsTarget  # noqa: PLC0415  costs what only HDFS needs

        return HdfsTarget(self.path(ending), format=luigi.format.Nop)

    def _replace(self, ending: str, text: str) -> None:
        with self._file(ending).open("w") as file:
            file.write(text.encode("utf-8", "backslashreplace"))

    def _read(self) -> tuple[Summary, list[dict[str, Any]]]:
        table, partial = self._table("json"), self._table(_PARTIAL)
        if partial is not None and (table is None or partial[0].started_ms > table[0].updated_ms):
            return partial
        if table is None:
            raise FileNotFoundError(f"{self.path('json')} is not there")
        return table

    def _table(self, ending: str) -> tuple[Summary, list[dict[str, Any]]] | None:
        """Return the summary and the rows of a file; None if it does not exist."""
        data = self._content(self.path(ending))
        if data is None:
            return None
        try:
            document = read_json(data.decode(), self.path(ending))
            if _is_table(document):
                return Summary(**document["summary"]), document["rows"]
        except (SpecError, ValueError, TypeError, KeyError, AttributeError):
            pass
        raise ValueError(
            f"{self.path(ending)} is not the table of a sweep; remove the file, and run the sweep again: it "
            "collects the points anew"
        )

    def _content(self, path: str) -> bytes | None:
        if self.is_on_hdfs:
            from luigi_pai.hdfs import WebHdfs  # noqa: PLC0415  costs what only HDFS needs
            from luigi_pai.hdfs.small_files import read_small  # noqa: PLC0415  as above

            return read_small(WebHdfs.from_config(), path, _LARGEST)
        try:
            return Path(path).read_bytes()
        except FileNotFoundError:
            return None


def _is_table(document: Any) -> bool:
    """Return whether a JSON document is a table. If it is not, this may also raise an error."""
    summary, columns, rows = (document[key] for key in ("summary", "columns", "rows"))
    return (
        all(isinstance(summary[key], kind) for key, kind in _FACTS.items())
        and max(abs(summary["started_ms"]), abs(summary["updated_ms"])) < LATEST_MS
        and all(isinstance(count, int) for count in summary["counts"].values())
        and isinstance(columns, list)
        and {str(column) for column in columns}.issuperset(FIXED)
        and isinstance(rows, list)
        and all(isinstance(row["state"], str) and row.keys() >= {*columns} for row in rows)
    )


def is_on_hdfs(folder: str) -> bool:
    """Return whether a folder is on HDFS."""
    return folder.startswith(_ON_HDFS)


def flattened(
    rows: Sequence[tuple[Mapping[str, Any], Row]],
) -> tuple[list[str], list[dict[str, Any]]]:
    """Return the columns of a table, and its rows as dicts of column -> JSON value."""
    parameters: list[dict[str, Any]] = []
    for given, _ in rows:
        plain = _plain(given)
        parameters.append({f"parameter.{key}" if key in FIXED else key: plain[key] for key in plain})
    names = list(dict.fromkeys(key for own in parameters for key in own))
    taken = {*names, *FIXED}
    results = [
        {f"result.{key}" if key in taken else key: value for key, value in _plain(row.result).items()}
        for _, row in rows
    ]
    values = list(dict.fromkeys(key for own in results for key in own))
    columns = [*names, "state", *values, "seconds", "job", "page", "error"]
    table = []
    for (_, row), own, result in zip(rows, parameters, results, strict=True):
        texts = {key: getattr(row, key) or None for key in ("job", "page", "error")}
        found = {**own, **result, **texts, "state": row.state, "seconds": row.seconds}
        table.append({column: found.get(column) for column in columns})
    return columns, table


def plain_values(value: Any) -> Any:
    """Convert a value to the types of JSON: mappings, lists, texts, numbers, bools and None."""
    if isinstance(value, Mapping):
        return {str(key): plain_values(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_values(one) for one in value]
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):
        value = value.item()  # a scalar of numpy or torch
    return value if value is None or isinstance(value, (bool, int, float)) else str(value)


def bounded(values: Mapping[str, Any]) -> tuple[dict[str, Any], str]:
    """Return the values of a result that fit into a row, and a message that names the others, if any."""
    sizes = {key: len(json.dumps(value, default=str)) for key, value in values.items()}
    kept = [key for key in values if sizes[key] <= _LONGEST_VALUE and _is_shallow(values[key])][:_MOST_VALUES]
    left_out = [str(key) for key in values if key not in kept]
    names = f"{', '.join(left_out[:5])}{', ...' if len(left_out) > 5 else ''}"  # noqa: PLR2004
    problem = (
        f"left out of the result: {names} (a row has at most {_MOST_VALUES} values of {_LONGEST_VALUE} "
        "characters)"
    )
    return {key: values[key] for key in kept}, problem if left_out else ""


def _is_shallow(value: Any, deepest: int = _DEEPEST_VALUE) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return deepest > 0 and all(_is_shallow(part, deepest - 1) for part in parts)


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten nested values to a dict of column -> value."""
    return dict(_flat(plain_values(values), ""))


def _flat(values: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    for key, value in values.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", _cell_of(value)


def _cell_of(value: Any) -> Any:
    """Convert a plain value to a value of a row: lists, NaN and infinities become texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return json.dumps(value) if isinstance(value, list) else value


def _json(summary: Mapping[str, Any], columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return the text of ``results.json``, with a line for each row."""
    head = f'"summary": {json.dumps(summary)},\n"columns": {json.dumps(columns)}'
    lines = ",\n".join(json.dumps(row, allow_nan=False) for row in rows)
    return f'{{{head},\n"rows": [\n{lines}\n]}}\n'


def csv_text(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows of a table as CSV, written so that no spreadsheet takes a cell for a formula."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(map(_cell, columns))
    for row in rows:
        writer.writerow(_cell(row[column]) for column in columns)
    return text.getvalue()


def _cell(value: Any) -> Any:
    """Return a value for CSV. A ``'`` is put before text that a spreadsheet may run as a formula."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return value
    text = value.replace("\r\n", "\n").replace("\r", "\n")  # the csv module does not quote every \r
    return text if text in _NOT_FINITE else _FORMULA.sub(r"\g<0>'", text)
