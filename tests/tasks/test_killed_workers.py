"""Every way in which a run of Luigi ends: what becomes of the job, and what the next run does.

docs/running-again.md has the table. Each row is made for real: ``luigi`` or ``luigi-pai run`` is ended that
way while its job runs.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

import psutil
import pytest
from luigi_process import environment, write_config
from places import PROGRAMS, ROOT
from waiting import wait_for_end, wait_until

from luigi_pai.api.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.slow


COMMANDS = {
    "luigi": ("luigi", "--no-lock", "--module"),  # a lock of its words is one of the whole machine
    "luigi-pai run": ("luigi_pai", "run"),
}


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

    @property
    def log(self) -> str:
        """What the last run has printed."""
        return (self.folder / "log").read_text()

    def start(self, command: str, *, workers: int, on_kill: str, timeout: int = 0) -> psutil.Popen:
        """Start a run, with a process group of its own."""
        config = write_config(
            self.folder, {**self.settings, "on_kill": on_kill}, worker={"wait_interval": "0.2"}
        )
        words = [
            *COMMANDS[command],
            "killed_pipeline",
            "All",
            "--name",
            self.name,
        ]
        words += ["--ready", str(self.ready), "--timeout", str(timeout)]
        words += ["--others", str(workers - 1), "--workers", str(workers)]
        with (self.folder / "log").open("w") as log:
            return psutil.Popen(
                [sys.executable, "-m", *words, "--local-scheduler"],
                cwd=self.folder,
                env=environment(config, PROGRAMS),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def wait_until_watched(self, name: str) -> None:
        """Wait until a run watches a job that runs."""
        wait_until(lambda: f"Job {name}: RUNNING" in self.log, pause=0.1)

    def states(self) -> dict[str, str]:
        """Return the state of each submission."""
        return {job.name: job.state.value for job in self.cluster.list() if job.name.startswith(self.name)}


@pytest.fixture
def pipeline(local_pai_v1, tmp_path: Path) -> Iterator[Pipeline]:
    """A pipeline on the session's local OpenPAI."""
    account = {key: local_pai_v1.luigi_section[key] for key in ("pai_url", "username", "password")}
    settings = {**account, "api_version": "v1", "poll_max": 0.5}
    url, username, password = account.values()
    cluster = Cluster(url, username, password=password, api_version="v1")
    made = Pipeline(tmp_path, cluster, f"killed-{uuid.uuid4().hex[:8]}", settings)
    yield made
    made.ready.touch()


def main_process(run: psutil.Popen) -> int:
    return int(run.pid)


def process_group(run: psutil.Popen) -> int:
    return -int(run.pid)


def watching(run: psutil.Popen) -> int:
    """Return the process that watches the job: the one without children, once others have ended."""
    (found,) = wait_until(lambda: one if len(one := without_children(run)) == 1 else None)
    return found


def without_children(run: psutil.Popen) -> list[int]:
    alive, parents = [], set()
    for process in [run, *run.children(recursive=True)]:
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.status() != psutil.STATUS_ZOMBIE:
                parents.add(process.ppid())
                alive.append(process.pid)
    return [pid for pid in alive if pid not in parents]


ENDS = {  # what is done to a run
    "SIGTERM to the main process": (main_process, signal.SIGTERM),
    "SIGHUP to the main process": (main_process, signal.SIGHUP),
    "SIGTERM to the process group": (process_group, signal.SIGTERM),
    "SIGHUP to the process group (a closed terminal, a broken ssh)": (process_group, signal.SIGHUP),
    "SIGINT to the process group (Ctrl-C)": (process_group, signal.SIGINT),
    "SIGKILL of the main process": (main_process, signal.SIGKILL),
    "SIGTERM to the process that watches the job": (watching, signal.SIGTERM),
    "SIGKILL of the process that watches the job": (watching, signal.SIGKILL),
    "SIGKILL of the process group": (process_group, signal.SIGKILL),
    "`worker_timeout` of the task": (main_process, 0),  # Luigi ends the worker by itself
}


def rows() -> Iterator[tuple[str, int, bool]]:
    """Yield the rows of the table: how, workers, whether the job is stopped."""
    page = (ROOT / "docs" / "running-again.md").read_text(encoding="utf-8")
    for how, workers, cell in re.findall(r"^\| (.*) \| (\d) \| (stopped|continues) \|$", page, re.MULTILINE):
        yield how, int(workers), cell == "stopped"


@pytest.mark.tree
def test_the_table_is_whole():
    """Each way to end is in it, and those that concern the main process with one and with four workers."""
    table = {(how, workers) for how, workers, _ in rows()}
    assert {how for how, _ in table} == set(ENDS)
    for how in (how for how in ENDS if "main process" in how or how == "SIGTERM to the process group"):
        assert {(how, workers) for workers in (1, 4)} <= table


def runs() -> Iterator[tuple[str, int, str, bool, str]]:
    """Yield the rows with on_kill = stop; some of them with leave, too, and with luigi-pai run."""
    for how, workers, is_stopped in rows():
        yield how, workers, "luigi", is_stopped, "stop"
        if is_stopped and workers > 1 and "main process" in how:
            yield how, workers, "luigi", is_stopped, "leave"
        if workers > 1 and ("main process" in how or "Ctrl-C" in how):
            yield how, workers, "luigi-pai run", is_stopped, "stop"


@pytest.mark.tree
@pytest.mark.parametrize(("how", "workers", "command", "is_stopped", "on_kill"), list(runs()))
def test_a_run_ends(pipeline, how, workers, command, is_stopped, on_kill):
    """The job continues or is stopped, as the table says, and no process of the run is left."""
    run = pipeline.start(command, workers=workers, on_kill=on_kill, timeout=15 if "timeout" in how else 0)
    pipeline.wait_until_watched(pipeline.name)
    others = [process.pid for process in run.children(recursive=True)]
    target, number = ENDS[how]
    os.kill(target(run), number)
    run.wait(120)
    for pid in others:
        wait_for_end(pid)
    stopped = is_stopped and on_kill == "stop"
    wait_until(lambda: pipeline.states()[pipeline.name] == ("STOPPED" if stopped else "RUNNING"))
    if "SIGKILL" not in how:
        said = "was asked to stop" if stopped else f"job {pipeline.name} continues"
        assert pipeline.log.count(said) == 1


@pytest.mark.parametrize("on_kill", ["leave", "stop"])
def test_the_next_run(pipeline, on_kill):
    """It takes the job over, or submits it anew if it was stopped."""
    first = pipeline.start("luigi", workers=4, on_kill=on_kill)
    pipeline.wait_until_watched(pipeline.name)
    first.kill()
    latest = pipeline.name
    if on_kill == "stop":
        wait_until(lambda: pipeline.states()[pipeline.name] == "STOPPED")
        latest += "__attempt2"
    first.wait(120)
    second = pipeline.start("luigi", workers=1, on_kill="leave")
    pipeline.wait_until_watched(latest)
    pipeline.ready.touch()
    assert second.wait(120) == 0, pipeline.log
    assert sorted(pipeline.states()) == sorted({pipeline.name, latest})


def test_a_signal_that_is_ignored_stays_ignored(pipeline):
    """As nohup lets SIGHUP be ignored: the run goes on to the end of its job."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        run = pipeline.start("luigi-pai run", workers=4, on_kill="stop")
    finally:
        signal.signal(signal.SIGHUP, before)
    pipeline.wait_until_watched(pipeline.name)
    os.killpg(run.pid, signal.SIGHUP)
    pipeline.ready.touch()
    assert run.wait(120) == 0, pipeline.log
