"""A server that answers lookups and fails submissions for a minute, as 1.8 does without its write merger."""

from __future__ import annotations

import re
from collections import Counter
from inspect import signature

import pytest
from click.testing import CliRunner
from sweep_tasks import Study
from train_task import Train, build

from luigi_pai.cli import main

PROTOCOL = """\
protocolVersion: 2
name: train
type: job
prerequisites:
  - {name: img, type: dockerimage, uri: "python:3"}
taskRoles:
  worker:
    instances: 1
    dockerImage: img
    resourcePerInstance: {cpu: 1, memoryMB: 200, gpu: 0}
    commands: ["true"]
"""


@pytest.fixture
def outage(pai, settings):
    """A minute of it, on the clock of the test, after the first login; patience is what it is by default."""
    pai.release = "1.8.0"
    settings(poll_patience=1800, api_version="v2")
    pai.plan = {"runs_for": 5}
    pai.lose_write_merger(60)
    return pai


def run_command(*words: str):
    mixes = "mix_stderr" in signature(CliRunner).parameters  # up to click 8.1
    return CliRunner(**({"mix_stderr": False} if mixes else {})).invoke(main, list(words))


def test_a_task_is_submitted_when_the_server_accepts_jobs_again(outage):
    """Once, and after more tries than are made for a job that makes a server fail."""
    assert build(Train())
    assert outage.posts() == ["train"]
    assert outage.clock.elapsed >= 60
    assert 5 <= outage.count_answers(500, "POST") <= 12


def test_submit_and_wait_goes_on(outage, tmp_path):
    """The command ends as the job does."""
    (tmp_path / "train.yaml").write_text(PROTOCOL)
    result = run_command("submit", str(tmp_path / "train.yaml"), "--wait")
    assert (result.exit_code, result.stdout) == (0, "train\n")
    assert result.stderr.endswith("train: SUCCEEDED\n")
    assert outage.posts() == ["train"]


@pytest.mark.slow
def test_a_sweep_of_30_points_at_12_at_once_goes_on(outage, tmp_path):
    """Each job once. One post at a time tests the server, so the limit of 60 submissions an hour is kept."""
    outage.limits = {"submit": (60, 3600)}

    class Wide(Study):
        rates = tuple(number / 100 for number in range(1, 16))
        parallel_jobs = 12
        results_dir = str(tmp_path)

    assert build(Wide())
    assert len(outage.jobs) == 30
    assert set(Counter(outage.posts()).values()) == {1}
    assert outage.count_answers(202, "POST") == 30
    assert outage.count_answers(429) == 0


def test_a_command_that_gives_up_says_how_often_it_tried_and_what_may_be_there(outage, settings, tmp_path):
    """After poll_patience."""
    settings(poll_patience=40)
    (tmp_path / "train.yaml").write_text(PROTOCOL)
    result = run_command("submit", str(tmp_path / "train.yaml"))
    assert result.exit_code == 3
    text = " ".join(result.stderr.split())
    tried = re.search(r"500 ECONNRESET: read ECONNRESET; tried (\d+) times in 4\d s", text)
    assert tried
    assert int(tried[1]) >= outage.count_answers(500, "POST") > 1  # a connection may have broken, too
    assert text.endswith("job train may have been submitted; look it up before you submit it again")
    assert outage.posts() == []


def test_a_stop_waits_for_the_write_merger(outage):
    """It changes nothing to ask again."""
    outage.add("train", runs_for=3600)
    result = run_command("stop", "train")
    assert (result.exit_code, result.stdout) == (0, "train: STOPPED\n")
    assert outage.clock.elapsed >= 60
