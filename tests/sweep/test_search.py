"""Searches: points that are proposed while others run, told their results, and stopped early."""

from __future__ import annotations

import re

import luigi
import pytest
from pipelines import new_process
from sweep_tasks import Asks, Reporting, Study, Train, end_of, states, study, write_output

from luigi_pai import ClusterUnreachable, PaiSweep, PaiSweepFailed, ServerFault, grid
from luigi_pai.api.rest_api import RestApi


class Descent(PaiSweep):
    """Halves the rate of the last point, as long as that helps."""

    parallel_jobs = 2
    results_dir = "results"
    told: list

    def points(self):
        self.told = []
        rate = 0.8
        for _ in range(4):
            yield Train(rate=rate)
            while not self.told:
                yield None
            row = self.told[-1]
            rate = row["rate"] / 2
            self.told.clear()

    def tell(self, point, row):
        assert point.rate == row["rate"]
        self.told.append(row)


def test_a_search_proposes_points_from_results(pai):
    """One after the other here, as it waits for each; a search is complete when it has ended."""
    pai.plan = end_of(runs_for=0.05)
    Descent().run()
    assert [row["rate"] for row in Descent().output().rows()] == [0.8, 0.4, 0.2, 0.1]
    assert Descent().complete()
    assert Descent().requires() == []


def test_points_are_drawn_when_a_place_is_free(pai):
    """Not before: a later proposal knows more."""
    drawn = []

    class Lazy(Asks):
        parallel_jobs = 2

        def proposed(self):
            for number in range(5):
                drawn.append((number, len(self.told)))
                yield Train(batch=number)

    pai.plan = end_of(runs_for=0.1)
    Lazy().run()
    assert [number for number, _ in drawn] == list(range(5))
    assert all(number - told < 2 for number, told in drawn)


@pytest.mark.usefixtures("pai")
def test_an_invalid_job_is_a_failed_point():
    """With the reason, as in a sweep."""

    class Invalid(Train):
        tasks = []

    search = study("Fails", Asks, proposes=[1, 2, Invalid(rate=0.9)])
    with pytest.raises(PaiSweepFailed, match=r"tasks is \[\]; it must be a list"):
        search.run()
    assert states(search)[2] == "FAILED"


def test_an_outage_while_requirements_are_checked_is_waited_out(pai):
    """A search learns with each point what that requires."""
    faults = [ClusterUnreachable("no reply"), ServerFault("503", status=503)]

    class Data(luigi.Task):
        def complete(self):
            if faults:
                raise faults.pop()
            return True

    class Needs(Train):
        def requires(self):
            return Data() if self.batch == 2 else []

    search = study("Proposes", Asks, proposes=grid(Needs, batch=[1, 2, 3]))
    search.run()
    assert faults == []
    assert states(search) == ["SUCCEEDED"] * 3
    assert pai.submissions == 3


class Missing(luigi.Task):
    """Cannot say whether it is complete."""

    def complete(self):
        raise KeyError("complete")


class Fragile(Train):
    """A point some of whose methods raise an error."""

    raises = luigi.Parameter(default="", significant=False)

    def check(self, what):
        if self.raises == what:
            raise KeyError(what)

    @property
    def name(self):
        self.check("name")
        return super().name

    def job(self):
        self.check("job")
        return super().job()

    def requires(self):
        self.check("requires")
        return Missing() if self.raises == "complete" else []

    def result(self):
        self.check("result")
        return super().result()


@pytest.mark.usefixtures("pai")
@pytest.mark.parametrize("raises", ["name", "job", "requires", "complete", "result"])
def test_what_a_point_raises_is_in_its_row(raises):
    """With the user's own line; the other points run, and tell() gets all of them."""

    class Proposes(Asks):
        tolerance = 1

        def proposed(self):
            for batch in (1, 2, 3):
                yield Fragile(batch=batch, raises=raises if batch == 2 else "")

        def tell(self, point, row):
            self.told.append((point.batch, row["state"]))

    sweep = Proposes()
    sweep.run()
    rows = {row["batch"]: row for row in sweep.output().rows()}
    states = {batch: row["state"] for batch, row in rows.items()}
    assert states == {1: "SUCCEEDED", 2: "SUCCEEDED" if raises == "result" else "FAILED", 3: "SUCCEEDED"}
    assert re.fullmatch(rf"(no result: )?KeyError: '{raises}' \(test_search.py:\d+\)", rows[2]["error"])
    assert dict(sweep.told) == states


def test_the_generator_of_a_killed_search_is_asked_again_in_its_order(pai, caplog):
    """Past points that were yielded twice, that were not valid, and waits for others; it is told the same."""

    class Proposes(Asks):
        tolerance = 2
        heard: list

        def proposed(self):
            self.heard = []
            yield Train(batch=1)
            yield Train(batch=1)
            yield Fragile(batch=9, raises="job")
            while len(self.told) < 3:
                self.heard.append(len(self.told))
                yield None
            yield Train(batch=10 + len(self.told))
            if self.interrupts:
                raise KeyboardInterrupt
            yield Train(batch=2)

    Proposes.interrupts = True
    with pytest.raises(KeyboardInterrupt):
        Proposes().run()
    told = Proposes().told
    new_process()
    Proposes.interrupts = False
    with caplog.at_level("WARNING", "luigi-interface"):
        Proposes().run()
    assert "other points" not in caplog.text
    assert Proposes().told[: len(told)] == told
    assert pai.posts() == ["train-0.1-1", "train-0.1-13", "train-0.1-2"]
    assert [row["batch"] for row in Proposes().output().rows()] == [1, 9, 13, 2]


