"""The table of a sweep: its values, its three files, and when it exists."""

from __future__ import annotations

import copy
import csv
import json
import math
from datetime import date
from pathlib import Path

import pytest

from luigi_pai import HdfsError
from luigi_pai.sweep.results import SweepResults
from luigi_pai.sweep.rows import Row, bounded
from luigi_pai.sweep.sheet import Summary, points_digest

DIGEST = points_digest(["a", "b"])


def summary(**changes) -> Summary:
    fields = {"sweep": "study", "points": 2, "complete": True, "started_ms": 1000, "updated_ms": 61_000}
    return Summary(**{**fields, "digest": DIGEST, **changes})


@pytest.fixture
def results(tmp_path) -> SweepResults:
    return SweepResults(str(tmp_path / "folder" / "study"))


def cells(results: SweepResults) -> list[dict[str, str]]:
    """Return the rows as a spreadsheet has them."""
    with Path(results.path("csv")).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_a_row_has_parameters_state_result_and_where_it_ran(results):
    """Every row has every column, in one order; what a point does not have is None."""
    ran = ({"rate": 0.1, "batch": 16}, Row("SUCCEEDED", {"accuracy": 0.97}, 61.5, "train_1", "http://p/1"))
    results.write([ran, ({"rate": 0.2, "batch": 32}, Row("PENDING"))], summary())
    columns = ("rate", "batch", "state", "accuracy", "seconds", "job", "page", "error")
    values = (
        (0.1, 16, "SUCCEEDED", 0.97, 61.5, "train_1", "http://p/1", None),
        (0.2, 32, "PENDING", *[None] * 5),
    )
    assert results.rows() == [dict(zip(columns, row, strict=True)) for row in values]
    assert list(results.rows()[1]) == list(cells(results)[1])
    assert results.summary() == summary(counts={"SUCCEEDED": 1, "PENDING": 1})


def test_a_notebook_shows_the_best_point_first(results):
    """Rows that are read stay in the order of the points."""
    rows = [
        ({"rate": rate}, Row("SUCCEEDED", {"accuracy": rate}, 1.0, f"train_{rate}")) for rate in (1, 3, 2)
    ]
    results.write(rows, summary(best="max accuracy"))
    shown = results._repr_html_()
    assert shown.index("train_3") < shown.index("train_2") < shown.index("train_1")
    assert f"best accuracy 3 (rate=3): the first row; 3 of 3 points; all are in {results}" in shown
    assert [row["rate"] for row in results.rows()] == [1, 3, 2]
    results.write(rows, summary())
    assert "the first row" not in results._repr_html_()


@pytest.mark.parametrize("best", ["max __proto__", "max", "<b> accuracy", "min job"])
def test_a_table_may_declare_any_best(results, best):
    """Others may write the file; older tables declare none."""
    results.write([({"rate": 1}, Row("SUCCEEDED", {"accuracy": 1}))], summary(best=best))
    assert results.summary().best == best
    assert "the first row" not in results._repr_html_()
    file = Path(results.path("json"))
    file.write_text(file.read_text().replace(f', "best": "{best}"', ""))
    assert results.summary().best == ""
    file.write_text(file.read_text().replace('"digest"', '"best": 1, "digest"'))
    with pytest.raises(ValueError, match="is not a sweep's table"):
        results.summary()


def test_values_are_those_of_json(results):
    """Mappings get dots, lists are texts, NaN and infinities too, and so is all that JSON does not have."""
    given = {
        "loss": {"train": math.nan, "test": {"best": -math.inf}},
        "layers": [1, 2],
        "good": True,
        "nothing": None,
        "big": math.inf,
    }
    results.write([({"day": date(2024, 5, 1), "name": "ä"}, Row("SUCCEEDED", given))], summary())
    (row,) = results.rows()
    assert (row["day"], row["name"]) == ("2024-05-01", "ä")
    assert (row["loss.train"], row["loss.test.best"], row["big"]) == ("NaN", "-Infinity", "Infinity")
    assert (row["layers"], row["good"], row["nothing"]) == ("[1, 2]", True, None)
    (cell,) = cells(results)
    assert (cell["good"], cell["nothing"], cell["loss.test.best"]) == ("true", "", "-Infinity")


def test_a_row_keeps_100_values_of_a_result():
    """Each value of an object is one; the others are named."""
    kept, problem = bounded({"loss": {number: number for number in range(102)}, "curve": [0] * 1000})
    assert list(kept) == [f"loss.{number}" for number in range(100)]
    assert problem == (
        "left out of the result: loss.100, loss.101, curve (a row has at most 100 values of 1000 characters)"
    )
    assert bounded({"curve": [0] * 300}) == ({"curve": str([0] * 300)}, "")


