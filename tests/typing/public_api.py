"""The public API as a user's type checker sees it: a contract, checked by mypy and pyright, never run."""

# pyright: reportUnnecessaryTypeIgnoreComment=true

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import luigi
from typing_extensions import assert_type

from luigi_pai import (
    AuthenticationError,
    Cluster,
    ClusterUnreachable,
    ConfigError,
    FunctionJob,
    HdfsError,
    HdfsFlagTarget,
    HdfsTarget,
    JobProtocol,
    JobState,
    JobStatus,
    OpenPai,
    PaiApiError,
    PaiError,
    PaiEvent,
    PaiHttpError,
    PaiJob,
    PaiJobError,
    PaiJobFailed,
    PaiJobTarget,
    PaiProtocolTask,
    PaiSweep,
    PaiSweepFailed,
    PaiTask,
    Port,
    Problem,
    RateLimited,
    SpecError,
    TaskRole,
    TaskStatus,
    grid,
    sample,
    slot_to_dict,
    zipped,
)
from luigi_pai.config import HdfsAccount
from luigi_pai.jobspec.protocol import (
    DockerImage,
    Extras,
    Prerequisite,
    Resources,
    Role,
    RuntimePlugin,
    Storage,
)


class ByProperty(PaiTask):
    """As the documentation of luigi.contrib.pai writes it."""

    rate = luigi.FloatParameter(default=0.1)

    @property
    def name(self) -> str:
        return f"train-{self.rate}"

    @property
    def image(self) -> str:
        return "openpai/pai.example.sklearn"

    @property
    def tasks(self) -> list[TaskRole]:
        return [TaskRole("main", f"python train.py {self.rate}", gpuNumber=1, portList=[Port("web")])]

    @property
    def output_dir(self) -> str:
        return f"$PAI_DEFAULT_FS_URI/{self.name}"

    def requires(self) -> ByAttribute:
        return ByAttribute()


class ByAttribute(PaiTask):
    """Plain class attributes in place of every property."""

    name = "prepare"
    image = "openpai/pai.example.sklearn"
    tasks = [TaskRole("main", "python prepare.py", minFailedTaskCount=None)]
    auth_file_path = None
    data_dir = "$PAI_DEFAULT_FS_URI/data"
    code_dir = None
    uploads = {"data.csv": "$PAI_DEFAULT_FS_URI/data/"}
    output_dir = None
    virtual_cluster = "default"
    gpu_type = None
    retry_count = 2
    logs = "stream"
    keep_logs = True
    max_attempts = 3
    retry_exit_codes = [75, range(80, 90), "134-139"]
    tags = ("nightly",)
    notify = ["failed"]


class ByAnnotatedAttribute(PaiTask):
    """Class attributes with their types."""

    name: str = "prepare"
    image: str = "openpai/pai.example.sklearn"
    tasks: Sequence[TaskRole] = (TaskRole("main", "python prepare.py"),)
    data_dir: str | None = None


class ByParameter(PaiTask):
    """Luigi parameters in place of properties."""

    name = luigi.Parameter()
    image = luigi.Parameter(default="openpai/pai.example.sklearn")
    gpu_type = luigi.OptionalParameter(default=None)
    retry_count = luigi.IntParameter(default=1)
    logs = luigi.ChoiceParameter(choices=["none", "stream"], default="none")
    max_attempts = luigi.IntParameter(default=3)
    tasks = (TaskRole("main", "python train.py"),)


class WithItsOwnJob(ByAttribute):
    """What has no property is set on the job."""

    def job(self) -> PaiJob:
        job = super().job()
        job.jobEnvs = {"LR": "0.1"}
        job.taskRoles[0].minSucceededTaskCount = 1
        job.taskRoles.append(TaskRole("ps", "python ps.py"))
        return job


class WithAnOutputElsewhere(ByAttribute):
    """An output may be any target ..."""

    def output(self) -> luigi.LocalTarget:
        return luigi.LocalTarget("/mnt/results/model")


class WithManyOutputs(ByAttribute):
    """... and any nesting of targets."""

    def output(self) -> dict[str, HdfsTarget]:
        return {"model": HdfsTarget("/results/model")}


class ProtocolByProperty(PaiProtocolTask):
    """A job of the YAML protocol, with what is merged into it."""

    rate = luigi.FloatParameter(default=0.1)

    @property
    def protocol(self) -> JobProtocol:
        return JobProtocol.from_file("train.yaml")

    @property
    def parameters(self) -> dict[str, float]:
        return {"rate": self.rate}

    @property
    def secrets(self) -> dict[str, str]:
        return {"key": "x"}


class ProtocolByAttribute(PaiProtocolTask):
    """A path or YAML text, with a name of its own."""

    name = "train"
    protocol = "train.yaml"
    parameters = {"rate": 0.1, "layers": [1, 2]}


