"""Tasks whose methods run in containers, as users write them in a module."""

from __future__ import annotations

import enum
import importlib.util
import socket
import subprocess
import time
from functools import cached_property, lru_cache
from pathlib import Path

import luigi

from luigi_pai import PaiPythonTask, PaiSweep, grid

__all__ = ["Broken", "InImage", "Long", "Many", "Meeting", "Rich", "Square"]

SCALE = 3


class InImage(PaiPythonTask):
    """Runs in the Python of an image, which tests set: a virtual environment without luigi."""

    run_id = luigi.Parameter()
    image = "python:3"
    memory_mb = 100


class Square(InImage):
    """A point."""

    number = luigi.IntParameter(default=7)

    def work(self):
        return {
            "square": self.number**2,
            "luigi": importlib.util.find_spec("luigi") is not None,
            "requests": importlib.util.find_spec("requests") is not None,
        }


class Many(PaiSweep):
    """Points, each a job or some in one."""

    run_id = luigi.Parameter()
    count = luigi.IntParameter(default=30)
    best = "max square"

    def points(self):
        return grid(Square, run_id=[self.run_id], number=range(self.count))


class Kind(enum.Enum):
    """A parameter that no image knows."""

    SMALL = 1
    LARGE = 2


class Net:
    """A class beside the task."""

    def scaled(self, value):
        return value * SCALE


@lru_cache
def tripled(value):
    """Be remembered, in the container, too."""
    return value * SCALE


TABLE = {"triple": tripled, "list": [lambda value: -value]}


def doubled(task):
    """Use a parameter of the task."""
    return task.rate * 2


class Counting:
    """A mixin."""

    start = 10

    def count(self):
        return self.start


class Rich(Counting, InImage):
    """Uses what a class may have."""

    rate = luigi.FloatParameter(default=0.5)
    kind = luigi.EnumParameter(enum=Kind, default=Kind.LARGE)
    sizes = luigi.DictParameter(default={"a": [1, 2]})
    day = luigi.DateParameter(default=luigi.date_interval.Date(2026, 1, 2).date_a)
    gpus = 0

    @property
    def name(self):
        return f"{super().name}-{self.get_task_family()}"

    def requires(self):
        return []

    def count(self):
        return super().count() + 1

    @property
    def half(self):
        return self.rate / 2

    @cached_property
    def many(self):
        return list(map(lambda each: each * SCALE, range(3)))  # noqa: C417  a nested function

    @staticmethod
    def fixed():
        return SCALE + 2

    @classmethod
    def own(cls):
        return cls.start

    def work(self):
        self.pai.report(step=1, loss=0.5)
        return {
            "count": self.count(),
            "half": self.half,
            "many": self.many,
            "fixed": self.fixed() + self.own() + Rich.start,
            "doubled": doubled(self),
            "net": Net().scaled(2),
            "tables": [TABLE["triple"](2), TABLE["list"][0](2)],
            "kind": self.kind.name,
            "sizes": self.sizes,
            "day": self.day.isoformat(),
            "memory": self.memory_mb + self.gpus,
            "name": self.name,
            "job": self.pai.current().name,
        }


class Broken(InImage):
    """Fails in a function that it calls."""

    def work(self):
        print("begun")  # noqa: T201  a log
        return self.middle()

    def middle(self):
        return lookup({}, self.run_id)


def lookup(values, key):
    """Fail."""
    return values[f"no {key}"]


class Meeting(InImage):
    """Two instances, of which the first waits for the word of the second."""

    instances = 2

    def work(self):
        place = self.pai.export_torch()
        address = place["MASTER_ADDR"], int(place["MASTER_PORT"])
        if place["RANK"] == "0":
            with socket.create_server(address) as server:
                connection, _ = server.accept()
                with connection, connection.makefile() as stream:
                    return {"heard": stream.readline(), "world": int(place["WORLD_SIZE"])}
        while True:
            try:
                with socket.create_connection(address, 5) as connection:
                    connection.sendall(b"I am 1\n")
                    return {"heard": "nothing"}
            except OSError:
                time.sleep(0.1)


class Long(InImage):
    """Fails after a checkpoint, from which its next submission goes on."""

    folder = luigi.Parameter(default="")

    @property
    def output_dir(self):
        return self.folder or super().output_dir

    def work(self):
        task = self.pai.current()
        step = self.read(task.checkpoint_dir)
        if step == 0:
            self.write(task.checkpoint_dir, 5)
            raise RuntimeError("the machine goes down")
        return {"from": step, "attempt": task.attempt}

    def read(self, folder):
        if "://" in folder:
            command = ["hdfs", "dfs", "-cat", f"{folder}/step"]
            found = subprocess.run(command, check=False, capture_output=True, text=True).stdout
            return int(found or 0)
        step = Path(folder) / "step"
        return int(step.read_text()) if step.exists() else 0

    def write(self, folder, step):
        if "://" in folder:
            subprocess.run(["hdfs", "dfs", "-mkdir", "-p", folder], check=True)
            subprocess.run(
                ["hdfs", "dfs", "-put", "-", f"{folder}/step"], check=True, input=str(step).encode()
            )
            return
        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "step").write_text(str(step))
