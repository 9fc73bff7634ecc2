"""SweepResults: a sweep's table as a Luigi target.

Its files are ``results.json``, ``results.csv`` and ``results.html``. ``results.json`` contains the table of a
sweep that succeeded; ``results.partial.json`` contains the table of a running or failed sweep::

    {
      "summary": {"sweep": "study", "points": 1, "counts": {"SUCCEEDED": 1}, "complete": true,
                  "started_ms": 1700000000000, "updated_ms": 1700000061500, "digest": "5f3c...",
                  "best": "max accuracy"},
      "columns": ["rate", "batch", "state", "accuracy", "seconds", "job", "page", "error"],
      "rows": [{"rate": 0.1, "batch": 16, "state": "SUCCEEDED", "accuracy": 0.97, "seconds": 61.5,
                "job": "train_1", "page": "http://...", "error": null}]
    }

Each row has all columns. Objects and lists are converted to other values, see ``docs/sweeps.md``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import luigi
import luigi.format

from luigi_pai.config import OpenPai
from luigi_pai.jobspec.hints import nearest
from luigi_pai.notebook import Link, html_table
from luigi_pai.sweep.rows import shown_value
from luigi_pai.sweep.sheet import Sheet

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from luigi_pai.sweep.rows import Row
    from luigi_pai.sweep.sheet import Summary

_ON_CLUSTER = ("hdfs:", "webhdfs:", "swebhdfs:", "viewfs:", "$PAI_DEFAULT_FS_URI", "${PAI_DEFAULT_FS_URI}")
_FILE = "file://"
_PARTIAL = "partial.json"
_LARGEST = 500_000_000  # bytes of a table
_MOST_SHOWN = 50  # how many points a notebook shows at most


class SweepResults(luigi.Target):
    """A sweep's table in a folder. Constructing this object makes no requests.

    Each file is replaced atomically, so a reader finds either the old file or the new one. Only a successful
    run writes ``results.json``. Until it succeeds, a run writes ``results.partial.json``, so a second run of
    the sweep cannot replace a complete table with an incomplete one.

    Args:
        folder: A folder on the cluster's file system (``$PAI_DEFAULT_FS_URI/...``, ``hdfs://...`` or, on a
            storage, ``/mnt/NAME/...``), or a local path.
    """

    def __init__(self, folder: str) -> None:
        folder = folder.removeprefix(_FILE).rstrip("/") or "/"
        self.folder = str(Path(folder).expanduser()) if folder.startswith("~/") else folder

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.folder!r})"

    def __str__(self) -> str:
        return self.folder

    def __iter__(self) -> NoReturn:
        raise TypeError("a sweep's table is not iterable; use rows(): for row in self.input().rows()")

    def _repr_html_(self) -> str:
        """Return the table for a notebook, with a link to each job's page."""
        try:
            sheet = self.read()
        except FileNotFoundError:
            return html_table(("results",), [[f"no table in {self.folder} yet"]])
        best, rows = sheet.ranked()
        titles = [column for column in sheet.columns if column != "page"]
        cells = [
            [
                Link(shown_value(row[title]), str(row["page"] or ""))
                if title == "job"
                else shown_value(row[title])
                for title in titles
            ]
            for row in rows[:_MOST_SHOWN]
        ]
        note = f"{len(cells)} of {len(rows):,} points; all are in {self.folder}"
        return html_table(titles, cells, f"{best}: the first row; {note}" if best else note)

    @property
    def is_on_cluster(self) -> bool:
        """Whether the folder is on the cluster's file system."""
        return is_on_cluster(self.folder)

    def path(self, ending: str) -> str:
        """Return the path of a file by its ending: ``json``, ``partial.json``, ``csv`` or ``html``."""
        return f"{self.folder.rstrip('/')}/results.{ending}"

    def exists(self) -> bool:
        """Return whether there is a complete table.

        Raises:
            HdfsError: the file system failed.
            ValueError: ``results.json`` is not a table.
        """
        return self.complete_summary() is not None

    def complete_summary(self) -> Summary | None:
        """Return the complete table's summary, or None. Raises the same errors as ``exists()``."""
        sheet = self._sheet("json")
        return None if sheet is None else sheet.summary

    def rows(self) -> list[dict[str, Any]]:
        """Return the table's rows; each is a dict of column -> value for a point.

        Reads the complete table, or the partial one if a later run wrote it or there is no complete table.

        Raises:
            FileNotFoundError: there is no table.
            HdfsError: the file system failed.
            ValueError: ``results.json`` or ``results.partial.json`` is not a table.
        """
        return list(map(_NamedColumns, self.read().rows))

    def summary(self) -> Summary:
        """Return the sweep's summary. Raises the same errors as ``rows()``."""
        return self.read().summary

    def read(self) -> Sheet:
        """Return the whole table. Raises the same errors as ``rows()``."""
        sheet, partial = self._sheet("json"), self._sheet(_PARTIAL)
        if partial is not None and (sheet is None or partial.summary.started_ms > sheet.summary.updated_ms):
            return partial
        if sheet is None:
            raise FileNotFoundError(f"there is no {self.path('json')}")
        return sheet

    def write(self, rows: Iterable[tuple[Mapping[str, Any], Row]], summary: Summary) -> None:
        """Replace the table.

        Args:
            rows: For each point, its significant public parameters and its row.
            summary: The sweep's summary.

        Raises:
            HdfsError: the file system failed.
            OSError: the local folder cannot be written.
        """
        sheet = Sheet.from_rows(rows, summary)
        self._replace("csv", [sheet.csv_text()])
        self._replace("html", sheet.page_parts())
        self._replace("json" if summary.complete else _PARTIAL, sheet.json_parts())
        if summary.complete and (partial := self._file(_PARTIAL)).exists():
            partial.remove()

    def _file(self, ending: str) -> Any:
        if not self.is_on_cluster:
            return luigi.LocalTarget(self.path(ending), format=luigi.format.Nop)
        from luigi_pai.files import HdfsTarget  # noqa: PLC0415  costs what only files need

        return HdfsTarget(self.path(ending), format=luigi.format.Nop)

    def _replace(self, ending: str, parts: Iterable[str]) -> None:
        with self._file(ending).open("w") as file:
            file.writelines(part.encode("utf-8", "backslashreplace") for part in parts)

    def _sheet(self, ending: str) -> Sheet | None:
        """Return the table in a file; None if the file does not exist."""
        path = self.path(ending)
        if self.is_on_cluster:
            from luigi_pai.files import cluster_files  # noqa: PLC0415  costs what only files need
            from luigi_pai.files.small_files import read_small  # noqa: PLC0415  as above

            data = read_small(cluster_files(path=path), path, _LARGEST)
            return None if data is None else Sheet.from_json(data, path)
        try:
            return Sheet.from_json(Path(path).read_bytes(), path)
        except FileNotFoundError:
            return None


class _NamedColumns(dict[str, Any]):
    """A row in a table. Its KeyError suggests the nearest columns."""

    def __missing__(self, column: str) -> Any:
        raise KeyError(f"no column {column!r}{nearest(str(column), self)}")


def is_on_cluster(folder: str) -> bool:
    """Return whether a folder is on the cluster's file system: on HDFS, or in the storage that jobs mount."""
    if folder.startswith(_ON_CLUSTER):
        return True
    mount = OpenPai.current().storage_mount_path()
    return mount is not None and f"{folder}/".startswith(f"{mount}/")