class ProtocolByPath(PaiProtocolTask):
    """A path that is one."""

    protocol = Path("train.yaml")

    def job(self) -> JobProtocol:
        job = super().job()
        job.taskRoles["worker"].instances = 2
        job.extras.storages = [Storage("nfs", mountPath="/data", readOnly=True)]
        return job

    def output(self) -> luigi.LocalTarget:
        return luigi.LocalTarget("/mnt/results/model")


class Wrong(PaiTask):
    """What no server could take is an error where it is written."""

    image = 3  # type: ignore[assignment]


def tasks_are_made() -> list[PaiTask | PaiProtocolTask]:
    task: ByProperty = ByProperty(rate=0.5)
    assert_type(task.name, str)
    with_default: ByParameter = ByParameter(name="x")
    assert_type(with_default.image, str)
    return [task, ByAttribute(), with_default, ByAnnotatedAttribute(), ProtocolByProperty(0.5)]


def tasks_are_used(task: ByProperty, attributes: ByAttribute, parameters: ByParameter) -> None:
    assert_type(task.name, str)
    assert_type(task.tasks, list[TaskRole])
    assert_type(task.output_dir, str)
    assert_type(task.data_dir, str | None)
    assert_type(task.job(), PaiJob)
    assert_type(task.complete(), bool)
    task.run()
    with (task.output() / "metrics.json").open("r") as stream:
        json.load(stream)
    assert_type(attributes.name, str)
    assert_type(attributes.retry_count, int)
    assert_type(parameters.name, str)
    assert_type(parameters.retry_count, int)


def derived_tasks_are_used(
    annotated: ByAnnotatedAttribute,
    job: WithItsOwnJob,
    elsewhere: WithAnOutputElsewhere,
    many: WithManyOutputs,
) -> None:
    assert_type(annotated.tasks, Sequence[TaskRole])
    assert_type(job.job(), PaiJob)
    assert_type(elsewhere.output(), luigi.LocalTarget)
    assert_type(many.output()["model"], HdfsTarget)


def any_task_is_used(task: PaiTask) -> None:
    assert_type(task.name, str)
    assert_type(task.image, str)
    assert_type(task.tasks, Sequence[TaskRole])
    assert_type(task.retry_count, int)
    for value in (
        task.auth_file_path,
        task.data_dir,
        task.code_dir,
        task.output_dir,
        task.virtual_cluster,
        task.gpu_type,
    ):
        assert_type(value, str | None)
    assert_type(task.logs, str | None)
    assert_type(task.keep_logs, bool | None)
    assert_type(task.max_attempts, int | None)
    assert_type(task.tags, Sequence[str] | None)
    assert_type(task.notify, Sequence[str] | None)


@PaiTask.event_handler(PaiEvent.FAILED)
def events_are_handled(task: PaiTask, status: JobStatus, error: PaiJobError) -> None:
    assert_type(task.name, str)
    assert_type(status.takes_tags, bool)
    assert_type(error.job_name, str)


class WrongProtocol(PaiProtocolTask):
    """So it is for protocols."""

    protocol = 3  # type: ignore[assignment]


def functions_are_called(cluster: Cluster) -> None:
    job = cluster.call(max, 1, 2, kwargs={"key": abs}, image="python:3.11", gpus=1)
    assert_type(job, FunctionJob)
    assert_type(job.done(), bool)
    assert_type(job.wait(), JobStatus)
    assert_type(job.exception(), PaiJobFailed | None)
    cluster.submit(max, 1)  # type: ignore[arg-type]
    assert_type(cluster.map(abs, [1, 2], image="python:3.11"), list[FunctionJob])


def protocol_tasks_are_used(task: PaiProtocolTask) -> None:
    assert_type(task.name, str)
    assert_type(task.parameters, Mapping[str, Any])
    assert_type(task.secrets, Mapping[str, Any])
    assert_type(task.job(), JobProtocol)
    assert_type(task.render(filled=True), str)
    assert_type(task.complete(), bool)
    task.run()
    assert_type(PaiJobTarget(task).exists(), bool)


def derived_protocol_tasks_are_used(
    properties: ProtocolByProperty, attributes: ProtocolByAttribute, path: ProtocolByPath
) -> None:
    assert_type(properties.protocol, JobProtocol)
    assert_type(attributes.name, str)
    assert_type(path.output(), luigi.LocalTarget)


def protocols_are_written() -> None:
    protocol = JobProtocol(
        "train",
        parameters={"rate": 0.1},
        prerequisites=[
            DockerImage("image", "ubuntu"),
            Prerequisite.cmd("data", type="data", on_start=["wget https://example.org/data"]),
        ],
        taskRoles={
            "worker": Role(
                "image",
                commands=["train"],
                resourcePerInstance=Resources(cpu=1, memoryMB=1024, ports={"web": 1}),
                prerequisites=["data"],
            )
        },
        extras=Extras(runtimePlugins=[RuntimePlugin.ssh(sshbarrier=True)]),
    )
    assert_type(protocol.taskRoles["worker"], Role)
    assert_type(protocol.prerequisites, list[Prerequisite])
    assert_type(protocol.to_yaml(), str)
    assert_type(protocol.to_dict(), dict[str, Any])
    assert_type(protocol.renamed("other").filled(parameters={"rate": 1}), JobProtocol)
    assert_type(JobProtocol.from_yaml("..."), JobProtocol)
    assert_type(JobProtocol.from_dict({}), JobProtocol)
    assert_type(protocol.warnings, tuple[Problem, ...])
    Role("image", commands="train", resourcePerInstance=Resources(cpu=1, memoryMB=1))  # type: ignore[arg-type]
    Resources(cpu=1)  # type: ignore[call-arg]


