"""A process that is killed outright in any phase: the old or the new file is whole, and the rest is removed.

``KILLS`` in the environment says how many kills; 4 where it is not set.
"""

from __future__ import annotations

import os
import pickle
import random
import signal
import subprocess
import sys
import time

import pytest
from hdfs_backend import content, names, written

from luigi_pai.files import upload

pytestmark = pytest.mark.slow

KILLS = int(os.environ.get("KILLS", "4"))
PHASES = ("write", "upload", "publish", "flag", "temporary_path")
SIZE = 3_000_000

# A process that does one thing after a line on its standard input. Before each request it waits a moment,
# so that kills meet every phase; with "publish", only before renames and what comes after.
PROCESS = """
import pickle, random, sys, time
from pathlib import Path
from luigi_pai.files import HdfsTarget, upload
from luigi_pai.work.flag import CompletionFlag
packed, folder, phase, source = sys.argv[1:]
fs = pickle.loads(bytes.fromhex(packed))
volume = type(fs.at("/")[0])
name = "send_once" if hasattr(volume, "send_once") else "_do"
send = getattr(volume, name)
is_late = phase != "publish"

def slow(*given, **about):
    global is_late
    is_late = is_late or "RENAME" in given
    if is_late:
        time.sleep(random.random() * 0.02)
    return send(*given, **about)

setattr(volume, name, slow)
print("ready", flush=True)
sys.stdin.readline()
if phase == "upload":
    upload(fs, source, f"{folder}/code")
elif phase == "flag":
    CompletionFlag(fs, folder).add("job", submitted_here=False)
elif phase == "temporary_path":
    with HdfsTarget(f"{folder}/d/", fs=fs).temporary_path() as path:
        with fs.open_writer(path + "f") as file:
            file.write(b"n" * 3_000_000)
else:
    with fs.open_writer(f"{folder}/f") as file:
        file.write(b"n" * 3_000_000)
print("done", flush=True)
"""


def run(arguments, kill_after=None):
    """Run the process, kill it after some seconds where they are given, and return whether it was done."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", PROCESS, *arguments], stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n", process.communicate()
        process.stdin.write("go\n")
        process.stdin.flush()
        if kill_after is not None:
            time.sleep(kill_after)
            process.send_signal(signal.SIGKILL)
        output, errors = process.communicate(timeout=60)
    assert errors == ""
    return output == "done\n"


def check(fs, folder, phase):
    """Check that what is there is whole; return whether it is the new one."""
    if phase in ("write", "publish"):
        text = content(fs, f"{folder}/f")
        assert text in ("old", "n" * SIZE)
        return text != "old"
    if phase == "upload":
        texts = {name: content(fs, f"{folder}/code/{name}") for name in ("a", "b", "big")}
        assert texts["a"] in ("old", "new a")
        assert texts["b"] in ("old", "new b")
        assert texts["big"] in ("old", "n" * SIZE)
        return "old" not in texts.values()
    place = {"flag": f"{folder}/_SUCCESS", "temporary_path": f"{folder}/d/f"}[phase]
    if not fs.exists(place):
        return False
    assert content(fs, place) == {"flag": "job\n", "temporary_path": "n" * SIZE}[phase]
    return True


def is_temporary(name):
    return "luigi-pai-tmp" in name


@pytest.mark.parametrize("number", range(KILLS))
def test_a_kill(fs, home, tmp_path, number):
    """What is there is whole, no matter when; the next run does the work and removes what was left."""
    phase = PHASES[number % len(PHASES)]
    source = tmp_path / "code"
    source.mkdir()
    for name, text in {"a": "old", "b": "old", "big": "old"}.items():
        (source / name).write_text(text)
    if phase == "upload":
        upload(fs, source, f"{home}/code")
    elif phase in ("write", "publish"):
        written(fs, f"{home}/f", "old")
    for name, text in {"a": "new a", "b": "new b", "big": "n" * SIZE}.items():
        (source / name).write_text(text)
    arguments = [pickle.dumps(fs).hex(), home, phase, str(source)]
    delay = random.Random(number).uniform(0, 0.15 if phase == "flag" else 0.3)

    was_done = run(arguments, delay)
    time.sleep(0.1)  # for what the server was just receiving
    is_new = check(fs, home, phase)
    assert is_new or not was_done

    if phase in ("temporary_path", "flag") and is_new:
        fs.remove(f"{home}/d" if phase == "temporary_path" else f"{home}/_SUCCESS")
    assert run(arguments)
    assert check(fs, home, phase)
    assert [name for name in names(fs, home) if is_temporary(name)] == []
