"""A worker that is killed in a sweep: the next run takes over, and nothing is submitted twice."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import threading

import pytest
from chaos.dice import ROUNDS, seeds
from faulty_pai import PASSWORD
from luigi_process import start_worker
from pipelines import new_process
from sweep_tasks import Many, end_of
from waiting import wait_until

from luigi_pai import PaiSweepFailed
from luigi_pai.config import OpenPai
from luigi_pai.jobspec.names import base_name

pytestmark = [pytest.mark.usefixtures("real_time"), pytest.mark.slow]

SWEEP = """
import sys, luigi, sweep_tasks
sys.exit(not luigi.build([sweep_tasks.Many()], local_scheduler=True))
"""
PREFIX = "train-0.1-"
SEARCH = """
import sys, luigi, sweep_search
search = type("Search", (sweep_search.{kind},), {{"results_dir": "{folder}"}})
sys.exit(not luigi.build([search()], local_scheduler=True))
"""


@pytest.fixture
def log(tmp_path):
    """The file that the workers write their output to."""
    return tmp_path / "log"


@pytest.fixture
def worker(pai, tmp_path, log):
    """Start a worker that runs the sweep; return its process."""
    started = []

    def start(script=SWEEP, **openpai):
        about = {"pai_url": pai.url, "username": "admin", "password": PASSWORD, "poll_max": 0.2}
        with log.open("a") as output:
            started.append(start_worker(tmp_path, script, {**about, **openpai}, stdout=output, stderr=output))
        return started[-1]

    yield start
    for process in started:
        process.kill()
        process.wait()


def run_again():
    """Run the sweep in this process, which knows no more than a new one."""
    new_process()
    Many().run()


@pytest.mark.parametrize(("kind", "place"), [("Unseeded", "here"), ("Search", "storage")])
def test_a_search_killed_at_random_moments(pai, worker, tmp_path, request, kind, place):
    """Twice: as many jobs as trials, and a row for each. The journal is here, or on a storage."""
    script, folder, openpai = SEARCH.format(kind=kind, folder="results"), tmp_path, {}
    if place == "storage":
        folder, openpai = request.getfixturevalue("storage"), {"storage": "nfs1"}
        script = SEARCH.format(kind=kind, folder="$PAI_DEFAULT_FS_URI/results")
    pai.plan = {"runs_for": 0.4}
    for count in sorted(random.sample(range(1, 10), 2)):
        process = worker(script, **openpai)
        wait_until(lambda: pai.submissions >= count)  # noqa: B023  called in this round
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert worker(script, **openpai).wait(60) == 0
    rows = json.loads((folder / "results" / "results.json").read_text())["rows"]
    assert len(pai.posts()) == 10
    assert sorted(row["job"] for row in rows) == sorted(pai.posts())
    assert {row["state"] for row in rows} == {"SUCCEEDED"}


def test_two_processes_run_a_search(pai, worker, log, tmp_path):
    """Whenever the second begins: it finishes the search, and no point runs twice."""
    script = SEARCH.format(kind="Unseeded", folder="results")
    pai.plan = {"runs_for": 0.4}
    first = worker(script)
    count = random.randrange(8)
    wait_until(lambda: pai.submissions >= count)
    second = worker(script)
    codes = [process.wait(60) for process in (first, second)]
    assert min(codes) == 0, log.read_text()
    assert codes == [0, 0] or "another process has started this search" in log.read_text()
    table = json.loads((tmp_path / "results" / "results.json").read_text())
    rows = table["rows"]
    assert table["summary"]["complete"]
    assert len(pai.posts()) == 10
    assert sorted(row["job"] for row in rows) == sorted(pai.posts())


def test_killed_while_points_fail(pai, worker):
    """A point has its attempts once in a run that is killed; the run after it submits what failed again."""
    pai.plan = end_of(failing=[f"{PREFIX}3"], runs_for=600)
    process = worker()
    wait_until(lambda: len(pai.jobs) >= 8)
    process.kill()
    process.wait()
    let_end(pai)
    assert pai.jobs[f"{PREFIX}3"].state == "FAILED"
    with pytest.raises(PaiSweepFailed, match="1 of 20 points failed"):
        run_again()  # the same run goes on: the point has had its one attempt
    run_again()
    names = pai.posts()
    assert f"{PREFIX}3__attempt2" in names
    assert sorted({base_name(name) for name in names}) == sorted(f"{PREFIX}{n}" for n in range(20))
    assert len(names) == 21


@pytest.mark.usefixtures("hdfs")
def test_jobs_that_were_stopped_and_forgotten_are_submitted_again(pai, worker, log):
    """Their claims record the stop, which the server no longer knows."""
    pai.plan = {"runs_for": 600}
    here = OpenPai.current()
    settings = {"webhdfs_url": here.webhdfs_url, "fs_uri": here.fs_uri, "on_kill": "stop"}
    process = worker(**settings)
    wait_until(lambda: re.search("Many: 20 points: 8 (running|waiting)", log.read_text()))
    process.terminate()
    process.wait(30)
    pai.jobs.clear()
    pai.plan = {}
    run_again()
    again = [f"{PREFIX}{number}__attempt2" for number in range(8)]
    assert sorted(pai.posts()) == sorted([*again, *(f"{PREFIX}{number}" for number in range(8, 20))])


def let_end(pai):
    """Let all jobs end, and new ones at once."""
    pai.plan = {}
    for job in pai.jobs.values():
        job.runs_for = 0.0


@pytest.fixture
def held_posts(pai, monkeypatch):
    """Return a function that holds posts from a number on, and returns the event that lets them go."""
    answer = pai.answer

    def hold(first):
        gate, numbers = threading.Event(), itertools.count(1)

        def answer_later(request):
            if request.method == "POST" and request.path.endswith("/jobs") and next(numbers) >= first:
                gate.wait(60)
            return answer(request)

        monkeypatch.setattr(pai, "answer", answer_later)
        return gate

    return hold


def named(log):
    """Return the number of jobs that a log says were asked to stop, and the names that may be submitted."""
    text = log.read_text()
    asked = re.search(r"interrupted: (\d+) jobs? asked to stop", text)
    names = re.search(r"jobs? may have been submitted \(([^)]*)\)", text)
    return int(asked[1]) if asked else 0, names[1].split(", ") if names else []


NUMBERS = [1, 8] if ROUNDS == 1 else [1 + seed % 8 for seed in seeds(1, share=0.2)]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_sweep_that_is_stopped_while_it_starts_jobs(pai, worker, log, held_posts, number):
    """Each job that reaches the server is stopped and counted, or named; no other job is posted.

    ``make chaos ROUNDS=100`` plays 20 rounds.
    """
    pai.plan = {"runs_for": 600}
    gate = held_posts(number)
    process = worker(on_kill="stop")
    wait_until(lambda: pai.submissions >= number)
    process.terminate()
    wait_until(lambda: pai.count("PUT", "/executionType$") or process.poll() is not None)
    gate.set()
    process.wait(30)
    asked, names = named(log)
    stopped = [name for name, job in pai.jobs.items() if job.state == "STOPPED"]
    assert len(pai.jobs) >= number
    assert set(pai.jobs) <= {*stopped, *names}, log.read_text()
    assert asked + len(names) == len(pai.jobs), log.read_text()


@pytest.mark.parametrize("on_kill", ["stop", "leave"])
def test_jobs_that_arrive_after_the_sweep_was_killed_are_named(pai, worker, log, held_posts, on_kill):
    """The next run takes them over."""
    pai.plan = {"runs_for": 600}
    gate = held_posts(3)
    process = worker(on_kill=on_kill)
    wait_until(lambda: len(pai.jobs) == 2 and pai.submissions == 8)
    wait_until(lambda: pai.count_answers(202, "POST", "/jobs$") == 2)
    process.terminate()
    process.wait(30)
    gate.set()
    wait_until(lambda: len(pai.jobs) == 8)
    names = ", ".join(sorted(list(pai.jobs)[2:]))
    there = {
        "stop": "2 jobs asked to stop",
        "leave": "2 jobs continue; the next run of the sweep takes them over",
    }
    assert (
        f"Many: interrupted: {there[on_kill]}; 6 jobs may have been submitted ({names}); the next run of the "
        "sweep looks up each of them first"
    ) in log.read_text()
    let_end(pai)
    run_again()
    assert len(pai.posts()) == (22 if on_kill == "stop" else 20)


@pytest.mark.parametrize(("on_kill", "state"), [("stop", "STOPPED"), ("leave", "RUNNING")])
def test_what_becomes_of_the_jobs(pai, worker, log, on_kill, state):
    """on_kill counts for all that run; the log says what was done, and the table what runs."""
    pai.plan = {"runs_for": 600}
    process = worker(on_kill=on_kill)
    wait_until(lambda: re.search("Many: 20 points: 8 (running|waiting)", log.read_text()))
    process.terminate()
    process.wait(30)
    assert [job.state for job in pai.jobs.values()] == [state] * 8
    expected = {
        "stop": "Many: interrupted: 8 jobs asked to stop; to continue, run the sweep again",
        "leave": "Many: interrupted: 8 jobs continue; the next run of the sweep takes them over",
    }
    assert expected[on_kill] in log.read_text()
    rows = Many().results.rows()
    assert [bool(row["job"]) for row in rows] == [True] * 8 + [False] * 12
    let_end(pai)
    run_again()
    assert len(pai.posts()) == (28 if on_kill == "stop" else 20)
