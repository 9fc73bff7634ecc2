"""The ``hdfs`` and ``hadoop`` commands against recordings of FsShell 2.7.4, and as executables."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import shlex
import subprocess
import sys
import uuid
from dataclasses import dataclass
from pathlib import Path

import pytest
import requests
from local_cases import cases
from places import DATA
from webhdfs_server import serving

from luigi_pai.local.hdfs.command.executable import install, main
from luigi_pai.local.hdfs.webhdfs.handlers import WebHdfsHandler

RECORDED = json.loads((DATA / "fsshell_2.7.4.json").read_text())
STAND_INS = {  # for recorded commands that a local OpenPAI does not have
    "-copyFromLocal one.txt /fs/a/copied.txt": "-put one.txt /fs/a/copied.txt",
    "-copyToLocal /fs/a/two.txt gotcopy.txt": "-get /fs/a/two.txt gotcopy.txt",
    "-touchz /fs/a/empty": "-put empty.txt /fs/a/empty",
}
LEFT_OUT = ("-count", "-stat", "-text", "-du -s -h", "-du -h")
LINES = [
    f"{number:03} {item['line']}"
    for number, item in enumerate(RECORDED["commands"])
    if not item["line"].startswith(LEFT_OUT)
]


@dataclass(frozen=True)
class Done:
    """The end of a command."""

    code: int
    out: str
    err: str


def run_here(line, url, user="alice", stdin=b"from stdin\n"):
    """Run ``hadoop fs LINE`` in this process."""
    with pytest.MonkeyPatch.context() as patch, io.BytesIO() as out:
        patch.setenv("LUIGI_PAI_WEBHDFS_URL", url)
        patch.setenv("HADOOP_USER_NAME", user)
        patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        patch.setattr(sys, "stdout", io.TextIOWrapper(out, write_through=True))
        patch.setattr(sys, "stderr", io.StringIO())
        code = main(["hadoop", "fs", *shlex.split(line)])
        sys.stdout.flush()
        return Done(code, out.getvalue().decode(), sys.stderr.getvalue())


@pytest.fixture
def fs(url, tmp_path, monkeypatch):
    """Run ``hadoop fs`` in this process, in an empty local folder; ``{d}`` is a new folder on HDFS."""
    monkeypatch.chdir(tmp_path)
    folder = f"/t-{uuid.uuid4().hex[:8]}"
    run_here(f"-mkdir -p {folder} /user/alice", url)

    def run(line, **about):
        done = run_here(line.replace("{d}", folder), about.pop("url", url), **about)
        return Done(done.code, done.out.replace(folder, "{d}"), done.err.replace(folder, "{d}"))

    return run


# the recording


@pytest.fixture(scope="module")
def replayed(tmp_path_factory):
    """Every recorded command, run in order; and the local files that there are at the end."""
    here = tmp_path_factory.mktemp("fsshell")
    local = {
        "one.txt": "one\n",
        "two.txt": "two two\n",
        "mover.txt": "mover\n",
        "folder/f1": "f1\n",
        "folder/sub/f2": "f2",
    }
    for name, text in {**local, "long.txt": "x" * 1000 + "y" * 1024, "empty.txt": ""}.items():
        (here / name).parent.mkdir(parents=True, exist_ok=True)
        (here / name).write_text(text)
    (here / "packed.gz").write_bytes(bytes(36))
    (here / "gotdir").mkdir()
    done = {}
    with serving(tmp_path_factory.mktemp("recorded") / "root") as url, pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        for folder in ("fs", "user/alice"):
            requests.put(f"{url}/webhdfs/v1/{folder}?op=MKDIRS&user.name=alice", timeout=10)
        for number, item in enumerate(RECORDED["commands"]):
            found = run_here(STAND_INS.get(item["line"], item["line"]), url)
            done[f"{number:03} {item['line']}"] = Done(
                found.code, found.out, found.err.replace(str(here), "CWD")
            )
    files = {str(place.relative_to(here)): place for place in here.rglob("*") if place.is_file()}
    return done, {name: place.read_text() for name, place in files.items() if name in RECORDED["files"]}


@pytest.mark.parametrize("line", LINES)
def test_does_as_fsshell_2_7_4(line, replayed):
    """Exit code, output and error of every recorded command are FsShell's, but for dates."""
    recorded = RECORDED["commands"][int(line[:3])]
    found = replayed[0][line]
    assert found.code == recorded["rc"]
    assert told(found.err, found.code) == told(recorded["err"], found.code)
    assert alike(found.out) == alike(recorded["out"])


def test_leaves_the_files_of_fsshell_2_7_4(replayed):
    """After all recorded commands, the local files are those that FsShell left."""
    assert replayed[1] == RECORDED["files"]


