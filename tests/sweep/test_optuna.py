"""Searches whose points Optuna proposes; killed at any moment, they go on as the same study."""

from __future__ import annotations

import importlib
import logging
import random
import sys

import optuna
import pytest
import sweep_search
from pipelines import new_process
from sweep_search import Fit, Search, Unseeded
from sweep_tasks import end_of, forge, killed, states, study, write_output

from luigi_pai import MissingPackage, PaiSweepFailed, SpecError
from luigi_pai.jobspec.names import base_name
from luigi_pai.sweep.engine import Engine
from luigi_pai.sweep.journal.journal import Journal
from luigi_pai.sweep.points import _best_of

RUN = {"event": "run", "run": [1, "a"], "sweep": "Search", "file": sweep_search.__file__, "at": 1}


class Several(Search):
    """Two objectives."""

    direction = ["min loss", "max size"]
    trials = 8

    def sampler(self):
        return optuna.samplers.NSGAIISampler(population_size=4, seed=1)


@pytest.mark.parametrize("level", [logging.NOTSET, logging.INFO, logging.ERROR])
@pytest.mark.usefixtures("pai")
def test_optuna_does_not_log_the_study(monkeypatch, caplog, level):
    """The user's level of Optuna's log stays, and what it logs of the user's own studies."""
    optuna_logger = logging.getLogger("optuna")
    monkeypatch.setattr(optuna_logger, "level", level)
    monkeypatch.setattr(optuna_logger, "handlers", [caplog.handler])
    search = study("Search", Search, trials=2)
    assert len([point for point, _ in zip(search.points(), range(2), strict=False)]) == 2
    assert optuna_logger.level == level
    assert "A new study created in memory" not in caplog.text
    optuna.create_study()
    assert ("A new study created in memory" in caplog.text) == (level in (logging.DEBUG, logging.INFO))


@pytest.mark.usefixtures("pai")
def test_a_single_direction_says_what_is_best(caplog):
    """As best does; with several directions, no point is the best."""
    caplog.set_level(logging.INFO, "luigi-interface")
    study("Search", Search, best=None, direction="min loss", trials=3).run()
    assert Search().results.summary().best == "min loss"
    assert "; best loss 0." in caplog.text
    for wrong in (["min loss", "max size"], "loss"):
        assert _best_of(study("Search", Search, best=None, direction=wrong)) is None


@pytest.mark.parametrize("kind", [Search, Unseeded, Several])
def test_a_search_that_is_killed_goes_on(pai, monkeypatch, kind):
    """Killed three times: as many jobs as trials, a row for each, and one study."""
    pai.plan = {"runs_for": 0.3}
    chance = random.Random(1)
    for number in sorted(chance.sample(range(2, kind.trials - 1), 3)):
        with killed(monkeypatch, pai, number):
            kind().run()
    sweep = kind()
    sweep.run()
    names = [base_name(name) for name in pai.posts()]
    assert len(names) == len(set(names)) == kind.trials
    rows = sweep.output().rows()
    assert {row["state"] for row in rows} == {"SUCCEEDED"}
    assert sorted(row["job"] for row in rows) == sorted(names)
    assert sweep.complete()
    assert len(sweep.study.trials) == kind.trials
    assert {trial.state for trial in sweep.study.trials} == {optuna.trial.TrialState.COMPLETE}
    assert sorted(trial.params["x"] for trial in sweep.study.trials) == sorted(row["x"] for row in rows)


@pytest.mark.parametrize("kind", [Search, Unseeded])
def test_a_search_that_is_killed_before_a_submission_has_its_budget(pai, monkeypatch, kind):
    """Between the line of a point and its request: ten trials are ten jobs, whatever the sampler."""
    for count in (3, 7):
        with monkeypatch.context() as patched:
            ask, left = Journal.ask, [count]

            def killed_after(journal, event, ask=ask, left=left):
                ask(journal, event)
                left[0] -= 1
                if not left[0]:
                    raise KeyboardInterrupt

            patched.setattr(Journal, "ask", killed_after)
            patched.setattr("luigi_pai.sweep.sweep_run.SweepRun._save", lambda *_, **__: None)
            with pytest.raises(KeyboardInterrupt):
                kind().run()
        new_process()
    sweep = kind()
    sweep.run()
    assert pai.submissions == len(set(pai.posts())) == len(sweep.output().rows()) == 10
    assert sweep.complete()