def jobs_are_written() -> None:
    role = TaskRole("w", "c", 1, 1, 2048, 64, 0, [Port("a", 0, 1)], minFailedTaskCount=1)
    job = PaiJob("j", "i", (role,), virtualCluster="default", jobEnvs={"A": "1"}, extras={"x": [1]})
    TaskRole("w", "c", taskNumber="two")  # type: ignore[arg-type]
    PaiJob("j", "i", TaskRole("w", "c"))  # type: ignore[arg-type]
    job.retryCount = 3
    job.outputDir = None
    assert_type(job.taskRoles, list[TaskRole])
    assert_type(job.to_json(), str)
    json.dumps(job, default=slot_to_dict)


def statuses_are_read(status: JobStatus) -> None:
    assert_type(status.state, JobState)
    assert_type(status.exit_code, int | None)
    assert_type(status.diagnostics, str | None)
    assert_type(status.tasks, tuple[TaskStatus, ...])
    assert_type(status.finished, bool)
    assert_type(status.summary(), str)


def errors_are_caught(task: PaiTask) -> None:
    try:
        task.run()
    except SpecError as error:
        assert_type(error.problems, tuple[Problem, ...])
        assert_type(error.problems[0].path, str)
    except PaiJobFailed as error:
        assert_type(error.status, JobStatus)
    except RateLimited as error:
        assert_type(error.reset_at, float | None)
    except ClusterUnreachable as error:
        assert_type(error.answer_lost, bool)
    except (AuthenticationError, PaiHttpError) as error:
        assert_type(error.status, int)
        assert_type(error.code, str | None)
    except (ConfigError, HdfsError, PaiApiError, PaiJobError, PaiError):
        raise


def folders_with_a_flag_are_read() -> None:
    folder = HdfsFlagTarget("/out/", flag="_DONE")
    assert_type(folder.flag, str)
    assert_type(folder.exists(), bool)
    assert_type(folder / "part-00000", HdfsTarget)
    HdfsFlagTarget(flag="_DONE")  # type: ignore[call-arg]


def settings_are_read() -> None:
    settings = OpenPai()
    settings.check()
    assert_type(settings.pai_url, str)
    assert_type(settings.username, str)
    assert_type(settings.expiration, int)
    assert_type(settings.password, str | None)
    assert_type(settings.tls_verify(), bool | str)
    assert_type(settings.hdfs_account(), HdfsAccount | None)


class Points(PaiSweep):
    """Limits as plain attributes, as Luigi parameters, and as properties."""

    rates = luigi.ListParameter(default=(0.1,))
    parallel_jobs = 50
    tolerance = luigi.FloatParameter(default=0.05)
    results_dir = "results"
    best = "max accuracy"

    @property
    def max_attempts(self) -> int:
        return 2

    def points(self) -> list[Sweepable]:
        return grid(Sweepable, rate=self.rates, batch=[16, 32])


class Sweepable(PaiTask):
    rate = luigi.FloatParameter()
    batch = luigi.IntParameter()
    name = "x"
    image = "x"
    tasks = (TaskRole("w", "c"),)

    def result(self) -> dict[str, float]:
        return {"accuracy": 0.5}


class Proposed(PaiSweep):
    def points(self) -> Iterator[Sweepable | None]:
        yield Sweepable(rate=0.1, batch=16)
        yield None

    def tell(self, point: Sweepable, row: Mapping[str, Any]) -> None:
        self.accuracies = {point.rate: row["accuracy"]}

    def keep(self, point: Sweepable, reports: list[dict[str, Any]]) -> bool:
        return point.batch > 1 or bool(reports[-1]["loss"] < 1)


def sweeps_are_written() -> None:
    points: list[Sweepable] = grid(Sweepable, rate=[0.1])
    points = zipped(Sweepable, rate=(0.1,))
    points = sample(Sweepable, 3, seed=1, rate=lambda chance: chance.random())
    assert_type(points[0].rate, float)
    sample(Sweepable, 3, rate=[0.1])  # type: ignore[call-arg]
    Points(parallel_jobs=100)
    rows: list[dict[str, Any]] = Points().results.rows()
    assert_type(rows[0]["rate"], Any)
    try:
        Points().run()
    except PaiSweepFailed as error:
        assert_type(error.failed, tuple[str, ...])
