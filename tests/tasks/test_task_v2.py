"""A PaiTask written for v1 on a v2 cluster: the dialect is learned, the life is the same."""

from __future__ import annotations

import logging

import luigi
import pytest
from lives import Life, lives

from luigi_pai import PaiTask, TaskRole
from luigi_pai.errors import SpecError
from luigi_pai.jobspec.names import v2_name

V2 = ["0.17.0", "1.8.0"]


class Train(PaiTask):
    """A task as users of v1 clusters have them."""

    name = luigi.Parameter(default="train")
    image = "ubuntu"
    tasks = (TaskRole("ps_server", "python ps.py"), TaskRole("worker", "python train.py", 2))


@pytest.fixture(params=V2)
def cluster(pai, request):
    """A cluster of the v2 dialect."""
    pai.release = request.param
    return pai


@lives("v2")
def test_a_life(cluster, settings, caplog, steps):
    Life(cluster, settings, caplog, Train).play(steps)


@lives("dialects")
def test_how_the_dialect_is_learned(pai, settings, caplog, steps):
    Life(pai, settings, caplog, Train).play(steps)


class Lines(Train):
    tasks = (TaskRole("main", "set -e\ntrain\nevaluate\n"),)


@pytest.mark.parametrize(("release", "is_warned"), [("0.7.1", True), ("1.8.0", False)])
def test_a_warning_about_old_releases_is_for_clusters_of_v1(pai, caplog, release, is_warned):
    """A command of several lines runs on 0.7 and 0.8, and from 0.15 on."""
    pai.release = release
    task = Lines()
    assert not task.complete()
    task.run()
    said = [text for text in caplog.messages if "OpenPAI 0.9 to 0.14" in text]
    assert len(said) == (2 if is_warned else 0)
    assert all(text.startswith("Job train: taskRoles[0].command: has ") for text in said)
    sent = pai.jobs["train"].config["taskRoles"]
    sent = sent[0]["command"] if is_warned else sent["main"]["commands"][-1]
    assert sent == "set -e\ntrain\nevaluate"


@pytest.mark.parametrize("name", ["a.b", "a~b"])
def test_a_name_that_v2_does_not_know(cluster, name, caplog):
    """The job gets another name, which is said; attempts, and a later look, know it by that."""
    cluster.add(v2_name(name), ends_as="FAILED", exit_code=1)
    task = Train(name=name)
    with caplog.at_level(logging.WARNING, "luigi-interface"):
        task.run()
    assert cluster.posts() == [v2_name(name), f"{v2_name(name)}__attempt2"]
    assert task.complete()
    (said,) = [message for message in caplog.messages if "jobName" in message]
    assert said == (
        f"Job {name}__attempt2, and others like it, on a v2 cluster: jobName: becomes "
        f"'{v2_name(name)}__attempt2': v2 names contain only letters, digits, _ and -"
    )


def test_a_job_too_large_in_v2_is_not_sent(pai, monkeypatch):
    """100 kB count for the protocol too; nothing is sent."""
    pai.release = "1.8.0"
    monkeypatch.setattr(Train, "tasks", (TaskRole("a", "true"),))
    room = 100 * 1024 - len(Train().job().to_json())
    monkeypatch.setattr(Train, "tasks", (TaskRole("a", "true" + " " + "x" * (room - 1)),))
    assert len(Train().job().to_json()) == 100 * 1024  # as much as v1 takes
    Train().complete()
    with pytest.raises(SpecError, match="bytes"):
        Train().run()
    assert pai.posts() == []
