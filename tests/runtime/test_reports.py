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
    says = "progress is not from 0 to 1; give a fraction, or step=... and steps=... instead"
    assert capsys.readouterr().out == f"report: {says}\n"
    assert len((tmp_path / "_reports" / "main-0.jsonl").read_text().splitlines()) == 6


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


def worker(body, environ, python=sys.executable, code=0):
    """Run a script with ``runtime`` imported, and return its output."""
    script = "import sys; sys.path.insert(0, sys.argv[1])\nimport runtime\n" + body
    done = subprocess.run(
        [python, "-c", script, str(Path(runtime.__file__).parent)],
        env={"PATH": os.environ["PATH"], **environ},
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (code, "")
    return done.stdout


def sent(hdfs):
    """Return what is in the file on HDFS."""
    return [json.loads(line)["step"] for line in Path(hdfs["HDFS_FILE"]).read_text().splitlines()]


FORK = """
import os, time
runtime.report(step=0)
if os.fork() == 0:
    runtime.report(step=1)
    sys.exit()
os.wait()
"""
DATA_LOADER = """
import multiprocessing

def load():
    runtime.report(step=1)

runtime.report(step=0)
process = multiprocessing.get_context("fork").Process(target=load)
process.start()
process.join()
"""


@pytest.mark.parametrize("python", [sys.executable, oldest_python()], ids=["this Python", "the oldest"])
@pytest.mark.parametrize("script", [FORK, DATA_LOADER], ids=["os.fork", "multiprocessing"])
def test_a_process_that_was_forked(hdfs, script, python):
    """It sends its own reports, and none of its parent's."""
    worker(script, v1(ALONE, "main", 0) | hdfs, python)
    assert sorted(sent(hdfs)) == [0, 1]


@pytest.mark.slow
def test_processes_of_a_task_send_one_after_the_other(hdfs):
    """HDFS refuses a second writer of a file."""
    script = "import multiprocessing\ndef load(step): runtime.report(step=step)\n"
    script += "all = [multiprocessing.Process(target=load, args=[step]) for step in range(4)]\n"
    script += "[each.start() for each in all]; [each.join() for each in all]\n"
    out = worker(script, v1(ALONE, "main", 0) | hdfs | {"HDFS_LEASE": hdfs["HDFS_FILE"] + ".lease"})
    assert out == ""
    assert sorted(sent(hdfs)) == [0, 1, 2, 3]


@pytest.mark.slow
def test_a_report_while_the_interpreter_ends(hdfs):
    script = "import atexit, threading\natexit.register(lambda: runtime.report(step=1))\n"
    for python in (sys.executable, oldest_python()):
        worker(f"{script}runtime.report(step=0)\n", v1(ALONE, "main", 0) | hdfs, python)
        worker(script, v1(ALONE, "main", 0) | hdfs, python)
    assert sent(hdfs) == [0, 1, 1] * 2


def test_a_thread_that_goes_on_after_the_main_one(hdfs):
    """Its reports are sent together, as those of the main one."""
    script = "import threading\ndef work():\n    threading.main_thread().join()\n"
    script += "    for step in range(1, 4): runtime.report(step=step)\n"
    script += "runtime.report(step=0)\nthreading.Thread(target=work).start()\n"
    worker(script, v1(ALONE, "main", 0) | hdfs)
    assert sent(hdfs) == [0, 1, 2, 3]
    assert Path(hdfs["HDFS_LOG"]).read_text().count("-appendToFile") == 1


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


@pytest.mark.parametrize(
    "wrong",
    [
        {"PAI_TASK_ROLE_main_HOST_LIST": "10.0.0.2"},
        {"PAI_CURRENT_TASK_ROLE_NAME": "other"},
        {"PAI_CURRENT_TASK_ROLE_CURRENT_TASK_INDEX": "7"},
        {"LUIGI_PAI_ATTEMPT": "one"},
    ],
    ids=str,
)
def test_an_environment_that_contradicts_itself(inside, capsys, wrong):
    inside(v1(ALONE, "main", 0) | wrong)
    report(step=1)
    assert json.loads(capsys.readouterr().out.partition("report: ")[2])["step"] == 1


@pytest.mark.parametrize("out", ["None", "open('/dev/full', 'w')", "closed"])
def test_without_a_log(out):
    script = "import io\nclosed = io.StringIO(); closed.close()\n"
    assert (
        worker(
            f"{script}before = sys.stdout; sys.stdout = {out}\nruntime.report(step=1)\nos = runtime.os\n"
            "before.write('on'); before.flush(); os._exit(0)",
            v2(ALONE, "main", 0),
        )
        == "on"
    )


def test_a_line_that_was_cut_off(inside, tmp_path):
    """By a full disk, or as the process was killed: the next one begins on a line of its own."""
    file = tmp_path / "_reports" / "main-0.jsonl"
    file.parent.mkdir()
    file.write_text('{"step": 0}\n{"ste')
    inside({"PAI_OUTPUT_DIR": str(tmp_path)})
    report(step=1)
    report(step=2)
    lines = file.read_text().splitlines()
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
