"""Sweeps as users run them: results, failures, what is done already, limits and messages."""

from __future__ import annotations

import itertools
import json
import math
import re
import threading
from pathlib import Path

import luigi
import luigi.rpc
import luigi.scheduler
import pytest
from hdfs_outage import away_for_now
from pipelines import build, new_process
from sweep_tasks import Study, Train, end_of, run_with_messages, states, study

from luigi_pai import (
    AuthenticationError,
    ClusterUnreachable,
    OpenPai,
    PaiEvent,
    PaiSweep,
    PaiSweepFailed,
    SpecError,
    TaskRole,
    grid,
    zipped,
)
from luigi_pai.sweep.ending import Ending, Recorder
from luigi_pai.sweep.journal.journal import Journal
from luigi_pai.sweep.results import SweepResults
from luigi_pai.sweep.table import Table
from luigi_pai.work.claims import Claims
from luigi_pai.work.flag import CompletionFlag

# ---------------------------------------------------------------- results


def test_a_downstream_task_reads_a_row_for_each_point(pai):
    """Parameters, state, result, seconds, job and page; the sweep is complete, and each of its points."""

    class Best(luigi.Task):
        def requires(self):
            return Study()

        def output(self):
            return luigi.LocalTarget("best.json")

        def run(self):
            best = max(self.input().rows(), key=lambda row: row["accuracy"])
            with self.output().open("w") as file:
                json.dump(best, file)

    pai.plan = {"runs_for": 1}  # else it may never be seen running
    assert build(Best())
    assert states(Study()) == ["SUCCEEDED"] * 6
    best = json.loads(Path("best.json").read_text())
    assert (best["rate"], best["batch"], best["accuracy"], best["job"]) == (0.1, 16, 0.9, "train-0.1-16")
    assert best["seconds"] is not None
    assert best["page"].startswith("http://")
    assert Study().complete()
    assert all(point.complete() for point in Study().points())
    assert sorted(pai.posts()) == sorted(point.name for point in Study().points())


@pytest.mark.slow
def test_it_keeps_the_number_of_jobs_at_once(pai):
    most = 0
    running = pai.plan = end_of(runs_for=0.2)

    def plan(name):
        nonlocal most
        most = max(most, 1 + sum(job.state == "RUNNING" for job in pai.jobs.values()))
        return running(name)

    pai.plan = plan
    Study().run()
    assert most == Study.parallel_jobs


def test_what_is_done_is_not_done_again(pai):
    """Alone or in a sweep it is the same work; a widened sweep is not complete, and submits what is new."""
    Train(rate=0.2, batch=32).run()
    Study().run()
    assert pai.submissions == 6

    class Widened(Study):
        name = "Study"
        rates = (0.1, 0.2, 0.3, 0.4)

    new_process()
    assert not Widened().complete()
    Widened().run()
    assert pai.submissions == 8
    assert states(Widened()) == ["SUCCEEDED"] * 8
    assert Widened().complete()
    assert not Study().complete()  # the table has other points now


def test_what_runs_is_taken_over(pai):
    """By the name of its job, whoever submitted it."""
    pai.add("train-0.1-16", runs_for=0.3)
    Study().run()
    assert pai.submissions == 5
    assert states(Study()) == ["SUCCEEDED"] * 6


def test_what_was_taken_over_and_fails_is_submitted_again_at_once(pai):
    """Its end is known from then on, also to the next lookup, and has its event."""

    class Watched(Train):
        pass

    retried = study("Retried", max_attempts=2, points=lambda: [Watched()])
    failed = []
    Watched.event_handler(PaiEvent.FAILED)(lambda _task, status, _error: failed.append(status.name))
    pai.add("train-0.1-16", runs_for=0.3, ends_as="FAILED", exit_code=3)
    retried.run()
    assert failed == ["train-0.1-16"]
    assert pai.posts()[1:] == ["train-0.1-16__attempt2"]


