"""``luigi-pai sweep``: the table of a sweep, its failures, and the end of its jobs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from sweep_tasks import Study, end_of

from luigi_pai import PaiJob, TaskRole
from luigi_pai.sweep.results import SweepResults
from luigi_pai.sweep.rows import Row
from luigi_pai.sweep.sheet import Summary

if TYPE_CHECKING:
    from pathlib import Path

MODULE = """
import luigi
from luigi_pai import PaiSweep, PaiTask

class TableStudy(PaiSweep):
    top = luigi.IntParameter()
    results_dir = "FOLDER"
    def points(self):
        return []
"""


def write(folder: Path, rows: list[Row], *, complete: bool = True, best: str = "") -> str:
    """Write a table, and return its folder."""
    about = {"started_ms": 1_763_815_000_000, "updated_ms": 1_763_815_061_000, "digest": ""}
    SweepResults(str(folder)).write(rows, Summary("study", len(rows), complete, best=best, **about))
    return str(folder)


def points() -> list[Row]:
    good = [
        (
            {"rate": rate, "same": 1},
            Row("SUCCEEDED", {"accuracy": 1 - rate, "loss": {"test": 0.5}}, 3700.0, "j"),
        )
        for rate in (0.1, 0.25)
    ]
    return [*good, ({"rate": 0.5, "same": 1}, Row("FAILED", {}, 60.0, "train_3", "", "exit code 9:\nno GPU"))]


def test_the_table_and_its_counts(pai_command, tmp_path):
    """The parameters that vary, the state and the results."""
    lines = pai_command("sweep", write(tmp_path, points())).stdout.splitlines()
    assert lines[0] == "study: 3 points: 2 SUCCEEDED, 1 FAILED; complete"
    assert lines[1].endswith(f"page: {tmp_path}/results.html")
    assert lines[2:] == [
        "RATE  STATE      ACCURACY  LOSS.TEST  TOOK",
        "0.1   SUCCEEDED  0.9       0.5        1 h 1 min",
        "0.25  SUCCEEDED  0.75      0.5        1 h 1 min",
        "0.5   FAILED                          1 min",
    ]
    assert max(map(len, lines[2:])) <= 80


def test_the_best_point_is_first_and_marked(pai_command, tmp_path):
    """Its column is shown although the point has many results; other programs get the rows in their order."""
    rows = points()
    rows[2:] = [({"rate": rate, "same": 1}, Row("SUCCEEDED", {"accuracy": rate})) for rate in (0.95, 0.3)]
    rows = [
        (parameters, replace(row, result={**dict.fromkeys("abcdef", 1), **row.result}))
        for parameters, row in rows
    ]
    folder = write(tmp_path, rows, best="max accuracy")
    lines = pai_command("sweep", folder).stdout.splitlines()
    assert lines[2:] == [
        "best accuracy 0.95 (rate=0.95, same=1), marked *",
        "   RATE  STATE      ACCURACY  A  B  C  D  TOOK",
        "*  0.95  SUCCEEDED  0.95      1  1  1  1",
        "   0.1   SUCCEEDED  0.9       1  1  1  1  1 h 1 min",
        "   0.25  SUCCEEDED  0.75      1  1  1  1  1 h 1 min",
        "   0.3   SUCCEEDED  0.3       1  1  1  1",
        "more results: e, f, loss.test",
    ]
    document = json.loads(pai_command("sweep", folder, "--json").stdout)
    assert document["summary"]["best"] == "max accuracy"
    assert [row["rate"] for row in document["rows"]] == [0.1, 0.25, 0.95, 0.3]


def test_failed_points_have_their_jobs_and_reasons(pai_command, tmp_path):
    """Exit code 1: the table is not complete."""
    lines = pai_command(
        "sweep", write(tmp_path, points(), complete=False), "--failed", expect=1
    ).stdout.splitlines()
    assert lines[2:] == [
        "RATE  SAME  STATE   JOB      ERROR",
        "0.5   1     FAILED  train_3  exit code 9: no GPU",
    ]
    none = pai_command("sweep", write(tmp_path, points()[:2]), "--failed")
    assert none.stderr == "no point has failed\n"


def test_for_other_programs(pai_command, tmp_path):
    """All columns, as JSON or CSV, of all points or of those that failed."""
    folder = write(tmp_path, points())
    document = json.loads(pai_command("sweep", folder, "--json").stdout)
    assert document["summary"]["counts"] == {"SUCCEEDED": 2, "FAILED": 1}
    assert document["rows"] == SweepResults(folder).rows()
    text = pai_command("sweep", folder, "--csv", "--failed").stdout
    (row,) = csv.DictReader(io.StringIO(text))
    assert list(row) == document["columns"]
    assert (row["rate"], row["job"], row["error"]) == ("0.5", "train_3", "exit code 9:\nno GPU")


def test_a_large_table_is_cut(pai_command, tmp_path):
    many = [({"n": n}, Row("SUCCEEDED", {f"r{k}": k for k in range(9)})) for n in range(250)]
    lines = pai_command("sweep", write(tmp_path, many)).stdout.splitlines()
    assert lines[-2] == "and 150 more points: see the page, or --csv"
    assert lines[-1] == "more results: r5, r6, r7, r8"


POINTS = """
import luigi
from luigi_pai import PaiSweep, PaiTask, TaskRole, grid

