"""Tags of jobs, and the notifications of the cluster."""

from __future__ import annotations

import json
import logging

import luigi
import pytest
from click.testing import CliRunner
from local_client import unique
from protocols import protocol

from luigi_pai import ConfigError, OpenPai, PaiProtocolTask, PaiTask, TaskRole
from luigi_pai.cli import main


class Train(PaiTask):
    name = luigi.Parameter(default="train")
    command = luigi.Parameter(default="true", significant=False)
    task_namespace = "vision"
    image = "python"

    @property
    def tasks(self):
        return [TaskRole("main", self.command, memoryMB=100)]


class Protocol(PaiProtocolTask):
    name = luigi.Parameter()
    protocol = protocol(extras={"jobStatusChangeNotification": {"retried": True}})


def tagging(pai):
    return [path for method, path in pai.calls if method == "PUT"]


# ---------------------------------------------------------------- tags


@pytest.mark.parametrize("release", ["1.8.0", "ltp-1.5"])
def test_a_job_gets_the_tags_of_its_task(pai, settings, release):
    """One request each, after the submission."""
    pai.release = release
    settings(tags="nightly, team a,luigi")
    pai.plan = {"runs_for": 0.2}
    Train().run()
    assert pai.jobs["train"].tags == ["luigi", "luigi:vision.Train", "nightly", "team a"]
    assert tagging(pai) == ["/api/v2/jobs/admin~train/tag"] * 4


@pytest.mark.parametrize("release", ["0.7.1", "0.17.0", "1.0.1"])
def test_servers_without_tags_are_sent_none(pai, monkeypatch, release):
    pai.release = release
    monkeypatch.setattr(Train, "tags", ["nightly"])
    Train().run()
    assert tagging(pai) == []


def test_a_job_that_is_taken_over_gets_those_that_it_lacks(pai, monkeypatch):
    """Its submitter was killed meanwhile; one that has all is asked for nothing."""
    pai.release = "1.8.0"
    monkeypatch.setattr(Train, "tags", ("nightly",))
    pai.add("train", runs_for=0.2).tags += ["luigi", "mine"]
    Train().run()
    assert pai.jobs["train"].tags == ["luigi", "mine", "luigi:vision.Train", "nightly"]
    pai.calls.clear()
    pai.add("other", runs_for=0.2).tags += ["luigi", "luigi:vision.Train", "nightly"]
    Train(name="other").run()
    assert tagging(pai) == []


def test_a_job_runs_without_its_tags(pai, caplog):
    """A server whose database refuses them; the rest is not tried."""
    pai.release = "1.8.0"
    pai.fail("PUT", "/tag", 500, times=9)
    with caplog.at_level(logging.WARNING, "luigi-interface"):
        Train().run()
    told = next(message for message in caplog.messages if "tag" in message)
    assert told.startswith("Job train runs without the tag luigi: ")
    assert len(tagging(pai)) == 1


@pytest.mark.slow
def test_the_command_line_finds_jobs_by_them(local_pai_v2, as_settings, settings):
    """luigi-pai list -t and stop --tag."""
    as_settings(local_pai_v2)
    settings(api_version="v2", tags=unique("tag"))
    tag = OpenPai().tags
    task = Train(name=unique(), command="true")
    task.run()
    OpenPai().cluster().submit(Train(name=unique()).job()).wait()
    assert OpenPai().cluster().job(task.name).status().tags == ("luigi", "luigi:vision.Train", tag)
    shown = CliRunner().invoke(main, ["list", "-t", tag, "--json"])
    assert [job["name"] for job in json.loads(shown.output)] == [task.name]
    shown = CliRunner().invoke(main, ["stop", "--tag", tag, "--yes"])
    assert "no job of these is going on" in shown.output


@pytest.mark.parametrize("tags", [["a,b"], [""], [7], 7])
def test_wrong_tags_are_refused_before_anything_is_sent(pai, monkeypatch, tags):
    monkeypatch.setattr(Train, "tags", tags)
    with pytest.raises(ConfigError, match=r"^Train: tags = .* is not valid; use texts without commas$"):
        Train().run()
    assert pai.calls == []


# ---------------------------------------------------------------- notify


def test_a_v2_job_asks_for_notifications(pai, settings):
    pai.release = "1.8.0"
    settings(notify="succeeded, failed")
    Train().run()
    assert pai.jobs["train"].config["extras"] == {
        "jobStatusChangeNotification": {"succeeded": True, "failed": True}
    }


def test_those_of_a_protocol_stay(pai, monkeypatch, caplog):
    """Also where the stored job is compared with the task afterwards."""
    pai.release = "1.8.0"
    monkeypatch.setattr(Protocol, "notify", ["failed"], raising=False)
    with caplog.at_level(logging.WARNING, "luigi-interface"):
        Protocol(name="p").run()
    assert pai.jobs["p"].config["extras"] == {
        "jobStatusChangeNotification": {"retried": True, "failed": True}
    }
    assert "definition has changed" not in caplog.text


def test_without_notify_a_job_is_as_it_is_written(pai):
    pai.release = "1.8.0"
    Train().run()
    assert "extras" not in pai.jobs["train"].config


@pytest.mark.parametrize("release", ["0.7.1", "1.0.1"])
def test_a_cluster_before_1_5_sends_none_which_is_said(pai, monkeypatch, caplog, release):
    """The pipeline runs there all the same."""
    pai.release = release
    pai.add("earlier")
    Train(name="earlier").complete()  # the version of the API is known from here on
    monkeypatch.setattr(Train, "notify", ["failed"])
    with caplog.at_level(logging.WARNING, "luigi-interface"):
        Train().run()
    assert "extras" not in pai.jobs["train"].config
    text = "Job train: notify is ignored, clusters of OpenPAI before 1.5 send no notifications"
    assert [each for each in caplog.messages if "notify" in each] == [text]


@pytest.mark.parametrize("value", ["all", ["failed", "ended"], 7])
def test_wrong_notifications_are_refused_before_anything_is_sent(pai, monkeypatch, value):
    monkeypatch.setattr(Train, "notify", value)
    valid = "running, succeeded, stopped, failed, retried"
    with pytest.raises(ConfigError, match=f"^Train: notify = .* is not valid; use some of {valid}$"):
        Train().run()
    assert pai.calls == []
