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
from pipelines import build
from sweep_tasks import Study, Train, end_of, most_at_once, run_with_messages, states, study

from luigi_pai import (
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
@pytest.mark.parametrize(
    ("about", "most"), [({"parallel_jobs": 4}, 4), ({"parallel_jobs": 50, "resources": {"pai": 3}}, 3)]
)
def test_it_keeps_the_number_of_jobs_at_once(pai, about, most):
    """The limit, or what it holds of Luigi's resource pai."""
    assert most_at_once(study("Holds", **about), pai, end_of(runs_for=0.2)) == most


def test_what_was_taken_over_and_fails_is_submitted_again_at_once(pai):
    """Its end is known from then on, also to the next lookup, and has its event."""

    class Watched(Train):
        pass

    failed = []
    Watched.event_handler(PaiEvent.FAILED)(lambda _task, status, _error: failed.append(status.name))
    pai.add("train-0.1-16", runs_for=0.3, ends_as="FAILED", exit_code=3)
    study("Retried", max_attempts=2, points=lambda: [Watched()]).run()
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

    own = study("Own", points=lambda: [Fit()], requires=lambda _: [])
    with pytest.raises(SpecError, match=r"rate=0.1, batch=16: requires Missing\(\), which is not complete"):
        own.run()
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
    assert errors[5].endswith("metrics.json is not JSON: it starts with b'loss: 1'")
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


def test_ten_failures_are_shown(pai, caplog):
    """In the log and in the error; all are in the table."""
    pai.plan = end_of(failing=["train"])
    sweep = study("Failing", batches=range(5), tolerance=14, parallel_jobs=15)
    with caplog.at_level("WARNING", "luigi-interface"), pytest.raises(PaiSweepFailed) as caught:
        sweep.run()
    shown = [record.getMessage() for record in caplog.records]
    assert sum("exit code 3" in text for text in shown) == 10
    assert shown.count("Failing: more failures are in its table only") == 1
    assert str(caught.value).count("exit code 3") == 10
    assert "\n  and 5 more\n" in str(caught.value)
    assert (caught.value.sweep, len(caught.value.failed)) == ("Failing", 15)


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
        ["is the class itself, not an instance", "is Task; a point is", "points()[2], {'rate': 1}: is dict"],
    ),
    "one name twice": (
        lambda: grid(SameName, rate=[0.1, 0.2]),
        ["points()[1], rate=0.2, batch=16: has the name 'same', like point 0 (rate=0.1, batch=16)"],
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


def test_too_many_points_are_an_error_that_says_what_to_do(pai):
    """Also of a generator without an end."""
    endless = study(
        "Endless", max_points=30, points=lambda: (Train(rate=float(n)) for n in itertools.count())
    )
    with pytest.raises(SpecError, match="more than max_points = 30; set max_points to a higher number"):
        endless.run()
    assert pai.posts() == []


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


def test_messages_are_answered_while_there_is_more_to_submit(pai):
    """A sweep of thousands of points submits for minutes."""

    def plan(_name):
        pai.clock.advance(0.4)
        return {"runs_for": 60}

    pai.plan = plan
    rates = [number / 100 for number in range(1, 21)]
    sweep = study("ToStop", tolerance=39, parallel_jobs=50, rates=rates)
    with pytest.raises(PaiSweepFailed, match="it was stopped by a message"):
        run_with_messages(sweep, "stop")
    assert pai.submissions < 40
    assert {job.state for job in pai.jobs.values()} <= {"STOPPED"}  # also what was being submitted then


@pytest.mark.slow
@pytest.mark.usefixtures("impatient")
def test_a_stop_message_is_answered_while_the_server_is_not_there(pai):
    """Requests are repeated for some seconds only. The message can be sent again."""
    pai.plan = end_of(runs_for=60)
    fault = pai.fail("PUT", "/jobs/", "hang", times=float("inf"))

    class Answers(list):
        def append(self, answer):
            super().append(answer)
            fault.times = 0  # the server is there again

    answers = Answers()
    sweep = study("ToStop", tolerance=5)
    with pytest.raises(PaiSweepFailed, match="it was stopped by a message, 4 of 6 points failed"):
        run_with_messages(sweep, "stop", "stop", answers=answers, when=lambda: len(pai.posts()) == 4)
    assert answers[0].startswith("0 jobs asked to stop; ")
    assert re.fullmatch("[34] jobs asked to stop", answers[1])  # one may have been stopped at its start


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
    assert "is not up to date, because Luigi's scheduler is failing: Errors (3 attempts)" in caplog.text


# ---------------------------------------------------------------- the log and the page


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
def test_the_folder_of_results(settings, monkeypatch, tmp_path):
    """In the user's home on HDFS where one is configured, else in the current folder; ~ is as in a shell."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert study("AtHome", results_dir="~/results").output().folder == f"{tmp_path}/results"
    plain = study("Plain", results_dir=None)
    assert plain.output().folder == "sweeps/Plain"
    settings(webhdfs_url="http://127.0.0.1:9", hdfs_user="anna")
    assert plain.output().folder == "$PAI_DEFAULT_FS_URI/user/anna/sweeps/Plain"