class Point(PaiTask):
    number = luigi.IntParameter()
    image, tasks = "x", [TaskRole("main", "x")]

    @property
    def name(self):
        return f"t-{self.number}"

class StoppedStudy(PaiSweep):
    results_dir = "."

    def points(self):
        return grid(Point, number=[3, 4])
"""


def test_by_task_or_name(pai_command, tmp_path, monkeypatch):
    """The task says where its table is; a name means the default folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "studies.py").write_text(MODULE.replace("FOLDER", write(tmp_path / "own", points())))
    assert "3 points" in pai_command("sweep", "studies", "TableStudy", "--top", "3").stdout
    write(tmp_path / "sweeps" / "Study", points()[:1])
    assert "1 point:" in pai_command("sweep", "Study").stdout


def test_what_is_no_sweep(pai_command, tmp_path, monkeypatch):
    """Usage is 2; a table that is not there, or is none, is 1."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "others.py").write_text("import luigi\n\nclass NoSweep(luigi.Task):\n    pass\n")
    assert "NoSweep of others is not a PaiSweep" in pai_command("sweep", "others", "NoSweep", expect=2).stderr
    assert (
        "--csv, --json, --stop, --retry and --open exclude"
        in pai_command("sweep", "x", "--csv", "--json", expect=2).stderr
    )
    missing = pai_command("sweep", "Missing", expect=1).stderr
    assert "there is no sweeps/Missing/results.json: the sweep has not run" in missing
    (tmp_path / "results.json").write_text("{}")
    assert "is not the table of a sweep" in pai_command("sweep", f"{tmp_path}/", expect=1).stderr


@pytest.mark.slow
@pytest.mark.parametrize("dialect", ["v1"], indirect=True)
def test_its_jobs_are_stopped(pai_command, tmp_path, here, name):
    """Those that wait or run, and newer submissions of its points; nothing else."""
    command = [TaskRole("main", "sleep 600", memoryMB=100)]
    for job in (f"{name}-1", f"{name}-2__attempt2", f"{name}-other"):
        here.submit(PaiJob(job, "x", command))
    rows = [
        ({"n": 1}, Row("RUNNING", job=f"{name}-1")),
        ({"n": 2}, Row("FAILED", job=f"{name}-2")),
        ({"n": 3}, Row("SUCCEEDED", job=f"{name}-3")),
    ]
    folder = write(tmp_path, rows, complete=False)
    assert "2 jobs match; use --yes" in pai_command("sweep", folder, "--stop", expect=2).stderr
    lines = pai_command("sweep", folder, "--stop", "--yes").stdout.splitlines()
    assert sorted(lines) == [f"{name}-1: STOPPED", f"{name}-2__attempt2: STOPPED"]
    assert pai_command("sweep", folder, "--stop").stderr == "no job of the sweep is waiting or running\n"
    assert not here.job(f"{name}-other").status().finished
    here.stop(f"{name}-other")


@pytest.mark.slow
def test_a_table_names_no_other_job_to_stop(pai, pai_command, tmp_path, monkeypatch):
    """Others may have written it: the points of a sweep that is no search are known without it."""
    monkeypatch.chdir(tmp_path)
    for job in ("t-3", "t-4__attempt2", "other"):
        pai.add(job, runs_for=600)
    write(
        tmp_path, [({"n": 1}, Row("RUNNING", job=job)) for job in ("other", "t-3", "unknown")], complete=False
    )
    (tmp_path / "stopped_studies.py").write_text(POINTS)
    lines = pai_command("sweep", "stopped_studies", "StoppedStudy", "--stop", "--yes").stdout.splitlines()
    assert sorted(lines) == ["t-3: STOPPED", "t-4__attempt2: STOPPED"]
    assert pai.jobs["other"].state == "RUNNING"


def test_failures_that_were_tolerated_run_again(pai, pai_command, tmp_path, monkeypatch):
    """After ``luigi-pai sweep NAME --retry``."""
    monkeypatch.chdir(tmp_path)
    pai.plan = end_of(failing=("0.1",))
    Study(tolerance=2).run()
    pai.plan = {}
    told = pai_command("sweep", "./results", "--retry").stdout
    assert told == "the next run of the sweep submits 2 failed points again\n"
    assert not Study(tolerance=2).complete()
    Study(tolerance=2).run()
    assert sorted(name for name in pai.posts() if "attempt" in name) == [
        "train-0.1-16__attempt2",
        "train-0.1-32__attempt2",
    ]
    assert pai_command("sweep", "./results", "--retry").stdout == "no point has failed\n"
    assert Study().complete()


def test_a_page_on_hdfs_has_no_address_of_a_browser(pai_command, hdfs):
    """It says how to open it."""
    lines = pai_command("sweep", write("$PAI_DEFAULT_FS_URI/study", points())).stdout.splitlines()
    assert (hdfs / "study" / "results.html").is_file()
    assert lines[1].endswith("; --open shows its page")


def test_the_page_is_opened(pai_command, tmp_path, monkeypatch):
    """In a browser; its path is printed as well."""
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    told = pai_command("sweep", write(tmp_path, points()), "--open").stdout
    assert told == f"{tmp_path}/results.html\n"
    assert opened == [f"file://{tmp_path}/results.html"]
