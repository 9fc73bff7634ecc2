"""max_attempts and retry_exit_codes: a job that fails is submitted again by the same run."""

from __future__ import annotations

import luigi
import pytest
import responses
from lives import Life, lives
from local_client import unique
from protocols import protocol
from train_task import Command

from luigi_pai import PaiJobFailed, PaiProtocolTask, reset_clusters


class Train(Command):
    max_attempts = 3


def test_by_default_a_run_makes_one_attempt(pai, monkeypatch):
    monkeypatch.setattr(Train, "max_attempts", None)
    pai.plan = {"ends_as": "FAILED", "exit_code": 1}
    with pytest.raises(PaiJobFailed) as caught:
        Train().run()
    assert str(caught.value).endswith("\n  run the task again to submit the job again")
    assert pai.posts() == ["train"]


@pytest.mark.slow
@pytest.mark.parametrize("server", ["local_pai_v1", "local_pai_v2"])
def test_the_task_succeeds_with_the_attempt_that_does(request, as_settings, server):
    as_settings(request.getfixturevalue(server))
    task = Train(name=unique(), command='[ "$LUIGI_PAI_ATTEMPT" = 2 ]')
    task.run()
    assert task.complete()
    reset_clusters()
    assert task.complete()


@pytest.mark.parametrize("by", ["setting", "task"])
@lives("attempts")
def test_a_life(pai, settings, caplog, monkeypatch, steps, by):
    if by == "setting":
        monkeypatch.setattr(Train, "max_attempts", None)
        settings(max_attempts=3)
    Life(pai, settings, caplog, Train).play(steps)


@pytest.mark.parametrize(
    ("codes", "exit_code", "attempts"),
    [
        ([1, 7], 7, 3),
        (["5-9"], 7, 3),
        ("1, 5 - 9", 7, 3),
        (range(5, 8), 7, 3),
        (7, 7, 3),
        ([-210, "-230--215"], -220, 3),
        ([8], 7, 1),
        ([], 7, 1),
        ([range(5, 7), "9-255"], 7, 1),
    ],
)
def test_only_some_exit_codes_are_retried(pai, monkeypatch, codes, exit_code, attempts):
    monkeypatch.setattr(Train, "retry_exit_codes", codes)
    pai.plan = {"ends_as": "FAILED", "exit_code": exit_code}
    with pytest.raises(PaiJobFailed) as caught:
        Train().run()
    assert len(pai.posts()) == attempts
    if attempts == 1:
        assert "the last one: its exit code is not in retry_exit_codes; run" in str(caught.value)


@pytest.mark.slow
@pytest.mark.usefixtures("v2_cluster")
def test_the_exit_code_of_the_command_counts_as_well(settings):
    """1.8 reports most codes as 255; the command's own is in the diagnostics."""
    settings(max_attempts=2, retry_exit_codes="40-49")

    class Job(PaiProtocolTask):
        command = luigi.Parameter()

        @property
        def protocol(self):
            return protocol(self.command, name=unique())

    with pytest.raises(PaiJobFailed, match="attempt 2 of 2 of this run"):
        Job(command="exit 42").run()
    with pytest.raises(PaiJobFailed, match="attempt 1 of 2 of this run, the last one: its exit code is not"):
        Job(command="exit 50").run()


@responses.activate
def test_bare_replies_are_enough(settings):
    """As tests written for luigi.contrib.pai mock them."""
    settings(pai_url="http://pai", username="admin", password="secret")
    jobs = "http://pai/api/v1/jobs"
    responses.post("http://pai/api/v1/token", json={"token": "t"})
    responses.post(jobs, status=202, json={})
    responses.get(f"{jobs}/train", status=404, json={})
    for _ in range(2):
        responses.get(f"{jobs}/train", json={"jobStatus": {"state": "FAILED"}})
    responses.get(f"{jobs}/train__attempt2", json={"jobStatus": {"state": "SUCCEED"}})
    Train().run()