NOTES = (
    *(
        {"trial": 3, "params": {"x": value}, "values": {}}
        for value in (7, -0.1, "many", [0.5], None, 10**400)
    ),
    {"trial": 3, "params": {"x": "NaN"}, "values": {}},
)


@pytest.mark.parametrize("note", NOTES)
def test_a_note_out_of_range_is_not_used(pai, caplog, note):
    """The trial has the value that it has without the note, and one line says so."""
    forge(RUN, {"event": "told", "point": "other", "note": [note]})
    sweep = Search()
    sweep.run()
    expected = optuna.create_study(sampler=Search().sampler())
    first = [expected.ask().suggest_float("x", 0, 1) for _ in range(4)]
    assert [trial.params["x"] for trial in sweep.study.trials][:4] == first
    assert pai.submissions == 10
    assert (
        caplog.text.count("recorded parameters of trials are not used if point() does not suggest them") == 1
    )
    assert "the first is 'x' of trial 3: " in caplog.text


@pytest.mark.parametrize(
    "note",
    [
        *(5, "x", [5], [[]], [{}], [{"trial": 1}], {"trial": 1}),
        [{"trial": "1", "params": {"x": 0.5}, "values": {}}],
        [{"trial": 10**30, "params": {"x": 0.5}, "values": {}}],
        [{"trial": 1, "params": [], "values": {}}],
        [{"trial": 1, "params": {"y": 0.5}, "values": {"a": 1, "-1": 1, "9" * 5000: 1, "1": "b", "2": []}}],
        [{"trial": 1, "params": {}, "values": {"4": 10**400}}],
    ],
)
def test_a_note_of_another_form_is_none(pai, note):
    """A search runs as without it."""
    forge(RUN, {"event": "told", "point": "a", "note": note})
    sweep = study("Short", Search, trials=3)
    sweep.run()
    assert pai.submissions == 3
    assert [trial.intermediate_values for trial in sweep.study.trials] == [{}] * 3


@pytest.mark.parametrize("on_hdfs", [False, True])
@pytest.mark.parametrize("kind", [Search, Unseeded])
def test_a_second_process_goes_on_with_a_search(pai, request, monkeypatch, kind, on_hdfs):
    """The first one says so, and ends. Nothing is lost, and no point runs twice."""
    if on_hdfs:
        request.getfixturevalue("hdfs")
    pai.plan = {"runs_for": 0.3}
    folder = {"results_dir": "$PAI_DEFAULT_FS_URI/results"} if on_hdfs else {}
    first, second = (type(kind.__name__, (kind,), folder)() for _ in range(2))
    step = Engine.step

    def meanwhile(engine):
        step(engine)
        if pai.submissions >= 5:
            monkeypatch.setattr(Engine, "step", step)
            new_process()
            second.run()

    monkeypatch.setattr(Engine, "step", meanwhile)
    with pytest.raises(PaiSweepFailed, match="another process has started this search, and continues"):
        first.run()
    names = [base_name(name) for name in pai.posts()]
    assert len(names) == len(set(names)) == kind.trials
    assert states(second) == ["SUCCEEDED"] * kind.trials
    assert second.complete()
    assert len(second.study.trials) == kind.trials


def test_equal_points_of_a_search_that_is_killed(pai, monkeypatch):
    """They run once. All trials have what they had, those too that had a point of before."""

    class Rounded(Unseeded):
        name = "Rounded"
        parallel_jobs = 2

        def point(self, trial):
            return Fit(x=trial.suggest_int("x", 0, 5) / 5)

    pai.plan = {"runs_for": 0.3}
    with killed(monkeypatch, pai, 3):
        Rounded().run()
    before = [trial.params for trial in Rounded().study.trials]
    sweep = Rounded()
    sweep.run()
    assert [trial.params for trial in sweep.study.trials][: len(before)] == before
    assert len(sweep.study.trials) == 10
    assert {trial.state for trial in sweep.study.trials} == {optuna.trial.TrialState.COMPLETE}
    names = pai.posts()
    assert len(names) == len(set(names)) == len({trial.params["x"] for trial in sweep.study.trials})


