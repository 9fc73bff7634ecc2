"""Tags of jobs, and the notifications of the cluster."""

from __future__ import annotations

import json
import logging

import luigi
import pytest
from click.testing import CliRunner
from lives import Life, lives
from local_client import unique
from protocols import protocol
from train_task import Command

from luigi_pai import OpenPai, PaiProtocolTask
from luigi_pai.cli import main


class Train(Command):
    task_namespace = "vision"


class Protocol(PaiProtocolTask):
    name = luigi.Parameter()
    protocol = protocol(extras={"jobStatusChangeNotification": {"retried": True}})


class WithTags(Life):
    """Lives on a server of 1.8."""

    def tags(self, names):
        """Compare the tags of jobs."""
        assert {name: self._pai.jobs[name].tags for name in names} == names

    def add_tags(self, names):
        for name, tags in names.items():
            self._pai.jobs[name].tags += tags


@lives("tags")
def test_a_life(pai, settings, caplog, steps):
    pai.release = "1.8.0"
    with caplog.at_level(logging.WARNING, "luigi-interface"):
        WithTags(pai, settings, caplog, Train).play(steps)
    about = [text for text in caplog.messages if "notify" in text or "without the tag" in text]
    assert len(about) <= 1


@pytest.mark.slow
@pytest.mark.usefixtures("v2_cluster")
def test_the_command_line_finds_jobs_by_them(settings):
    """luigi-pai list -t and stop --tag."""
    settings(api_version="v2", tags=unique("tag"))
    tag = OpenPai().tags
    task = Train(name=unique(), command="true")
    task.run()
    OpenPai().cluster().submit(Train(name=unique()).job()).wait()
    assert OpenPai().cluster().job(task.name).status().tags == ("luigi", "luigi:vision.Train", tag)
    shown = CliRunner().invoke(main, ["list", "-t", tag, "--json"])
    assert [job["name"] for job in json.loads(shown.output)] == [task.name]
    shown = CliRunner().invoke(main, ["stop", "--tag", tag, "--yes"])
    assert "none of these jobs is waiting or running" in shown.output


def test_notifications_of_a_protocol_stay(pai, monkeypatch, caplog):
    """Also where the stored job is compared with the task afterwards."""
    pai.release = "1.8.0"
    monkeypatch.setattr(Protocol, "notify", ["failed"], raising=False)
    with caplog.at_level(logging.WARNING, "luigi-interface"):
        Protocol(name="p").run()
    assert pai.jobs["p"].config["extras"] == {
        "jobStatusChangeNotification": {"retried": True, "failed": True}
    }
    assert "definition has changed" not in caplog.text
