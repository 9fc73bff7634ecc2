"""Every way in which a worker of Luigi ends: what becomes of the job, and what the next run does.

docs/running-again.md has the table. Each row is made for real: a process of luigi is ended that way while its
job runs, and is then run again.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import pytest
from waiting import wait_until

from luigi_pai.api.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow

PIPELINE = """
import sys
import luigi
from luigi_pai import PaiTask, TaskRole

class Train(PaiTask):
    name = sys.argv[1]
    image = "x"
    worker_timeout = int(sys.argv[4]) or None
    tasks = [TaskRole("main", f"while [ ! -e {sys.argv[2]} ]; do sleep 0.1; done", memoryMB=100)]

class Other(luigi.Task):
    def output(self):
        return luigi.LocalTarget("other")
    def run(self):
        with self.output().open("w"):
            pass

tasks = [Train(), Other()] if int(sys.argv[3]) > 1 else [Train()]
sys.exit(not luigi.build(tasks, workers=int(sys.argv[3]), local_scheduler=True))
"""


@dataclass
class Pipeline:
    """A pipeline of one job, which ends when a file is there."""

    folder: Path
    cluster: Cluster
    name: str
    settings: dict[str, object]

    @property
    def ready(self) -> Path:
        """The file for which the job waits."""
        return self.folder / "ready"

    def start(self, *, workers: int, on_kill: str, worker_timeout: int = 0) -> subprocess.Popen[str]:
        """Start it, with a group of its own."""
        (self.folder / "pipeline.py").write_text(PIPELINE)
        lines = "".join(f"{key} = {value}\n" for key, value in self.settings.items())
        config = f"[OpenPai]\n{lines}on_kill = {on_kill}\n[worker]\nwait_interval = 0.2\n"
        (self.folder / "luigi.cfg").write_text(config)
        return subprocess.Popen(
            [sys.executable, "pipeline.py", self.name, str(self.ready), str(workers), str(worker_timeout)],
            cwd=self.folder,
            env={**os.environ, "LUIGI_CONFIG_PATH": str(self.folder / "luigi.cfg")},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def wait_for(self, state: str, name: str | None = None) -> None:
        """Wait until the job is in a state."""
        wait_until(lambda: self.state(name) == state, pause=0.1)

    def state(self, name: str | None = None) -> str:
        """Return the state of the job, empty before it is there."""
        states = {job.name: job.state.value for job in self.cluster.list()}
        return states.get(name or self.name, "")

    def submissions(self) -> list[str]:
        """Return the names of all submissions."""
        return sorted(job.name for job in self.cluster.list() if job.name.startswith(self.name))


@pytest.fixture
def pipeline(local_pai, tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline on the session's local OpenPAI."""
    cluster = Cluster(local_pai.url, local_pai.username, password=local_pai.password, api_version="v1")
    settings = {
        "pai_url": local_pai.url,
        "username": local_pai.username,
        "password": local_pai.password,
        "api_version": "v1",
        "poll_max": 0.5,
    }
    made = Pipeline(tmp_path, cluster, f"killed-{uuid.uuid4().hex[:8]}", settings)
    yield made
    made.ready.touch()


def child_of(process: subprocess.Popen[str]) -> int:
    """Return the worker process that watches the job."""
    children = psutil.Process(process.pid).children()
    (child,) = (child for child in children if child.status() != psutil.STATUS_ZOMBIE)  # of the other task
    return child.pid


def terminate(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGTERM)


def interrupt(process: subprocess.Popen[str]) -> None:
    os.kill(process.pid, signal.SIGINT)


def ctrl_c(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGINT)


def terminate_group(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGTERM)


def terminate_child(process: subprocess.Popen[str]) -> None:
    os.kill(child_of(process), signal.SIGTERM)


def kill_child(process: subprocess.Popen[str]) -> None:
    os.kill(child_of(process), signal.SIGKILL)


def kill_all(process: subprocess.Popen[str]) -> None:
    os.killpg(process.pid, signal.SIGKILL)


def wait_for_timeout(_: subprocess.Popen[str]) -> None:
    """Luigi ends the worker by itself."""


ENDS = [
    # how, workers, whether the process can stop the job
    pytest.param(terminate, 1, True, id="SIGTERM, one process"),
    pytest.param(interrupt, 1, True, id="SIGINT, one process"),
    pytest.param(kill_all, 1, False, id="SIGKILL, one process"),
    pytest.param(ctrl_c, 2, True, id="Ctrl-C, several processes"),
    pytest.param(terminate_group, 2, True, id="SIGTERM to the group, several processes"),
    pytest.param(terminate_child, 2, True, id="SIGTERM to the watching process"),
    pytest.param(kill_child, 2, False, id="SIGKILL of the watching process"),
    pytest.param(kill_all, 2, False, id="SIGKILL of the group"),
    pytest.param(wait_for_timeout, 2, True, id="worker_timeout"),
]


@pytest.mark.parametrize("on_kill", ["leave", "stop"])
@pytest.mark.parametrize(("end", "workers", "can_stop"), ENDS)
def test_a_worker_ends(pipeline, end, workers, can_stop, on_kill):
    """Left, the job goes on, and the next run takes it over; stopped, the next run submits it anew."""
    timeout = 5 if end is wait_for_timeout else 0
    first = pipeline.start(workers=workers, on_kill=on_kill, worker_timeout=timeout)
    pipeline.wait_for("RUNNING")
    time.sleep(0.5)  # until the worker watches it
    end(first)
    output, _ = first.communicate(timeout=60)
    assert first.returncode != 0
    stopped = can_stop and on_kill == "stop"
    pipeline.wait_for("STOPPED" if stopped else "RUNNING")
    if can_stop:
        said = "was asked to stop" if stopped else f"job {pipeline.name} continues"
        assert said in output
    second = pipeline.start(workers=1, on_kill="leave")
    latest = f"{pipeline.name}__attempt2" if stopped else pipeline.name
    pipeline.wait_for("RUNNING", latest)
    pipeline.ready.touch()
    output, _ = second.communicate(timeout=60)
    assert second.returncode == 0, output
    assert pipeline.submissions() == ([pipeline.name, latest] if stopped else [pipeline.name])