# ---------------------------------------------------------------- stopping points early


class Pruning(Study):
    """Stops what has an accuracy below 0.5 after its second step."""

    best = "max accuracy"

    def points(self):
        return grid(Reporting, rate=[0.1, 0.6, 0.2])

    def keep(self, point, reports):
        assert isinstance(point, Reporting)
        assert [report["step"] for report in reports] == [1, 2]
        return reports[-1]["accuracy"] >= 0.5


class Drops(Pruning):
    """Stops all that has reports."""

    def keep(self, point, reports):
        return not (point and reports)


@pytest.fixture
def reports(hdfs, monkeypatch):
    """Write what the containers of a job report; it is read at once."""
    monkeypatch.setattr("luigi_pai.sweep.ending._REPORTS_EVERY", 0.05)

    def write(name, *, rate):
        lines = [{"time": step, "attempt": 1, "step": step, "accuracy": 1 - rate} for step in (2, 1)]
        write_output(hdfs, name, "_reports/main-0.jsonl", *lines, '{"time": 3, "atte')

    return write


@pytest.mark.slow
def test_keep_stops_a_point_early(pai, reports):
    """It is stopped, and is no failure; its last reports are its result."""

    def plan(name):
        rate = float(name.split("-")[1])
        reports(name, rate=rate)
        return {"waits_for": 0.1, "runs_for": 60 if rate > 0.5 else 0.5}

    pai.plan = plan
    Pruning().run()
    rows = Pruning().output().rows()
    assert [row["state"] for row in rows] == ["SUCCEEDED", "PRUNED", "SUCCEEDED"]
    assert [row["accuracy"] for row in rows] == [0.9, 0.4, 0.8]
    assert [row["error"] for row in rows] == [None] * 3
    assert pai.jobs["train-0.6-16"].state == "STOPPED"


def test_what_keep_raises_is_logged_once_and_in_the_rows(pai, reports, caplog):
    """With the user's own line; the points continue."""

    class Broken(Pruning):
        def keep(self, *_):
            raise KeyError("loss")

    for point in Broken().points():
        reports(point.name, rate=point.rate)
    pai.plan = end_of(runs_for=0.5)
    Broken().run()
    assert states(Broken()) == ["SUCCEEDED"] * 3
    for row in Broken().output().rows():
        assert re.fullmatch(r"keep\(\) raised KeyError: 'loss' \(test_search.py:\d+\)", row["error"])
    assert caplog.text.count("raised KeyError: 'loss'") == 1
    assert "; the point continues" in caplog.text


def test_keep_is_asked_about_what_was_taken_over(pai, reports):
    """The jobs ran already when the sweep began; their states do not change until they end."""
    for point in Drops().points():
        reports(point.name, rate=point.rate)
        pai.add(point.name, runs_for=60)
    Drops().run()
    assert states(Drops()) == ["PRUNED"] * 3


def test_a_point_whose_end_was_not_seen_is_left_alone_too(pai, reports, monkeypatch):
    """The run ended between the request to stop the job and its end."""
    drops = study("Drops", Drops, points=lambda: grid(Reporting, rate=[0.6]))

    def plan(name):
        reports(name, rate=0.6)
        return {"runs_for": 600}

    pai.plan = plan
    stop = RestApi.stop

    def killed(api, name):
        stop(api, name)
        patched.setattr(RestApi, "status", interrupted)

    def interrupted(*_):
        raise RuntimeError("interrupted")

    with monkeypatch.context() as patched:
        patched.setattr(RestApi, "stop", killed)
        with pytest.raises(RuntimeError, match="interrupted"):
            drops.run()
    new_process()
    drops.run()
    (row,) = drops.output().rows()
    assert (row["state"], row["accuracy"], row["error"]) == ("PRUNED", 0.4, None)
    assert pai.submissions == 1


@pytest.mark.slow
def test_the_next_run_leaves_a_pruned_point_alone(pai, reports):
    """Its job was stopped, and is not submitted again; its row stays."""
    test_keep_stops_a_point_early(pai, reports)
    new_process()

    wider = study(
        "Wider", Pruning, own_name="Pruning", points=lambda: grid(Reporting, rate=[0.1, 0.6, 0.2, 0.3])
    )
    wider.run()
    rows = wider.output().rows()
    assert [row["state"] for row in rows] == ["SUCCEEDED", "PRUNED", "SUCCEEDED", "SUCCEEDED"]
    assert rows[1]["accuracy"] == 0.4
    assert pai.submissions == 4
