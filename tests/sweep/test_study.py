"""docs/study.md and docs/sweeps.md, and examples/study: what they show runs."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest
from pipelines import build
from places import ROOT

from luigi_pai import PaiSweep
from luigi_pai.api.request_limits import Window
from luigi_pai.sweep.limits import pace

EXAMPLE = ROOT / "examples" / "study"


def blocks(page):
    return re.findall(
        r"^```py(?:thon)?\n(.*?)^```", (ROOT / "docs" / page).read_text(), re.DOTALL | re.MULTILINE
    )


@pytest.fixture
def study(monkeypatch, tmp_path):
    """Import a module of the example, whose outputs go to a folder of the test."""
    monkeypatch.syspath_prepend(str(EXAMPLE))
    monkeypatch.chdir(tmp_path)

    def load(name):
        for known in ("fit_study", "fit_search"):
            monkeypatch.delitem(sys.modules, known, raising=False)
        return __import__(name)

    return load


@pytest.fixture
def on_page(monkeypatch, tmp_path):
    """Run what docs/sweeps.md shows; return its names."""
    monkeypatch.chdir(tmp_path)
    first, result, search, own = blocks("sweeps.md")
    names = {"__name__": "page"}
    exec(f"{first}\nclass Reads(PaiTask):\n{result}\n{search}\n{own}", names)
    names["Train"].result = lambda task: {"accuracy": 1 - task.rate} if task.rate != 0.01 else {}
    return names


def test_the_tutorial_shows_the_example():
    """Its study is fit_study.py, in less than 40 lines; its search is in fit_search.py."""
    study, search = blocks("study.md")
    example = (EXAMPLE / "fit_study.py").read_text()
    assert study.strip() == example.partition('"""\n\n')[2].strip()
    lines = [line for line in study.splitlines() if line.strip()]
    assert len(lines) < 40
    shown = [line for line in search.splitlines() if line.strip()]
    text = (EXAMPLE / "fit_search.py").read_text()
    assert [line for line in shown if line not in text.splitlines()] == []


@pytest.mark.slow
@pytest.mark.usefixtures("cluster")
def test_the_study_finds_the_best_of_its_points(study):
    """With the real program, on the local OpenPAI."""
    fit = study("fit_study")

    class Small(fit.Study):
        rates = [0.01, 0.1]
        batches = [4]

    class Best(fit.Best):
        def requires(self):
            return Small()

    assert len(fit.Study().points()) == 30
    assert build(Best())
    best = json.loads(Path("best.json").read_text())
    assert (best["rate"], best["batch"], best["step"], best["state"]) == (0.1, 4, 200, "SUCCEEDED")
    assert best["loss"] < 0.02
    assert [row["loss"] is not None for row in Small().output().rows()] == [True, True]


def test_the_search_asks_and_tells(study, pai):
    """Each point once, as its study proposes them."""
    search = study("fit_search")
    without_files = {"uploads": {}, "runtime": False, "result": lambda task: {"loss": abs(task.rate - 0.1)}}
    search.Fit = type("Fit", (search.Fit,), without_files)
    task = type("Search", (search.Search,), {"trials": 12})()
    task.run()
    rows = task.output().rows()
    assert len(rows) == len(set(pai.posts()))
    assert len(task.study.trials) == 12
    assert task.complete()


def test_the_page_runs(on_page, pai):
    """docs/sweeps.md: the sweep, and the task that reads its table."""
    assert build(on_page["Best"]())
    assert re.fullmatch(r"train_0.001_(16|32): 0.999\n", Path("best.txt").read_text())
    assert len(pai.jobs) == 6


def test_the_searches_of_the_page_run(on_page, pai):
    """As printed: that of Optuna, and one of the user's own, which halves the rate as long as it helps."""
    search = type("Search", (on_page["Search"],), {"trials": 6})()
    search.run()
    assert len(search.output().rows()) == pai.submissions == 6
    own = on_page["Halving"]()
    own.run()
    rates = [row["rate"] for row in own.output().rows()]
    assert rates == [0.1 / 2**number for number in range(len(rates))]
    assert len(rates) > 10


def test_the_page_has_the_limits_as_they_are():
    table = dict(re.findall(r"^\| `(\w+)` \| (\S+) \|", (ROOT / "docs/sweeps.md").read_text(), re.MULTILINE))
    sweep = type("Plain", (PaiSweep,), {"points": list})()
    assert {name: float(value) for name, value in table.items()} == {
        name: float(getattr(sweep, name))
        for name in ("parallel_jobs", "tolerance", "max_attempts", "points_per_job", "max_points")
    }


def test_the_message_of_the_log_is_that_of_the_page():
    """The plan on a cluster that takes 60 submissions an hour."""
    assert pace(Window(0, 60, 60, 3600), 1000, 1) in (ROOT / "docs" / "sweeps.md").read_text()