def test_a_result_does_not_replace_a_parameter_or_a_fixed_column(results):
    """Of the same name, both are there."""
    results.write([({"rate": 1, "job": "x"}, Row("FAILED", {"rate": 2, "state": "odd"}, job="j"))], summary())
    (row,) = results.rows()
    assert (row["rate"], row["result.rate"], row["state"], row["result.state"]) == (1, 2, "FAILED", "odd")
    assert (row["job"], row["parameter.job"]) == ("j", "x")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        *((text, f"'{text}") for text in ("=1+1", "+1", "-cmd|' /C calc'!A0", "@SUM(A1)", "\uff1dA1", " =1")),
        ("\t=1", "'\t'=1"),
        ("\r=1", "'\n'=1"),
        ("x;=cmd|' /C calc'!A0", "x;'=cmd|' /C calc'!A0"),
        ('x; "\uff0b1', "x;' \"\uff0b1"),
        ("x\n-1", "x\n'-1"),
        ("a-b;c=d", "a-b;c=d"),
    ],
)
def test_a_spreadsheet_runs_no_text_as_a_formula(results, text, shown):
    """Nor one that splits cells at ``;``. Names of columns neither; numbers stay numbers."""
    results.write([({"text": text}, Row("SUCCEEDED", {"=x": -1.5}))], summary())
    (row,) = cells(results)
    assert row["text"] == shown
    assert row["'=x"] == "-1.5"
    assert results.rows()[0]["text"] == text


def test_it_exists_when_it_is_complete_and_is_then_replaced_by_a_later_run_only(results):
    """Not by a run that began before it was complete, and has not noticed."""

    def write(state, **about):
        results.write([({"rate": 1}, Row(state))], summary(**about))
        return results.exists(), [row["state"] for row in results.rows()]

    assert not results.exists()
    assert write("RUNNING", complete=False) == (False, ["RUNNING"])
    assert write("SUCCEEDED") == (True, ["SUCCEEDED"])
    assert write("RUNNING", complete=False) == (True, ["SUCCEEDED"])
    started_ms = results.summary().updated_ms + 1
    assert write("RETRY_PENDING", complete=False, started_ms=started_ms) == (True, ["RETRY_PENDING"])
    assert write("SUCCEEDED") == (True, ["SUCCEEDED"])


OTHERS = (None, [5], {"a": "b"}, 1e300)
"""Values that no part of a table has."""


def test_a_broken_file_is_not_an_empty_table(results):
    """The error names the file, and says what to do."""
    results.write([({"rate": 1}, Row("FAILED", seconds=5))], summary())
    table = json.loads(Path(results.path("json")).read_text(encoding="utf-8"))
    changes = [
        *(("summary", key, value) for key in table["summary"] for value in OTHERS),
        *(("summary", key, value) for key in ("started_ms", "updated_ms") for value in (10**18, -(10**18))),
        *((part, None, value) for part in table for value in OTHERS),
        *(("rows", 0, value) for value in (*OTHERS, {}, {**table["rows"][0], "state": 5})),
    ]
    texts = ["", "[]", "[" * 200_000, json.dumps(table).replace("5.0", "1e400").replace(": 5,", ": 1e400,")]
    for part, key, value in changes:
        changed = {**table, part: value} if key is None else copy.deepcopy(table)
        if key is not None:
            changed[part][key] = value
        texts.append(json.dumps(changed))
    for text in texts:
        Path(results.path("json")).write_text(text, encoding="utf-8")
        with pytest.raises(ValueError, match=r"results.json is not a sweep's table; remove the file"):
            results.exists()


def test_a_table_that_cannot_be_written_leaves_the_old_one(results, monkeypatch):
    """A reader finds the old files or the new ones, never a part of one."""
    results.write([({"rate": 1}, Row("RUNNING"))], summary(complete=False))
    for rename in ("os.replace", "os.rename"):  # the latter in older Luigi
        monkeypatch.setattr(rename, lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(OSError, match="disk full"):
        results.write([({"rate": 1}, Row("SUCCEEDED"))], summary())
    assert [row["state"] for row in results.rows()] == ["RUNNING"]
    assert not results.summary().complete


def test_a_table_on_hdfs(hdfs, monkeypatch):
    """A folder with a scheme, or $PAI_DEFAULT_FS_URI, is on HDFS. It is read up to a size."""
    results = SweepResults("$PAI_DEFAULT_FS_URI/study")
    assert not results.exists()
    with pytest.raises(FileNotFoundError, match=r"there is no .*results.json"):
        results.rows()
    results.write([({"rate": 1}, Row("SUCCEEDED", {"text": "ü\ud800"}))], summary())
    assert results.exists()
    assert results.rows()[0]["text"] == "ü\ud800"
    names = ["results.csv", "results.html", "results.json"]
    assert sorted(path.name for path in (hdfs / "study").iterdir()) == names
    monkeypatch.setattr("luigi_pai.sweep.results._LARGEST", 100)
    with pytest.raises(HdfsError, match="more than 100 bytes"):
        results.rows()
