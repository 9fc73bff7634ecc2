"""A newcomer's first steps: an OpenPAI on this machine, and each command in a process of its own."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from protocol_client import protocol
from waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]  # a process for each command

CLI = [sys.executable, "-m", "luigi_pai"]
FIRST = """
import luigi
from luigi_pai import PaiSweep, PaiTask, TaskRole, grid

class Hello(PaiTask):
    name = "hello"
    image = "python:3"
    tasks = [TaskRole("main", "echo hello from $PAI_JOB_NAME")]

class Train(PaiTask):
    number = luigi.IntParameter()
    image = "python:3"

    @property
    def name(self):
        return f"train-{self.number}"

    @property
    def tasks(self):
        return [TaskRole("main", f"echo {self.number}")]

class Best(PaiSweep):
    def points(self):
        return grid(Train, number=[1, 2])
"""


@pytest.fixture
def newcomer(tmp_path):
    """Starts the server, puts the lines that it prints into luigi.cfg, and runs commands beside it."""
    env = {**os.environ, "XDG_DATA_HOME": str(tmp_path / "xdg"), "HOME": str(tmp_path), "COLUMNS": "120"}
    said = tmp_path / "said"
    with said.open("wb") as out:
        server = subprocess.Popen(
            [*CLI, "local", "--port", "0"], stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=env
        )
    try:
        text = wait_until(lambda: "Ctrl-C" in said.read_text() and said.read_text())
        lines = re.search(r"\[OpenPai\]\n(?:  \w+ = .*\n)+", text)[0]
        (tmp_path / "luigi.cfg").write_text(re.sub("(?m)^  ", "", lines))
        (tmp_path / "first.py").write_text(FIRST)

        def run(*words):
            done = subprocess.run(
                [*CLI, *words],
                cwd=tmp_path,
                env=env,
                capture_output=True,
                text=True,
                check=False,
                timeout=100,
                stdin=subprocess.DEVNULL,
            )
            assert done.returncode == 0, done.stdout + done.stderr
            return done.stdout

        yield SimpleNamespace(title=text.splitlines()[0], run=run, folder=tmp_path)
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0


def test_what_is_submitted_is_found_again(newcomer):
    """A YAML job, a PaiTask and a sweep: by each command, though every one is a process of its own."""
    assert newcomer.title == "OpenPAI 1.8 on this machine"
    for name, command in (("job", "echo from YAML"), ("endless", "echo began; sleep 600")):
        (newcomer.folder / f"{name}.yaml").write_text(protocol(command, name=name))
        assert name in newcomer.run("submit", f"{name}.yaml")
    newcomer.run("run", "first", "Hello", "--local-scheduler")
    newcomer.run("run", "first", "Best", "--local-scheduler")
    names = ("job", "endless", "hello", "train-1", "train-2")
    wait_until(lambda: "SUCCEEDED" in newcomer.run("status", "job"))
    listed = newcomer.run("list")
    assert [name for name in names if name not in listed.split()] == []
    for name in ("hello", "train-2"):
        assert "SUCCEEDED" in newcomer.run("status", name)
    assert "from YAML" in newcomer.run("logs", "job")
    assert "hello from" in newcomer.run("logs", "hello")
    newcomer.run("stop", "endless")
    wait_until(lambda: "STOPPED" in newcomer.run("status", "endless"))
