"""The lock of luigi-pai run: of one command, in one folder, for one user."""

from __future__ import annotations

import hashlib
import os
import re
import stat
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

MODULE = """
import time
from pathlib import Path
import luigi

class Wait(luigi.Task):
    def output(self):
        return luigi.LocalTarget("done")

    def run(self):
        Path("cmdline").write_bytes(Path("/proc/self/cmdline").read_bytes())
        Path("began").touch()
        while not Path("ready").exists():
            time.sleep(0.02)
        self.output().open("w").close()
"""
OTHER = 65534  # the uid of nobody

two_accounts = pytest.mark.skipif(os.getuid() != 0, reason="makes files of another user, which root can")


@pytest.fixture
def temporary(tmp_path: Path) -> Path:
    """A folder for temporary files of all users."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    folder.chmod(0o1777)
    return folder


@pytest.fixture
def start(tmp_path: Path, temporary: Path) -> Callable[..., subprocess.Popen[str]]:
    """Start the same command in a folder."""

    def start(name: str, *words: str) -> subprocess.Popen[str]:
        folder = tmp_path / name
        folder.mkdir(exist_ok=True)
        (folder / "lock_pipeline.py").write_text(MODULE)
        command = ["run", "lock_pipeline", "Wait", "--local-scheduler", *words]
        return subprocess.Popen(
            [sys.executable, "-m", "luigi_pai", *command],
            cwd=folder,
            env={**os.environ, "TMPDIR": str(temporary)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    return start


@pytest.fixture
def end(tmp_path: Path) -> Callable[..., str]:
    """Let a run end, check its exit code, and return what it has printed."""

    def end(run: subprocess.Popen[str], *, folder: str = "here", expect: int = 0) -> str:
        if expect == 0:
            (tmp_path / folder / "ready").touch()
        text, _ = run.communicate(timeout=60)
        assert run.returncode == expect, text
        return text

    return end


def test_the_same_command_in_the_same_folder(start, end, tmp_path, temporary):
    """The text says what is locked, by which process, and how to go on; --no-lock goes on."""
    first = start("here")
    wait_until((tmp_path / "here" / "began").exists)
    text = end(start("here"), expect=4)
    assert re.search(r"Pid\(s\) \{\d+\} already running", text)
    assert "the process above is already running this command in this folder. Wait for it, or end it" in text
    assert "Pid(s)" not in end(start("there"), folder="there"), "the same words are another pipeline there"
    assert first.poll() is None
    assert "Pid(s)" not in end(start("here", "--no-lock"))
    end(first)
    (folder,) = temporary.iterdir()
    assert folder.name == f"luigi-pai-{os.getuid()}"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700, "nobody else reaches the files in it"


def test_a_lock_folder_of_the_users_choice(start, end, tmp_path, temporary):
    """As luigi takes it from luigi.cfg."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "luigi.cfg").write_text(f"[core]\nlock_pid_dir = {tmp_path}/locks\n")
    assert end(start("here")) == ""
    assert len(list((tmp_path / "locks").iterdir())) == 1
    assert list(temporary.iterdir()) == []


@two_accounts
def test_another_users_folder_is_not_written_to(start, end, tmp_path, temporary):
    """Another user of the machine makes Luigi's own folder first, with a link to a file of this user's."""
    end(start("here"))
    command = (tmp_path / "here" / "cmdline").read_bytes().replace(b"\0", b" ").rstrip()
    trap = temporary / "luigi"
    trap.mkdir(exist_ok=True)
    target = tmp_path / ".bash_profile"
    link = trap / f"{hashlib.md5(command, usedforsecurity=False).hexdigest()}.pid"
    link.unlink(missing_ok=True)
    link.symlink_to(target)
    os.chown(trap, OTHER, OTHER)
    os.lchown(link, OTHER, OTHER)
    (tmp_path / "here" / "done").unlink()
    assert end(start("here")) == ""
    assert not target.exists()
    assert list(trap.iterdir()) == [link]


@pytest.mark.parametrize(
    ("kind", "why"),
    [
        pytest.param("another user's", "belongs to another user", marks=two_accounts),
        ("a link", "is not a folder"),
        ("open", "is open to other users"),
    ],
)
def test_a_folder_that_is_not_this_users_alone_is_not_used(start, end, temporary, kind, why):
    """The command ends; --no-lock goes on."""
    folder = temporary / f"luigi-pai-{os.getuid()}"
    if kind == "a link":
        folder.symlink_to(temporary)
    else:
        folder.mkdir()
        folder.chmod(0o777 if kind == "open" else 0o700)
    if kind == "another user's":
        os.chown(folder, OTHER, OTHER)
    assert end(start("here"), expect=2) == (
        f"luigi-pai run: cannot lock this run: {folder} {why}. Remove it, set TMPDIR to another folder, "
        "or add --no-lock\n"
    )
    if kind == "open":
        assert end(start("here", "--no-lock")) == ""
