"""The luigi command with a luigi.cfg: runs, is killed in the middle, and goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.usefixtures("real_time"), pytest.mark.slow]

PIPELINE = """
import luigi
from luigi_pai import PaiTask, TaskRole

class Train(PaiTask):
    name = luigi.Parameter(default="train")
    image = "x"
    tasks = [TaskRole("main", "x")]

class All(luigi.WrapperTask):
    def requires(self):
        return [Train(name=f"job{number}") for number in range(3)]
"""


@pytest.fixture
def luigi_command(pai, tmp_path: Path):
    """Start the luigi command on a pipeline in a folder with a luigi.cfg."""
    (tmp_path / "luigi.cfg").write_text(
        textwrap.dedent(
            f"""
            [core]
            no_lock = true

            [OpenPai]
            pai_url = {pai.url}
            username = admin
            password = admin-password
            poll_min = 0.05
            poll_max = 0.2

            [retcode]
            already_running = 10
            missing_data = 20
            not_run = 25
            task_failed = 30
            scheduling_error = 35
            unhandled_exception = 40
            """
        )
    )
    (tmp_path / "pipeline.py").write_text(PIPELINE)
    started = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "luigi", "--module", "pipeline", *arguments],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(tmp_path)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def finish(process: subprocess.Popen[str], expected: int = 0) -> str:
    output, _ = process.communicate(timeout=120)
    assert process.returncode == expected, output
    return output


def test_a_run_and_a_run_again(pai, luigi_command):
    """A pipeline runs with exit code 0; run again it finds everything complete and posts nothing."""
    finish(luigi_command("All", "--local-scheduler", "--workers", "3"))
    assert sorted(pai.posts()) == ["job0", "job1", "job2"]
    output = finish(luigi_command("All", "--local-scheduler"))
    assert pai.count("POST", "/jobs") == 3
    assert "complete ones were encountered" in output


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_worker_leaves_a_job_that_the_next_run_takes_over(pai, luigi_command, how):
    """Killed while the job runs, at once or by Ctrl-C, the next run follows the same job to its end."""
    pai.plan = {"runs_for": 3600.0}
    process = luigi_command("Train", "--local-scheduler")
    wait_until(lambda: pai.count("GET", "/jobs/train") >= 3 or process.poll() is not None)
    os.kill(process.pid, how)
    process.communicate(timeout=120)
    assert process.returncode != 0
    assert pai.jobs["train"].state == "RUNNING"
    asked = pai.count("GET", "/jobs/train")
    process = luigi_command("Train", "--local-scheduler")
    wait_until(lambda: pai.count("GET", "/jobs/train") >= asked + 3 or process.poll() is not None)
    pai.jobs["train"].runs_for = 0.0
    output = finish(process)
    assert "already exists (RUNNING); nothing is submitted" in output
    assert pai.posts() == ["train"]
    assert pai.count("POST", "/jobs") == 1


def test_a_failed_job_is_exit_code_and_reason(pai, luigi_command):
    """A failed job makes the command fail, and its output says why and where to look."""
    pai.plan = {"ends_as": "FAILED", "exit_code": 3, "diagnostics": "out of memory"}
    output = finish(luigi_command("Train", "--local-scheduler"), expected=30)
    assert (
        "PaiJobFailed: job 'train' ended as FAILED with exit code 3 (NON_TRANSIENT): out of memory" in output
    )
    assert "job page: " in output


def test_a_server_that_is_down_is_a_scheduling_error(pai, luigi_command):
    """A server that is down does not break the import of a pipeline; the command says what to check."""
    pai.down()
    output = finish(luigi_command("Train", "--local-scheduler"), expected=35)
    assert f"cannot reach {pai.url}: Connection refused; check pai_url in [OpenPai]" in output
