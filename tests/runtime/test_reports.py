"""report(): lines of JSON in the output folder, which never fail a job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from container_environments import Role, v1, v2
from old_python import oldest_python

from luigi_pai import runtime
from luigi_pai.runtime import report

ALONE = [Role("main", ["10.0.0.2"], [{"http": [1001], "ssh": [1002]}])]
SCRIPT = """
import sys
sys.path.insert(0, sys.argv[1])
import runtime
for step in range(3):
    runtime.report(step=step, loss=1.5 / (step + 1))
"""
HDFS = """#!/bin/sh
echo "$@" >>"$HDFS_LOG"
[ -z "$HDFS_FAILS" ] || exit 1
[ "$2" != -appendToFile ] || cat >>"$HDFS_FILE"
"""


@pytest.fixture
def inside(monkeypatch):
    def enter(environ):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)

    yield enter
    runtime._reporter.cache_clear()


@pytest.fixture
def hdfs(tmp_path):
    """Return an environment whose ``hdfs`` command writes into one file, and that file."""
    command = tmp_path / "bin" / "hdfs"
    command.parent.mkdir()
    command.write_text(HDFS)
    command.chmod(0o755)
    return {
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "HDFS_LOG": str(tmp_path / "calls"),
        "HDFS_FILE": str(tmp_path / "file"),
    }


def run(environ, python=sys.executable):
    done = subprocess.run(
        [python, "-c", SCRIPT, str(Path(runtime.__file__).parent)],
        env=environ, capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_line_for_each_report(inside, tmp_path):
    """In a folder that a mount has: written at once, appended to what an earlier submission wrote."""
    inside(v2(ALONE, "main", 0, job="train__attempt2", PAI_OUTPUT_DIR=str(tmp_path)))
    file = tmp_path / "_reports" / "main-0.jsonl"
    file.parent.mkdir()
    file.write_text('{"step": 0}\n')
    report(step=1, steps=4, loss=0.5)
    report(step=2, steps=4, loss=0.25, note="ü", attempt="mine", time="later")
    first, second, third = map(json.loads, file.read_text().splitlines())
    assert first == {"step": 0}
    assert isinstance(second.pop("time"), float)
    assert second == {"attempt": 2, "step": 1, "steps": 4, "loss": 0.5}
    assert (third["step"], third["note"], third["attempt"]) == (2, "ü", 2)
    assert isinstance(third["time"], float)


def test_numbers_of_numpy_are_numbers(inside, tmp_path):
    numpy = pytest.importorskip("numpy", reason="numpy is not installed (the demo brings it)")
    inside({"PAI_OUTPUT_DIR": str(tmp_path)})
    report(loss=numpy.float32(0.5), step=numpy.int64(3), where=Path("a"), losses=numpy.array([1, 2]))
    line = json.loads((tmp_path / "_reports" / "main-0.jsonl").read_text())
    assert (line["loss"], line["step"], line["where"], line["losses"]) == (0.5, 3, "a", "[1 2]")


def test_hdfs_gets_all_lines_by_the_end(hdfs):
    """With the image's own command, on the oldest Python."""
    run(v1(ALONE, "main", 0) | hdfs, oldest_python())
    calls = Path(hdfs["HDFS_LOG"]).read_text().splitlines()
    assert set(calls) == {
        "dfs -mkdir -p hdfs://10.0.0.1:9000/train/output/_reports",
        "dfs -appendToFile - hdfs://10.0.0.1:9000/train/output/_reports/main-0.jsonl",
    }
    assert [json.loads(line)["step"] for line in Path(hdfs["HDFS_FILE"]).read_text().splitlines()] == [
        0,
        1,
        2,
    ]


@pytest.mark.parametrize(
    "more",
    [{"HDFS_FAILS": "1"}, {"PATH": "/nowhere"}, {"PAI_OUTPUT_DIR": "s3://bucket/output"}],
    ids=["hdfs fails", "no hdfs command", "another file system"],
)
def test_what_cannot_be_sent_is_in_the_log(hdfs, more):
    """And the job goes on."""
    out = run(v1(ALONE, "main", 0) | hdfs | more)
    lines = [json.loads(line.partition("report: ")[2]) for line in out.splitlines()]
    assert [line["step"] for line in lines] == [0, 1, 2]


def test_a_v2_job_without_an_output_folder_reports_to_its_log():
    assert [line[:8] for line in run(v2(ALONE, "main", 0)).splitlines()] == ["report: "] * 3
