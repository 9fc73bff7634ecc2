"""What a run says, and does, when it does not wait for the end of its job."""

from __future__ import annotations

import re
import signal
import subprocess
import time

import pytest
from lives import Life, lives
from luigi_process import start_worker
from train_task import Train


@lives("giving_up")
def test_a_life(pai, settings, caplog, steps):
    Life(pai, settings, caplog).play(steps)


@pytest.fixture
def worker(tmp_path):
    """Start a process of Luigi with one task, and the present settings."""
    source = "from train_task import Train, build\nbuild(Train())\n"
    return lambda: start_worker(tmp_path, source, stderr=subprocess.PIPE)


def log_after(worker, number, is_reached):
    """Send a signal to a process that has reached something, and return its log."""
    while not is_reached():
        assert worker.poll() is None
        time.sleep(0.02)
    worker.send_signal(number)
    return worker.communicate(timeout=60)[1]


@pytest.mark.slow
def test_after_ctrl_c_the_log_names_the_job_that_goes_on(pai, worker):
    """What was started goes on; the log says so, and what the next run does."""
    pai.plan = {"runs_for": 600}
    log = log_after(worker(), signal.SIGINT, lambda: pai.count("GET", "/jobs/train$") > 2)
    assert re.search(
        r"Interrupted: job train continues \(http://.*/view\.html\?jobName=train\); to take it over, run",
        log,
    )
    assert pai.jobs["train"].state == "RUNNING"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("number", "on_kill"),
    [(signal.SIGINT, "leave"), (signal.SIGINT, "stop"), (signal.SIGTERM, "stop"), (signal.SIGHUP, "stop")],
)
def test_a_signal_during_a_submission(pai, settings, worker, number, on_kill):
    """The log says that the job may be there; it is stopped if the server has it already."""
    settings(on_kill=on_kill)
    pai.plan = {"runs_for": 600}
    pai.fail("POST", "/jobs$", "hang", after=True)
    log = log_after(worker(), number, lambda: "train" in pai.jobs)
    if on_kill == "stop":
        assert "Interrupted: job train was asked to stop" in log
        assert pai.jobs["train"].state == "STOPPED"
    else:
        assert "Interrupted: job train may have been submitted; run the task again" in log


@pytest.mark.slow
def test_a_job_that_cannot_be_stopped_may_have_been_submitted(pai, settings, worker):
    """The submission has not arrived when the signal comes, and may arrive."""
    settings(on_kill="stop")
    pai.fail("POST", "/jobs$", "hang")
    log = log_after(worker(), signal.SIGTERM, lambda: pai.count("POST", "/jobs$"))
    assert re.search(r"Interrupted: job train could not be stopped \(.*\): job train may have been", log)


# ---------------------------------------------------------------- deadlines


@pytest.mark.parametrize("word", ["WAITING", "RUNNING"])
@pytest.mark.parametrize("how", ["watched", "taken over", "taken over at its end"])
def test_a_job_whose_work_is_done_is_not_stopped(pai, settings, clock, how, word):
    """0.10 to 0.14 report it as WAITING while they read its diagnostics, 0.7 to 0.9 as RUNNING."""
    pai.plan = {"runs_for": 50.0, "completes_for": 600.0}
    pai.plan["completing"] = word, "APPLICATION_RETRIEVING_DIAGNOSTICS"
    settings(queue_timeout=60, run_timeout=60, poll_min=5, poll_max=10)
    if how != "watched":
        pai.add("train", **pai.plan)
        clock.advance(600.0 if how == "taken over at its end" else 20.0)
    Train().run()
    assert pai.jobs["train"].state == "SUCCEEDED"
    assert pai.count("PUT", "/executionType") == 0
