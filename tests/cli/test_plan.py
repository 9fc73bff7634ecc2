"""luigi-pai plan and luigi-pai run: tasks of a module, on the terminal."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from cli_commands import replay, transcripts
from terminal import on_terminal

from luigi_pai import PaiJob, TaskRole, reset_clusters
from luigi_pai.api.cluster import Cluster

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

MODULE = """
import luigi
from luigi_pai import PaiProtocolTask, PaiSweep, PaiTask, TaskRole, grid
from luigi_pai.tasks.task_work import Forecast

class Train(PaiTask):
    number = luigi.IntParameter()
    command = luigi.Parameter(default="true")
    image = "x"

    @property
    def name(self):
        return f"PREFIX-{self.number}"

    @property
    def tasks(self):
        return [TaskRole("main", self.command, memoryMB=100, gpuNumber=2)]

class Fast(Train):
    fast = luigi.BoolParameter()

class Held(Train):
    def forecast(self):
        return Forecast("blocked", 1, "job 'x' was submitted 62 hours ago")

class Day(luigi.Task):
    number = luigi.IntParameter()
    def requires(self):
        return [Day(number=self.number - 1)] if self.number else []
    def output(self):
        return luigi.LocalTarget(f"day-{self.number}")

class Missing(PaiProtocolTask):
    protocol = "missing.yaml"

class Bare(PaiTask):
    tasks = [TaskRole("main", "true")]

class Broken(PaiTask):
    name = image = "x"
    tasks = [TaskRole("main", "true")]
    def __init__(self, *args, **kwargs):
        raise RuntimeError("oh no")

class Study(PaiSweep):
    def points(self):
        return grid(Train, number=range(1, 4))

class Piped(Study):
    def points(self):
        return grid(Train, number=range(2, 5), command=["false | tee log"])

class Shared(Study):
    points_per_job = 2

class Unsteady(Study):
    drawn = iter(range(1000))
    def points(self):
        return grid(Train, number=[next(self.drawn)])

class Aimless(Unsteady):
    best = "accuracy"

class Search(Study):
    def tell(self, point, row):
        pass

class Report(luigi.Task):
    def requires(self):
        return [Train(number=1), Train(number=2)]
    def output(self):
        return luigi.LocalTarget("report")
    def run(self):
        with self.output().open("w"):
            pass
