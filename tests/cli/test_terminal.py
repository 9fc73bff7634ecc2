"""Every command on a terminal of 80 columns, through a pipe, and where NO_COLOR is set."""

from __future__ import annotations

import io
import os
import pty
import re
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from cli_commands import cli_commands
from terminal import ESCAPE, on_terminal, read_terminal

from luigi_pai.cli import main

pytestmark = pytest.mark.slow

COLUMNS = 80
PIPELINE = """
import luigi
from luigi_pai import PaiTask, TaskRole


class TerminalTrain(PaiTask):
    learning_rate_of_the_optimizer = luigi.FloatParameter(default=0.0001)
    name_of_the_augmentation = luigi.Parameter(default="flip-and-crop")
    name = luigi.Parameter(default="x")
    image = "python:3"

    @property
    def tasks(self):
        return [TaskRole("main", f"echo 'RuntimeError: {'the loss is not a number; ' * 9}' >&2; exit 1")]
"""
# command, exit code; NAME is a job that failed, GOES one that goes on, HUGE one that waits
COMMANDS = [
    ("logs NAME wroker", 2),  # first, as the lists of jobs that the others get have no task roles
    ("list", 0),
    ("list --all-users", 0),
    ("list -q", 0),
    ("list nothing*", 0),
    ("status NAME GOES HUGE", 0),
    ("status nothing-of-this-name-which-is-long", 1),
    ("logs NAME", 0),
    ("doctor", 0),
    ("ls /", 0),
    ("put terminal_pipeline.py /terminal/pipeline.py", 0),
    ("get /terminal/pipeline.py back.py", 0),
    ("validate FILE", 0),
    ("validate BAD", 1),
    ("plan terminal_pipeline TerminalTrain --name NAME", 1),
    ("submit BAD", 1),
    ("submit FILE --name NAME", 1),
    ("submit FILE --name NAME-again --wait", 1),
    ("submit --like NAME --name NAME-like", 0),
    ("stop GOES HUGE", 0),
    ("stop NAME", 0),
    ("frobnicate", 2),
    *[(f"{command} --help", 0) for command in ["", *cli_commands()]],
]


@pytest.fixture(params=["terminal", "pipe", "NO_COLOR"])
def printed(request, monkeypatch):
    """Run luigi-pai with such an output; return its exit code and all that it printed."""
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.delenv("NO_COLOR", raising=False)
    if request.param == "NO_COLOR":
        monkeypatch.setenv("NO_COLOR", "1")

    def run(words):
        if request.param == "pipe":
            output = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
            code = called(words, output)
            return code, output.buffer.getvalue().decode()
        own, its = pty.openpty()
        with ThreadPoolExecutor() as pool:
            shown = pool.submit(read_terminal, own)
            with os.fdopen(its, "w", encoding="utf-8") as output:
                code = called(words, output)
            return code, shown.result()

    def called(words, output):
        with monkeypatch.context() as patched:
            patched.setattr(sys, "stdout", output)
            patched.setattr(sys, "stderr", output)
            try:
                main(words, prog_name="luigi-pai")
            except SystemExit as end:
                output.flush()
                return end.code

    run.kind = request.param
    return run


@pytest.fixture
def jobs(pai_command, job_file, name, here, tmp_path, monkeypatch):
    """Names and files that stand in the commands."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "terminal_pipeline.py").write_text(PIPELINE, encoding="utf-8")
    bad = tmp_path / "bad.json"
    bad.write_text('{"jobName": "a b", "image": "x", "taskRoles": [], "memory": 5}', encoding="utf-8")
    script = "echo 'RuntimeError: CUDA error: device-side assert triggered' >&2; exit 1"
    pai_command("submit", job_file(name, script), "--wait", expect=1)
    for job, gpus in ((f"{name}-goes", 22), (f"{name}-huge", 99)):
        pai_command("submit", job_file(job, "sleep 60", gpu=gpus))
    yield {
        "GOES": f"{name}-goes",
        "HUGE": f"{name}-huge",
        "NAME": name,
        "FILE": f"{name}.{'json' if (tmp_path / f'{name}.json').exists() else 'yaml'}",
        "BAD": "bad.json",
    }
    for job in here.list():
        if not job.finished:
            here.stop(job.name)


def broken_words(text: str) -> list[str]:
    """Return lines that a terminal breaks within a word; a label and one long word, such as a URL, may be."""
    lines = [part for line in ESCAPE.sub("", text).splitlines() for part in line.split("\r")]
    return [line for line in lines if len(line) > COLUMNS and len(line.split()) > 2]


@pytest.mark.parametrize("dialect", ["v2"], indirect=True)
def test_every_command(printed, jobs):
    """Each ends with the right code; tables fit a terminal; a pipe and NO_COLOR get no colours."""
    coloured = False
    for command, expected in COMMANDS:
        words = command.split()
        for placeholder, value in jobs.items():
            words = [word.replace(placeholder, value) for word in words]
        code, text = printed(words)
        assert (command, code) == (command, expected), text
        assert text
        assert "Traceback" not in text
        if printed.kind != "pipe":
            assert broken_words(text) == [], command
        if printed.kind != "pipe" and words[0] == "list":
            assert max(map(len, ESCAPE.sub("", text).splitlines())) <= COLUMNS, command
        coloured = coloured or "\x1b" in text
    assert coloured == (printed.kind == "terminal")


@pytest.mark.parametrize("dialect", ["v2"], indirect=True)
@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_run_on_a_terminal(with_luigi_cfg, name, no_color):
    """Its progress is drawn without escape sequences."""
    (with_luigi_cfg / "terminal_pipeline.py").write_text(PIPELINE, encoding="utf-8")
    env = {key: value for key, value in os.environ.items() if key != "COLUMNS"} | {"NO_COLOR": no_color}
    words = ["run", "terminal_pipeline", "TerminalTrain", "--name", name, "--local-scheduler", "--no-lock"]
    command = [sys.executable, "-m", "luigi_pai", *words]
    code, text = on_terminal(command, columns=COLUMNS, cwd=with_luigi_cfg, env=env)
    assert code == 1
    assert f"job '{name}' ended as FAILED" in text
    assert "\x1b" not in text
    assert broken_words(text) == []
    assert re.search(r"\d\d:\d\d:\d\d  job .*\n {10}\S", text)  # a log line goes on below its text
    assert "1 failed" in text
