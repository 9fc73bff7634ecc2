"""``luigi-pai sweep``: the table of a sweep, its failures, and the end of its jobs."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from cli_commands import replay, transcripts
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


@pytest.fixture
def best() -> list[Row]:
    """Four points, the third one the best, with many results."""
    more = [({"rate": rate, "same": 1}, Row("SUCCEEDED", {"accuracy": rate})) for rate in (0.95, 0.3)]
    return [
        (parameters, replace(row, result={**dict.fromkeys("abcdef", 1), **row.result}))
        for parameters, row in [*points()[:2], *more]
    ]


@pytest.mark.parametrize("transcript", transcripts("sweep"))
def test_a_transcript(transcript, pai_command, here_modules, best):
    """What is typed and what is printed, as tests/data/cli/sweep.txt has it."""
    write(here_modules / "three", points())
    write(here_modules / "incomplete", points(), complete=False)
    write(here_modules / "good", points()[:2])
    write(here_modules / "best", best, best="max accuracy")
    many = [({"n": n}, Row("SUCCEEDED", {f"r{k}": k for k in range(9)})) for n in range(250)]
    write(here_modules / "many", many)
    (here_modules / "none").mkdir()
    (here_modules / "none" / "results.json").write_text("{}")
    (here_modules / "others.py").write_text("import luigi\n\nclass NoSweep(luigi.Task):\n    pass\n")
    replay(transcript, pai_command, here_modules)


def test_other_programs_get_the_rows_in_their_order(pai_command, tmp_path, best):
    folder = write(tmp_path, best, best="max accuracy")
    document = json.loads(pai_command("sweep", folder, "--json").stdout)
    assert document["summary"]["best"] == "max accuracy"
    assert [row["rate"] for row in document["rows"]] == [0.1, 0.25, 0.95, 0.3]


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
    assert pai_command("sweep", folder, "--stop").stderr == "none of its jobs are waiting or running\n"
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
    assert told == "the sweep's next run will submit 2 failed points again\n"
    assert not Study(tolerance=2).complete()
    Study(tolerance=2).run()
    assert sorted(name for name in pai.posts() if "attempt" in name) == [
        "train-0.1-16__attempt2",
        "train-0.1-32__attempt2",
    ]
    assert pai_command("sweep", "./results", "--retry").stdout == "no point failed\n"
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