def alike(text):
    """Return output without times, and without the widths of columns."""
    return re.sub(r" +", " ", re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d", "DATE", text)).lstrip(" ")


def told(text, code):
    """Return errors; of wrong usage the first sentence."""
    return re.split(r"[;\n]", text)[0] if code == 255 else text


# what was not recorded


@pytest.mark.slow
@pytest.mark.parametrize("command", ["hdfs dfs", "hadoop fs"])
def test_executables_run(command, url, tmp_path):
    """``hdfs dfs`` and ``hadoop fs`` run from PATH, in an environment with nothing of Python's."""
    install(tmp_path / "a bin")
    environment = {
        "PATH": f"{tmp_path / 'a bin'}{os.pathsep}{os.environ['PATH']}",
        "LUIGI_PAI_WEBHDFS_URL": url,
        "HADOOP_USER_NAME": "carol",
    }
    name = f"/e-{uuid.uuid4().hex[:8]}"
    script = f"echo piped | {command} -put - {name} && {command} -cat {name}"
    done = subprocess.run(["sh", "-c", script], env=environment, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("piped\n", "")
    status = requests.get(f"{url}/webhdfs/v1{name}?op=GETFILESTATUS", timeout=10).json()["FileStatus"]
    assert status["permission"] == "644"


@pytest.mark.slow
def test_executables_load_the_standard_library_only(tmp_path):
    """A command loads neither Luigi nor requests: it would cost half a second each time."""
    install(tmp_path)
    line = (tmp_path / "hdfs").read_text().splitlines()[1].split()
    assert line[2:4] == ["-I", "-S"]
    heavy = ["luigi", "requests", "tornado", "luigi_pai.errors", "luigi_pai.local.hdfs.webhdfs.handlers"]
    code = f"sys.exit(any(name in sys.modules for name in {json.dumps(heavy)}))"
    script = (
        (tmp_path / "hdfs").read_text().replace("sys.exit(main(sys.argv[1:]))", f"main(sys.argv[1:]); {code}")
    )
    (tmp_path / "probe").write_text(script)
    done = subprocess.run(["sh", str(tmp_path / "probe"), "dfs"], capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_server_that_starts_again_does_not_empty_the_command_of_running_tasks(tmp_path, monkeypatch):
    """On a full disk, too: to a shell an empty command is a success."""
    install(tmp_path)
    before = (tmp_path / "hdfs").read_bytes()
    seen = []

    def write_text(path, *_, **__):
        path.write_bytes(b"")
        seen.append((tmp_path / "hdfs").read_bytes())
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_text)
    with pytest.raises(OSError, match="No space left"):
        install(tmp_path)
    assert seen == [before]
    monkeypatch.undo()
    install(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hadoop", "hdfs"]


@pytest.mark.slow
def test_a_closed_pipe_is_no_traceback(url, tmp_path):
    """``hdfs dfs -cat big | head -c 1`` ends quietly."""
    install(tmp_path)
    name = f"/p-{uuid.uuid4().hex[:8]}"
    command = f"{tmp_path}/hdfs dfs"
    script = f"head -c 3000000 /dev/zero | {command} -put - {name}; {command} -cat {name} | head -c 1"
    done = subprocess.run(
        ["sh", "-c", script],
        env={**os.environ, "LUIGI_PAI_WEBHDFS_URL": url},
        capture_output=True,
        check=True,
    )
    assert (done.stdout, done.stderr) == (b"\0", b"")


@pytest.mark.parametrize("words", ["hdfs namenode", "hadoop jar x.jar", "hdfs"])
def test_parts_that_are_not_there(words, capsys):
    """What there is no stand-in for says what there is, with 255."""
    assert main(words.split()) == 255
    assert ": a local OpenPAI has only: " in capsys.readouterr().err


@pytest.mark.parametrize(("line", "url", "code", "error"), cases("what_cannot_work_is_said"))
def test_what_cannot_work_is_said(line, url, code, error, fs):
    """Where HDFS was looked for and which variable says so; or the commands that there are."""
    done = fs(line, url=url)
    assert (done.code, done.err[: len(error)]) == (code, error)


@pytest.mark.parametrize("prefix", ["hdfs://anywhere:9000", "hdfs://", "viewfs://c"])
def test_uris_mean_this_hdfs(prefix, fs):
    """A URI of another name node, as job files have them, is this HDFS; it is shown as it was typed."""
    fs("-D dfs.replication=1 -Ddfs.x=y -conf c.xml -put - {d}/f")  # generic options configure a Hadoop
    assert fs(f"-ls {prefix}{{d}}").out.endswith(f" {prefix}{{d}}/f\n")
    assert fs(f"-ls {prefix}{{d}}/*").out.endswith(f" {prefix}{{d}}/f\n")


class CutShort(WebHdfsHandler):
    """A server that breaks off in the middle of a file."""

    async def _open(self):
        if not self.is_datanode():
            await super()._open()
            return
        self.set_header("Content-Length", "100")
        self.write(b"half")
        await self.flush()
        self.request.connection.stream.close()


@pytest.mark.parametrize("command", ["-get {d}/f here", "-cat {d}/f", "-cp {d}/f {d}/g"])
def test_a_file_that_is_cut_short_is_an_error(command, fs, tmp_path):
    """A file of which only a part arrives is an error, and no copy of it is left."""
    with serving(tmp_path / "root", CutShort) as url:
        fs("-mkdir {d}", url=url)
        fs("-put - {d}/f", url=url)
        done = fs(command, url=url)
        assert done.code == 1
        assert done.err.endswith("/f: the connection ended 96 bytes early\n")
        assert fs("-ls {d}", url=url).out.startswith("Found 1 items\n")
    assert not (tmp_path / "here").exists()


@pytest.mark.parametrize(("pattern", "found"), cases("patterns"))
def test_patterns(pattern, found, fs, tmp_path):
    """Hadoop's patterns are matched against names on HDFS, not against local ones."""
    for name in ("a.txt", "ab", "b{c}", "x*y", "x[1]"):
        (tmp_path / name).write_text("")
        fs(f"-put {shlex.quote(name)} {{d}}")
    done = fs("-ls -d " + shlex.quote("{d}/" + pattern))
    assert [line.rpartition("/")[2] for line in done.out.splitlines()] == found.split()
    if not found:
        assert done.err == f"ls: `{{d}}/{pattern}': No such file or directory\n"