@pytest.mark.usefixtures("pai")
def test_points_may_differ_in_class_and_have_requirements():
    """Requirements of points are run before; the table says the class where there are several."""

    class Data(luigi.Task):
        def output(self):
            return luigi.LocalTarget("data")

        def run(self):
            with self.output().open("w"):
                pass

    class Fit(Train):
        def requires(self):
            return Data()

        @property
        def name(self):
            return f"fit-{self.rate}"

    both = study("Both", points=lambda: [Train(), *zipped(Fit, rate=[0.5, 0.6])])
    assert both.requires() == [Data()]
    assert build(both)
    assert [row.get("task") for row in both.output().rows()] == [None, "Fit", "Fit"]


def test_own_requirements_are_checked_against_those_of_the_points(pai):
    """Else a job would run without what it needs."""

    class Missing(luigi.Task):
        def complete(self):
            return False

    class Fit(Train):
        def requires(self):
            return Missing()

    class Own(Study):
        def points(self):
            return [Fit()]

        def requires(self):
            return []

    with pytest.raises(SpecError, match=r"rate=0.1, batch=16: requires Missing\(\), which is not complete"):
        Own().run()
    assert pai.posts() == []


@pytest.mark.usefixtures("pai")
def test_the_results_of_a_point_may_fail(tmp_path):
    """Its row says why, whatever the user's code or file is; the sweep goes on, and its table stays small."""

    class Reads(Train):
        def output(self):
            return luigi.LocalTarget(tmp_path / f"{self.batch}")

        def result(self):
            if self.batch == 1:
                raise KeyError("loss")
            if self.batch == 2:
                return 7
            if self.batch == 3:
                return {"loss": 0.5, "curve": list(range(1000)), **{f"v{n}": n for n in range(200)}}
            return super(Train, self).result()

    files = study("Files", points=lambda: grid(Reads, batch=range(1, 9)))
    for batch, content in {5: '{"loss": 0.25}', 6: "loss: 1", 7: "[1]", 8: " " * 1_000_001}.items():
        (tmp_path / str(batch)).mkdir()
        (tmp_path / str(batch) / "metrics.json").write_text(content)
    files.run()
    table = files.output().rows()
    assert [row["state"] for row in table] == ["SUCCEEDED"] * 8
    assert [row["loss"] for row in table] == [None, None, 0.5, None, 0.25, None, None, None]
    errors = [row["error"] for row in table]
    assert errors[0].startswith("no result: KeyError: 'loss' (test_sweep.py:")
    given = "result() of Reads returned int, not a dict such as {'accuracy': 0.97}"
    assert errors[1] == f"no result: {given}"
    assert errors[2].startswith(
        "left out of the result: curve, v99, v100, v101, v102, ... (a row has at most"
    )
    assert errors[3] is None
    assert errors[5].endswith("metrics.json is not JSON: it begins with b'loss: 1'")
    assert errors[6].endswith('metrics.json is not a JSON object such as {"accuracy": 0.97}')
    assert errors[7].endswith("metrics.json has more than 1,000,000 bytes; write fewer values into it")


@pytest.fixture
def written(monkeypatch):
    """Each table that a sweep writes: whether it is complete, and the states of its rows."""
    monkeypatch.setattr("luigi_pai.sweep.table._EVERY", 0.01)
    found = []
    write = SweepResults.write

    def noted(self, table, summary):
        table = list(table)
        found.append((summary.complete, [row.state for _, row in table]))
        write(self, table, summary)

    monkeypatch.setattr(SweepResults, "write", noted)
    return found


@pytest.mark.slow
def test_rows_are_written_while_it_runs(pai, written):
    """As points end, and never more than needed; the table is not complete then."""
    pai.plan = end_of(runs_for=0.2)
    Study().run()
    assert written[-1] == (True, ["SUCCEEDED"] * 6)
    assert all(not complete for complete, _ in written[:-1])
    assert any("PENDING" in of for _, of in written[:-1])
    assert any("SUCCEEDED" in of for _, of in written[:-1])
    assert {state for _, of in written for state in of} <= {"PENDING", "WAITING", "RUNNING", "SUCCEEDED"}


@pytest.mark.slow
def test_a_point_with_another_attempt_is_pending_in_the_table(pai, written):
    """While other points run, its row does not show its failed job as a running one."""
    pai.plan = end_of(failing=["0.1-16"], runs_for=0.2)
    with pytest.raises(PaiSweepFailed, match="1 of 6 points failed"):
        study("Repeats", parallel_jobs=1, max_attempts=2).run()
    states_of_first = [of[0] for _, of in written]
    assert "RETRY_PENDING" in states_of_first
    assert "RUNNING" in states_of_first[states_of_first.index("RETRY_PENDING") :]
    assert all(of.count("RUNNING") <= 1 for _, of in written)
    assert states_of_first[-1] == "FAILED"


