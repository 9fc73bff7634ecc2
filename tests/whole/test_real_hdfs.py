"""The script that has a real HDFS for the tests: what it says and does where there is none."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from places import ROOT
from real_hdfs import Missing, RealHdfs, installed, software

COMMAND = str(ROOT / "tests" / "support" / "real_hdfs_command.py")
SHOW = "import os; print({k: v for k, v in os.environ.items() if k.startswith('HDFS_TEST')})"

OUTSIDE = dict(os.environ)


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have no HDFS around, an empty cache, and no command but those that a test makes."""
    for name in [name for name in os.environ if name.startswith("HDFS_TEST_") or name == "JAVA_HOME"]:
        monkeypatch.delenv(name)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")


@pytest.fixture
def real() -> dict[str, str]:
    """The environment in which the software is found; skips where it is not fetched."""
    if not OUTSIDE.get("HDFS_TEST_BIN"):
        pytest.skip(OUTSIDE.get("HDFS_TEST_MISSING") or "no real HDFS was started; `make test-newest` does")
    names = ("PATH", "JAVA_HOME", "XDG_CACHE_HOME", "HOME")
    found = {name: OUTSIDE[name] for name in names if name in OUTSIDE}
    return {"XDG_CACHE_HOME": f"{Path.home()}/.cache", **found}


def command(tmp_path: Path, name: str, script: str) -> None:
    """Make a command that is found."""
    path = tmp_path / "bin" / name
    path.write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
    path.chmod(0o755)


def java(tmp_path: Path, version: str) -> None:
    """Make a Java of a version."""
    command(tmp_path, "java", f"echo 'openjdk version \"{version}\" 2025-04-15' >&2")


def run(*argv: str) -> subprocess.CompletedProcess[str]:
    """Run the script."""
    return subprocess.run(
        [sys.executable, COMMAND, *argv], capture_output=True, text=True, check=False, timeout=60
    )


def test_without_java() -> None:
    """Without Java the reason and the command that installs one are said."""
    with pytest.raises(
        Missing, match=r"^there is no Java; on Debian and Ubuntu: sudo apt install openjdk-17-"
    ):
        installed(1)


@pytest.mark.parametrize(("version", "number"), [("1.7.0_80", 7), ("23", 23), ("24-ea", 24)])
def test_a_java_that_cannot_run_it(version: str, number: int, tmp_path: Path) -> None:
    """A Java that is too old or too new is named."""
    java(tmp_path, version)
    with pytest.raises(
        Missing, match=rf"runs on Java 8 to 22, .*/bin/java is Java {number}: name another one"
    ):
        installed(1)


@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.2", "17.0.15", "21"])
def test_without_debian_packages(version: str, tmp_path: Path) -> None:
    """Where packages cannot be had, that is the reason, and nothing half-fetched is left."""
    java(tmp_path, version)
    with pytest.raises(Missing, match="Debian or Ubuntu packages, and there is no apt-get"):
        installed(5)
    assert [path.name for path in (tmp_path / "cache" / "luigi_pai").iterdir()] == ["hdfs-2.7.4.lock"]


def test_a_download_that_fails(tmp_path: Path) -> None:
    """What the command that failed says is the reason, without anybody's password."""
    java(tmp_path, "17")
    command(tmp_path, "dpkg-deb", "exit 0")
    said = "E: Failed to fetch https://anna:secret@index.example.org/dists"
    command(tmp_path, "apt-get", f"echo '{said}' >&2; exit 100")
    with pytest.raises(Missing) as caught:
        installed(5)
    assert str(caught.value) == (
        "it could not be fetched (apt-get update: E: Failed to fetch https://index.example.org/dists); "
        "PyPI and Debian packages have to be within reach"
    )


def test_lists_of_packages_that_are_missing(tmp_path: Path) -> None:
    """Where apt does not know the packages, as in most containers, lists are fetched to a folder of ours."""
    java(tmp_path, "17")
    command(tmp_path, "dpkg-deb", "exit 0")
    command(
        tmp_path,
        "apt-get",
        f'echo "$*" >> {tmp_path}/said; case "$*" in *Dir::State::lists=/*) ;; *) exit 100 ;; esac',
    )
    with pytest.raises(Missing, match=r"^Debian's packages do not hold jersey1-core\.jar"):
        installed(5)
    verbs = re.findall(r" (update|download)", (tmp_path / "said").read_text())
    assert verbs == ["download", "update", "download"]