"""


@pytest.fixture
def folder(here_modules: Path, cluster, name: str, settings) -> Path:
    """A folder with a module and a luigi.cfg, whose keys are also those of this process."""
    tmp_path = here_modules
    (tmp_path / "pipeline.py").write_text(MODULE.replace("PREFIX", name))
    keys = {"pai_url": cluster.url, "username": cluster.username, "password": cluster.password}
    settings(**keys, api_version="v1")
    lines = "".join(f"{key} = {value}\n" for key, value in {**keys, "api_version": "v1"}.items())
    (tmp_path / "luigi.cfg").write_text(f"[OpenPai]\n{lines}[worker]\nwait_interval = 0.2\n")
    return tmp_path


@pytest.fixture
def run(folder, as_process) -> Callable[..., str]:
    """Run luigi-pai run in a process, and return all that it prints: standard error comes last."""
    del folder  # the current folder

    def run(*words: str, expect: int = 0) -> str:
        done = as_process("run", "pipeline", *words, "--local-scheduler", expect=expect)
        return done.stdout + done.stderr

    return run


@pytest.fixture
def plan(folder, pai_command) -> Callable[..., str]:
    """Run luigi-pai plan in this process, and return all that it prints: standard error comes last."""
    del folder  # the current folder

    def run(*words: str, expect: int = 0) -> str:
        reset_clusters()
        result = pai_command("plan", "pipeline", *words, expect=expect)
        return result.stdout + result.stderr

    return run


@pytest.fixture
def has_run(cluster, name: str) -> Callable[..., None]:
    """Run the job of the Train of a number, without Luigi."""

    def run(number: int, command: str = "true") -> None:
        here = Cluster(cluster.url, cluster.username, password=cluster.password, api_version="v1")
        job = PaiJob(f"{name}-{number}", "x", [TaskRole("main", command, memoryMB=100, gpuNumber=2)])
        here.submit(job).wait()

    return run


def test_the_tree_before_between_and_after(run, plan, has_run):
    """Jobs to submit with their GPUs, what is done, what waits for it; nothing is submitted."""
    assert plan("Report", expect=1).splitlines() == [
        "Report()  blocked",
        "├─ Train(number=1, command=true)  to submit, 2 GPUs",
        "└─ Train(number=2, command=true)  to submit, 2 GPUs",
        "2 jobs to submit, 4 GPUs in all",
    ]
    has_run(1)
    has_run(2, "exit 1")
    tree = json.loads(plan("Report", "--json", expect=1))
    assert [(one["state"], one["attempt"]) for one in tree["requires"]] == [("done", 1), ("to submit", 2)]
    run("Report")
    assert plan("Report") == "Report()  done\n0 jobs to submit\n"


def test_a_warning_about_jobs_to_submit_is_shown_once(plan, has_run):
    """Of a task and of a sweep, on standard error; not about a job that is done."""
    words = ("Train", "--number", "1", "--command", "false | tee log")
    lines = plan(*words, expect=1).splitlines()
    assert len([line for line in lines if "succeeds even if false fails" in line]) == 1
    assert lines[-1].startswith("warning: Train: taskRoles[0].command: role 'main' succeeds even if false")
    has_run(1, "false | tee log")
    assert "warning" not in plan(*words)
    lines = plan("Piped", expect=1).splitlines()
    assert lines[-1].startswith("warning: Piped: taskRoles[0].command: role 'main' succeeds even if false")
    assert lines[-1].endswith("(3 of 3 points)")


@pytest.mark.parametrize("transcript", transcripts("plan"))
def test_a_transcript(transcript, folder, pai_command):
    """What is typed and what is printed, as tests/data/cli/plan.txt has it."""
    replay(transcript, pai_command, folder)


def test_a_long_chain(plan):
    """A task for each day, which needs that of the day before, for some years."""
    lines = plan("Day", "--number", "2000", expect=1).splitlines()
    assert len(lines) == 2002
    assert lines[2000].endswith("└─ Day(number=0)  to run")


def test_the_points_of_a_sweep(plan, has_run):
    """Those that are done, and what is to submit; nothing is submitted."""
    has_run(1)
    assert plan("Study", expect=1) == (
        "Study()  to run, 3 points: 1 done, 2 to submit, 4 GPUs\n2 jobs to submit, 4 GPUs in all; 1 done\n"
    )
    tree = json.loads(plan("Study", "--json", expect=1))
    assert tree["jobs"] == {"done": 1, "to submit": 2}


def test_a_server_that_is_not_there_is_one_line(folder, run):
    """Not what urllib3 says of requests that are repeated."""
    text = (folder / "luigi.cfg").read_text()
    text = re.sub("pai_url = .*", "pai_url = http://127.0.0.1:9\npoll_patience = 1", text)
    (folder / "luigi.cfg").write_text(text)
    shown = run("Train", "--number", "1", expect=4)
    assert shown.count("\n") == 1
    assert "cannot reach http://127.0.0.1:9" in shown


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", ["plan", "render"])
def test_a_protocol_whose_file_is_not_there(settings, pai_command, command):
    settings(api_version="v2")
    text = pai_command(command, "pipeline", "Missing", expect=2).stderr
    assert text.startswith(f"luigi-pai {command}: Missing of pipeline: ")
    assert "protocol of Missing: the file does not exist" in text


def test_run_shows_a_line_for_each_change_and_the_job_s_own_error(run, name):
    """Not Luigi's bookkeeping, and no traceback."""
    text = run("Train", "--number", "7")
    assert f"Submitted job {name}-7 to http://" in text
    assert text.endswith(f"  Job {name}-7: SUCCEEDED, 1 task\n")
    again = run("Train", "--number", "7")
    assert re.fullmatch(r"\d\d:\d\d:\d\d  Nothing to run: the task is complete\n", again)
    failing = ("--number", "8", "--command", "echo oh no >&2; exit 9")
    text = run("Train", *failing, expect=1)
    assert f"job '{name}-8' ended as FAILED with exit code 9" in text
    assert "oh no" in text
    assert "INFO" not in text


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("password = hidden", "line 1: this line is not in a section"),
        ("[core]\nno_lock = hidden", "parsing the default value of 'no_lock'"),
    ],
)
def test_run_shows_no_line_of_a_configuration_that_cannot_be_read(folder, text, said, run):
    """A traceback of configparser shows the line, which may be a password."""
    (folder / "luigi.cfg").write_text(text)
    shown = run("Train", "--number", "1", expect=2)
    assert shown.count("\n") == 1
    assert said in shown
    assert "hidden" not in shown