# ---------------------------------------------------------------- failures


def test_a_failed_point_does_not_stop_the_others(pai):
    """Within the tolerance, as a share or a number; the table has its reason."""
    pai.plan = end_of(failing=["-0.2-16"])

    tolerant = study("Tolerant", tolerance=0.2)
    tolerant.run()
    assert states(tolerant) == ["SUCCEEDED"] * 2 + ["FAILED"] + ["SUCCEEDED"] * 3
    assert tolerant.output().rows()[2]["error"].startswith("exit code 3")
    assert tolerant.complete()


def test_ten_failures_are_shown(pai, caplog):
    """In the log and in the error; all are in the table."""
    pai.plan = end_of(failing=["train"])
    sweep = study("Failing", batches=range(5), tolerance=14, parallel_jobs=15)
    with caplog.at_level("WARNING", "luigi-interface"), pytest.raises(PaiSweepFailed) as caught:
        sweep.run()
    shown = [record.getMessage() for record in caplog.records]
    assert sum("exit code 3" in text for text in shown) == 10
    assert shown.count("Failing: further failures are in its table only") == 1
    assert str(caught.value).count("exit code 3") == 10
    assert "\n  and 5 more\n" in str(caught.value)


@pytest.mark.parametrize(("tolerance", "fails"), [(0, True), (0.15, True), (0.17, False), (1, False)])
def test_the_tolerance_is_a_share_or_a_number(pai, tolerance, fails):
    """0.15 of six points is none, 0.17 is one."""
    pai.plan = end_of(failing=["-0.3-32"])
    sweep = study("Tolerates", tolerance=tolerance)
    if fails:
        with pytest.raises(PaiSweepFailed, match="1 of 6 points failed"):
            sweep.run()
    else:
        sweep.run()
    assert sweep.complete() is not fails


def test_a_tolerance_of_one_is_one_point(pai):
    """Also as 1.0: not all of them."""
    pai.plan = end_of(failing=["-0.3-"])
    with pytest.raises(PaiSweepFailed, match="2 of 6 points failed, and tolerance = 1 allows 1"):
        Study(tolerance=1.0).run()


def test_a_sweep_that_cannot_succeed_stops_early(pai):
    """It submits no more, and says which points failed, why, and what becomes of those that run."""

    long = study("Long", batches=tuple(range(16, 46)), parallel_jobs=3, tolerance=1)
    pai.plan = lambda name: {
        "ends_as": "FAILED",
        "exit_code": 3,
        "runs_for": 0 if name[-2:] in ("16", "17") else 60,
    }
    with pytest.raises(PaiSweepFailed) as caught:
        long.run()
    assert pai.submissions < 10
    lines = str(caught.value).splitlines()
    assert lines[0] == "sweep 'Long' failed: 2 of 90 points failed, and tolerance = 1 allows 1"
    assert lines[1].startswith("  rate=0.1, batch=1")
    assert ": exit code 3" in lines[1]
    assert lines[3] == "  all points: luigi-pai sweep ./results"
    assert re.fullmatch("  [12] jobs? continues?; the next run of the sweep takes (it|them) over", lines[4])
    assert caught.value.sweep == "Long"
    assert len(caught.value.failed) == 2
    assert not long.complete()


def test_a_point_that_fails_is_submitted_again(pai):
    """As often as max_attempts says, in a run of the sweep; as NAME__attempt2, as if it were alone."""
    pai.plan = lambda name: (
        end_of(failing=["-0.1-16", "-0.2-16"])(name) if name != "train-0.1-16__attempt2" else {}
    )

    again = study("Again", max_attempts=2, tolerance=1)
    again.run()
    assert states(again) == ["SUCCEEDED"] * 2 + ["FAILED"] + ["SUCCEEDED"] * 3
    assert [row["job"] for row in again.output().rows()][::2] == [
        "train-0.1-16__attempt2",
        "train-0.2-16__attempt2",
        "train-0.3-16",
    ]
    assert pai.submissions == 8


