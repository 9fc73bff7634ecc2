"""Tests of the pipeline: with the extra `testing` of luigi-pai, run `pytest` here."""

import json
import subprocess
import sys
import time
from pathlib import Path

import luigi
import pytest
from pipeline import Report, Train

from luigi_pai import PaiJobFailed, PaiJobForgotten


def build(task):
    return luigi.build([task], local_scheduler=True, no_lock=True)


def test_the_job_asks_for_what_it_needs(pai_mock):
    """No server and no file system: the posted job, in the format of API v1."""

    class NoUploads(Train):
        runtime = False

        @property
        def uploads(self):
            return {}

    NoUploads(rate=0.5).run()
    (job,) = pai_mock.submitted
    assert job["jobName"] == "train-0.5"
    assert job["taskRoles"][0]["command"] == "python code/fit_line.py --rate 0.5"
    assert job["taskRoles"][0]["cpuNumber"] == 4


def test_the_whole_pipeline_with_its_real_commands(pai, tmp_path):
    """The jobs run on this machine: they copy their code from a storage and write their results there."""
    assert build(Report(rates=[0.1, 1.0], folder=str(tmp_path)))
    assert sorted(pai.submitted) == ["train-0.1", "train-1.0"]
    best = json.loads((tmp_path / "best.json").read_text())
    assert best["rate"] == 1.0


def test_a_training_that_fails_is_tried_again_under_a_new_name(pai):
    """No command runs: the job ends as the test says."""
    pai.when("train-*").exits(1, stderr="CUDA out of memory", times=1)
    pai.when("train-*").succeeds()
    with pytest.raises(PaiJobFailed, match="CUDA out of memory"):
        Train(rate=0.1).run()
    Train(rate=0.1).run()
    assert pai.submitted == ["train-0.1", "train-0.1__attempt2"]
    assert pai.job("train-0.1").status().command_exit_code == 1


def test_one_failed_training_keeps_the_report_back(pai, tmp_path):
    pai.when("train-0.2").exits(2)
    pai.when("train-*").succeeds()
    assert not build(Report(rates=[0.1, 0.2], folder=str(tmp_path)))
    assert not (tmp_path / "best.json").exists()


def test_a_server_that_is_down_for_a_moment_submits_nothing_twice(pai):
    pai.when("*").succeeds()
    pai.fail("GET", "/jobs/*", status=503, times=2)
    pai.fail("POST", "/jobs", status=503, times=2)
    Train(rate=0.1).run()
    assert pai.submitted == ["train-0.1"]


def test_a_worker_that_was_killed_before_a_holiday(pai):
    """Its job goes on. A month later the server has forgotten it, and nothing is submitted a second time."""
    pai.when("train-*").succeeds(after=5)
    command = f"{sys.executable} -m luigi --module pipeline Train --rate 0.1 --local-scheduler"
    worker = subprocess.Popen(command.split(), cwd=Path(__file__).parent)
    while not pai.submitted and worker.poll() is None:
        time.sleep(0.05)
    worker.kill()
    worker.wait()
    assert pai.job("train-0.1").wait().succeeded
    pai.advance(days=31)
    with pytest.raises(PaiJobForgotten):
        Train(rate=0.1).run()
    assert pai.submitted == []


@pytest.mark.pai("v1")
def test_the_same_task_on_openpai_0_7(pai):
    """This release has an HDFS, and reports the exit codes of commands as they are."""
    pai.when("train-*").exits(2)
    with pytest.raises(PaiJobFailed):
        Train(rate=2.0).run()
    assert pai.job("train-2.0").status().exit_code == 2
