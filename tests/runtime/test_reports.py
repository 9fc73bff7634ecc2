"""report(): lines of JSON in the output folder, which never fail a job."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from container_environments import Role, v1, v2
from job_cases import cases
from old_python import oldest_python

from luigi_pai import runtime
from luigi_pai.runtime import report

CASES = cases("reports")
ALONE = [Role("main", ["10.0.0.2"], [{"http": [1001], "ssh": [1002]}])]
HDFS = """#!/bin/sh
echo "$@" >>"$HDFS_LOG"
[ -z "$HDFS_FAILS" ] || exit 1
[ "$2" = -appendToFile ] || exit 0
[ -z "$HDFS_LEASE" ] || mkdir "$HDFS_LEASE" || exit 1
cat >>"$HDFS_FILE"
[ -z "$HDFS_LEASE" ] || { sleep 0.1; rmdir "$HDFS_LEASE"; }
"""


@pytest.fixture
def inside(monkeypatch):
    def enter(environ):
        for name, value in environ.items():
            monkeypatch.setenv(name, value)

    return enter


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


def reports_in(folder):
    """Return the lines of the one report there."""
    return (folder / "_reports" / "main-0.jsonl").read_text().splitlines()


def test_a_line_for_each_report(inside, tmp_path):
    """In a folder that a mount has: written at once, appended to what an earlier submission wrote."""
    inside(v2(ALONE, "main", 0, job="train__attempt2", PAI_OUTPUT_DIR=str(tmp_path)))
    (tmp_path / "_reports").mkdir()
    (tmp_path / "_reports" / "main-0.jsonl").write_text('{"step": 0}\n')
    report(step=1, steps=4, loss=0.5)
    report(step=2, steps=4, loss=0.25, note="ü", attempt="mine", time="later")
    first, second, third = map(json.loads, reports_in(tmp_path))
    assert first == {"step": 0}
    assert isinstance(second.pop("time"), float)
    assert second == {"attempt": 2, "step": 1, "steps": 4, "loss": 0.5}
    assert (third["step"], third["note"], third["attempt"]) == (2, "ü", 2)
    assert isinstance(third["time"], float)


def worker(body, environ, python=sys.executable):
    """Run a script with ``runtime`` imported, and return its output."""
    script = "import sys; sys.path.insert(0, sys.argv[1])\nimport runtime\n" + body
    done = subprocess.run(
        [python, "-c", script, str(Path(runtime.__file__).parent)],
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def sent(hdfs):
    """Return what is in the file on HDFS."""
    file = Path(hdfs["HDFS_FILE"])
    return [json.loads(line)["step"] for line in file.read_text().splitlines()] if file.exists() else []


PROGRAMS = [
    pytest.param(case, python, id=f"{name}-{place}", marks=[pytest.mark.slow] if case.get("is_slow") else [])
    for name, case in CASES["programs"].items()
    for place, python in (("this", sys.executable), ("oldest", oldest_python()))
    if case.get("pythons", "this") in (place, "both")
]


@pytest.mark.parametrize(("case", "python"), PROGRAMS)
def test_a_program_that_reports(hdfs, case, python):
    """What it reports is on HDFS by the end, or else in the log; the program goes on in either case."""
    more = {name: value.format(file=hdfs["HDFS_FILE"]) for name, value in case.get("env", {}).items()}
    environ = v2(ALONE, "main", 0) if case.get("in") == "v2" else v1(ALONE, "main", 0) | hdfs
    out = worker(case["script"], environ | more, python)
    assert re.sub(r'(?<=report: )\{.*"step": (\d).*\}', r"\1", out) == case.get("prints", "")
    assert sorted(sent(hdfs)) == case.get("sent", [])
    calls = Path(hdfs["HDFS_LOG"]).read_text().splitlines() if case.get("sent") else []
    folder = "hdfs://10.0.0.1:9000/train/output/_reports"
    append = f"dfs -appendToFile - {folder}/main-0.jsonl"
    assert {*calls} == ({f"dfs -mkdir -p {folder}", append} if calls else set())
    assert calls.count(append) == case.get("appends", calls.count(append))


@pytest.mark.parametrize("value", [0.5, {"loss": 0.3}])
def test_values_need_names(inside, tmp_path, value):
    inside({"PAI_OUTPUT_DIR": str(tmp_path)})
    says = "report() takes values by name, such as report(loss=0.3); for a dict, report(**values)"
    with pytest.raises(TypeError, match=f"^{re.escape(says)}$"):
        report(value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("progress", [30, -0.1, 10**5000, float("nan")], ids=["30", "-0.1", "huge", "nan"])
def test_a_progress_that_is_no_fraction(inside, tmp_path, capsys, monkeypatch, progress):
    """The log says so once, and the line is written as it is."""
    monkeypatch.setattr(runtime, "_WARNED", [])
    inside({"PAI_OUTPUT_DIR": str(tmp_path)})
    for value in (0, 1, 0.5, "30", progress, progress):
        report(progress=value)
    says = "progress is not from 0 to 1; report a fraction, or step=... and steps=... instead"
    assert capsys.readouterr().out == f"report: {says}\n"
    assert len(reports_in(tmp_path)) == 6


def test_numbers_of_numpy_are_numbers(inside, tmp_path):
    numpy = pytest.importorskip("numpy", reason="numpy is not installed (the demo brings it)")
    inside({"PAI_OUTPUT_DIR": str(tmp_path)})
    report(loss=numpy.float32(0.5), step=numpy.int64(3), where=Path("a"), losses=numpy.array([1, 2]))
    line = json.loads(*reports_in(tmp_path))
    assert (line["loss"], line["step"], line["where"], line["losses"]) == (0.5, 3, "a", "[1 2]")


def test_a_signal_while_a_report_is_written(inside, tmp_path, monkeypatch):
    """Its handler reports, too."""
    inside({"PAI_OUTPUT_DIR": str(tmp_path)})
    real, seen = os.makedirs, []

    def makedirs(*args, **kwargs):
        if not seen:
            seen.append(True)
            signal.raise_signal(signal.SIGUSR1)
        return real(*args, **kwargs)

    monkeypatch.setattr(os, "makedirs", makedirs)
    before = signal.signal(signal.SIGUSR1, lambda *_: report(step=1))
    try:
        report(step=0)
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert sorted(json.loads(line)["step"] for line in reports_in(tmp_path)) == [0, 1]


@pytest.mark.slow
def test_more_reports_than_are_kept_for_a_broken_hdfs(hdfs):
    """While HDFS takes them, none is lost."""
    worker("for step in range(12000): runtime.report(step=step)", v1(ALONE, "main", 0) | hdfs)
    assert sent(hdfs) == list(range(12000))


def test_without_an_hdfs_command_lines_are_printed_at_once():
    """And not at the end, which a process that is killed does not come to."""
    script = "import sys; sys.path.insert(0, sys.argv[1])\nimport runtime\nruntime._SEND_AFTER = 0.01\n"
    script += "for step in range(2):\n    runtime.report(step=step)\n    sys.stdin.readline()\n"
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(Path(runtime.__file__).parent)],
        env={"PATH": "/nowhere", **v1(ALONE, "main", 0)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        for step in range(2):
            line = process.stdout.readline()
            assert json.loads(line.partition("report: ")[2])["step"] == step
            if step == 0:
                process.stdin.write("\n")
                process.stdin.flush()
        process.kill()


class Wrong:
    def __str__(self):
        raise RuntimeError("no text")

    def item(self):
        raise KeyError("no item")


def test_values_that_json_does_not_have(inside, tmp_path):
    inside({"PAI_OUTPUT_DIR": str(tmp_path)})
    circle: list[object] = []
    circle.append(circle)
    report(a=Wrong(), b=circle, c={(1, 2): 3}, d=10**5000, e=1.5, f={"g": Path("a")})
    (line,) = reports_in(tmp_path)
    values = json.loads(line)
    assert {key: values[key] for key in "abcef"} == {
        "a": "Wrong", "b": "[[...]]", "c": "{(1, 2): 3}", "e": 1.5, "f": {"g": "a"},
    }  # fmt: skip
    assert "d" in values


@pytest.mark.parametrize("wrong", CASES["contradictions"], ids=str)
def test_an_environment_that_contradicts_itself(inside, capsys, wrong):
    inside(v1(ALONE, "main", 0) | wrong)
    report(step=1)
    assert json.loads(capsys.readouterr().out.partition("report: ")[2])["step"] == 1


def test_a_line_that_was_cut_off(inside, tmp_path):
    """By a full disk, or as the process was killed: the next one begins on a line of its own."""
    (tmp_path / "_reports").mkdir()
    (tmp_path / "_reports" / "main-0.jsonl").write_text('{"step": 0}\n{"ste')
    inside({"PAI_OUTPUT_DIR": str(tmp_path)})
    report(step=1)
    report(step=2)
    lines = reports_in(tmp_path)
    assert lines[:2] == ['{"step": 0}', '{"ste']
    assert [json.loads(line)["step"] for line in lines[2:]] == [1, 2]


def test_a_disk_that_was_full_for_a_while(inside, tmp_path, capsys):
    inside({"PAI_OUTPUT_DIR": str(tmp_path)})
    report(step=0)
    file = tmp_path / "_reports" / "main-0.jsonl"
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (file.stat().st_size + 10, before[1]))
    try:
        report(step=1)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    report(step=2)
    first, _, last = file.read_text().splitlines()
    assert [json.loads(first)["step"], json.loads(last)["step"]] == [0, 2]
    assert '"step": 1' in capsys.readouterr().out
