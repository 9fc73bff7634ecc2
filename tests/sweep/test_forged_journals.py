"""Journals that others have written to: no line makes a run submit what the sweep has not proposed."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

import luigi
import pytest
import sweep_tasks
from pipelines import new_process
from sweep_lives import lives
from sweep_tasks import JOURNAL, Asks, Study, Train, end_of, forge, states, study

from luigi_pai import PaiSweepFailed, grid
from luigi_pai.sweep.sweep_run import SweepRun
from luigi_pai.work.claims import Claim


class Hidden(Train):
    """A class that no sweep here yields; its parameter ``command`` is not in its name."""

    command = luigi.Parameter(default="python train.py", significant=False)

    @property
    def name(self):
        return f"hidden-{self.rate}-{self.batch}"


def search(name="Search", kind=Train, **about):
    """Return a search that proposes four points, and waits after the second."""
    one, two, three, four = (kind(batch=batch) for batch in (1, 2, 3, 4))
    proposes = [one, two, {"told": 2}, three, four]
    return study(name, Asks, parallel_jobs=2, tolerance=400, proposes=proposes, **about)


NAMES = [f"train-0.1-{batch}" for batch in (1, 2, 3, 4)]


def asked(name, family="Train", **parameters):
    return {"event": "asked", "point": name, "family": family, "parameters": parameters, "note": None}


def check_posts(pai, names=NAMES):
    """Check that these jobs, and no others, were submitted; the server may have had others before."""
    assert pai.submissions == len(names)
    assert set(names) <= set(pai.posts())


def ignored(caplog):
    """Return the lines of the log about recorded points that are ignored."""
    return [record.getMessage() for record in caplog.records if "ignored, because" in record.getMessage()]


@pytest.mark.parametrize("first", [False, True])
@pytest.mark.parametrize("is_killed", [False, True])
def test_three_hundred_lines_are_no_job(pai, caplog, monkeypatch, first, is_killed):
    """A search has the points that it would have had, also after a kill; one line says what is ignored."""
    if is_killed:
        with monkeypatch.context() as patched:
            patched.setattr(SweepRun, "_save", lambda *_, **__: None)
            patched.setattr(Asks, "tell", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
            with pytest.raises(KeyboardInterrupt):
                search().run()
        new_process()
    forge(*(asked(f"train-0.5-{batch}", rate="0.5", batch=str(batch)) for batch in range(300)), first=first)
    line = 1 if first else JOURNAL.read_bytes()[: JOURNAL.read_bytes().index(b"train-0.5-0")].count(b"\n") + 1
    search().run()
    check_posts(pai)
    expected = (
        "Search: 300 recorded points are ignored, because points() does not propose them in this run; no job "
        f"is submitted for them. The first is train-0.5-0, in line {line} of results/journal.jsonl: "
    )
    assert [text.startswith(expected) for text in ignored(caplog)] == [True]
    assert "points() proposes different points" not in caplog.text
    assert states(search()) == ["SUCCEEDED"] * 4
    assert search().complete()


def test_no_more_recorded_points_are_looked_up_than_may_be_proposed(pai, caplog):
    forge(*(asked(f"train-0.5-{batch}", rate="0.5", batch=str(batch)) for batch in range(300)))
    caplog.set_level("DEBUG", "luigi-interface")
    search("Few", max_points=5).run()
    check_posts(pai)
    assert len(re.findall("NotConfirmedError: the server has no such job", caplog.text)) == 5


@lives("forged")
def test_a_line_that_the_search_would_not_have_come_to(life, steps):
    """Of a class that it does not yield, of this or another module; with parameters of something else."""
    life.play(steps)


def test_a_recorded_point_with_a_job_is_watched_and_never_submitted(pai, caplog):
    """A failed job of the user gets no second attempt, whatever max_attempts is; rows and tell() have it."""
    pai.add("train-0.1-8", ends_as="FAILED", exit_code=3)
    pai.add("train-0.1-9")
    forge(asked("train-0.1-8", batch="8"), asked("train-0.1-9", batch="9"))
    sweep = search("Persistent", max_attempts=5)
    sweep.run()
    check_posts(pai)
    rows = {row["batch"]: row["state"] for row in sweep.output().rows()}
    assert rows == {**dict.fromkeys((1, 2, 3, 4, 9), "SUCCEEDED"), 8: "FAILED"}
    assert set(sweep.told) >= {("train-0.1-8", "FAILED"), ("train-0.1-9", "SUCCEEDED")}
    assert ignored(caplog) == []
    assert "points() proposes different points than before the interruption" in caplog.text


def test_a_point_that_is_proposed_later_has_the_parameters_of_the_code(pai):
    """Not those of the journal, which the name may leave out."""

    commands = []

    class Spied(Hidden):
        def job(self):
            commands.append(self.command)
            return super().job()

    forge(*(asked(f"hidden-0.1-{batch}", "Spied", batch=str(batch), command="evil") for batch in (9, 4, 3)))
    pai.add("hidden-0.1-9", runs_for=0.1)
    search("Proposes", Spied).run()
    check_posts(pai, [f"hidden-0.1-{batch}" for batch in (1, 2, 3, 4)])
    assert set(commands) == {"python train.py"}


@pytest.mark.parametrize("state", ["FAILED", "SUCCEEDED"])
def test_no_folder_of_the_journal_is_written_to(pai, hdfs, caplog, state):
    """A job of the user is not confirmed if its stored output folder is another one."""

    class Placed(Train):
        folder = luigi.Parameter(default="/out")

        @property
        def output_dir(self):
            return f"{self.folder}/{self.name}"

    place = hdfs / "other/train-0.1-9"
    place.mkdir(parents=True)
    (place / "_SUCCESS").touch()
    pai.add("train-0.1-9", ends_as=state, exit_code=3)
    pai.jobs["train-0.1-9"].config["outputDir"] = "$PAI_DEFAULT_FS_URI/out/train-0.1-9"
    forge(asked("train-0.1-9", "Placed", batch="9", folder="/other"))
    search("Proposes", Placed).run()
    check_posts(pai)
    assert "the output folder of job 'train-0.1-9' is" in ignored(caplog)[0]
    assert [path.name for path in place.iterdir()] == ["_SUCCESS"]


def claim(name, number=1, job=None):
    return {**asdict(Claim(name, number, job or name, "http://pai", "admin", 1, "digest")), "number": number}


HUGE = 10**9
ROW = {"state": "SUCCEEDED", "result": {}, "seconds": 1, "job": "a", "page": "", "error": ""}
FAILED = {**ROW, "state": "FAILED"}


def nested(levels):
    return json.loads("[" * levels + "]" * levels)


MALFORMED = {
    "torn": b'{"event": "asked", "point": "train-0.1-9", "fam',
    "types": asked(["train-0.1-9"]),
    "names": b'{"event": "asked", "point": 9, "family": "Train", "parameters": {}}',
    "parameters": {**asked("train-0.1-9"), "parameters": {"batch": 9}},
    "note": {**asked("train-0.1-1", batch="1"), "note": 5},
    "huge": {"event": "begun", "point": "train-0.1-1", "claim": claim("train-0.1-1", 10**30)},
    "huge run": {"event": "run", "run": [10**30, "z"], "sweep": "x", "file": "y", "at": 1},
    "file": {"event": "run", "run": [1, "z"], "sweep": "x", "file": "a/" * 5000 + "test.py", "at": 1},
    "digits": b'{"event": "run", "run": [' + b"9" * 4300 + b', "z"], "sweep": "x", "file": "y", "at": 1}',
    "unknown": {"event": "submit", "point": "train-0.1-9", "family": "Train", "parameters": {}},
    "deep": b'{"event": "asked", "point": ' + b"[" * 1000 + b"]" * 1000 + b"}",
    "deep row": {"event": "ended", "point": "train-0.1-3", "number": 1, "cluster": "c", "id": "1",
                 "row": {**ROW, "result": {"a": nested(400)}}},
    "state": {"event": "ended", "point": "train-0.1-3", "number": 1, "cluster": "c", "id": "1",
              "row": {**ROW, "state": "<b>"}},
    "id": {"event": "ended", "point": "train-0.1-3", "number": 1, "cluster": "c", "id": [1],
           "row": FAILED},
    "not UTF-8": b'{"event": "asked", "point": "\xff\xfe", "family": "Train", "parameters": {}}',
    "surrogate": b'{"event": "asked", "point": "\\ud800", "family": "Train", "parameters": {}}',
}  # fmt: skip


@pytest.mark.parametrize("line", MALFORMED)
def test_a_malformed_line_is_no_job_and_no_error(pai, line):
    """The search runs as without it, is complete, and has its four rows."""
    run = {"event": "run", "run": [1, "a"], "sweep": "Search", "file": sweep_tasks.__file__, "at": 1}
    forge(run, MALFORMED[line])
    search().run()
    check_posts(pai)
    assert sorted(row["job"] for row in search().output().rows()) == NAMES
    assert search().complete()
    forge(MALFORMED[line])
    new_process()
    search().run()
    check_posts(pai)
    assert search().complete()


@pytest.mark.parametrize("attempts", [1, 2])
@pytest.mark.parametrize(
    "event",
    [
        {"event": "again", "points": {"train-0.1-16": {"number": HUGE, "end": None}}},
        {"event": "begun", "point": "train-0.1-16", "claim": claim("train-0.1-16", HUGE - 1)},
        {"event": "ended", "point": "train-0.1-16", "number": HUGE, "row": FAILED, "cluster": "c", "id": "1"},
    ],
)
def test_a_run_submits_a_failing_point_no_more_often_than_its_limit(pai, event, attempts):
    """Whatever numbers the journal has."""
    pai.plan = end_of(failing=["train"])
    fails = study("Fails", max_attempts=attempts, points=lambda: grid(Train, rate=[0.1]))
    forge(event)
    with pytest.raises(PaiSweepFailed):
        fails.run()
    assert pai.submissions <= attempts


def test_a_record_names_no_array_that_is_then_submitted(pai, settings):
    """A point that is claimed for a job of any name is submitted under its own."""
    pai.release = "1.8.0"
    settings(api_version="v2")
    lines = ({"event": "begun", "point": f"train-{rate}-16", "claim": claim(f"train-{rate}-16", 1, "chosen")}
             for rate in (0.1, 0.2, 0.3))  # fmt: skip
    forge(*lines)
    Study().run()
    assert "chosen" not in pai.posts()
    assert pai.submissions == 6
