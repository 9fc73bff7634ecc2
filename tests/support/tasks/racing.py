"""Pipelines that run at once, are killed at a request, and are run again: how often each command has run."""

from __future__ import annotations

import configparser
import json
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from places import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from luigi_pai.local import LocalPai

__all__ = ["Race", "rounds"]

_PIPELINE = '''
import json
import os
import signal
import sys

import luigi

from luigi_pai import PaiSweep, PaiTask, TaskRole
from luigi_pai.api.wire.transport import Transport
from luigi_pai.hdfs.connection import Connection

given = json.loads(sys.argv[1])
folder, prefix = given["folder"], given["prefix"]


class First(PaiTask):
    """Fails while a file `fail` is there."""

    number = luigi.IntParameter()
    image = "x"

    @property
    def name(self):
        return f"{prefix}-{self.number}"

    @property
    def tasks(self):
        ran = f"{folder}/{self.name}"
        fails = "true" if self.number in given["failing"] else f"test -e {folder}/fail"
        command = f"echo $PAI_JOB_NAME >> {ran}; sleep {given['seconds']}; ! {fails}"
        return [TaskRole("main", command, memoryMB=100)]


numbers = range(given["first"], given["first"] + given["points"])


class Study(PaiSweep):
    """All of them as the points of a sweep."""

    name = f"study-{prefix}"
    points_per_job = given["points_per_job"]
    max_attempts = given["max_attempts"]
    # else it ends before all have run
    tolerance = given["points"] if os.path.exists(f"{folder}/fail") else len(given["failing"])
    results_dir = given["results"] or f"{folder}/results-{os.getpid()}"

    def points(self):
        return [First(number=number) for number in numbers]


class Down(luigi.Task):
    """Comes after all of them."""

    def requires(self):
        return Study() if given["points_per_job"] else [First(number=number) for number in numbers]

    def output(self):
        return luigi.LocalTarget(f"{folder}/down-{os.getppid()}")

    def run(self):
        with self.output().open("w"):
            pass


class Killed:
    """Kills the process before or after one of its requests, counted over its forks."""

    def __init__(self, at):
        self.after, self.left = at < 0, abs(at)
        self.file = os.open(f"{folder}/count-{os.getpid()}", os.O_CREAT | os.O_APPEND | os.O_RDWR)

    def __call__(self, send):
        def counted(*arguments, **options):
            os.write(self.file, b".")
            is_it = os.fstat(self.file).st_size == self.left
            if is_it and not self.after:
                os.killpg(0, signal.SIGKILL)
            try:
                return send(*arguments, **options)
            finally:
                if is_it:
                    os.killpg(0, signal.SIGKILL)

        return counted


if given["kill_at"]:
    killed = Killed(given["kill_at"])
    Transport.send = killed(Transport.send)
    Connection.send_once = killed(Connection.send_once)
where = {"scheduler_url": given["scheduler"]} if given["scheduler"] else {"local_scheduler": True}
done = luigi.build([Down()], workers=given["workers"], no_lock=True, log_level="INFO", **where)
sys.exit(0 if done else 30)
'''


def rounds() -> int:
    """Return how often each race is run: LUIGI_PAI_ROUNDS of the environment, or once."""
    return int(os.environ.get("LUIGI_PAI_ROUNDS", "1"))


@dataclass
class Race:
    """Pipelines of the same tasks on one server.

    Attributes:
        folder: of their files.
        server: runs the jobs.
        api_version: of [OpenPai].
        with_hdfs: whether webhdfs_url is set.
        points: number of tasks.
        prefix: of the names of their jobs.
        processes: those that were started last.
    """

    folder: Path
    server: LocalPai
    api_version: str = "auto"
    with_hdfs: bool = True
    points: int = 2
    prefix: str = field(default_factory=lambda: f"race-{uuid.uuid4().hex[:8]}")
    processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def run(self, count: int = 1, **options: Any) -> list[int]:
        """Run the pipeline in some processes at once, see ``start``; return their exit codes."""
        for _ in range(count):
            self.start(**options)
        return self.wait()

    def wait(self) -> list[int]:
        """Wait for the processes that were started, and return their exit codes."""
        codes = [process.wait(150) for process in self.processes]
        self.processes.clear()
        return codes

    def start(
        self,
        *,
        workers: int = 2,
        seconds: float = 0.3,
        kill_at: int = 0,
        scheduler: str = "",
        first: int = 0,
        points: int = 0,
        points_per_job: int = 0,
        max_attempts: int = 1,
        failing: Sequence[int] = (),
        results: str = "",
    ) -> None:
        """Start the pipeline in a process.

        Args:
            workers: of Luigi.
            seconds: that each job takes.
            kill_at: kill the process and its workers before its request of this number, or after it, if
                negative; 0 for not at all.
            scheduler: URL of luigid; without one, each process schedules for itself.
            first, points: the tasks, by their numbers; all where not given.
            points_per_job: the tasks are the points of a sweep; 0: they are not.
            max_attempts: of the sweep.
            failing: numbers of tasks that always fail.
            results: folder of the sweep's journal; one of its own where not given.
        """
        number = len(self.processes)  # others may be reading their files
        script, config = self.folder / f"pipeline-{number}.py", self.folder / f"luigi-{number}.cfg"
        script.write_text(_PIPELINE)
        given = {**self.server.luigi_section, "api_version": self.api_version, "poll_max": 0.3}
        if not self.with_hdfs:
            del given["webhdfs_url"]
        parser = configparser.ConfigParser(interpolation=None)
        parser["OpenPai"] = {key: str(value) for key, value in given.items()}
        parser["worker"] = {"wait_interval": "0.2", "ping_interval": "0.5"}
        with config.open("w") as file:
            parser.write(file)
        words = {
            "folder": str(self.folder),
            "prefix": self.prefix,
            "workers": workers,
            "seconds": seconds,
            "kill_at": kill_at,
            "scheduler": scheduler,
            "first": first,
            "points": points or self.points,
            "points_per_job": points_per_job,
            "max_attempts": max_attempts,
            "failing": list(failing),
            "results": results,
        }
        env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        env |= {"LUIGI_CONFIG_PATH": str(config), "PYTHONPATH": str(ROOT)}
        command = [sys.executable, str(script), json.dumps(words)]
        with (self.folder / f"log-{number}").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    command, cwd=self.folder, env=env, stdout=log, stderr=log, start_new_session=True
                )
            )

    def fail(self, *, fail: bool) -> None:
        """Let the jobs fail from now on, or succeed."""
        if fail:
            (self.folder / "fail").touch()
        else:
            (self.folder / "fail").unlink()

    def ran(self) -> list[list[str]]:
        """Return the submissions of each task that have run, a line for each time."""
        files = (self.folder / f"{self.prefix}-{number}" for number in range(self.points))
        return [file.read_text().split() if file.exists() else [] for file in files]

    def log(self) -> str:
        """Return what the processes of the last run have printed."""
        logs = sorted(self.folder.glob("log-*"))
        return "\n".join(f"== {log.name}\n{log.read_text()[-3000:]}" for log in logs)
