"""What has no effect in a task's class is warned of, once, and what has one is left alone."""

from __future__ import annotations

import luigi
import pytest

from luigi_pai import PaiTask, TaskRole


class Base(PaiTask):
    image = "python:3"

    @property
    def name(self):
        return f"checked-{self.task_family}"

    @property
    def tasks(self):
        return [TaskRole("main", "true")]


class Named(Base):
    name = luigi.Parameter(default="named")
    priority = luigi.IntParameter(default=3)
    retry_count = luigi.IntParameter(default=1)


class Finishing(Base):
    def run(self):
        super().run()


class Misspelt(Base):
    outputDir = "$PAI_DEFAULT_FS_URI/x"
    queue_timout = 3
    data_dir_of_mine = "x"


class Idle(Base):
    def run(self):
        self.idle = True


def warnings_about(task, caplog):
    task._definition()
    task._definition()
    return [record.getMessage().partition("): ")[2] for record in caplog.records]


@pytest.mark.parametrize("kind", [Named, Finishing])
def test_what_has_an_effect_is_left_alone(kind, caplog):
    assert warnings_about(kind(), caplog) == []


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Misspelt, ["outputDir is no attribute of a task", "queue_timout is no attribute of a task"]),
        (Idle, ["run() submits no job"]),
    ],
)
def test_what_has_none_is_warned_of_once(kind, words, caplog):
    found = warnings_about(kind(), caplog)
    assert [text[: len(word)] for text, word in zip(found, words, strict=True)] == words