def test_a_run_that_is_ended_by_sigterm_ends_luigi(folder, name, cluster):
    """As a CI, a container or an init system does it: the job is stopped, as on_kill says."""
    text = (folder / "luigi.cfg").read_text().replace("[OpenPai]\n", "[OpenPai]\non_kill = stop\n")
    (folder / "luigi.cfg").write_text(text)
    job = ["pipeline", "Train", "--number", "4", "--command", "sleep 60", "--workers", "2"]
    command = [sys.executable, "-m", "luigi_pai", "run", *job, "--local-scheduler"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        while "RUNNING" not in (line := running.stdout.readline()):
            assert line, "ended"
        running.terminate()
        assert "was asked to stop" in running.stdout.read()  # until no process has it open
    assert running.returncode == 1
    here = Cluster(cluster.url, cluster.username, password=cluster.password, api_version="v1")
    assert here.job(f"{name}-4").wait().raw_state == "STOPPED"


def test_a_progress_line_on_a_terminal(folder):
    """It is drawn below the lines, and removed at the end."""
    command = [sys.executable, "-m", "luigi_pai", "run", "pipeline", "Train", "--number", "9"]
    code, shown = on_terminal([*command, "--local-scheduler"], cwd=folder)
    assert code == 0, shown
    assert ": 1 done" in shown
    assert re.search(r": 1 done *\r +\r$", shown)


def shown_by(folder: Path, *words: str) -> str:
    """Run a Python program in a folder, which has the pipeline, and return all that it prints."""
    return subprocess.run(
        [sys.executable, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([".", os.environ.get("PYTHONPATH", "")])},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=True,
        timeout=60,
    ).stdout


def test_a_quiet_console_for_every_luigi(folder, name):
    """By one line of luigi.cfg."""
    text = (folder / "luigi.cfg").read_text().replace("[OpenPai]\n", "[OpenPai]\nconsole = quiet\n")
    (folder / "luigi.cfg").write_text(text)
    luigi = ("-m", "luigi", "--module", "pipeline", "Train", "--number", "3", "--local-scheduler")
    shown = shown_by(folder, *luigi)
    assert f"Job {name}-3: SUCCEEDED, 1 task" in shown
    assert "Execution Summary" not in shown
    assert "INFO" not in shown


def test_a_quiet_console_for_a_script(folder, name):
    """Installed before luigi.build, which would set up its own."""
    (folder / "script.py").write_text(
        "import luigi, luigi_pai.console\n"
        "luigi_pai.console.install()\n"
        "from pipeline import Train\n"
        "luigi.build([Train(number=6)], local_scheduler=True)\n"
    )
    shown = shown_by(folder, "-W", "ignore", "script.py")
    assert shown.count(f"Job {name}-6: SUCCEEDED, 1 task") == 1
    assert "INFO" not in shown
    assert "Execution Summary" not in shown