def test_a_download_is_tried_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that breaks off is fetched again; then the reason is said."""
    said = tmp_path / "said"
    command(tmp_path, "python", f"echo x >> {said}; echo 'ERROR: Connection broken' >&2; exit 1")
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/bin/python")
    with pytest.raises(Missing, match=r"\(pip download: ERROR: Connection broken\);"):
        software._take_from_pyspark(tmp_path, tmp_path, time.monotonic() + 5)
    assert said.read_text() == "x\nx\n"


def test_a_download_that_hangs(tmp_path: Path) -> None:
    """A download is given up in time, and what it started ends with it."""
    java(tmp_path, "17")
    command(tmp_path, "dpkg-deb", "exit 0")
    command(tmp_path, "apt-get", f"sleep 60 & echo $! > {tmp_path}/child; wait")
    began = time.monotonic()
    with pytest.raises(Missing, match=r"fetching it took too long \(apt-get"):
        installed(1)
    assert time.monotonic() - began < 5
    child = int((tmp_path / "child").read_text())
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


def test_a_command_without_it() -> None:
    """With --optional the command runs all the same, and knows why there is no HDFS; that is said once."""
    done = run("run", "--optional", "--", sys.executable, "-c", SHOW)
    assert done.returncode == 0
    assert re.search(
        r"'HDFS_TEST_MISSING': 'no real HDFS: there is no Java; .* \(make fetch-real-hdfs\)'", done.stdout
    )
    assert "== no real HDFS: there is no Java" in done.stderr
    assert "== what needs it is skipped; to have it: make fetch-real-hdfs\n" in done.stderr
    assert done.stderr.endswith(
        "\n== without a real HDFS: there is no Java; "
        "on Debian and Ubuntu: sudo apt install openjdk-17-jre-headless\n"
    )


def test_a_command_that_needs_it() -> None:
    """Without --optional, no HDFS is a failure, and the command is not run."""
    done = run("run", "--", sys.executable, "-c", SHOW)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.parametrize("name", ["HDFS_TEST_URL", "HDFS_TEST_MISSING"])
def test_inside_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside another run nothing is started or said: both test runs have one HDFS."""
    monkeypatch.setenv(name, "that of the outer one")
    done = run("run", "--", sys.executable, "-c", SHOW)
    assert done.stdout == f"{{{name!r}: 'that of the outer one'}}\n"
    assert not done.stderr


@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(3)", 3), ("os.kill(os.getpid(), 9)", 137)])
def test_the_exit_code_is_the_commands(code: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's exit code is the script's, 128 + N where a signal ended it."""
    monkeypatch.setenv("HDFS_TEST_MISSING", "a reason")
    assert run("run", "--", sys.executable, "-c", f"import os; {code}").returncode == expected


def test_a_process_that_dies(tmp_path: Path) -> None:
    """When HDFS does not come up, the end of its log is the reason, and nothing is left."""
    command(tmp_path, "java", "echo 'no space for a NameNode'; exit 1")
    home = tmp_path / "home"
    home.mkdir()
    hdfs = RealHdfs(software.Software(f"{tmp_path}/bin/java", home, 17), timeout=5)
    with pytest.raises(
        RuntimeError, match=r"the namenode0 of a real HDFS has ended:\nno space for a NameNode"
    ):
        hdfs.__enter__()
    assert not hdfs._room.exists()
    assert not hdfs._namespace.exists()


def test_a_real_one_ends_with_its_process(real: dict[str, str]) -> None:
    """Also a script that is killed leaves no process behind."""
    code = "import os, time; print(os.environ['HDFS_TEST_BIN'], flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, COMMAND, "run", "--", sys.executable, "-c", code],
        env=os.environ | real,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("== real HDFS hdfs://127.0.0.1:")
        room = str(Path(process.stdout.readline().strip()).parent)
        kept = re.search("file://([^<]*)/?</value>", Path(room, "namenode0/conf/hdfs-site.xml").read_text())
        own = psutil.Process(process.pid).children(recursive=True)
        javas = [child for child in own if room in " ".join(child.cmdline())]
        process.kill()
        for child in set(own) - set(javas):
            child.kill()
    assert len(javas) == 2
    _gone, alive = psutil.wait_procs(javas, timeout=10)
    assert not alive
    assert kept
    for folder in (room, Path(kept[1]).parent):  # what a script that is killed cannot do
        shutil.rmtree(folder)
