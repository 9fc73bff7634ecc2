"""What has no effect in a task's class is warned of, once, and what has one is left alone."""

from __future__ import annotations

import hashlib
import time

import luigi
import pytest

from luigi_pai import PaiProtocolTask, PaiTask, TaskRole


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


class Used(Base):
    rate = luigi.FloatParameter(default=0.1)
    epochs = luigi.IntParameter(default=1)
    seed = luigi.IntParameter(default=1)
    note = luigi.Parameter(default="", significant=False)

    def requires(self):
        return [luigi.WrapperTask() for _ in range(self.epochs)]

    @property
    def tasks(self):
        return [TaskRole("main", f"train {getattr(self, 'seed')} {self.rate}")]  # noqa: B009


class ByItself(Base):
    rate = luigi.FloatParameter(default=0.1)

    @property
    def tasks(self):
        return [TaskRole("main", command_of(self))]


class OfAll(Base):
    rate = luigi.FloatParameter(default=0.1)

    @property
    def tasks(self):
        return [TaskRole("main", str(self.param_kwargs))]


class Finishing(Base):
    def run(self):
        super().run()


class Misspelt(Base):
    outputDir = "$PAI_DEFAULT_FS_URI/x"
    queue_timout = 3
    data_dir_of_mine = "x"


class Unused(Base):
    rate = luigi.FloatParameter(default=0.1)


class Idle(Base):
    def run(self):
        self.idle = True


class Hashed(Base):
    @property
    def name(self):
        return f"checked-{hash('a') % 1000}"


class Timed(Base):
    @property
    def name(self):
        return f"checked-{int(time.time())}"


class Daily(Base):
    identity = luigi.Parameter(default="a")

    @property
    def name(self):
        return f"checked-{hashlib.sha256(self.identity.encode()).hexdigest()[:8]}-{time.strftime('%d')}"


class Study(PaiProtocolTask):
    rate = luigi.FloatParameter(default=0.1)
    protocol = "name: study"


class Filled(Study):
    @property
    def parameters(self):
        return {"rate": self.rate}


def command_of(task):
    return f"train {task.rate}"


def warnings_about(task, caplog):
    task._check_class()
    task._check_class()
    return [record.getMessage().partition("): ")[2] for record in caplog.records]


class Sized(Base):
    """Its attributes are used by code of its own."""

    gpus, env = 2, {"A": "1"}
    memory = 1000
    cpus = luigi.IntParameter(default=1)

    @property
    def tasks(self):
        size = {"cpuNumber": self.cpus, "memoryMB": self.memory}
        return [TaskRole("main", f"{self.env}", gpuNumber=self.gpus, **size)]


@pytest.mark.parametrize("kind", [Named, Used, ByItself, OfAll, Finishing, Sized, Daily, Filled])
def test_what_has_an_effect_is_left_alone(kind, caplog):
    assert warnings_about(kind(), caplog) == []


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (Misspelt, ["outputDir is no attribute of a task", "queue_timout is no attribute of a task"]),
        (Unused, ["its parameter rate is used nowhere"]),
        (Idle, ["run() submits no job"]),
        (Hashed, ["name uses hash(), whose value is another one in a later run, so that it submits"]),
        (Timed, ["name uses time.time(), whose value is another one"]),
        (
            Study,
            ["its parameter rate is used nowhere, so that it changes the name and not the job: use it in"],
        ),
    ],
)
def test_what_has_none_is_warned_of_once(kind, words, caplog):
    found = warnings_about(kind(), caplog)
    assert [text[: len(word)] for text, word in zip(found, words, strict=True)] == words
