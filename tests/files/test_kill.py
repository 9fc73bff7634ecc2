"""A process that is killed outright in any phase: the old or the new file is whole, and the rest is removed.

``KILLS`` in the environment says how many kills; the default is 4. A process that uses a storage is killed at
each of its calls in storage/test_atomic.py.
"""

from __future__ import annotations

import os
import random
import signal
import time

import pytest
from hdfs_backend import ON_HDFS, content, names, written

from luigi_pai.files import HdfsTarget, upload
from luigi_pai.files.hdfs.connection import Connection
from luigi_pai.work.flag import CompletionFlag

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore:.*use of fork:DeprecationWarning")]

KILLS = int(os.environ.get("KILLS", "4"))
PHASES = ("write", "upload", "publish", "flag", "temporary_path")
SIZE = 3_000_000
NEW = "n" * SIZE


def work(fs, folder, phase, source):
    """Do one thing, and wait a moment before each request, so that kills meet every phase.

    With "publish", the pauses start with the rename.
    """
    send, is_late = Connection.send_once, phase != "publish"

    def slow(*given, **about):
        nonlocal is_late
        is_late = is_late or "RENAME" in given
        if is_late:
            time.sleep(random.random() * 0.02)
        return send(*given, **about)

    Connection.send_once = slow
    if phase == "upload":
        upload(fs, source, f"{folder}/code")
    elif phase == "flag":
        CompletionFlag(fs, folder).add("job", submitted_here=False)
    elif phase == "temporary_path":
        with HdfsTarget(f"{folder}/d/", fs=fs).temporary_path() as path:
            written(fs, f"{path}f", NEW)
    else:
        written(fs, f"{folder}/f", NEW)


def run(arguments, kill_after=None):
    """Work in a fork, kill it after some seconds where they are given, and return whether it was done."""
    child = os.fork()
    if child == 0:  # pragma: no cover  in the child
        code = 1
        try:
            work(*arguments)
            code = 0
        finally:
            os._exit(code)
    if kill_after is not None:
        time.sleep(kill_after)
        os.kill(child, signal.SIGKILL)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code in (0, -signal.SIGKILL)
    return code == 0


def check(fs, folder, phase):
    """Check that the file is whole; return whether it is the new one."""
    if phase in ("write", "publish"):
        contents = content(fs, f"{folder}/f")
        assert contents in ("old", NEW)
        return contents != "old"
    if phase == "upload":
        files = {name: content(fs, f"{folder}/code/{name}") for name in ("a", "b", "big")}
        assert files["a"] in ("old", "new a")
        assert files["b"] in ("old", "new b")
        assert files["big"] in ("old", NEW)
        return "old" not in files.values()
    place = {"flag": f"{folder}/_SUCCESS", "temporary_path": f"{folder}/d/f"}[phase]
    if not fs.exists(place):
        return False
    assert content(fs, place) == {"flag": "job\n", "temporary_path": NEW}[phase]
    return True


@ON_HDFS
@pytest.mark.parametrize("number", range(KILLS))
def test_a_kill(fs, home, tmp_path, number):
    """The file is whole, no matter when; the next run does the work and removes all leftovers."""
    phase = PHASES[number % len(PHASES)]
    source = tmp_path / "code"
    source.mkdir()
    for name, contents in {"a": "old", "b": "old", "big": "old"}.items():
        (source / name).write_text(contents)
    if phase == "upload":
        upload(fs, source, f"{home}/code")
    elif phase in ("write", "publish"):
        written(fs, f"{home}/f", "old")
    for name, contents in {"a": "new a", "b": "new b", "big": NEW}.items():
        (source / name).write_text(contents)
    arguments = fs, home, phase, source
    delay = random.Random(number).uniform(0, 0.15 if phase == "flag" else 0.3)

    was_done = run(arguments, delay)
    time.sleep(0.1)  # for what the server was just receiving
    is_new = check(fs, home, phase)
    assert is_new or not was_done

    if phase in ("temporary_path", "flag") and is_new:
        fs.remove(f"{home}/d" if phase == "temporary_path" else f"{home}/_SUCCESS")
    assert run(arguments)
    assert check(fs, home, phase)
    assert [name for name in names(fs, home) if "luigi-pai-tmp" in name] == []