def test_a_job_that_somebody_stopped_is_not_submitted_again(pai):
    pai.plan = lambda name: {"ends_as": "STOPPED", "exit_code": 214} if "0.1-16" in name else {}
    sweep = study("Stopped", max_attempts=5, tolerance=1)
    sweep.run()
    assert states(sweep).count("STOPPED") == 1
    assert pai.submissions == 6


def test_a_point_that_cannot_be_submitted_fails_alone(pai):
    """The name of another user, and users' own code, concern no other point."""
    pai.add("train-0.1-16", username="bob")
    made = []

    class Odd(Train):
        def job(self):
            made.append(self)
            if len(made) > 1:  # the first is validated before anything is sent
                raise RuntimeError("no data")
            return super().job()

    mixed = study("Mixed", tolerance=2, points=lambda: [*grid(Train, rate=[0.1, 0.2]), Odd(rate=0.9)])
    mixed.run()
    assert pai.posts() == ["train-0.1-16", "train-0.2-16"]
    taken, done, odd = mixed.output().rows()
    assert taken["error"].startswith("the name 'train-0.1-16' belongs to a job of user 'bob'")
    assert done["state"] == "SUCCEEDED"
    assert odd["state"] == "FAILED"
    assert odd["error"].startswith("RuntimeError: no data (test_sweep.py:")


def test_what_concerns_all_points_ends_the_sweep(pai, settings):
    """A refused login is one error, and says what becomes of jobs that run."""
    settings(password="wrong")
    with pytest.raises(AuthenticationError, match="to go on, run the sweep again"):
        Study().run()
    assert pai.posts() == []


def test_an_outage_that_another_process_has_noticed_is_waited_out(pai, monkeypatch):
    """Tasks that are looked up by other workers of Luigi give up after 2 s, and share that with all forks."""
    monkeypatch.setattr("luigi_pai.api.book.book._OUTAGE_KEPT", 0.3)

    pai.fail("GET", "/jobs/other$", "reset", times=math.inf)

    def plan(_):
        if pai.submissions == 2:
            with pytest.raises(ClusterUnreachable):
                OpenPai.current().cluster().book.latest("other", patience=0.0)
        return {}

    pai.plan = plan
    Study().run()
    assert states(Study()) == ["SUCCEEDED"] * 6


# ---------------------------------------------------------------- what is wrong with a sweep


class Bad(Train):
    memory = luigi.IntParameter()

    @property
    def tasks(self):
        return [TaskRole("main", "", memoryMB=self.memory)]

    @property
    def name(self):
        return f"bad-{self.memory}"


class SameName(Train):
    name = "same"


