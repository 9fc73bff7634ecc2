"""Each attribute of the tasks as a property, a class attribute and a Luigi parameter, right and wrong.

A contract, checked by mypy and pyright, never run. A comment that ignores an error is one itself where
either of the two sees none.
"""

# pyright: reportUnnecessaryTypeIgnoreComment=true
# pyright: reportIncompatibleVariableOverride=true, reportIncompatibleMethodOverride=true

from __future__ import annotations

import abc
import functools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import luigi
from typing_extensions import assert_type

from luigi_pai import JobProtocol, PaiProtocolTask, PaiTask, TaskRole
from luigi_pai.tasks.attributes import attribute


class Properties(PaiTask):
    rate = luigi.FloatParameter(default=0.1)

    def requires(self) -> dict[str, luigi.Task]:
        return {}

    @property
    def name(self) -> str:
        return f"train-{self.rate}"

    @functools.cached_property
    def image(self) -> str:
        return "ubuntu"

    @property
    def tasks(self) -> list[TaskRole]:
        return [TaskRole("main", "true")]

    @property
    def auth_file_path(self) -> str:
        return "/auth"

    @property
    def data_dir(self) -> str | None:
        return super().data_dir

    @property
    def code_dir(self) -> None:
        return None

    @property
    def uploads(self) -> dict[str, str]:
        return {**super().uploads, "code/": "/code"}

    @property
    def output_dir(self) -> str:
        return f"/out/{self.name}"

    @property
    def virtual_cluster(self) -> str:
        return "gpu"

    @property
    def gpu_type(self) -> str | None:
        return None

    @property
    def cluster(self) -> str:
        return "gpu2" if self.rate > 1 else "cpu"

    @property
    def retry_count(self) -> int:
        return super().retry_count + 1

    @property
    def accepts_messages(self) -> bool:
        return False


class Values(PaiTask):
    name = "train"
    image = "ubuntu"
    tasks = [TaskRole("main", "true")]
    auth_file_path = "/auth"
    data_dir = None
    code_dir = "/code"
    uploads = {"code/": "/code"}
    output_dir = None
    virtual_cluster = None
    gpu_type = "V100"
    cluster = "gpu2"
    retry_count = 2
    accepts_messages = False


class OtherValues(Values):
    """What is given may be given again."""

    image = "debian"
    tasks = [*Values.tasks, TaskRole("more", "true")]
    retry_count = 3


class Parameters(PaiTask):
    name = luigi.Parameter()
    image = luigi.Parameter(default="ubuntu")
    tasks = (TaskRole("main", "true"),)
    auth_file_path = luigi.OptionalParameter(default=None)
    data_dir = luigi.OptionalStrParameter(default=None)
    code_dir = luigi.Parameter(default="/code", significant=False)
    uploads = luigi.DictParameter(default={"code/": "/code"})
    output_dir = luigi.Parameter(default="/out")
    virtual_cluster = luigi.ChoiceParameter(choices=["a", "b"], default="a")
    gpu_type = luigi.OptionalParameter(default="V100")
    cluster = luigi.OptionalParameter(default=None)
    retry_count = luigi.IntParameter(default=1)
    accepts_messages = luigi.BoolParameter(default=True)


class Mixed(luigi.WrapperTask, PaiTask):
    """Of two bases, one of them Luigi's."""

    name = luigi.Parameter()
    image = "ubuntu"

    @property
    def tasks(self) -> list[TaskRole]:
        return []


class ProtocolProperties(PaiProtocolTask):
    @property
    def protocol(self) -> Path:
        return Path("train.yaml")

    @property
    def name(self) -> str:
        return f"{super().name}-2"

    @property
    def parameters(self) -> dict[str, float]:
        return {"rate": 0.1}

    @property
    def secrets(self) -> Mapping[str, str]:
        return {"key": os.environ["KEY"]}


class ProtocolValues(PaiProtocolTask):
    protocol = JobProtocol.from_yaml("...")
    name = "train"
    parameters = {"rate": 0.1, "layers": [1, 2]}
    secrets = {"key": "x"}
    accepts_messages = False


