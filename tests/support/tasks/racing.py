"""Pipelines that run at once, are killed at a request, and are run again: how often each command has run."""

from __future__ import annotations

import configparser
import os
import subprocess
import sys
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from places import ROOT

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from luigi_pai.local import LocalPai

__all__ = ["Race", "rounds"]

_PIPELINE = '''
import os
import signal
import sys

import luigi

from luigi_pai import PaiTask, TaskRole
from luigi_pai.api.wire.transport import Transport
from luigi_pai.hdfs.connection import Connection

prefix, folder, workers, seconds, points, kill_at, scheduler = sys.argv[1:8]


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
        command = f"echo $PAI_JOB_NAME >> {ran}; sleep {seconds}; ! test -e {folder}/fail"
        return [TaskRole("main", command, memoryMB=100)]


class Down(luigi.Task):
    """Comes after all of them."""

    def requires(self):
        return [First(number=number) for number in range(int(points))]

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


if int(kill_at):
    killed = Killed(int(kill_at))
    Transport.send = killed(Transport.send)
    Connection.send_once = killed(Connection.send_once)
where = {"scheduler_url": scheduler} if scheduler else {"local_scheduler": True}
done = luigi.build([Down()], workers=int(workers), no_lock=True, log_level="INFO", **where)
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
    """

    folder: Path
    server: LocalPai
    api_version: str = "auto"
    with_hdfs: bool = True
    points: int = 2
    prefix: str = field(default_factory=lambda: f"race-{uuid.uuid4().hex[:8]}")

    def run(
        self,
        count: int = 1,
        *,
        workers: int = 2,
        seconds: float = 0.3,
        kill_at: int = 0,
        scheduler: str = "",
    ) -> list[int]:
        """Run the pipeline in some processes at once; return their exit codes.

        Args:
            count: of processes.
            workers: of each.
            seconds: that each job takes.
            kill_at: kill a process and its workers before its request of this number, or after it, if
                negative; 0 for not at all.
            scheduler: URL of luigid; without one, each process schedules for itself.
        """
        script, config = self.folder / "pipeline.py", self.folder / "luigi.cfg"
        script.write_text(_PIPELINE)
        given = {**self.server.luigi_section, "api_version": self.api_version, "poll_max": 0.3}
        if not self.with_hdfs:
            del given["webhdfs_url"]
        parser = configparser.ConfigParser(interpolation=None)
        parser["OpenPai"] = {key: str(value) for key, value in given.items()}
        parser["worker"] = {"wait_interval": "0.2", "ping_interval": "0.5"}
        with config.open("w") as file:
            parser.write(file)
        words = [self.prefix, self.folder, workers, seconds, self.points, kill_at, scheduler]
        return self._together([sys.executable, str(script), *map(str, words)], str(config), count)

    def _together(self, command: Sequence[str], config: str, count: int) -> list[int]:
        env = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
        env |= {"LUIGI_CONFIG_PATH": config, "PYTHONPATH": str(ROOT)}
        processes = []
        for number in range(count):
            with (self.folder / f"log-{number}").open("wb") as log:
                processes.append(
                    subprocess.Popen(
                        command, cwd=self.folder, env=env, stdout=log, stderr=log, start_new_session=True
                    )
                )
        return [process.wait(150) for process in processes]

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