WRONG = {
    "no points": (list, ["points: there are none"]),
    "not tasks": (
        lambda: [Train, luigi.Task(), {"rate": 1}],
        ["is the class itself, not a task of it", "is Task; a point is", "points()[2], {'rate': 1}: is dict"],
    ),
    "one name twice": (
        lambda: grid(SameName, rate=[0.1, 0.2]),
        ["points()[1], rate=0.2, batch=16: has the name 'same', as point 0 (rate=0.1, batch=16) has"],
    ),
    "invalid jobs": (
        lambda: grid(Bad, memory=[1, 2, 200]),
        [
            "points()[0], rate=0.1, batch=16, memory=1: taskRoles[0].memoryMB: 1 is not",
            "and 2 more: taskRoles[0].command",
        ],
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_all_problems_are_said_before_anything_is_sent(pai, case):
    """Of the sweep's limits and of its points, in one error."""
    points, expected = WRONG[case]

    wrong = study("Wrong", tolerance=1.5, parallel_jobs=-1, max_attempts=0, best="accuracy", points=points)
    with pytest.raises(SpecError) as caught:
        wrong.run()
    text = str(caught.value)
    assert text.startswith("sweep 'Wrong' was not submitted: ")
    for part in (
        "tolerance: 1.5 is not a share below 1, such as 0.05, or a whole number of points",
        "parallel_jobs: -1 is not a whole number, 0 to submit nothing more",
        "max_attempts: 0 is not a whole number from 1 on",
        "best: 'accuracy' is not max COLUMN or min COLUMN, such as 'max accuracy'",
        *expected,
    ):
        assert part in text
    assert pai.answers == []


def test_complete_names_an_invalid_limit(pai):
    """A class attribute may have any type; nothing is read or requested with it."""

    lenient = study("Lenient", tolerance="5%")
    with pytest.raises(SpecError, match=r"tolerance: '5%' is not a share below 1, such as 0\.05, or a whole"):
        lenient.complete()
    assert pai.answers == []


def test_too_many_points_are_an_error_that_says_what_to_do(pai):
    """Also of a generator without an end."""

    endless = study(
        "Endless", max_points=30, points=lambda: (Train(rate=float(number)) for number in itertools.count())
    )
    with pytest.raises(SpecError, match="more than max_points = 30; set max_points to a higher number"):
        endless.run()
    assert pai.posts() == []


@pytest.mark.parametrize(
    ("attribute", "value", "problem"),
    [
        ("parallel_jobs", "4", "'4' is not a whole number, 0 to submit nothing more"),
        ("max_attempts", None, "None is not a whole number from 1 on"),
        ("results_dir", Path("results"), "PosixPath('results') is not a string; use str() or quotes"),
        ("name", 5, "5 is not a string; use str() or quotes"),
    ],
)
def test_an_attribute_of_another_type_is_named_before_anything_is_done(pai, attribute, value, problem):
    """By complete() as well, which Luigi calls first."""
    sweep = type("Typed", (Study,), {attribute: value})()
    for method in (sweep.complete, sweep.run):
        with pytest.raises(SpecError) as caught:
            method()
        assert [(each.path, each.message) for each in caught.value.problems] == [(attribute, problem)]
    assert pai.calls == []


# ---------------------------------------------------------------- limits and messages


def test_limits_are_luigis_parameters_too(pai):
    """They change neither the task's id nor its name; other parameters do."""

    class Sized(PaiSweep):
        size = luigi.IntParameter(default=2)
        results_dir = "results"

        def points(self):
            return grid(Train, batch=range(self.size))

    plain, wide = Sized(), Sized(parallel_jobs=500, tolerance=0.5, max_attempts=7)
    assert (plain.task_id, plain.name) == (wide.task_id, wide.name)
    assert wide.parallel_jobs == 500
    assert Sized(size=3).name != plain.name
    assert Study().name == "Study"
    wide.run()
    assert pai.submissions == 2


@pytest.mark.slow
def test_messages_change_limits_while_it_runs(pai):
    """Each is answered; what is wrong changes nothing."""
    pai.plan = end_of(runs_for=0.3)

    slow = study("Slow", parallel_jobs=1)
    answers = run_with_messages(
        slow,
        "dance",
        "parallel_jobs = many",
        "tolerance = 1.5",
        "max_attempts=3",
        "status",
        "parallel_jobs = 6",
    )
    assert answers[0].startswith("'dance' is not a valid message; send: stop, status, or NAME = VALUE with")
    assert answers[1] == "parallel_jobs = many is not a whole number, 0 to submit nothing more; it is still 1"
    assert answers[2].startswith("tolerance = 1.5 is not a share below 1, such as 0.05, or a whole number")
    assert answers[3] == "max_attempts = 3 (before: 1)"
    assert re.fullmatch("6 points: 1 (running|waiting)", answers[4])
    assert answers[5] == "parallel_jobs = 6 (before: 1)"
    assert states(slow) == ["SUCCEEDED"] * 6


def test_a_stop_message_stops_the_jobs(pai):
    """No more are submitted, and the sweep fails."""
    pai.plan = end_of(runs_for=60)
    sweep = study("ToStop", tolerance=5)
    with pytest.raises(PaiSweepFailed, match="it was stopped by a message, 4 of 6 points failed"):
        run_with_messages(sweep, "stop", when=lambda: pai.submissions == 4)
    assert pai.submissions == 4
    assert {job.state for job in pai.jobs.values()} == {"STOPPED"}
    assert sorted(states(sweep)) == ["PENDING"] * 2 + ["STOPPED"] * 4


def test_a_sweep_that_submits_nothing_waits_for_a_message(pai):
    """With parallel_jobs = 0 from the start."""
    sweep = study("Held", parallel_jobs=0)
    answers = run_with_messages(sweep, "status", "parallel_jobs = 6")
    assert answers == ["6 points: none begun", "parallel_jobs = 6 (before: 0)"]
    assert states(sweep) == ["SUCCEEDED"] * 6
    assert pai.submissions == 6


def test_a_home_folder_for_the_table(monkeypatch, tmp_path):
    """As a shell writes it."""
    monkeypatch.setenv("HOME", str(tmp_path))
    sweep = study("AtHome", results_dir="~/results")
    assert sweep.output().folder == f"{tmp_path}/results"


def test_messages_are_answered_while_there_is_more_to_submit(pai):
    """A sweep of thousands of points submits for minutes."""

    def plan(_name):
        pai.clock.advance(0.4)
        return {"runs_for": 60}

    pai.plan = plan
    many = {"tolerance": 39, "parallel_jobs": 50, "rates": [number / 100 for number in range(1, 21)]}
    sweep = type("ToStop", (Study,), many)()
    with pytest.raises(PaiSweepFailed, match="it was stopped by a message"):
        run_with_messages(sweep, "stop")
    assert pai.submissions < 40
    assert {job.state for job in pai.jobs.values()} <= {"STOPPED"}  # also what was being submitted then


class Mending(list):
    """Takes answers; after the first, the server is there again."""

    def __init__(self, fault):
        super().__init__()
        self.fault = fault

    def append(self, answer):
        super().append(answer)
        self.fault.times = 0


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_stop_message_is_answered_while_the_server_is_not_there(pai):
    """Requests are repeated for some seconds only. The message can be sent again."""
    pai.plan = end_of(runs_for=60)
    answers = Mending(pai.fail("PUT", "/jobs/", "hang", times=float("inf")))
    sweep = study("ToStop", tolerance=5)
    with pytest.raises(PaiSweepFailed, match="it was stopped by a message, 4 of 6 points failed"):
        run_with_messages(sweep, "stop", "stop", answers=answers, when=lambda: len(pai.posts()) == 4)
    assert answers[0].startswith("0 jobs asked to stop; ")
    assert re.fullmatch("[34] jobs asked to stop", answers[1])  # one may have been stopped at its start


def test_jobs_that_are_taken_with_an_unknown_error_are_watched(pai):
    """Each is found by a lookup, and none is posted again."""
    body = '{"code": "UnknownError", "message": "no"}'
    pai.fail("POST", "/jobs", 400, times=float("inf"), after=True, body=body)
    sweep = Study()
    sweep.run()
    assert states(sweep) == ["SUCCEEDED"] * 6
    assert (pai.submissions, len(pai.posts())) == (6, 6)


def test_the_starts_of_jobs_are_recorded_beside_all_else(pai, hdfs, monkeypatch):
    """On 0.x, whose servers do not send them: each takes a request to HDFS."""
    threads, runs = [], Claims.runs

    def noted(*arguments):
        threads.append(threading.current_thread())
        runs(*arguments)

    monkeypatch.setattr(Claims, "runs", noted)
    pai.plan = end_of(runs_for=0.5)
    Study().run()
    assert len(threads) == 6
    assert threading.main_thread() not in threads
    assert len(list(hdfs.rglob("*.RUNNING-*"))) == 6


def test_ends_are_on_hdfs_before_the_journal_has_them(pai, hdfs, monkeypatch, caplog):
    """Also after an outage of HDFS: no later run looks up a point that has ended in the journal."""
    add, end, outage, late = CompletionFlag.add, Journal.end, iter(range(4)), []

    def added(flag, *arguments, **named):
        if next(outage, None) is not None:
            raise away_for_now(flag.path)
        assert threading.current_thread() is not threading.main_thread()
        add(flag, *arguments, **named)

    def ended(journal, name, *arguments):
        late.extend([] if (hdfs / name / "output" / "_SUCCESS").exists() else [name])
        end(journal, name, *arguments)

    monkeypatch.setattr(CompletionFlag, "add", added)
    monkeypatch.setattr(Journal, "end", ended)
    sweep = Study()
    sweep.run()
    assert not late
    assert len(list(hdfs.rglob("*.SUCCEEDED"))) == 6
    assert caplog.text.count("nobody answers") == 1
    assert pai.submissions == 6


@pytest.mark.usefixtures("pai")
def test_ends_that_cannot_be_taken_down_end_the_sweep(monkeypatch):
    """It does not wait for ends that have got lost."""

    def record(*_):
        raise RuntimeError("broken")

    monkeypatch.setattr(Recorder, "_record", record)
    with pytest.raises(RuntimeError, match="broken"):
        Study().run()


def test_a_point_keeps_its_place_until_its_end_is_known(pai, hdfs, monkeypatch):
    """So that a search has the results of all that has ended before it draws a point."""
    record, end, most, told = Ending.record, Table.ended, 0, []

    def recorded(ending, retry):
        nonlocal most
        pai.clock.sleep(0.3)
        most = max(most, pai.submissions - len(told))
        record(ending, retry)

    def ended(table, point):
        told.append(point)
        return end(table, point)

    monkeypatch.setattr(Ending, "record", recorded)
    monkeypatch.setattr(Table, "ended", ended)
    study("TwoAtOnce", parallel_jobs=2).run()
    assert most == 2
    assert len(list(hdfs.rglob("_SUCCESS"))) == 6


@pytest.mark.slow
def test_a_sweep_keeps_to_luigis_resource(pai):
    """It runs no more jobs at once than it holds of the resource pai."""
    most = 0

    sweep = study("Holds", resources={"pai": 3}, parallel_jobs=50)

    def plan(name):
        nonlocal most
        most = max(most, 1 + sum(job.state == "RUNNING" for job in pai.jobs.values()))
        return {"runs_for": 0.1 * len(name) if name.endswith("0.3-32") else 0.1}

    pai.plan = plan
    sweep.run()
    assert most == 3


def test_a_scheduler_of_luigi_that_does_not_answer_ends_no_sweep(pai, caplog):
    """Luigi repeats such a request for a minute, and then raises; jobs are watched on."""
    sweep = study("Untold", resources={"pai": 5})
    told = []

    def tell(value):
        told.append(value)
        raise luigi.rpc.RPCError("Errors (3 attempts) when connecting to remote scheduler")

    sweep.set_status_message = sweep.set_progress_percentage = tell
    sweep.run()
    assert states(sweep) == ["SUCCEEDED"] * 6
    assert pai.submissions == 6
    assert len(told) == 1
    assert "is not up to date: Luigi's scheduler fails: Errors (3 attempts)" in caplog.text


# ---------------------------------------------------------------- the log and the page


@pytest.mark.usefixtures("pai")
def test_responses_are_escaped_for_the_page():
    """Luigi's page inserts them as HTML."""
    (answer,) = run_with_messages(Study(), "<b>dance</b>")
    assert answer.startswith("'&lt;b&gt;dance&lt;/b&gt;' is not a valid message")


def test_it_says_where_it_stands(pai, caplog):
    """Counts, the best point, and the end; each failure once, with its reason."""
    caplog.set_level("INFO", logger="luigi-interface")
    pai.plan = end_of(failing=["-0.3-32"])
    sweep = study("Says", tolerance=1, best="max accuracy")
    told = []
    sweep.set_status_message = lambda text: told.append(("message", text))
    sweep.set_progress_percentage = lambda share: told.append(("percentage", share))
    sweep.run()
    own = [record.getMessage() for record in caplog.records if record.getMessage().startswith("Says: ")]
    assert own[0] == "Says: results go to results"
    assert own[-1].startswith("Says: 6 points: 5 done, 1 failed; best accuracy 0.9 (rate=0.1, batch=")
    assert [line for line in own if "exit code" in line] == [
        "Says: rate=0.3, batch=32 (train-0.3-32): exit code 3 (NON_TRANSIENT)"
    ]
    assert not [
        record
        for record in caplog.records
        if record.getMessage().startswith("Submitted") and record.levelno >= 20
    ]
    assert told[0][1].startswith("6 points: ")


@pytest.mark.usefixtures("pai")
def test_the_default_folder_of_results(settings):
    """In the user's home on HDFS where one is configured, else in the current folder."""

    plain = study("Plain", results_dir=None)
    assert plain.output().folder == "sweeps/Plain"
    settings(webhdfs_url="http://127.0.0.1:9", hdfs_user="anna")
    assert plain.output().folder == "$PAI_DEFAULT_FS_URI/user/anna/sweeps/Plain"