class ProtocolParameters(PaiProtocolTask):
    protocol = luigi.PathParameter()
    name = luigi.Parameter()
    parameters = luigi.DictParameter(default={"rate": 0.1})
    secrets = luigi.DictParameter(default={"key": "x"}, significant=False)


class WithMore(Values):
    """A base of one's own may offer the same."""

    @attribute
    def limit(self) -> float | None:
        """A number, or none."""
        return None

    @attribute
    @abc.abstractmethod
    def steps(self) -> Sequence[int]:
        """Required."""


class MoreValues(WithMore):
    limit = 3
    steps = [1, 2]


class MoreParameters(WithMore):
    limit = luigi.OptionalFloatParameter(default=None)

    @property
    def steps(self) -> tuple[int, ...]:
        return (1,)


class WrongValues(PaiTask):
    name = None  # type: ignore[assignment]
    image = 3  # type: ignore[assignment]
    tasks = "x"  # type: ignore[assignment]
    data_dir = Path("/data")  # type: ignore[assignment]
    uploads = ["code"]  # type: ignore[assignment]
    output_dir = b"/out"  # type: ignore[assignment]
    retry_count = "two"  # type: ignore[assignment]


class WrongProperties(PaiTask):
    @property
    def name(self) -> int:  # type: ignore[override]
        return 3

    def image(self) -> str:  # type: ignore[override]
        """The decorator was forgotten."""
        return "ubuntu"

    @property
    def tasks(self) -> str:  # type: ignore[override]
        return ""

    @property
    def retry_count(self) -> str:  # type: ignore[override]
        return "two"


class WrongParameters(PaiTask):
    name = luigi.OptionalParameter()  # type: ignore[assignment]
    image = luigi.IntParameter()  # type: ignore[assignment]
    retry_count = luigi.FloatParameter()  # type: ignore[assignment]


class WrongProtocol(PaiProtocolTask):
    protocol = 3  # type: ignore[assignment]
    name = 3  # type: ignore[assignment]
    parameters = [1]  # type: ignore[assignment]
    secrets = "x"  # type: ignore[assignment]


def whatever_gives_it_what_is_read_has_a_type(
    properties: Properties, values: Values, parameters: Parameters, mixed: Mixed, more: MoreParameters
) -> None:
    for name in (properties.name, values.name, parameters.name, mixed.name):
        assert_type(name, str)
    assert_type(properties.image, str)
    assert_type(properties.tasks, list[TaskRole])
    assert_type(properties.data_dir, str | None)
    assert_type(properties.uploads, dict[str, str])
    assert_type(values.image, str)
    assert_type(values.tasks[0].name, str)
    assert_type(values.uploads["code/"], str)
    assert_type(parameters.auth_file_path, str | None)
    for count in (properties.retry_count, values.retry_count, parameters.retry_count, mixed.retry_count):
        assert_type(count, int)
    assert_type(more.limit, float | None)


def so_it_has_in_any_task(task: PaiTask, protocol: PaiProtocolTask, more: WithMore) -> None:
    assert_type(task.name, str)
    assert_type(task.tasks, Sequence[TaskRole])
    assert_type(task.uploads, Mapping[str, str])
    assert_type(task.output_dir, str | None)
    assert_type(task.retry_count, int)
    assert_type(protocol.protocol, JobProtocol | str | os.PathLike[str])
    assert_type(protocol.parameters, Mapping[str, Any])
    assert_type(more.limit, float | None)
    assert_type(more.steps, Sequence[int])
    _ = task.nmae  # type: ignore[attr-defined]


def tasks_are_made_with_parameters() -> None:
    Properties(rate=0.1)
    Properties(0.1)
    Parameters(name="x", retry_count=2)
    ProtocolParameters(name="x", protocol="train.yaml")
    WithMore()  # type: ignore[abstract]
    made: list[luigi.Task] = [Mixed(name="x"), Values(), MoreValues()]
    _ = Values().nmae  # type: ignore[attr-defined]
    number: int = Values()  # type: ignore[assignment]
    assert_type((made, number), tuple[list[luigi.Task], int])