def test_a_pruner_ends_poor_points(pai, hdfs, monkeypatch):
    """From the reports of their containers; after a kill it knows those of before."""
    monkeypatch.setattr("luigi_pai.sweep.ending._REPORTS_EVERY", 0.02)

    class Reporting(Fit):
        output_dir = property(lambda self: f"/out/{self.name}")

    class Pruning(Search):
        trials = 5
        parallel_jobs = 1
        values = [0.5, 0.4, 0.1, 0.9, 0.8]

        def point(self, trial):
            trial.suggest_float("x", 0, 1)
            return Reporting(x=self.values[trial.number])

        def pruner(self):
            return optuna.pruners.MedianPruner(n_startup_trials=2)

    def plan(name):
        lines = [{"time": step, "attempt": 1, "step": step, "loss": float(name[4:])} for step in (1, 2)]
        write_output(hdfs, name, "_reports/main-0.jsonl", *lines)
        return {"runs_for": 600 if name > "fit-0.8" else 0.3}

    pai.plan = plan
    with killed(monkeypatch, pai, 4):
        Pruning().run()
    sweep = Pruning()
    sweep.run()
    assert states(sweep) == ["SUCCEEDED"] * 3 + ["PRUNED"] * 2
    trials = sweep.study.trials
    assert [trial.state.name for trial in trials] == ["COMPLETE"] * 3 + ["PRUNED"] * 2
    assert [trial.intermediate_values for trial in trials] == [{1: x, 2: x} for x in Pruning.values]


def test_failed_points_are_failed_trials(pai):
    """One that has failed, and one without its column."""

    class Empty(Fit):
        def result(self):
            return {} if self.x > 0.5 else super().result()

    pai.plan = end_of(failing=["fit-0.1"])
    point = lambda _, trial: Empty(x=trial.suggest_float("x", 0, 1))  # noqa: E731  a method
    sweep = study("Failing", Search, tolerance=10, point=point)
    sweep.run()
    expected = {
        row["job"]: "FAIL" if row["state"] == "FAILED" or row["loss"] is None else "COMPLETE"
        for row in sweep.output().rows()
    }
    assert set(expected.values()) == {"FAIL", "COMPLETE"}
    trials = {f"fit-{trial.params['x']:.9f}": trial.state.name for trial in sweep.study.trials}
    assert trials == {base_name(name): state for name, state in expected.items()}


def test_more_trials_than_before(pai):
    """A complete search goes on when it is given more trials."""
    few, more = (study("Search", Search, trials=count) for count in (5, 8))
    few.run()
    assert few.complete()
    assert not more.complete()
    more.run()
    assert pai.submissions == 8
    assert len(more.output().rows()) == 8


RANDOM, MEDIAN = optuna.samplers.RandomSampler(), optuna.pruners.MedianPruner()


@pytest.mark.parametrize(
    ("kind", "about", "message"),
    [
        (Search, {"direction": "accuracy"}, "direction.* is not max COLUMN or min COLUMN, such as"),
        (Several, {"pruner": lambda _: MEDIAN}, "pruner: Optuna only prunes searches with one objective"),
        (Search, {"sampler": RANDOM}, r"sampler: is a method: write def sampler\(self\): return Random"),
        (Search, {"pruner": RANDOM}, r"pruner: is a method: write def pruner\(self\): return Random"),
    ],
)
def test_a_wrong_attribute_is_an_error_before_anything_is_sent(pai, kind, about, message):
    """It says how to write it."""
    with pytest.raises(SpecError, match=message):
        type("Odd", (kind,), about)().run()
    assert pai.submissions == 0


def raises_third(search, trial):
    if trial.number == 2:
        raise KeyError("rate")
    return Search.point(search, trial)


@pytest.mark.parametrize(
    ("point", "points", "error"),
    [
        (raises_third, 2, r"points\(\) raised KeyError: 'rate' \(test_optuna.py:\d+\)"),
        (lambda *_: None, 0, r"points\(\) raised TypeError: point\(\) returned None; return a task"),
    ],
)
def test_point_fails(pai, point, points, error):
    """What runs is watched to its end; the error has the user's own line, or what it returned."""
    broken = study("Broken", Search, tolerance=3, point=point)
    with pytest.raises(PaiSweepFailed, match=error):
        broken.run()
    assert pai.submissions == points
    assert states(broken) == ["SUCCEEDED"] * points


def test_a_point_without_its_trial(pai, caplog):
    """A warning says that all trials are one point."""
    study("Deaf", Search, point=lambda *_: Fit(x=0.5)).run()
    problem = "point() suggests no value with its trial, so all trials are the same point: call "
    assert caplog.text.count(problem) == 1
    assert pai.submissions == 1


def test_without_optuna_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "luigi_pai.optuna")
    with pytest.raises(MissingPackage, match=r"^OptunaSweep needs Optuna: pip install optuna$"):
        importlib.import_module("luigi_pai.optuna")
